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

/// Opens all of them; the captures' time 0 is the earliest first frame.
pub(crate) fn open(options: &Options) -> Result<Vec<OpenPort>, PortError> {
    let mut captures = Vec::new();
    let mut ports = Vec::new();
    for option in &options.ports {
        match &option.source {
            PortSource::Interface(interface) => {
                let mut config = AfPacketConfig::default();
                if let Some(slots) = options.queues.rx_ring {
                    config.rx_ring_slots = slots;
                }
                let port = AfPacketPort::open(interface, config)?;
                ports.push(open_port(option, Box::new(port)));
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
                let port = AfXdpPort::open(interface, &config)?;
                let mode = port.mode();
                let mut port = open_port(option, Box::new(port));
                port.described = format!("{option} ({mode})");
                ports.push(port);
            }
            PortSource::Udp(address) => {
                let port = UdpPort::open(*address)?;
                ports.push(open_port(option, Box::new(port)));
            }
            PortSource::Capture { input, output } => {
                captures.push((option, PcapPort::open(input.as_deref(), output.as_deref())?));
            }
        }
    }
    let start_ns = captures
        .iter()
        .filter_map(|(_, capture)| capture.first_timestamp_ns())
        .min();
    for (option, mut capture) in captures {
        capture.start(start_ns.unwrap_or(0));
        ports.push(open_port(option, Box::new(capture)));
    }
    Ok(ports)
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
