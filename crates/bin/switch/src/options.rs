//! The command line.

mod check;
mod generate;
mod port;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use control::Registers;
use dataplane::{PortId, limits};
use dataplane_jit::NativeOptions;
use p4runtime_server::PerSecond;
use stream_socket::{Address, unix_path};

pub(crate) use self::check::UsageError;
pub(crate) use self::generate::GenerateOption;
pub(crate) use self::port::{PortOption, PortSource};
use crate::bmv2::Bmv2;
use crate::engine::{self, EngineOption};
use crate::event_loop::{AfterReplay, Wait};
use crate::log::{LogFormat, LogLevel};
use crate::metrics::Selection;

/// The port that IANA has assigned to P4Runtime, on the loopback interface, since whoever reaches this address controls
/// the switch.
pub(crate) const DEFAULT_GRPC_ADDRESS: &str = "127.0.0.1:9559";

const EXAMPLES: &str = "\
Examples:
  Forward between two interfaces, programmed over P4Runtime on 127.0.0.1:9559:
    reprise-switch -i 1@veth1 -i 2@veth2 p4/sfu.p4

  Wait for a controller that brings the program:
    reprise-switch -i 1@veth1

  Try it without root, in a network namespace of your own:
    unshare -Urn sh -c 'ip link add veth0 type veth peer name veth1;
      ip link set veth0 up; ip link set veth1 up; reprise-switch -i 1@veth1 p4/sfu.p4'

  Run a capture through a program in the capture's own time, with a trace of every packet:
    reprise-switch -i 1@pcap:in.pcap,out.pcap --entries viewers.txtpb --trace p4/sfu.p4

  Past the kernel's stack, without sleeping; the kernel keeps the frames that are not for the SFU:
    reprise-switch -i 1@afxdp:eth1,10.0.1.100 --wait spin p4/sfu.p4

  On two cores; the interface needs two queues (ethtool -L eth1 rx 2 tx 2):
    reprise-switch -i 1@afxdp:eth1 --workers 2 p4/sfu.p4

  Make 10,000 packets a second inside the switch, the frames of a capture in turn:
    reprise-switch -i 1@veth1 --generate load.pcap,port=7,rate=10000 p4/sfu.p4

  On a UDP socket, without any privilege:
    reprise-switch -i 1@udp:192.0.2.7:5004 p4/sfu.p4

Ports:
  An interface under a port must be up and must carry no IP address: the host's own
  stack sees every frame too, and would answer it beside the switch. It is set to
  promiscuous mode; one reprise-switch an interface. Offloads may stay on: unfinished
  checksums, VLAN tags and super-frames of local senders are finished on arrival.

  With capture ports only, time is the captures' own: the switch runs through them, prints
  its totals and ends, unless --grpc is given. Beside an interface captures replay in real time.

When it is up the switch prints one line that begins with \"ready: \" on standard error.
It ends on Ctrl-C, SIGTERM, SIGHUP and SIGQUIT and prints its totals on standard output; exit
code 0. SIGUSR1 and SIGUSR2 are ignored, and logged.
Exit code 1: it could not start or go on; 2: the command line is wrong; 3: the interface of a
port was removed (--exit-on-port-loss).";

/// The version and the commit of this build.
pub(crate) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("REPRISE_COMMIT"), ")");

