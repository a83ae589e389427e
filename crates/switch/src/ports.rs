//! Opening the ports that the command line names.

use dataplane::PortId;
use packet_io::{
    AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, PcapPort, Port, PortError, UdpPort,
};

use crate::options::{Options, PortOption, PortSource};

/// An open port with its number and how it was named.
pub(crate) struct OpenPort {
    pub(crate) id: PortId,
    pub(crate) name: String,
    /// What the ready line says of it.
    pub(crate) described: String,
    pub(crate) port: Box<dyn Port>,
}

/// Opens all of them, once a worker, so that the workers have the same ports in the same order; the
/// captures' time 0 is the earliest first frame.
pub(crate) fn open(options: &Options) -> Result<Vec<Vec<OpenPort>>, PortError> {
    let n_workers = usize::from(options.workers);
    let mut workers: Vec<Vec<OpenPort>> = (0..n_workers).map(|_| Vec::new()).collect();
    let mut captures = Vec::new();
    for option in &options.ports {
        let mut ports = Vec::with_capacity(n_workers);
        match &option.source {
            PortSource::Interface(interface) => {
                let mut config = AfPacketConfig::default();
                if let Some(slots) = options.queues.rx_ring {
                    config.rx_ring_slots = slots;
                }
                let shared = AfPacketPort::open_shared(interface, config, n_workers)?;
                let shared = shared.into_iter();
                ports.extend(shared.map(|port| open_port(option, Box::new(port))));
            }
            PortSource::Xdp {
                interface,
                destinations,
            } => {
                let mut config = AfXdpConfig {
                    destinations: destinations.clone(),
                    ..AfXdpConfig::default()
                };
                if let Some(slots) = options.queues.rx_ring {
                    config.rx_ring_slots = slots;
                }
                let shared = AfXdpPort::open_shared(interface, &config, n_workers)?;
                let mode = AfXdpPort::mode_of(&shared);
                for port in shared {
                    let mut port = open_port(option, Box::new(port));
                    port.described = format!("{option} ({mode})");
                    ports.push(port);
                }
            }
            PortSource::Udp(address) => {
                let shared = match n_workers {
                    1 => vec![UdpPort::open(*address)?],
                    _ => UdpPort::open_shared(*address, n_workers)?,
                };
                let shared = shared.into_iter();
                ports.extend(shared.map(|port| open_port(option, Box::new(port))));
            }
            PortSource::Capture { input, output } => {
                captures.push((option, PcapPort::open(input.as_deref(), output.as_deref())?));
            }
        }
        for (worker, port) in workers.iter_mut().zip(ports) {
            worker.push(port);
        }
    }
    let start_ns = captures
        .iter()
        .filter_map(|(_, capture)| capture.first_timestamp_ns())
        .min();
    // Where there are captures there is one worker.
    for (option, mut capture) in captures {
        capture.start(start_ns.unwrap_or(0));
        workers[0].push(open_port(option, Box::new(capture)));
    }
    Ok(workers)
}

/// A port that the caller has opened.
pub(crate) fn given(id: PortId, port: Box<dyn Port>) -> OpenPort {
    let name = port.name().to_owned();
    OpenPort {
        id,
        described: format!("{id}@{name}"),
        name,
        port,
    }
}

fn open_port(option: &PortOption, port: Box<dyn Port>) -> OpenPort {
    // The port's own name where it knows better: the UDP port that the kernel chose, for instance.
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
    }
}
