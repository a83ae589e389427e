//! The option of a port: its number, and what it sends and receives through.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use dataplane::{PortId, limits};
use packet_io::Destination;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortOption {
    pub(crate) id: PortId,
    pub(crate) source: PortSource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PortSource {
    Interface(String),
    Xdp {
        interface: String,
        destinations: Vec<Destination>,
    },
    Udp(SocketAddr),
    Capture {
        input: Option<PathBuf>,
        output: Option<PathBuf>,
    },
}

impl PortSource {
    /// Returns the interface's name, if the port is on an interface.
    pub(crate) fn interface(&self) -> Option<&str> {
        match self {
            PortSource::Interface(interface) | PortSource::Xdp { interface, .. } => Some(interface),
            PortSource::Udp(_) | PortSource::Capture { .. } => None,
        }
    }
}

impl FromStr for PortOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected PORT@INTERFACE, PORT@afxdp:INTERFACE[,DESTINATION...], PORT@udp:ADDRESS:PORT or PORT@pcap:IN[,OUT], for example 1@veth1";
        let Some((number, source)) = text.split_once('@') else {
            return Err(format!("{expected}; there is no \"@\""));
        };
        let id = match number.parse() {
            Ok(id) if id <= limits::PORT_ID_MAX => PortId(id),
            _ => {
                let max = limits::PORT_ID_MAX;
                return Err(format!(
                    "{expected}; \"{number}\" is no port number from 0 to {max}"
                ));
            }
        };
        let source = source
            .parse()
            .map_err(|reason| format!("{expected}; {reason}"))?;
        Ok(PortOption { id, source })
    }
}

impl FromStr for PortSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("pcap", files)) => {
                let (input, output) = files.split_once(',').unwrap_or((files, ""));
                let path = |name: &str| (!name.is_empty()).then(|| PathBuf::from(name));
                if input.is_empty() && output.is_empty() {
                    return Err("there is no file behind \"pcap:\"".to_owned());
                }
                Ok(PortSource::Capture {
                    input: path(input),
                    output: path(output),
                })
            }
            Some(("afxdp", words)) => {
                let mut words = words.split(',');
                let interface = words.next().unwrap_or_default();
                if interface.is_empty() {
                    return Err("there is no interface behind \"afxdp:\"".to_owned());
                }
                // Without destinations the port takes all frames, but an empty destination is a mistake.
                Ok(PortSource::Xdp {
                    interface: interface.to_owned(),
                    destinations: words.map(parse_destination).collect::<Result<_, _>>()?,
                })
            }
            Some(("udp", address)) => match address.parse() {
                Ok(address) => Ok(PortSource::Udp(address)),
                Err(_) => Err(format!(
                    "\"{address}\" is no address with a port, like 127.0.0.1:5004 or [::1]:5004"
                )),
            },
            // No interface name has a colon.
            Some((kind, _)) => Err(format!(
                "\"{kind}:\" is no kind of port; an AF_PACKET port has no such word"
            )),
            _ if text.is_empty() => Err("there is nothing behind the \"@\"".to_owned()),
            _ => Ok(PortSource::Interface(text.to_owned())),
        }
    }
}

/// Parses an address, or an address with a UDP port.
fn parse_destination(text: &str) -> Result<Destination, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Destination {
            address: address.ip(),
            udp_port: Some(address.port()),
        });
    }
    let address = text.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => Ok(Destination {
            address,
            udp_port: None,
        }),
        Err(_) => Err(format!(
            "\"{text}\" is no destination, like 10.0.1.100, 10.0.1.100:5004 or [fd00::1]:5004"
        )),
    }
}

impl fmt::Display for PortOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.source)
    }
}

impl fmt::Display for PortSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Option<PathBuf>| {
            path.as_ref()
                .map_or(String::new(), |path| path.display().to_string())
        };
        match self {
            PortSource::Interface(interface) => f.write_str(interface),
            PortSource::Xdp {
                interface,
                destinations,
            } => {
                write!(f, "afxdp:{interface}")?;
                for destination in destinations {
                    match destination.udp_port {
                        Some(port) => write!(f, ",{}", SocketAddr::new(destination.address, port))?,
                        None => write!(f, ",{}", destination.address)?,
                    }
                }
                Ok(())
            }
            PortSource::Udp(address) => write!(f, "udp:{address}"),
            PortSource::Capture {
                input,
                output: None,
            } => write!(f, "pcap:{}", name(input)),
            PortSource::Capture { input, output } => {
                write!(f, "pcap:{},{}", name(input), name(output))
            }
        }
    }
}