/// A software switch for P4_16 programs (v1model), controlled over P4Runtime.
#[derive(Debug, Parser)]
#[command(name = "reprise-switch", version = VERSION, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Options {
    /// The P4 program: source (.p4) or compiled for BMv2 (.json). Without it a controller sets the program
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,

    /// A port, one option each: its number (0 to 510), and an interface (1@veth1, or through AF_XDP 1@afxdp:veth1,
    /// followed by commas and destinations if the kernel keeps all other frames), a UDP address (1@udp:127.0.0.1:5004),
    /// or capture files to read and to write (1@pcap:in.pcap,out.pcap; either may be left out)
    #[arg(short = 'i', long = "interface", value_name = "PORT@INTERFACE")]
    pub(crate) ports: Vec<PortOption>,

    /// A packet generator; may be given several times. The switch makes the frames of the capture FILE in
    /// turn, as if ingress port P had received them; P need not be a port of -i. rate=R makes R frames a
    /// second, period=T one frame every T (10us; units ns, us, ms, s). count=N stops after N frames;
    /// without it the generator does not stop. start=now, the default, starts with the switch,
    /// start=command when a controller says so. Controllers number the generators 1, 2, ... in the order
    /// of the options; name=X is shown in totals and metrics [default: the file's name]
    #[arg(
        long,
        value_name = "FILE,port=P,rate=R|period=T[,count=N][,name=X][,start=now|command]"
    )]
    pub(crate) generate: Vec<GenerateOption>,

    /// End with exit code 3 when the interface of a port is removed. Without this option the switch goes
    /// on with its other ports, and the port works again when an interface of the same name appears
    #[arg(long)]
    pub(crate) exit_on_port_loss: bool,

    /// How the switch waits for packets: sleep, with some 20 microseconds to wake up, or spin, which
    /// keeps a core busy
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Wait::Sleep)]
    pub(crate) wait: Wait,

    /// How many threads forward, each with a part of every port's traffic; the frames of one flow
    /// stay in order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// How several workers treat a program with meters, or with registers that packets write and read:
    /// refuse the program, or give each worker registers and meters of its own (per-worker)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = RegisterOption::Refuse)]
    pub(crate) registers: RegisterOption,

    /// Serve P4Runtime on this address, or "off"; port 0 takes a free port, which the ready line says. unix:PATH is a
    /// Unix socket: only users who may write to its file can use it [default: 127.0.0.1:9559; off with capture ports
    /// only]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) grpc: Option<GrpcOption>,

    #[command(flatten)]
    pub(crate) grpc_access: GrpcAccess,

    /// Serve BMv2's Thrift services on this port, for simple_switch_CLI and its like; 0 takes a free port, which the
    /// ready line says
    #[arg(long, value_name = "PORT")]
    pub(crate) thrift_port: Option<u16>,

    /// Serve BMv2's Thrift services on a Unix socket, the file PATH: only users who may write to the file can use it
    #[arg(long, value_name = "PATH", value_parser = socket_path, conflicts_with_all = ["thrift_port", "thrift_addr"])]
    pub(crate) thrift_socket: Option<PathBuf>,

    /// The permissions of Unix sockets (--grpc unix:PATH, --thrift-socket), in octal: 660 lets the file's group in too,
    /// which is the group of its folder if the folder is set-group-ID [default: 600]
    #[arg(long, value_name = "MODE", value_parser = socket_mode)]
    pub(crate) socket_mode: Option<u32>,

    /// The IP address at which Thrift is served
    #[arg(long, value_name = "IP", default_value_t = IpAddr::from([127, 0, 0, 1]), requires = "thrift_port")]
    pub(crate) thrift_addr: IpAddr,

    /// Serve every counter and latency on this address, for Prometheus: http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Counter arrays of the program whose cells the metrics include: full names, separated by commas,
    /// for example SfuEgress.viewer_copies
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "metrics"
    )]
    pub(crate) metrics_counters: Vec<String>,

    /// Tables whose entries' direct counters the metrics include, labelled with the entry's key: full
    /// names, separated by commas, for example SfuEgress.viewer_address.viewers
    #[arg(
        long,
        value_name = "TABLES",
        value_delimiter = ',',
        requires = "metrics"
    )]
    pub(crate) metrics_entries: Vec<String>,

    /// The most time series of --metrics-counters and --metrics-entries together, two for each cell or
    /// entry; a metric counts the series that are left out
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) metrics_series: u32,

    /// The engine that executes the P4 program
    #[arg(long, value_enum, default_value_t = EngineOption::Native)]
    pub(crate) engine: EngineOption,

    /// The native engine's optimisations: all, none, or names separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_parser = engine::optimisations)]
    pub(crate) optimise: Option<NativeOptions>,

    /// Print on standard error which parts of the program the native engine does not compile but leaves
    /// to the interpreter, and the reason for each; with --engine kernel also what the kernel leaves to the
    /// native engine
    #[arg(long)]
    pub(crate) explain_engine: bool,

    /// With --engine kernel: the program in the kernel goes on forwarding when the switch ends, even if it is killed,
    /// and a switch that is started with the same folder takes over. FOLDER is a folder of a BPF file system, such as
    /// /sys/fs/bpf/reprise; the switch makes it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep_forwarding: Option<PathBuf>,

    /// With --explain-engine: print the program that the kernel engine makes too, as instructions beside
    /// the P4 lines that they come from
    #[arg(long, requires = "explain_engine")]
    pub(crate) listing: bool,

    /// The device id that P4Runtime requests must carry
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,

    /// The port of packet-in and packet-out
    #[arg(long, value_name = "PORT", default_value_t = limits::CPU_PORT)]
    pub(crate) cpu_port: u16,

    /// A folder where a .p4 program's #include <...> looks; may be given several times
    #[arg(short = 'I', long, value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,

    /// The P4Info of a .json program, binary or protobuf text; a .p4 program has its own
    #[arg(long, value_name = "FILE")]
    pub(crate) p4info: Option<PathBuf>,

    /// A P4Runtime WriteRequest in protobuf text, applied in order before the first packet
    #[arg(long, value_name = "FILE")]
    pub(crate) entries: Option<PathBuf>,

    /// Keep what controllers write in this file: pipeline, entries, groups, sessions, registers. A write is
    /// answered when it is on the disk. Started again with the file, killed or not, the switch has all of it,
    /// and takes program and entries of the command line only where the file has no pipeline. Counters,
    /// meters' and idle timers' state and what packets write to registers are not kept
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,

    /// Let a later switch that is started with --takeover replace this one without losing a packet. PATH is a Unix
    /// socket, for this user's processes only; ports must be of AF_PACKET or UDP
    #[arg(long, value_name = "PATH", value_parser = socket_path, requires = "state")]
    pub(crate) takeover_socket: Option<PathBuf>,

    /// Replace the running switch that serves --takeover-socket. Give the options of the running switch, and this one;
    /// if anything fails before this switch forwards, the running one goes on
    #[arg(long, requires = "takeover_socket")]
    pub(crate) takeover: bool,

    /// Print a trace of every packet on standard output: its headers, tables, actions and drops. The
    /// interpreter executes the program
    #[arg(long)]
    pub(crate) trace: bool,

    /// Write the same trace to a file
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub(crate) trace_to: Option<PathBuf>,

    /// Print the totals with every counter of ports, tables and drop reasons, zeros too
    #[arg(long)]
    pub(crate) stats: bool,

    /// Print the totals as one line of JSON, all counters in it, the last line of standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) log: LogOptions,

    #[command(flatten)]
    pub(crate) queues: QueueOptions,

    /// What a BMv2 command line asks for that these options do not have.
    #[arg(skip)]
    pub(crate) bmv2: Option<Bmv2>,
}

