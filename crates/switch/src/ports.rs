//! Opening the ports that the command line names.

use dataplane::PortId;
use packet_io::{AfPacketConfig, AfPacketPort, PcapPort, Port, PortError};

use crate::options::{Options, PortOption, PortSource};

/// An open port with its number and how it was named.
pub(crate) struct OpenPort {
    pub(crate) id: PortId,
    pub(crate) name: String,
    pub(crate) port: Box<dyn Port>,
}

/// Opens all of them; the captures' time 0 is the earliest first frame.
pub(crate) fn open(options: &Options) -> Result<Vec<OpenPort>, PortError> {
    let mut captures = Vec::new();
    let mut ports = Vec::new();
    for option in &options.ports {
        match &option.source {
            PortSource::Interface(interface) => {
                let config = AfPacketConfig {
                    rx_ring_slots: options.queues.rx_ring,
                };
                let port = AfPacketPort::open(interface, config)?;
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
    let name = match &option.source {
        PortSource::Interface(interface) => interface.clone(),
        PortSource::Capture { .. } => port.name().to_owned(),
    };
    OpenPort {
        id: option.id,
        name,
        port,
    }
}
