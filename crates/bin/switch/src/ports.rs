//! Opens the ports that the command line names.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use dataplane::{Nanos, PortId, Severity};
use packet_io::{
    AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, HandedPort, PcapPort, Port, PortError,
    ReplayOrder, UdpPort, WayOut,
};

use crate::bmv2::{self, Bmv2, Log, Observers};
use crate::error::is_held_port;
use crate::interfaces::{LinkStatus, Watched};
use crate::options::{Options, PortOption, PortSource};
use crate::start_timeout::StartTimeout;

pub(crate) struct OpenPort {
    pub(crate) id: PortId,
    pub(crate) name: String,
    /// The port as the switch's "ready: " line on standard error shows it.
    pub(crate) described: String,
    pub(crate) port: Box<dyn Port>,
    /// The state of the port's interface, if the interface is watched.
    pub(crate) link: Option<Arc<LinkStatus>>,
    /// How many receive queues of its interface this port and the other workers' ports serve together; `None` where the
    /// kernel distributes the frames of all queues.
    pub(crate) served_queues: Option<usize>,
}

impl OpenPort {
    fn observed(self, observers: &Observers) -> OpenPort {
        OpenPort {
            port: bmv2::observed(self.port, observers),
            ..self
        }
    }
}

/// Everything needed to open a port that is no capture, at the start or again.
#[derive(Clone)]
pub(crate) struct Opening {
    option: PortOption,
    rx_ring: Option<usize>,
    /// Folder for programs in the kernel that go on forwarding when the switch has ended.
    kept: Option<PathBuf>,
    way_out: WayOut,
    n_workers: usize,
    observers: Observers,
    /// Whether `warn_of_outgoing` has logged its warning.
    is_outgoing_logged: Arc<AtomicBool>,
}

impl Opening {
    /// Opens the port once for each worker.
    pub(crate) fn open(&self) -> Result<Vec<OpenPort>, PortError> {
        let ports = self.open_unobserved()?.into_iter();
        Ok(ports.map(|port| port.observed(&self.observers)).collect())
    }

    /// Makes the ports, one for each worker, of the sockets that another process has passed.
    fn open_passed(&self, passed: Vec<HandedPort>) -> Result<Vec<OpenPort>, PortError> {
        let passed = passed.into_iter();
        match &self.option.source {
            PortSource::Interface(interface) => {
                let shared = passed.map(|handed| AfPacketPort::passed(interface, handed));
                let mut shared = shared.collect::<Result<Vec<_>, _>>()?;
                self.warn_of_outgoing(&mut shared);
                Ok(self.all(shared))
            }
            PortSource::Udp(_) => {
                let shared = passed.map(UdpPort::passed);
                Ok(self.all(shared.collect::<Result<Vec<_>, _>>()?))
            }
            // `Options::check` refuses a takeover with such a port.
            PortSource::Xdp { .. } | PortSource::Capture { .. } => Ok(Vec::new()),
        }
    }

    fn open_unobserved(&self) -> Result<Vec<OpenPort>, PortError> {
        let Opening {
            option, n_workers, ..
        } = self;
        match &option.source {
            PortSource::Interface(interface) => {
                let mut config = AfPacketConfig {
                    way_out: self.way_out,
                    // Like BMv2's ports, which also receive frames that this host sends through the interface.
                    takes_outgoing: self.way_out == WayOut::Discipline,
                    ..AfPacketConfig::default()
                };
                if let Some(slots) = self.rx_ring {
                    config.rx_ring_slots = slots;
                }
                let mut shared = AfPacketPort::open_shared(interface, config, *n_workers)?;
                self.warn_of_outgoing(&mut shared);
                Ok(self.all(shared))
            }
            PortSource::Xdp {
                interface,
                destinations,
            } => {
                let mut config = AfXdpConfig {
                    destinations: destinations.clone(),
                    kept: self.kept.clone(),
                    ..AfXdpConfig::default()
                };
                if let Some(slots) = self.rx_ring {
                    config.rx_ring_slots = slots;
                }
                let shared = AfXdpPort::open_shared(interface, &config, *n_workers)?;
                let mode = AfXdpPort::mode_of(&shared);
                let mut ports = self.all(shared);
                for port in &mut ports {
                    port.described = format!("{option} ({mode})");
                    port.served_queues = Some(mode.n_queues);
                }
                Ok(ports)
            }
            PortSource::Udp(address) => Ok(self.all(match n_workers {
                1 => vec![UdpPort::open(*address)?],
                _ => UdpPort::open_shared(*address, *n_workers)?,
            })),
            // `open` opens the captures, all together.
            PortSource::Capture { .. } => Ok(Vec::new()),
        }
    }