/// Who may use P4Runtime, and how fast.
#[derive(Debug, clap::Args)]
pub(crate) struct GrpcAccess {
    /// Serve P4Runtime over TLS, with the certificate in this PEM file, followed by the certificates between it and its
    /// authority. The switch reads this file and the next two again when they are replaced
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The certificate's private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Let only those in who show a certificate of an authority in this PEM file (mutual TLS)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,

    /// Serve P4Runtime without TLS beyond this machine: whoever reaches the address of --grpc rules the switch
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) insecure: bool,

    /// Messages a second of one connection at most: calls, and messages of its stream. Faster messages wait [default:
    /// no limit]
    #[arg(long, value_name = "N")]
    pub(crate) grpc_rate: Option<PerSecond>,
}

impl GrpcAccess {
    /// Returns the paths of the TLS files, if a certificate is given.
    pub(crate) fn tls_files(&self) -> Option<tls::ServerFiles> {
        Some(tls::ServerFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_authorities: self.tls_client_ca.clone(),
        })
    }
}

/// Events that are logged on standard error while the switch runs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogOptions {
    /// The least severe level that is logged: off, error, warn (ports lost and restored, limits reached,
    /// drops), info (also new pipelines and primary controllers) or debug
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Warn)]
    pub(crate) log_level: LogLevel,

    /// The format of the log: a line of text or a JSON object for each event
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    /// The interval in seconds at which drop counters that grew are logged; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) log_drops: u32,
}

