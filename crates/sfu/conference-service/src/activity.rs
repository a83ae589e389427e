//! What the switch has counted, read once a second: for each leg (a participant's connection by one UDP socket), for
//! each verdict (what the switch's program decides about a packet), and for each port.
//!
//! [`Activity::next`] makes a new [`Activity`] of each reading; it reads no clock and waits for nothing. If a counter
//! is lower than before, or belongs to another socket than before, then the counter has begun again from 0, and its
//! whole value is the increase.

use std::collections::BTreeMap;

use conference_api::Delay;
use conference_model::{BindingRecord, Model, Request};
use p4runtime_client::objects::{Count, ObjectError, Table, table_info};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::table_action::Type;
use p4runtime_proto::p4::v1::{Entity, MeterCounterData};
use p4runtime_proto::reprise::v1::port_counters::Link;
use p4runtime_proto::reprise::v1::{GetCountersResponse, Latency, PortCounters, latency};

use crate::rows::socket_key;
use crate::sign_in::Clocks;

/// The lengths in bytes of the headers before a hello: over IPv4 and IPv6 without a VLAN tag, then over IPv4 and IPv6
/// with a tag of VLAN 0. With hellos a host signs a socket in and keeps it signed in.
const HELLO_FRAMES: [u64; 4] = [42, 62, 46, 66];
/// The most hellos of a socket between two readings. A host sends one hello each second, and at most eight in a second
/// in which it signs in (docs/join.md).
const HELLOS_PER_LOOK: u64 = 8;

/// When a leg's socket has been silent for this long, another socket can replace it. Hosts say hello each second.
const IN_USE_MS: u64 = 3_000;

/// The socket of a leg, as table `sockets` has it: port, address, UDP port, MAC.
pub type SocketKey = [u128; 4];

/// The counters as they were read from the switch at one time.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// For each signed-in leg: its socket, what the socket has sent, and how much of that the meter has marked red.
    pub sockets: BTreeMap<u16, (SocketKey, Count, Count)>,
    /// What each leg has received.
    pub receivers: BTreeMap<u16, Count>,
    /// The count of each verdict, by name.
    pub verdicts: BTreeMap<String, Count>,
    /// Ports by number. Empty if the switch reports nothing about its ports.
    pub ports: BTreeMap<u16, PortReading>,
}

/// A port's state and counters, as the switch reports them.
#[derive(Clone, Debug, Default)]
pub struct PortReading {
    /// Whether the port's interface is down or gone.
    pub is_down: bool,
    /// Frames that the port has dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// How long the packets that left by this port were in the switch.
    pub delay: Option<Delay>,
}

impl From<&PortCounters> for PortReading {
    fn from(port: &PortCounters) -> PortReading {
        let drops = port.drops.iter();
        PortReading {
            is_down: matches!(port.link(), Link::Down | Link::Lost),
            drops: drops.map(|it| (it.reason.clone(), it.packets)).collect(),
            delay: None,
        }
    }
}

/// Returns the number and the delay of each port for which a latency is given.
fn delays(latencies: &[Latency]) -> impl Iterator<Item = (u16, Delay)> {
    let of_ports = latencies.iter().filter(|it| it.of() == latency::Of::Port);
    of_ports.filter_map(|it| {
        let delay = Delay {
            p50_ns: it.p50_ns,
            p99_ns: it.p99_ns,
            p999_ns: it.p999_ns,
            max_ns: it.max_ns,
        };
        Some((u16::try_from(it.id).ok()?, delay))
    })
}

/// A counter's value, and how fast the counter grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    /// The counter's value.
    pub count: Count,
    /// How much the counter has grown since the previous reading; 0 at the first reading.
    pub increase: Count,
    pub packets_per_s: u64,
    pub bits_per_s: u64,
    /// When the counter last grew, in milliseconds since 1970.
    pub last_ms: Option<u64>,
}

