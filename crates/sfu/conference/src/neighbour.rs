//! Finds hosts by ARP (RFC 826), for Ethernet and IPv4 only. Requests leave as packet-outs from the SFU's own address,
//! replies arrive as packet-ins.
//!
//! ARP proves nothing, so the first answer is not trusted. Every host is asked twice, and two different answers are an
//! error. A host whose MAC is known first gets a request to that MAC (RFC 1122, section 2.3.2.1, "unicast poll").

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use p4runtime_client::objects::{self, ObjectError};
use p4runtime_client::{Client, ClientError, bytestring};
use p4runtime_proto::p4::config::v1::{ControllerPacketMetadata, P4Info};
use p4runtime_proto::p4::v1::{PacketIn, PacketMetadata, PacketOut};
use tokio::time::Instant;

use crate::address::Mac;
use crate::limits::{
    NEIGHBOUR_BATCH, NEIGHBOUR_POLL_MS, NEIGHBOUR_SETTLE_MS, NEIGHBOUR_TIMEOUT_MS, NEIGHBOUR_TRIES,
};
use crate::model::OwnAddress;

const BROADCAST: Mac = Mac([0xff; 6]);
const ETHER_TYPE_ARP: [u8; 2] = [0x08, 0x06];
/// Hardware type Ethernet, protocol type IPv4, lengths 6 and 4.
const ARP_ETHERNET_IPV4: [u8; 6] = [0x00, 0x01, 0x08, 0x00, 6, 4];
const ARP_REQUEST: [u8; 2] = [0, 1];
const ARP_REPLY: [u8; 2] = [0, 2];
/// The shortest Ethernet frame, without its check sequence.
const FRAME_BYTES_MIN: usize = 60;

/// Where a host is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Port of the switch.
    pub port: u16,
    /// Ethernet address of the host.
    pub mac: Mac,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on port {}", self.mac, self.port)
    }
}

/// A host to find.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Question {
    /// IP of the host.
    pub ip: Ipv4Addr,
    /// The port that the host is on; `None`: any port with an own address.
    pub port: Option<u16>,
}

/// A host whose MAC is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Neighbour {
    /// IP of the host.
    pub ip: Ipv4Addr,
    /// Port of the switch that the host is on.
    pub port: u16,
}

impl Neighbour {
    fn question(&self) -> Question {
        Question {
            ip: self.ip,
            port: Some(self.port),
        }
    }
}

/// Result of asking a known host again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The host answers with its known MAC.
    Unchanged,
    /// The host answers with this MAC only, and no longer with the known MAC.
    Moved(Mac),
    /// Several MACs answer.
    Disputed(BTreeSet<Mac>),
    /// No host answers on the known port, but hosts at these places on other ports do.
    Elsewhere(BTreeSet<Place>),
    /// No host answers on any port.
    Silent,
}