/// Lengths and rates of the queues.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Queues and rates")]
pub(crate) struct QueueOptions {
    /// Packets a second through the recirculation path [default: no limit]
    #[arg(long, value_name = "PPS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) recirculation_rate: Option<u64>,

    /// Packets a second through each queue of each output port; a priority has a queue [default: no limit]
    #[arg(long, value_name = "PPS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) egress_rate: Option<u64>,

    /// Packets that wait for ingress at most
    #[arg(long, value_name = "N", default_value_t = limits::INGRESS_QUEUE_PACKETS, value_parser = at_least_one())]
    pub(crate) ingress_queue: usize,

    /// Recirculated and resubmitted packets that wait at most
    #[arg(long, value_name = "N", default_value_t = limits::RECIRCULATION_QUEUE_PACKETS, value_parser = at_least_one())]
    pub(crate) recirculation_queue: usize,

    /// Packets that wait in each queue of an output port at most; there is one queue for each priority
    #[arg(long, value_name = "N", default_value_t = limits::EGRESS_QUEUE_PACKETS, value_parser = at_least_one())]
    pub(crate) egress_queue: usize,

    /// Frames that the kernel keeps for each interface while the switch is busy, with AF_XDP for
    /// each of its queues, rounded up to a power of two [default: 4096, with AF_XDP 2048]
    #[arg(long, value_name = "N", value_parser = ring_slots)]
    pub(crate) rx_ring: Option<usize>,

    /// How many milliseconds a frame may have waited while the switch was away (stopped, suspended, not scheduled): the
    /// switch drops older frames when it is back; 0 keeps them
    #[arg(long, value_name = "MS", default_value_t = 200)]
    pub(crate) max_age_ms: u64,
}

impl QueueOptions {
    /// The age in nanoseconds beyond which frames are dropped; `None` if frames are kept however old they are.
    pub(crate) fn age_max_ns(&self) -> Option<u64> {
        let age_max_ns = self.max_age_ms.saturating_mul(1_000_000);
        (age_max_ns > 0).then_some(age_max_ns)
    }
}

/// How several workers treat registers that packets write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RegisterOption {
    /// Several workers refuse a program with such registers.
    Refuse,
    /// Each worker has registers of its own, which only its own packets change.
    PerWorker,
}

impl From<RegisterOption> for Registers {
    fn from(option: RegisterOption) -> Registers {
        match option {
            RegisterOption::Refuse => Registers::OfTheSwitch,
            RegisterOption::PerWorker => Registers::PerWorker,
        }
    }
}

/// Where to serve P4Runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GrpcOption {
    Off,
    At(SocketAddr),
    Socket(PathBuf),
}

impl Options {
    /// The port of packet-in and packet-out; BMv2 has none by default.
    pub(crate) fn cpu_port(&self) -> Option<PortId> {
        let has_one = self.bmv2.as_ref().is_none_or(|bmv2| bmv2.has_cpu_port);
        has_one.then_some(PortId(self.cpu_port))
    }

    /// Whether all ports are captures, so that the clock can follow the captures. BMv2's captures replace interfaces
    /// instead, and start late enough for controllers to set up the switch.
    pub(crate) fn is_replay(&self) -> bool {
        if self.bmv2.is_some() {
            return false;
        }
        let is_capture = |port: &PortOption| matches!(port.source, PortSource::Capture { .. });
        !self.ports.is_empty() && self.ports.iter().all(is_capture)
    }

