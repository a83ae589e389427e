//! Opens a port on an interface that a command line names.

use crate::{AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, Port, PortError};

/// Opens NAME or afpacket:NAME as an [`AfPacketPort`], afxdp:NAME as an [`AfXdpPort`], both with the default
/// configuration.
///
/// # Errors
/// As [`AfPacketPort::open`] and [`AfXdpPort::open`].
pub fn open(interface: &str) -> Result<Box<dyn Port>, PortError> {
    Ok(match interface.split_once(':') {
        Some(("afxdp", name)) => Box::new(AfXdpPort::open(name, &AfXdpConfig::default())?),
        Some(("afpacket", name)) => Box::new(AfPacketPort::open(name, AfPacketConfig::default())?),
        _ => Box::new(AfPacketPort::open(interface, AfPacketConfig::default())?),
    })
}