/// Why a host was not found.
#[derive(Debug, thiserror::Error)]
pub enum NeighbourError {
    /// No host answers.
    #[error(
        "no host answers to ARP for {} on {} ({NEIGHBOUR_TRIES} requests, {NEIGHBOUR_TIMEOUT_MS} ms each): give the MAC address with --mac, or `mac:` in the file",
        few(ips),
        show_ports(ports)
    )]
    NoAnswer {
        /// The IPs that were asked for.
        ips: Vec<Ipv4Addr>,
        /// The ports that the requests left by.
        ports: BTreeSet<u16>,
    },
    /// Several hosts claim the address.
    #[error(
        "several hosts answer to ARP for {ip} ({}): expected one; give the right MAC address with --mac, or `mac:` in the file",
        all(places)
    )]
    Disputed {
        /// The address that was asked for.
        ip: Ipv4Addr,
        /// The hosts that answered.
        places: BTreeSet<Place>,
    },
    /// The same host answers on several ports.
    #[error(
        "{ip} answers to ARP on several ports ({}): say which with --port, or `port:` in the file",
        all(places)
    )]
    SeveralPorts {
        /// The address that was asked for.
        ip: Ipv4Addr,
        /// The ports where it answered.
        places: BTreeSet<Place>,
    },
    /// The SFU has no own address to send ARP requests from.
    #[error(
        "no MAC address given for {ip}, and the SFU has no own address {} to ask from: give --mac, or set one with `reprise address set --port {} --ip IP --mac MAC`",
        port.map_or_else(|| "yet".to_owned(), |port| format!("on port {port}")),
        port.unwrap_or(1)
    )]
    NoAddress {
        /// The address to ask for.
        ip: Ipv4Addr,
        /// The port that needs an own address; `None`: any.
        port: Option<u16>,
    },
    /// The program has no packet-out or packet-in header.
    #[error(transparent)]
    Program(#[from] ObjectError),
    /// A call failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Finds hosts on the ports that have an own address. The client must be primary.
///
/// # Errors
/// A host did not answer, several answered, or a request could not be sent.
pub async fn look_up(
    client: &mut Client,
    p4info: &P4Info,
    own: &[OwnAddress],
    questions: &BTreeSet<Question>,
) -> Result<BTreeMap<Question, Place>, NeighbourError> {
    let has_address = |question: &&Question| !addresses_of(question, own).is_empty();
    if let Some(Question { ip, port }) = questions.iter().find(|q| !has_address(q)).copied() {
        return Err(NeighbourError::NoAddress { ip, port });
    }
    let mut found = BTreeMap::new();
    let questions: Vec<Question> = questions.iter().copied().collect();
    for batch in questions.chunks(NEIGHBOUR_BATCH) {
        let mut asker = Asker::new(client, p4info)?;
        let answers = asker.first_and_second_answers(own, batch).await?;
        let silent = batch.iter().filter(|q| places(q, &answers).is_empty());
        let ips: Vec<Ipv4Addr> = silent.clone().map(|question| question.ip).collect();
        if !ips.is_empty() {
            let asked = silent.flat_map(|question| addresses_of(question, own));
            let ports = asked.map(|own| own.port).collect();
            return Err(NeighbourError::NoAnswer { ips, ports });
        }
        for question in batch {
            found.insert(*question, the_place(question, places(question, &answers))?);
        }
    }
    Ok(found)
}

/// Asks known hosts, with requests to their known MACs, whether they are still there. If a host does not answer, or the
/// program recorded another MAC or port for it (`heard`), broadcast requests on its known port follow. If there is no
/// answer on that port, broadcasts on all other ports follow. The client must be primary.
///
/// # Errors
/// A request could not be sent, or the connection to the switch failed.
pub async fn confirm(
    client: &mut Client,
    p4info: &P4Info,
    own: &[OwnAddress],
    known: &BTreeMap<Neighbour, Mac>,
    heard: &BTreeSet<Neighbour>,
) -> Result<BTreeMap<Neighbour, Finding>, NeighbourError> {
    let mut findings = BTreeMap::new();
    let known: Vec<(Neighbour, Mac)> = known.iter().map(|(host, mac)| (*host, *mac)).collect();
    for batch in known.chunks(NEIGHBOUR_BATCH) {
        let mut asker = Asker::new(client, p4info)?;
        let is_there = |answers: &Answers, (host, mac): &(Neighbour, Mac)| {
            let answered = answers.get(&host.ip);
            answered.is_some_and(|at| {
                at.contains(&Place {
                    port: host.port,
                    mac: *mac,
                })
            })
        };
        for _ in 0..2 {
            for one in batch {
                if !is_there(&asker.answers, one) {
                    asker.ask(own, &one.0, one.1).await?;
                }
            }
            let all_are_there = |answers: &Answers| batch.iter().all(|one| is_there(answers, one));
            asker.listen(NEIGHBOUR_POLL_MS, all_are_there).await?;
        }
        let doubtful: Vec<Neighbour> = batch
            .iter()
            .filter(|one| heard.contains(&one.0) || !is_there(&asker.answers, one))
            .map(|(host, _)| *host)
            .collect();
        for _ in 0..if doubtful.is_empty() { 0 } else { 2 } {
            for host in &doubtful {
                asker.ask(own, host, BROADCAST).await?;
            }
            asker.listen(NEIGHBOUR_POLL_MS, |_| false).await?;
        }
        asker.look_elsewhere(own, &doubtful).await?;
        let judged = batch
            .iter()
            .map(|(host, mac)| (*host, judge(host, *mac, &asker.answers)));
        findings.extend(judged);
    }
    Ok(findings)
}

/// The hosts that answered for an address, with their ports.
type Answers = BTreeMap<Ipv4Addr, BTreeSet<Place>>;

struct Asker<'a> {
    client: &'a mut Client,
    packet_out: ControllerHeader<'a>,
    packet_in: ControllerHeader<'a>,
    answers: Answers,
}