    /// Whether the interface may have IP addresses. It may if the port has destinations, since the port then receives
    /// only frames to them.
    pub(crate) fn leaves_addresses(&self) -> bool {
        matches!(&self.option.source, PortSource::Xdp { destinations, .. } if !destinations.is_empty())
    }

    /// Warns if a process of this host sends frames through the port's own interface. The warning comes once, whichever
    /// worker's socket sees such a frame first, and however often the interface comes back.
    fn warn_of_outgoing(&self, shared: &mut [AfPacketPort]) {
        let port = self.option.id;
        for socket in shared {
            let index = socket.interface_index();
            let interface = socket.name().to_owned();
            let is_logged = Arc::clone(&self.is_outgoing_logged);
            socket.on_first_outgoing(move || {
                if is_logged.swap(true, Ordering::Relaxed) {
                    return;
                }
                let other = index.and_then(packet_io::other_end);
                let other = other.map_or_else(
                    || "the cable's other end".to_owned(),
                    |name| format!("the other end, \"{name}\""),
                );
                tracing::warn!(
                    event = "frame_sent_at_own_end",
                    port = port.0,
                    interface,
                    "port {port}: somebody on this host sends out by the port's own interface \"{interface}\", which the switch does not receive; send by {other}"
                );
            });
        }
    }

    fn all(&self, ports: Vec<impl Port + 'static>) -> Vec<OpenPort> {
        let ports = ports.into_iter();
        ports
            .map(|port| open_port(&self.option, Box::new(port)))
            .collect()
    }

    /// Returns what is needed to watch the port's interface, if the port is on an interface.
    fn watched(&self, opened: &[OpenPort]) -> Option<Watched> {
        let interface = self.option.source.interface()?.to_owned();
        let first = opened.first()?;
        Some(Watched {
            id: first.id,
            interface,
            bound: first.port.interface_index(),
            served_queues: first.served_queues,
            program: first.port.xdp_interface(),
            opening: self.clone(),
            status: Arc::default(),
        })
    }
}

#[derive(Default)]
pub(crate) struct OpenPorts {
    /// One list for each worker; all have the same ports in the same order.
    pub(crate) workers: Vec<Vec<OpenPort>>,
    pub(crate) watched: Vec<Watched>,
}

/// Prints the line that BMv2 prints for each port: scripts look for it in standard output, also if the log has it.
fn log_adding(options: &Options, option: &PortOption, log: Option<&Log>) {
    let line = format!("Adding interface {} as port {}", option.source, option.id);
    if options.bmv2.is_some() {
        crate::print(&format!("{line}\n"));
    }
    if let Some(log) = log {
        log.line(Severity::Debug, &line);
    }
}