impl Flow {
    fn next(before: Option<&Flow>, count: Count, interval_ms: Option<u64>, now_ms: u64) -> Flow {
        // At the first reading it is not known how long the counter has run, or whether its value was reported before.
        // So the increase is 0.
        let old = before.map_or(count, |it| it.count);
        let is_new = count.packets < old.packets || count.bytes < old.bytes;
        let old = if is_new { Count::default() } else { old };
        let increase = Count {
            packets: count.packets - old.packets,
            bytes: count.bytes - old.bytes,
        };
        let per_s = |n: u64| match interval_ms {
            Some(ms) if ms > 0 => n.saturating_mul(1_000) / ms,
            _ => 0,
        };
        let last_ms = before.and_then(|it| it.last_ms);
        let has_grown = increase.packets > 0;
        Flow {
            count,
            increase,
            packets_per_s: per_s(increase.packets),
            bits_per_s: per_s(increase.bytes.saturating_mul(8)),
            last_ms: if has_grown { Some(now_ms) } else { last_ms },
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LegActivity {
    /// The socket; all zeros for a leg that only table `receivers` has.
    socket: SocketKey,
    /// What the leg sends, including hellos.
    pub sent: Flow,
    /// The part of what the leg sends that exceeds its rate.
    pub policed: Flow,
    pub received: Flow,
    /// When the leg last sent something other than hellos, in milliseconds since 1970; `None` if it never did.
    pub last_media_ms: Option<u64>,
    /// Since when we read the leg's counters, by the steady clock (a clock that is never set).
    pub since_ms: u64,
    /// When the leg last sent anything, by the steady clock. The time in which the switch was away does not count.
    pub heard_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortActivity {
    /// Whether the port's interface is down or gone.
    pub is_down: bool,
    /// Drops by reason; bytes are not known.
    pub drops: BTreeMap<String, Flow>,
    /// How long the packets that left by this port were in the switch, for all packets since the switch's process
    /// began.
    pub delay: Option<Delay>,
}

/// What the switch has counted until now, and how fast the counters grow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    pub is_connected: bool,
    /// When the counters were last read, by the steady clock. `None` before the first reading after the switch was
    /// away.
    pub read_steady_ms: Option<u64>,
    /// Legs that are signed in, by number.
    pub legs: BTreeMap<u16, LegActivity>,
    /// The count of each verdict, by name.
    pub verdicts: BTreeMap<String, Flow>,
    /// Ports by number.
    pub ports: BTreeMap<u16, PortActivity>,
}

impl Activity {
    /// Returns the activity after another reading. It has exactly the legs that the reading has.
    #[must_use]
    pub fn next(&self, reading: &Reading, clocks: Clocks) -> Activity {
        let interval_ms = self
            .read_steady_ms
            .map(|then| clocks.steady_ms.saturating_sub(then));
        let flow =
            |before: Option<&Flow>, count| Flow::next(before, count, interval_ms, clocks.wall_ms);
        let named = |before: &BTreeMap<String, Flow>, name: &String, count| {
            (name.clone(), flow(before.get(name), count))
        };
        let legs = reading.sockets.keys().chain(reading.receivers.keys());
        let legs = legs.map(|leg| (*leg, self.next_leg(*leg, reading, clocks, &flow)));
        let verdicts = reading.verdicts.iter();
        let verdicts = verdicts.map(|(name, count)| named(&self.verdicts, name, *count));
        let ports = reading.ports.iter().map(|(port, now)| {
            let old = self.ports.get(port);
            let nothing = BTreeMap::new();
            let old = old.map_or(&nothing, |it| &it.drops);
            let drops = now.drops.iter().map(|(reason, packets)| {
                let count = Count {
                    packets: *packets,
                    bytes: 0,
                };
                // A switch names only reasons that have occurred: a reason that it names for the first time had the
                // count 0 in the reading before.
                let first = Flow::default();
                let before = old.get(reason);
                let before = before.or((self.ports.contains_key(port)).then_some(&first));
                (reason.clone(), flow(before, count))
            });
            let next = PortActivity {
                is_down: now.is_down,
                drops: drops.collect(),
                delay: now.delay,
            };
            (*port, next)
        });
        Activity {
            is_connected: true,
            read_steady_ms: Some(clocks.steady_ms),
            legs: legs.collect(),
            verdicts: verdicts.collect(),
            ports: ports.collect(),
        }
    }

    fn next_leg(
        &self,
        leg: u16,
        reading: &Reading,
        clocks: Clocks,
        flow: &impl Fn(Option<&Flow>, Count) -> Flow,
    ) -> LegActivity {
        let nothing = Default::default();
        let (socket, sent, red) = reading.sockets.get(&leg).unwrap_or(&nothing);
        let old = self.legs.get(&leg);
        // If the leg has another socket now, that socket's counters began at 0, even if they are above those of the
        // former socket.
        let same = old.filter(|it| it.socket == *socket);
        // If the leg came after the last reading, its counters began at 0 after that reading.
        let first = Flow::default();
        let began = self.read_steady_ms.map(|_| &first);
        let sent = flow(same.map(|it| &it.sent).or(began), *sent);
        let media = sent.increase;
        let has_media = sent.last_ms == Some(clocks.wall_ms) && !is_hellos(media);
        let since_ms = same.map_or(clocks.steady_ms, |it| it.since_ms);
        LegActivity {
            socket: *socket,
            sent,
            policed: flow(same.map(|it| &it.policed).or(began), *red),
            received: flow(
                old.map(|it| &it.received).or(began),
                reading.receivers.get(&leg).copied().unwrap_or_default(),
            ),
            last_media_ms: if has_media {
                Some(clocks.wall_ms)
            } else {
                old.and_then(|it| it.last_media_ms)
            },
            since_ms,
            heard_ms: match same {
                Some(same) if sent.increase.packets == 0 => same.heard_ms,
                _ => clocks.steady_ms,
            },
        }
    }

    /// Whether the socket that is signed in to a leg may still be sending, so that no other socket can take its place.
    /// The answer is no only if the readings have shown that this socket sent nothing for `IN_USE_MS`. The time after
    /// the last reading does not count, because nobody knows what the socket has sent since. If the socket signed in
    /// after the last reading, the answer is yes.
    #[must_use]
    pub fn still_sends(&self, leg: u16, binding: &BindingRecord) -> bool {
        let there = self
            .legs
            .get(&leg)
            .filter(|it| it.socket == socket_key(binding));
        let silent_ms = there.and_then(|it| self.silent_ms(it));
        silent_ms.is_none_or(|it| it < IN_USE_MS)
    }

    /// Returns requests that sign out the sockets that have been silent for `silence_ms`. A socket that has signed in
    /// since the reading stays.
    #[must_use]
    pub fn silent(&self, model: &Model, silence_ms: u64) -> Vec<Request> {
        let legs = self.legs.iter();
        let silent = legs.filter_map(|(leg, it)| {
            let binding = *model.binding(*leg)?;
            let is_silent = self.silent_ms(it)? >= silence_ms;
            let socket = Some(binding);
            (is_silent && it.socket == socket_key(&binding))
                .then_some(Request::SignOut { leg: *leg, socket })
        });
        silent.collect()
    }

    fn silent_ms(&self, leg: &LegActivity) -> Option<u64> {
        Some(self.read_steady_ms?.saturating_sub(leg.heard_ms))
    }

    /// Returns the activity for the time when the connection to the switch has ended. It keeps the counters, so that
    /// the next reading can be compared with them, and has no rates. Silence is counted from the next reading on.
    #[must_use]
    pub fn away(&self) -> Activity {
        let mut away = Activity {
            is_connected: false,
            read_steady_ms: None,
            ..self.clone()
        };
        let legs = away.legs.values_mut();
        let of_legs = legs.flat_map(|leg| [&mut leg.sent, &mut leg.policed, &mut leg.received]);
        let of_ports = away
            .ports
            .values_mut()
            .flat_map(|port| port.drops.values_mut());
        for flow in of_legs.chain(of_ports).chain(away.verdicts.values_mut()) {
            (flow.packets_per_s, flow.bits_per_s) = (0, 0);
            flow.increase = Count::default();
        }
        away
    }

    /// Returns the activity for the time when the switch is connected again, before the first reading.
    #[must_use]
    pub fn connected(&self, clocks: Clocks) -> Activity {
        let mut connected = Activity {
            is_connected: true,
            ..self.clone()
        };
        for leg in connected.legs.values_mut() {
            (leg.since_ms, leg.heard_ms) = (clocks.steady_ms, clocks.steady_ms);
        }
        connected
    }

    /// Returns the activity for the time when the switch has just got its program, whose counters are 0. The counts
    /// kept here become 0, too. If they kept their values, the next reading could be above them, and would not show
    /// that the counters began anew.
    #[must_use]
    pub fn counting_anew(&self) -> Activity {
        let mut anew = self.clone();
        let legs = anew.legs.values_mut();
        let flows = legs.flat_map(|it| [&mut it.sent, &mut it.policed, &mut it.received]);
        for flow in flows.chain(anew.verdicts.values_mut()) {
            flow.count = Count::default();
        }
        anew
    }
}

/// Whether an increase can consist of hellos alone: the frames are few, and each is as long as a frame with a hello. So
/// media of a few frames a second that all have this length would be taken for hellos.
fn is_hellos(increase: Count) -> bool {
    let of = |headers: &u64| {
        let len = headers + hello::LEN as u64;
        increase.packets.checked_mul(len) == Some(increase.bytes)
    };
    increase.packets <= HELLOS_PER_LOOK && HELLO_FRAMES.iter().any(of)
}

/// Table `verdicts` of the program.
#[derive(Clone, Debug)]
pub struct Verdicts {
    table: u32,
    /// Names by their actions' ids.
    names: BTreeMap<u32, String>,
}

impl Verdicts {
    /// Finds the table in a program's P4Info.
    ///
    /// # Errors
    /// This is not the program that the service expects.
    pub fn find(p4info: &P4Info) -> Result<Verdicts, ObjectError> {
        let table = table_info(p4info, "verdicts")?;
        let actions = p4info
            .actions
            .iter()
            .filter_map(|it| it.preamble.as_ref())
            .filter(|it| table.action_refs.iter().any(|of| of.id == it.id));
        let names = actions.map(|it| {
            let name = it.name.rsplit('.').next().unwrap_or(&it.name);
            (it.id, name.to_owned())
        });
        Ok(Verdicts {
            table: table.preamble.as_ref().map_or(0, |it| it.id),
            names: names.collect(),
        })
    }

    /// Returns a wildcard entity that reads the table's entries with their counters.
    #[must_use]
    pub fn wildcard(&self) -> Entity {
        p4runtime_client::entities::wildcard_table(self.table)
    }

    fn count_of(&self, entity: &Entity) -> Option<(&String, Count)> {
        let Some(Kind::TableEntry(entry)) = &entity.entity else {
            return None;
        };
        if entry.table_id != self.table || entry.is_default_action {
            return None;
        }
        let Some(Type::Action(action)) = &entry.action.as_ref()?.r#type else {
            return None;
        };
        let name = self.names.get(&action.action_id)?;
        Some((name, entry.counter_data.as_ref().map(Count::from)?))
    }
}

/// Returns the wildcard entities that read the counters of the three tables.
#[must_use]
pub fn wildcards(sockets: &Table, receivers: &Table, verdicts: &Verdicts) -> Vec<Entity> {
    let mut of_sockets = sockets.wildcard();
    if let Some(Kind::TableEntry(entry)) = &mut of_sockets.entity {
        entry.meter_counter_data = Some(MeterCounterData::default());
    }
    vec![of_sockets, receivers.wildcard(), verdicts.wildcard()]
}

impl Reading {
    /// Makes a reading of the entities that the switch returned for [`wildcards`], except entries that the service does
    /// not write.
    #[must_use]
    pub fn new(
        (sockets, receivers, verdicts): (&Table, &Table, &Verdicts),
        entities: &[Entity],
        counters: &GetCountersResponse,
    ) -> Reading {
        let mut reading = Reading::default();
        for entity in entities {
            let Some(Kind::TableEntry(entry)) = &entity.entity else {
                continue;
            };
            let count = entry.counter_data.as_ref().map(Count::from);
            let count = count.unwrap_or_default();
            if let Some((key, args)) = sockets.values(entity)
                && let Some(leg) = args.first().and_then(|leg| u16::try_from(*leg).ok())
                && let Ok(key) = key.try_into()
            {
                let red = entry.meter_counter_data.as_ref();
                let red = red.and_then(|it| it.red.as_ref()).map(Count::from);
                reading
                    .sockets
                    .insert(leg, (key, count, red.unwrap_or_default()));
            } else if let Some((key, _)) = receivers.values(entity)
                && let Some(leg) = key.first().and_then(|leg| u16::try_from(*leg).ok())
            {
                reading.receivers.insert(leg, count);
            } else if let Some((name, count)) = verdicts.count_of(entity) {
                reading.verdicts.insert(name.clone(), count);
            }
        }
        let ports = counters.ports.iter();
        let ports = ports.filter_map(|it| Some((u16::try_from(it.port).ok()?, it.into())));
        reading.ports = ports.collect();
        for (port, delay) in delays(&counters.latencies) {
            if let Some(port) = reading.ports.get_mut(&port) {
                port.delay = Some(delay);
            }
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const HELLO: u64 = 42 + hello::LEN as u64;

    fn count(packets: u64, bytes: u64) -> Count {
        Count { packets, bytes }
    }

    fn at(s: u64) -> Clocks {
        Clocks {
            steady_ms: s * 1_000,
            wall_ms: 1_000_000 + s * 1_000,
        }
    }

    fn leg(socket: u128, sent: Count, received: Count) -> Reading {
        Reading {
            sockets: [(1, ([socket, 0, 0, 0], sent, Count::default()))].into(),
            receivers: [(1, received)].into(),
            ..Reading::default()
        }
    }

    #[test]
    fn rates_are_of_the_last_interval_and_of_a_first_reading_there_is_none() {
        let first = Activity::default().next(&leg(7, count(1_000, 100_000), count(5, 500)), at(10));
        let it = first.legs[&1];
        assert_eq!((it.sent.packets_per_s, it.last_media_ms), (0, None));
        assert_eq!(it.sent.count, count(1_000, 100_000));
        let next = first.next(&leg(7, count(1_100, 130_000), count(5, 500)), at(12));
        let it = next.legs[&1];
        assert_eq!((it.sent.packets_per_s, it.sent.bits_per_s), (50, 120_000));
        assert_eq!(it.last_media_ms, Some(1_012_000));
        assert_eq!((it.received.packets_per_s, it.received.last_ms), (0, None));
    }

    #[test]
    fn a_counter_that_goes_back_or_is_of_another_socket_has_begun_anew() {
        let first = Activity::default().next(&leg(7, count(100, 10_000), count(9, 900)), at(1));
        let restarted = first.next(&leg(7, count(3, 300), count(2, 200)), at(2));
        assert_eq!(restarted.legs[&1].sent.increase, count(3, 300));
        assert_eq!(restarted.legs[&1].received.increase, count(2, 200));
        let replaced = first.next(&leg(8, count(150, 15_000), count(9, 900)), at(2));
        assert_eq!(replaced.legs[&1].sent.increase, count(150, 15_000));
        assert_eq!(replaced.legs[&1].since_ms, 2_000);
    }

    #[test]
    fn hellos_are_no_media_and_keep_a_socket_from_being_silent() {
        let first = Activity::default().next(&leg(7, count(5, 5 * HELLO), Count::default()), at(1));
        let hello = first.next(&leg(7, count(6, 6 * HELLO), Count::default()), at(2));
        assert_eq!(
            (hello.legs[&1].last_media_ms, hello.legs[&1].heard_ms),
            (None, 2_000)
        );
        let silent = hello.next(&leg(7, count(6, 6 * HELLO), Count::default()), at(3));
        assert_eq!(silent.legs[&1].heard_ms, 2_000);
        let short = silent.next(&leg(7, count(7, 6 * HELLO + 60), Count::default()), at(4));
        assert_eq!(short.legs[&1].last_media_ms, Some(1_004_000));
        // The frames are as long as hellos, but there are more of them than there can be hellos.
        let many = short.next(&leg(7, count(57, 56 * HELLO + 60), Count::default()), at(5));
        assert_eq!(many.legs[&1].last_media_ms, Some(1_005_000));
    }

    fn binding(udp_port: u16) -> BindingRecord {
        BindingRecord {
            port: 7,
            mac: [0; 6],
            address: IpAddr::from([0, 0, 0, 0, 0, 0, 0, 0]),
            udp_port,
            own_mac: [4; 6],
            own_address: IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        }
    }

    #[test]
    fn a_late_reading_is_no_silence() {
        let socket = &binding(0);
        let first = Activity::default().next(&leg(7, count(5, 500), Count::default()), at(1));
        let sends = first.next(&leg(7, count(6, 600), Count::default()), at(2));
        // This holds however long ago the last reading was.
        assert!(sends.still_sends(1, socket) && sends.connected(at(60)).still_sends(1, socket));
        let silent = sends.next(&leg(7, count(6, 600), Count::default()), at(32));
        assert!(!silent.still_sends(1, socket));
        assert!(silent.away().still_sends(1, socket));
    }

    #[test]
    fn a_socket_that_signed_in_since_the_last_reading_is_not_silent_because_another_one_was() {
        let first = Activity::default().next(&leg(7, count(5, 500), Count::default()), at(1));
        let silent = first.next(&leg(7, count(5, 500), Count::default()), at(9));
        assert!(!silent.still_sends(1, &binding(0)));
        assert!(
            silent.still_sends(1, &binding(1)),
            "another socket of the leg"
        );
        assert!(
            silent.still_sends(2, &binding(0)),
            "a leg that was not read"
        );
    }

    #[test]
    fn the_time_in_which_the_switch_was_away_is_no_silence_and_legs_that_end_are_forgotten() {
        let first = Activity::default().next(&leg(7, count(5, 500), Count::default()), at(1));
        let second = first.next(&leg(7, count(9, 900), Count::default()), at(2));
        let away = second.away();
        assert!(!away.is_connected);
        assert_eq!(away.legs[&1].sent.packets_per_s, 0);
        let back = away.connected(at(60));
        let back = back.next(&leg(7, count(0, 0), Count::default()), at(61));
        assert_eq!(back.legs[&1].heard_ms, 60_000);
        assert_eq!(back.legs[&1].last_media_ms, Some(1_002_000));
        assert!(back.next(&Reading::default(), at(62)).legs.is_empty());
    }

    #[test]
    fn a_new_program_counts_from_zero_also_if_it_has_soon_counted_as_much_as_the_old_one() {
        let first = Activity::default().next(&leg(7, count(5, 500), count(3, 300)), at(1));
        let back = first.away().counting_anew().connected(at(60));
        let next = back.next(&leg(7, count(5, 500), count(4, 400)), at(62));
        let it = next.legs[&1];
        assert_eq!((it.sent.increase, it.heard_ms), (count(5, 500), 62_000));
        assert_eq!(it.received.increase, count(4, 400));
        let same = first.away().connected(at(60));
        let same = same.next(&leg(7, count(5, 500), count(4, 400)), at(62));
        assert_eq!(same.legs[&1].received.increase, count(1, 100));
    }

    #[test]
    fn a_ports_first_drop_is_one_and_what_it_dropped_before_the_first_reading_is_none() {
        let reading = |drops: &[(&str, u64)]| Reading {
            ports: [(
                1,
                PortReading {
                    is_down: false,
                    drops: drops.iter().map(|(r, n)| ((*r).to_owned(), *n)).collect(),
                    delay: None,
                },
            )]
            .into(),
            ..Reading::default()
        };
        let first = Activity::default().next(&reading(&[("tx_too_long", 5)]), at(1));
        assert_eq!(first.ports[&1].drops["tx_too_long"].last_ms, None);
        let next = first.next(&reading(&[("tx_too_long", 5), ("tx_refused", 1)]), at(2));
        assert_eq!(next.ports[&1].drops["tx_too_long"].last_ms, None);
        assert_eq!(next.ports[&1].drops["tx_refused"].last_ms, Some(1_002_000));
        assert_eq!(next.ports[&1].drops["tx_refused"].packets_per_s, 1);
        assert_eq!(next.away().ports[&1].drops["tx_refused"].packets_per_s, 0);
    }
}