impl<'a> Asker<'a> {
    fn new(client: &'a mut Client, p4info: &'a P4Info) -> Result<Asker<'a>, ObjectError> {
        Ok(Asker {
            client,
            packet_out: ControllerHeader::find(p4info, "packet_out")?,
            packet_in: ControllerHeader::find(p4info, "packet_in")?,
            answers: Answers::new(),
        })
    }

    /// Asks until every host has answered or the tries are used up. If all hosts have answered, asks once more and
    /// waits for answers of other hosts that claim the same addresses.
    async fn first_and_second_answers(
        &mut self,
        own: &[OwnAddress],
        questions: &[Question],
    ) -> Result<Answers, ClientError> {
        let has_answered = |answers: &Answers, q: &Question| !places(q, answers).is_empty();
        let all = |answers: &Answers| questions.iter().all(|q| has_answered(answers, q));
        for _ in 0..NEIGHBOUR_TRIES {
            for question in questions {
                if !has_answered(&self.answers, question) {
                    self.broadcast(own, question).await?;
                }
            }
            self.listen(NEIGHBOUR_TIMEOUT_MS, all).await?;
            if all(&self.answers) {
                break;
            }
        }
        if all(&self.answers) {
            for question in questions {
                self.broadcast(own, question).await?;
            }
            self.listen(NEIGHBOUR_SETTLE_MS, |_| false).await?;
        }
        Ok(std::mem::take(&mut self.answers))
    }

    async fn broadcast(
        &mut self,
        own: &[OwnAddress],
        question: &Question,
    ) -> Result<(), ClientError> {
        for own in addresses_of(question, own) {
            self.send(own, question.ip, BROADCAST).await?;
        }
        Ok(())
    }

    /// Asks a known host on its port. Sends nothing if the SFU no longer has an address on this port.
    async fn ask(
        &mut self,
        own: &[OwnAddress],
        host: &Neighbour,
        to: Mac,
    ) -> Result<(), ClientError> {
        match own.iter().find(|own| own.port == host.port) {
            Some(own) => self.send(own, host.ip, to).await,
            None => Ok(()),
        }
    }

    /// For each host that has not answered on its port, broadcasts requests on all other ports.
    async fn look_elsewhere(
        &mut self,
        own: &[OwnAddress],
        hosts: &[Neighbour],
    ) -> Result<(), ClientError> {
        let answers = &self.answers;
        let silent: Vec<Neighbour> = hosts
            .iter()
            .filter(|host| places(&host.question(), answers).is_empty())
            .copied()
            .collect();
        let mut n_asked = 0;
        for _ in 0..2 {
            for host in &silent {
                for own in own.iter().filter(|own| own.port != host.port) {
                    self.send(own, host.ip, BROADCAST).await?;
                    n_asked += 1;
                }
            }
            if n_asked > 0 {
                self.listen(NEIGHBOUR_POLL_MS, |_| false).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, own: &OwnAddress, ip: Ipv4Addr, to: Mac) -> Result<(), ClientError> {
        let packet = self.packet_out.packet(own.port, request(own, ip, to));
        self.client.packet_out(packet).await
    }

    /// Collects answers until `for_ms` is over or `enough` holds.
    async fn listen(
        &mut self,
        for_ms: u64,
        enough: impl Fn(&Answers) -> bool,
    ) -> Result<(), ClientError> {
        let until = Instant::now() + Duration::from_millis(for_ms);
        while !enough(&self.answers) {
            let Some(packet) = self.client.packet_in(until).await? else {
                break;
            };
            if let (Some((ip, mac)), Some(port)) =
                (reply(&packet.payload), self.packet_in.port(&packet))
            {
                let places = self.answers.entry(ip).or_default();
                places.insert(Place { port, mac });
            }
        }
        Ok(())
    }
}

fn addresses_of<'a>(question: &Question, own: &'a [OwnAddress]) -> Vec<&'a OwnAddress> {
    let is_asked = |own: &&OwnAddress| question.port.is_none_or(|port| port == own.port);
    own.iter().filter(is_asked).collect()
}