/// Opens all ports. Time 0 of captures is the earliest timestamp of their first frames, unless they replace interfaces
/// (BMv2's `--use-files`).
pub(crate) fn open(
    options: &Options,
    log: Option<&Log>,
    passed: Option<Vec<Vec<HandedPort>>>,
    timeout: &mut StartTimeout,
) -> Result<OpenPorts, PortError> {
    let mut passed = passed.map(|workers| workers.into_iter().map(Vec::into_iter).collect());
    let epoch_ns = since_1970_ns();
    let n_workers = usize::from(options.workers);
    let mut workers: Vec<Vec<OpenPort>> = (0..n_workers).map(|_| Vec::new()).collect();
    let mut watched = Vec::new();
    let mut captures = Vec::new();
    if options.bmv2.is_some() {
        crate::print("Calling target program-options parser\n");
    }
    for option in &options.ports {
        log_adding(options, option, log);
        let observers = match &options.bmv2 {
            Some(bmv2) => bmv2::observe(bmv2, option, log, epoch_ns)?,
            None => Observers::new(),
        };
        if let PortSource::Capture { input, output } = &option.source {
            let capture = PcapPort::open(input.as_deref(), output.as_deref())?;
            captures.push((option, observers, capture));
            continue;
        }
        let opening = Opening {
            option: option.clone(),
            rx_ring: options.queues.rx_ring,
            kept: options.keep_forwarding.clone(),
            // Like BMv2's ports, which wait for a slow interface.
            way_out: match options.bmv2 {
                Some(_) => WayOut::Discipline,
                None => WayOut::Driver,
            },
            n_workers,
            observers,
            is_outgoing_logged: Arc::default(),
        };
        let passed: Option<&mut Vec<_>> = passed.as_mut();
        let mut ports = match passed {
            Some(workers) => {
                let handed = workers.iter_mut().filter_map(std::vec::IntoIter::next);
                opening.open_passed(handed.collect())?
            }
            None => timeout.retry_while(is_held_port, || opening.open())?,
        };
        if let Some(port) = opening.watched(&ports) {
            for open in &mut ports {
                open.link = Some(Arc::clone(&port.status));
            }
            watched.push(port);
        }
        for (worker, port) in workers.iter_mut().zip(ports) {
            worker.push(port);
        }
    }
    start_captures(&mut captures, options.bmv2.as_ref(), epoch_ns);
    // With captures there is only one worker.
    for (option, observers, capture) in captures {
        let port = open_port(option, Box::new(capture));
        workers[0].push(port.observed(&observers));
    }
    Ok(OpenPorts { workers, watched })
}

fn start_captures(
    captures: &mut [(&PortOption, Observers, PcapPort)],
    bmv2: Option<&Bmv2>,
    epoch_ns: u64,
) {
    if let Some(bmv2) = bmv2 {
        let order = ReplayOrder::default();
        // 64 bits of nanoseconds are 584 years.
        let at = bmv2.replay_at.as_nanos() as Nanos;
        for (.., capture) in captures {
            capture.replay_at(at, epoch_ns, &order);
        }
        return;
    }
    let first = captures.iter();
    let first = first.filter_map(|(.., capture)| capture.first_timestamp_ns());
    let start_ns = first.min().unwrap_or(0);
    for (.., capture) in captures {
        capture.start(start_ns);
    }
}

pub(crate) fn since_1970_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// Makes an [`OpenPort`] of a port that the caller has opened.
pub(crate) fn given(id: PortId, port: Box<dyn Port>) -> OpenPort {
    let name = port.name().to_owned();
    OpenPort {
        id,
        described: format!("{id}@{name}"),
        name,
        port,
        link: None,
        served_queues: None,
    }
}

fn open_port(option: &PortOption, port: Box<dyn Port>) -> OpenPort {
    // The port's own name may be more exact: it has the UDP port that the kernel chose, for example.
    let (name, described) = match &option.source {
        PortSource::Interface(interface) => (interface.clone(), option.to_string()),
        PortSource::Xdp { interface, .. } => (format!("afxdp:{interface}"), option.to_string()),
        PortSource::Udp(_) => {
            let name = port.name().to_owned();
            (name.clone(), format!("{}@{name}", option.id))
        }
        PortSource::Capture { .. } => (port.name().to_owned(), option.to_string()),
    };
    OpenPort {
        id: option.id,
        name,
        described,
        port,
        link: None,
        served_queues: None,
    }
}