    /// What the event loop does when the captures have ended.
    pub(crate) fn after_replay(&self) -> AfterReplay {
        if self.is_replay() && self.grpc_address().is_none() {
            AfterReplay::End
        } else {
            AfterReplay::Serve
        }
    }

    /// Returns the selection of the program's counters that the metrics include.
    pub(crate) fn metrics_selection(&self) -> Selection {
        Selection {
            counters: self.metrics_counters.clone(),
            tables: self.metrics_entries.clone(),
            series_max: self.metrics_series as usize,
            ..Selection::default()
        }
    }

    /// Returns the address at which P4Runtime is served; `None` if P4Runtime is not served.
    pub(crate) fn grpc_address(&self) -> Option<Address> {
        match &self.grpc {
            Some(GrpcOption::At(address)) => Some(Address::Ip(*address)),
            Some(GrpcOption::Socket(path)) => Some(Address::Unix(path.clone())),
            Some(GrpcOption::Off) => None,
            None if self.is_replay() => None,
            None => DEFAULT_GRPC_ADDRESS.parse().ok().map(Address::Ip),
        }
    }

    /// Returns the address at which Thrift is served; `None` if Thrift is not served.
    pub(crate) fn thrift_address(&self) -> Option<Address> {
        let socket = self.thrift_socket.clone().map(Address::Unix);
        let at = |port| Address::Ip(SocketAddr::new(self.thrift_addr, port));
        socket.or_else(|| self.thrift_port.map(at))
    }

    /// The configuration of a worker's switch.
    pub(crate) fn switch_config(&self, worker: u64) -> dataplane::SwitchConfig {
        dataplane::SwitchConfig {
            ingress_queue_packets: self.queues.ingress_queue,
            recirculation_queue_packets: self.queues.recirculation_queue,
            egress_queue_packets: self.queues.egress_queue,
            recirculation_rate_pps: self.queues.recirculation_rate,
            egress_rate_pps: self.queues.egress_rate,
            cpu_port: self.cpu_port(),
            // Different for each worker, and the same in every run.
            random_seed: 1 + worker,
        }
    }
}

/// Parses the number of slots of a receive ring. More than 2^20 slots would take gigabytes of kernel memory.
fn ring_slots(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(slots @ 1..=1_048_576) => Ok(slots),
        _ => Err("expected 1 to 1048576 frames".to_owned()),
    }
}

fn socket_path(text: &str) -> Result<PathBuf, String> {
    let named = unix_path(text).or_else(|| unix_path(&format!("unix:{text}")));
    named.unwrap_or_else(|| Ok(PathBuf::from(text)))
}

/// Parses the permissions of a Unix socket. At least one user must be allowed to write, since only users who may write
/// to a socket's file may connect.
fn socket_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) if mode & 0o222 != 0 => Ok(mode),
        Ok(0..=0o777) => Err(
            "expected permissions that let somebody write, for example 660: nobody else connects"
                .to_owned(),
        ),
        _ => Err("expected permissions in octal, for example 660".to_owned()),
    }
}

/// Accepts numbers from 1, since a queue without room for one packet would drop every packet.
fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected IP-ADDRESS:PORT, for example 127.0.0.1:9090 or [::1]:9090; port 0 takes a free one, which the ready line says";
    text.parse().map_err(|_| expected.to_owned())
}

impl FromStr for GrpcOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(GrpcOption::Off);
        }
        if let Some(path) = unix_path(text) {
            return path.map(GrpcOption::Socket);
        }
        text.parse().map(GrpcOption::At).map_err(|_| {
            format!(
                "expected IP-ADDRESS:PORT, for example {DEFAULT_GRPC_ADDRESS}, unix:PATH, or \"off\""
            )
        })
    }
}

#[cfg(test)]
mod tests;