/// Returns the single place of a host, or an error if there are several places.
fn the_place(question: &Question, places: BTreeSet<Place>) -> Result<Place, NeighbourError> {
    let ip = question.ip;
    let macs: BTreeSet<Mac> = places.iter().map(|place| place.mac).collect();
    match (places.first(), places.len(), macs.len()) {
        (Some(place), 1, _) => Ok(*place),
        (_, _, 1) => Err(NeighbourError::SeveralPorts { ip, places }),
        _ => Err(NeighbourError::Disputed { ip, places }),
    }
}

/// Returns the places (port and MAC) that answered a question. If the question has a port, returns only the places on
/// this port.
fn places(question: &Question, answers: &Answers) -> BTreeSet<Place> {
    let asked = |place: &&Place| question.port.is_none_or(|port| port == place.port);
    let places = answers.get(&question.ip).into_iter().flatten();
    places.filter(asked).copied().collect()
}

/// Decides where a known host is. A new MAC is accepted only if the known MAC does not answer: a host that claims the
/// address of another host must not get that host's copies while that host answers.
fn judge(host: &Neighbour, known: Mac, answers: &Answers) -> Finding {
    let places = places(&host.question(), answers);
    let macs: BTreeSet<Mac> = places.iter().map(|place| place.mac).collect();
    match (macs.first(), macs.len()) {
        (None, _) => match answers.get(&host.ip) {
            Some(elsewhere) if !elsewhere.is_empty() => Finding::Elsewhere(elsewhere.clone()),
            _ => Finding::Silent,
        },
        (Some(mac), 1) if *mac == known => Finding::Unchanged,
        (Some(mac), 1) => Finding::Moved(*mac),
        _ => Finding::Disputed(macs),
    }
}

/// The header of packet-out or packet-in in P4Info.
struct ControllerHeader<'a>(&'a ControllerPacketMetadata);

