//! MAC addresses by ARP: a request goes out as packet-out from the SFU's own address, the reply
//! comes back as packet-in. RFC 826, Ethernet and IPv4 only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use p4runtime_proto::p4::config::v1::{ControllerPacketMetadata, P4Info};
use p4runtime_proto::p4::v1::{PacketMetadata, PacketOut};
use tokio::time::Instant;

use crate::address::Mac;
use crate::client::{Client, ClientError};
use crate::entities::{self, ProgramError};
use crate::limits::{NEIGHBOUR_TIMEOUT_MS, NEIGHBOUR_TRIES};
use crate::model::OwnAddress;

const ETHER_TYPE_ARP: [u8; 2] = [0x08, 0x06];
/// Hardware type Ethernet, protocol type IPv4, lengths 6 and 4.
const ARP_ETHERNET_IPV4: [u8; 6] = [0x00, 0x01, 0x08, 0x00, 6, 4];
const ARP_REQUEST: [u8; 2] = [0, 1];
const ARP_REPLY: [u8; 2] = [0, 2];
/// The shortest Ethernet frame, without its check sequence.
const FRAME_BYTES_MIN: usize = 60;

/// Why a MAC was not found.
#[derive(Debug, thiserror::Error)]
pub enum NeighbourError {
    /// Nobody answers.
    #[error(
        "nobody answers to ARP for {} on port {port} ({NEIGHBOUR_TRIES} requests, {NEIGHBOUR_TIMEOUT_MS} ms each): give the MAC address with --mac, or `mac:` in the file",
        show(ips)
    )]
    NoAnswer {
        /// Who was asked for.
        ips: Vec<Ipv4Addr>,
        /// Where.
        port: u16,
    },
    /// The program takes no packet-out.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A call failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Finds the MAC addresses of hosts on the SFU's port. The client must be primary.
///
/// # Errors
/// Somebody did not answer, or the switch could not be asked.
pub async fn look_up(
    client: &mut Client,
    p4info: &P4Info,
    own: &OwnAddress,
    ips: &BTreeSet<Ipv4Addr>,
) -> Result<BTreeMap<Ipv4Addr, Mac>, NeighbourError> {
    let header = PacketOutHeader::find(p4info)?;
    let mut found = BTreeMap::new();
    for _ in 0..NEIGHBOUR_TRIES {
        let missing: Vec<Ipv4Addr> = ips
            .iter()
            .filter(|ip| !found.contains_key(*ip))
            .copied()
            .collect();
        if missing.is_empty() {
            return Ok(found);
        }
        for ip in missing {
            client
                .packet_out(header.packet(own.port, request(own, ip)))
                .await?;
        }
        let until = Instant::now() + Duration::from_millis(NEIGHBOUR_TIMEOUT_MS);
        while found.len() < ips.len() {
            let Some(packet) = client.packet_in(until).await? else {
                break;
            };
            if let Some((ip, mac)) = reply(&packet.payload).filter(|(ip, _)| ips.contains(ip)) {
                found.insert(ip, mac);
            }
        }
    }
    let silent: Vec<Ipv4Addr> = ips
        .iter()
        .filter(|ip| !found.contains_key(*ip))
        .copied()
        .collect();
    if silent.is_empty() {
        return Ok(found);
    }
    Err(NeighbourError::NoAnswer {
        ips: silent,
        port: own.port,
    })
}

/// The header in front of a packet-out.
struct PacketOutHeader<'a>(&'a ControllerPacketMetadata);

impl<'a> PacketOutHeader<'a> {
    fn find(p4info: &'a P4Info) -> Result<PacketOutHeader<'a>, ProgramError> {
        let headers = &p4info.controller_packet_metadata;
        let header = headers
            .iter()
            .find(|h| entities::is_named(h.preamble.as_ref(), "packet_out"));
        let missing = || ProgramError::Missing {
            kind: "controller header",
            name: "packet_out".to_owned(),
        };
        header.map(PacketOutHeader).ok_or_else(missing)
    }

    /// All fields must be there; those that are no port are padding.
    fn packet(&self, egress_port: u16, payload: Vec<u8>) -> PacketOut {
        let metadata = self.0.metadata.iter().map(|field| PacketMetadata {
            metadata_id: field.id,
            value: entities::bytes(if field.name == "egress_port" {
                egress_port
            } else {
                0
            }),
        });
        PacketOut {
            payload,
            metadata: metadata.collect(),
        }
    }
}

fn request(own: &OwnAddress, ip: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_BYTES_MIN);
    frame.extend([0xff; 6]);
    frame.extend(own.mac.0);
    frame.extend(ETHER_TYPE_ARP);
    frame.extend(ARP_ETHERNET_IPV4);
    frame.extend(ARP_REQUEST);
    frame.extend(own.mac.0);
    frame.extend(own.ip.octets());
    frame.extend([0; 6]);
    frame.extend(ip.octets());
    frame.resize(FRAME_BYTES_MIN, 0);
    frame
}

/// Sender's addresses of an ARP reply; `None`: the frame is none, or names no host's MAC.
fn reply(frame: &[u8]) -> Option<(Ipv4Addr, Mac)> {
    let arp = frame.get(12..42)?.strip_prefix(&ETHER_TYPE_ARP)?;
    let addresses = arp
        .strip_prefix(&ARP_ETHERNET_IPV4)?
        .strip_prefix(&ARP_REPLY)?;
    let mac = Mac(*addresses.first_chunk()?);
    let ip: [u8; 4] = *addresses[6..].first_chunk()?;
    mac.unfit_for_host()
        .is_none()
        .then_some((Ipv4Addr::from(ip), mac))
}

fn show(ips: &[Ipv4Addr]) -> String {
    const SHOWN_MAX: usize = 5;
    let mut text = ips
        .iter()
        .take(SHOWN_MAX)
        .map(Ipv4Addr::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if ips.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} others", ips.len() - SHOWN_MAX));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: OwnAddress = OwnAddress {
        port: 1,
        ip: Ipv4Addr::new(10, 0, 1, 100),
        mac: Mac([2, 0, 0, 0, 0, 100]),
    };

    #[test]
    fn a_request_is_a_broadcast_of_the_shortest_frame_length() {
        let frame = request(&OWN, Ipv4Addr::new(10, 0, 1, 5));
        assert_eq!(frame.len(), 60);
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[6..14], [2, 0, 0, 0, 0, 100, 8, 6]);
        assert_eq!(frame[14..22], [0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(frame[22..32], [2, 0, 0, 0, 0, 100, 10, 0, 1, 100]);
        assert_eq!(frame[32..42], [0, 0, 0, 0, 0, 0, 10, 0, 1, 5]);
    }

    #[test]
    fn a_reply_names_its_sender_and_a_request_does_not() {
        let mut frame = request(&OWN, Ipv4Addr::new(10, 0, 1, 5));
        assert_eq!(reply(&frame), None);
        frame[21] = 2;
        assert_eq!(reply(&frame), Some((OWN.ip, OWN.mac)));
        frame[22] = 0xff;
        assert_eq!(reply(&frame), None, "a multicast MAC is no host's");
    }

    #[test]
    fn short_and_foreign_frames_are_no_reply() {
        let mut frame = request(&OWN, OWN.ip);
        frame[21] = 2;
        for len in 0..42 {
            assert_eq!(reply(&frame[..len]), None, "{len} bytes");
        }
        frame[17] = 1;
        assert_eq!(reply(&frame), None);
    }
}