impl<'a> ControllerHeader<'a> {
    fn find(p4info: &'a P4Info, name: &str) -> Result<ControllerHeader<'a>, ObjectError> {
        let headers = &p4info.controller_packet_metadata;
        let header = objects::named("controller header", name, headers, |it| {
            it.preamble.as_ref()
        });
        header.map(ControllerHeader)
    }

    /// Makes a packet-out with every field of the header. All fields except the port are padding.
    fn packet(&self, egress_port: u16, payload: Vec<u8>) -> PacketOut {
        let metadata = self.0.metadata.iter().map(|field| PacketMetadata {
            metadata_id: field.id,
            value: bytestring::bytes(if field.name == "egress_port" {
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

    fn port(&self, packet: &PacketIn) -> Option<u16> {
        let field = self.0.metadata.iter().find(|f| f.name == "ingress_port")?;
        let value = packet.metadata.iter().find(|m| m.metadata_id == field.id)?;
        bytestring::number(&value.value)?.try_into().ok()
    }
}

fn request(own: &OwnAddress, ip: Ipv4Addr, to: Mac) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_BYTES_MIN);
    frame.extend(to.0);
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

/// Returns the sender addresses of an ARP reply. Returns `None` if the frame is no ARP reply, or if the MAC is not
/// valid for a host.
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

fn few(ips: &[Ipv4Addr]) -> String {
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

fn all(places: &BTreeSet<Place>) -> String {
    let places: Vec<String> = places.iter().map(Place::to_string).collect();
    places.join(", ")
}

fn show_ports(ports: &BTreeSet<u16>) -> String {
    let word = if ports.len() == 1 { "port" } else { "ports" };
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    format!("{word} {}", ports.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: OwnAddress = OwnAddress {
        port: 1,
        ip: Ipv4Addr::new(10, 0, 1, 100),
        mac: Mac([2, 0, 0, 0, 0, 100]),
    };
    const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 5);

    fn mac(n: u8) -> Mac {
        Mac([2, 0, 0, 0, 0, n])
    }

    fn answers(places: &[(u16, u8)]) -> Answers {
        let place = |(port, n): &(u16, u8)| Place {
            port: *port,
            mac: mac(*n),
        };
        Answers::from([(HOST, places.iter().map(place).collect())])
    }

    #[test]
    fn a_request_is_a_broadcast_of_the_shortest_frame_length() {
        let frame = request(&OWN, HOST, BROADCAST);
        assert_eq!(frame.len(), 60);
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[6..14], [2, 0, 0, 0, 0, 100, 8, 6]);
        assert_eq!(frame[14..22], [0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(frame[22..32], [2, 0, 0, 0, 0, 100, 10, 0, 1, 100]);
        assert_eq!(frame[32..42], [0, 0, 0, 0, 0, 0, 10, 0, 1, 5]);
        assert_eq!(request(&OWN, HOST, mac(5))[..6], mac(5).0);
    }

    #[test]
    fn a_reply_names_its_sender_and_a_request_does_not() {
        let mut frame = request(&OWN, HOST, BROADCAST);
        assert_eq!(reply(&frame), None);
        frame[21] = 2;
        assert_eq!(reply(&frame), Some((OWN.ip, OWN.mac)));
        frame[22] = 0xff;
        assert_eq!(reply(&frame), None, "a multicast MAC is no host's");
    }

    #[test]
    fn short_and_foreign_frames_are_no_reply() {
        let mut frame = request(&OWN, OWN.ip, BROADCAST);
        frame[21] = 2;
        for len in 0..42 {
            assert_eq!(reply(&frame[..len]), None, "{len} bytes");
        }
        frame[17] = 1;
        assert_eq!(reply(&frame), None);
    }

    #[test]
    fn a_host_is_where_all_answers_say_and_two_answers_are_no_answer() {
        let find = |port, given: &[(u16, u8)]| {
            let question = Question { ip: HOST, port };
            the_place(&question, places(&question, &answers(given)))
        };
        let place = Place {
            port: 2,
            mac: mac(5),
        };
        assert_eq!(find(None, &[(2, 5)]).unwrap(), place);
        assert_eq!(find(Some(2), &[(2, 5), (1, 5)]).unwrap(), place);
        let error = find(None, &[(1, 5), (2, 5)]).unwrap_err().to_string();
        assert!(
            error.contains("several ports") && error.contains("--port"),
            "{error}"
        );
        let error = find(None, &[(2, 5), (2, 6)]).unwrap_err().to_string();
        assert!(
            error.contains("several hosts") && error.contains("--mac"),
            "{error}"
        );
        let error = find(None, &[(1, 5), (2, 6)]).unwrap_err();
        assert!(matches!(error, NeighbourError::Disputed { .. }), "{error}");
    }

    #[test]
    fn a_known_host_has_moved_only_if_its_old_address_is_silent() {
        let host = Neighbour { ip: HOST, port: 1 };
        let judged = |given: &[(u16, u8)]| judge(&host, mac(5), &answers(given));
        assert_eq!(judged(&[(1, 5)]), Finding::Unchanged);
        assert_eq!(judged(&[(1, 6)]), Finding::Moved(mac(6)));
        assert_eq!(judged(&[]), Finding::Silent);
        let elsewhere = Place {
            port: 2,
            mac: mac(6),
        };
        let elsewhere = Finding::Elsewhere(BTreeSet::from([elsewhere]));
        assert_eq!(judged(&[(2, 6)]), elsewhere, "it has not moved on its port");
        assert_eq!(judged(&[(2, 6), (1, 5)]), Finding::Unchanged);
        let both = BTreeSet::from([mac(5), mac(6)]);
        assert_eq!(judged(&[(1, 6), (1, 5)]), Finding::Disputed(both));
        let others = BTreeSet::from([mac(6), mac(7)]);
        assert_eq!(judged(&[(1, 6), (1, 7)]), Finding::Disputed(others));
    }
}
