//! What the switch must have: entries of the tables of `p4/conference.p4`, and multicast groups. Also makes the writes
//! that bring them into the switch.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use conference_model::{BindingRecord, LegEntries};
use p4runtime_client::entities::{
    delete, entity, insert, modify, multicast_group, of_table, replica_port,
};
use p4runtime_client::objects::{ObjectError, Table, named};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Engine;
use p4runtime_proto::p4::v1::{
    CounterData, Entity, Index, MeterConfig, MeterCounterData, MeterEntry, TableEntry, Update,
};

/// How many bytes a leg (a participant's connection by one UDP socket) may send at once, however low its rate is:
/// enough for a picture's first packets.
const BURST_BYTES_MIN: u64 = 64 * 1024;
/// A leg may send at once as many bytes as its rate allows in this time.
const BURST_MS: u64 = 100;

/// The most hellos a second from a sender's address (more precisely, from all addresses with the same hash). With
/// hellos a host signs a socket in. The limit is enough for an office behind one address whose hundred sockets sign in
/// at once.
const HELLOS_OF_A_SOURCE_PER_S: i64 = 400;
/// The most hellos a second from a port of the switch. Checking a hello takes some microseconds.
const HELLOS_OF_A_PORT_PER_S: i64 = 4_000;

/// The tables of `p4/conference.p4` that the service writes.
#[derive(Clone, Debug)]
pub struct Tables {
    own_addresses: Table,
    sockets: Table,
    receivers: Table,
    hello_source_rate: MeterArray,
    hello_port_rate: MeterArray,
}

#[derive(Clone, Copy, Debug)]
struct MeterArray {
    id: u32,
    size: i64,
}

impl MeterArray {
    fn find(p4info: &P4Info, name: &str) -> Result<MeterArray, ObjectError> {
        let found = named("meter", name, &p4info.meters, |it| it.preamble.as_ref())?;
        Ok(MeterArray {
            id: found.preamble.as_ref().map_or(0, |it| it.id),
            size: found.size,
        })
    }

    /// Returns the writes that set all cells of the meter to this many packets a second, and to bursts of as many
    /// packets.
    fn set_all(self, packets_per_s: i64) -> impl Iterator<Item = Update> {
        (0..self.size).map(move |index| {
            modify(entity(Kind::MeterEntry(MeterEntry {
                meter_id: self.id,
                index: Some(Index { index }),
                config: Some(MeterConfig {
                    cir: packets_per_s,
                    cburst: packets_per_s,
                    pir: packets_per_s,
                    pburst: packets_per_s,
                    ..MeterConfig::default()
                }),
                ..MeterEntry::default()
            })))
        })
    }
}

impl Tables {
    /// Finds the tables in a program's P4Info.
    ///
    /// # Errors
    /// This is not the program that the service expects.
    pub fn find(p4info: &P4Info) -> Result<Tables, ObjectError> {
        Ok(Tables {
            own_addresses: Table::find(
                p4info,
                "own_addresses",
                &["ingress_port", "address"],
                ("set_own_mac", 2),
            )?,
            sockets: Table::find(
                p4info,
                "sockets",
                &["ingress_port", "address", "udp_port", "mac"],
                ("set_leg", 5),
            )?,
            receivers: Table::find(p4info, "receivers", &["leg"], ("send_to", 5))?,
            hello_source_rate: MeterArray::find(p4info, "hello_source_rate")?,
            hello_port_rate: MeterArray::find(p4info, "hello_port_rate")?,
        })
    }

    /// Returns the writes that limit how many hellos go to the service.
    pub(crate) fn hello_limits(&self) -> Vec<Update> {
        let of_sources = self.hello_source_rate.set_all(HELLOS_OF_A_SOURCE_PER_S);
        of_sources
            .chain(self.hello_port_rate.set_all(HELLOS_OF_A_PORT_PER_S))
            .collect()
    }

    /// The table of sockets that are signed in.
    #[must_use]
    pub fn sockets(&self) -> &Table {
        &self.sockets
    }

    /// The table of the addresses to which the multicast copies of packets go.
    #[must_use]
    pub fn receivers(&self) -> &Table {
        &self.receivers
    }

    /// Returns the wildcard entities that read everything that the service writes.
    #[must_use]
    pub fn wildcards(&self) -> Vec<Entity> {
        let with_meters = |table: &Table| {
            let mut entity = table.wildcard();
            if let Some(Kind::TableEntry(entry)) = &mut entity.entity {
                entry.meter_config = Some(MeterConfig::default());
            }
            entity
        };
        vec![
            self.own_addresses.wildcard(),
            with_meters(&self.sockets),
            self.receivers.wildcard(),
            p4runtime_client::entities::any_multicast_group(),
        ]
    }
}

/// Entries of a table, by key: the arguments of the entry's action, and the rate of its meter in kbit/s, if it has a
/// meter.
type Entries<const K: usize, const A: usize> = BTreeMap<[u128; K], ([u128; A], Option<u32>)>;

/// The entries and multicast groups that a switch has or must have.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rows {
    own_addresses: Entries<2, 2>,
    sockets: Entries<4, 5>,
    receivers: Entries<1, 5>,
    groups: BTreeMap<u16, BTreeSet<(u16, u16)>>,
}

/// An address of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnAddress {
    pub port: u16,
    pub address: IpAddr,
    pub mac: [u8; 6],
    pub media_port: u16,
}

impl Rows {
    /// Adds an address of the switch.
    pub fn add_own_address(&mut self, own: &OwnAddress) {
        let key = [own.port.into(), number_of(own.address)];
        let args = [mac(own.mac), own.media_port.into()];
        self.own_addresses.insert(key, (args, None));
    }

    pub fn add_leg(&mut self, leg: u16, entries: &LegEntries) {
        if let Some(socket) = &entries.socket {
            let key = [
                socket.port.into(),
                number_of(socket.address),
                socket.udp_port.into(),
                mac(socket.mac),
            ];
            let args = [
                leg.into(),
                socket.media_group.into(),
                socket.report_group.into(),
                socket.priority.into(),
                socket.is_rtp.into(),
            ];
            self.sockets.insert(key, (args, Some(socket.max_kbps)));
        }
        if let Some(receiver) = &entries.receiver {
            let args = [
                mac(receiver.own_mac),
                mac(receiver.mac),
                number_of(receiver.own_address),
                number_of(receiver.address),
                receiver.udp_port.into(),
            ];
            self.receivers.insert([leg.into()], (args, None));
        }
        for (group, members) in [(leg, &entries.media), (0x8000 | leg, &entries.reports)] {
            if !members.is_empty() {
                self.groups.insert(group, members.iter().copied().collect());
            }
        }
    }

    /// Adds the entries and groups that were read from a switch, except entries that the service does not write.
    pub fn add_read(&mut self, tables: &Tables, entities: &[Entity]) {
        for entity in entities {
            match &entity.entity {
                Some(Kind::TableEntry(entry)) => {
                    let kbps = entry.meter_config.as_ref().map(kbps_of);
                    add_entry(&mut self.own_addresses, &tables.own_addresses, entity, None);
                    add_entry(&mut self.sockets, &tables.sockets, entity, kbps);
                    add_entry(&mut self.receivers, &tables.receivers, entity, None);
                }
                Some(Kind::PacketReplicationEngineEntry(entry)) => {
                    if let Some(Engine::MulticastGroupEntry(group)) = &entry.r#type
                        && let Ok(id) = u16::try_from(group.multicast_group_id)
                    {
                        let members = group.replicas.iter().filter_map(|replica| {
                            Some((
                                replica_port(replica)?,
                                u16::try_from(replica.instance).ok()?,
                            ))
                        });
                        self.groups.insert(id, members.collect());
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the writes that bring a switch from the entries and groups here to those of `desired`. The switch may
    /// not do all writes at once. Therefore they are in an order in which every copy of a packet finds the entry of its
    /// receiver: receivers are written first, then groups, then sockets; deletions come in the opposite order.
    /// Before all of these writes, legs that are at another port now are taken out of their groups: otherwise their
    /// copies would leave by the old port with the new addresses.
    #[must_use]
    pub fn updates(&self, desired: &Rows, tables: &Tables) -> Vec<Update> {
        let mut updates = Vec::new();
        put(
            &mut updates,
            &tables.own_addresses,
            &self.own_addresses,
            &desired.own_addresses,
            |_, _| true,
        );
        let left = self.groups_without_moved(desired);
        for (group, members) in &left {
            let entity = multicast_group(*group, members.iter().copied());
            updates.push(modify(entity));
        }
        put(
            &mut updates,
            &tables.receivers,
            &self.receivers,
            &desired.receivers,
            |_, _| true,
        );
        for (group, members) in &desired.groups {
            let entity = multicast_group(*group, members.iter().copied());
            match left.get(group).or(self.groups.get(group)) {
                None => updates.push(insert(entity)),
                Some(there) if there != members => updates.push(modify(entity)),
                Some(_) => {}
            }
        }
        put(
            &mut updates,
            &tables.sockets,
            &self.sockets,
            &desired.sockets,
            // The leg is the first argument. A socket may have signed in to another leg.
            |before, now| before[0] == now[0],
        );
        take(
            &mut updates,
            &tables.sockets,
            &self.sockets,
            &desired.sockets,
        );
        for group in self
            .groups
            .keys()
            .filter(|it| !desired.groups.contains_key(it))
        {
            updates.push(delete(multicast_group(*group, [])));
        }
        take(
            &mut updates,
            &tables.receivers,
            &self.receivers,
            &desired.receivers,
        );
        take(
            &mut updates,
            &tables.own_addresses,
            &self.own_addresses,
            &desired.own_addresses,
        );
        updates
    }

    /// Returns the groups that have members whose leg must be at another port now, with these members removed.
    fn groups_without_moved(&self, desired: &Rows) -> BTreeMap<u16, BTreeSet<(u16, u16)>> {
        let sockets = desired.sockets.iter();
        let ports = sockets.map(|([port, ..], ([leg, ..], _))| (*leg, *port));
        let ports: BTreeMap<u128, u128> = ports.collect();
        let has_moved = |(port, leg): &(u16, u16)| {
            let now = ports.get(&u128::from(*leg));
            now.is_some_and(|it| *it != u128::from(*port))
        };
        let groups = self.groups.iter();
        let groups = groups.filter(|(_, members)| members.iter().any(has_moved));
        let without = groups.map(|(group, members)| {
            let rest = members.iter().copied().filter(|it| !has_moved(it));
            (*group, rest.collect())
        });
        without.collect()
    }
}

/// Adds the writes that insert new entries and modify entries that differ. `is_same` gets the old and the new arguments
/// of an entry, and returns whether both belong to the same leg. If so, the entry keeps its counters.
fn put<const K: usize, const A: usize>(
    updates: &mut Vec<Update>,
    table: &Table,
    there: &Entries<K, A>,
    desired: &Entries<K, A>,
    is_same: impl Fn(&[u128; A], &[u128; A]) -> bool,
) {
    for (key, value) in desired {
        let (args, kbps) = value;
        let entry = TableEntry {
            meter_config: kbps.map(meter_of),
            ..table.entry_of(key, args)
        };
        match there.get(key) {
            None => updates.push(insert(of_table(entry))),
            Some(old) if old != value => {
                let (before, _) = old;
                let entry = if is_same(before, args) {
                    entry
                } else {
                    counting_anew(entry)
                };
                updates.push(modify(of_table(entry)));
            }
            Some(_) => {}
        }
    }
}

/// Returns the entry with counters that begin at zero. When an entry is modified without such counters, the switch
/// keeps the counters that the entry has.
fn counting_anew(entry: TableEntry) -> TableEntry {
    let zero = Some(CounterData::default());
    TableEntry {
        counter_data: zero,
        meter_counter_data: entry.meter_config.is_some().then_some(MeterCounterData {
            green: zero,
            yellow: zero,
            red: zero,
        }),
        ..entry
    }
}

/// Adds the writes that delete the entries that `desired` does not have any more.
fn take<const K: usize, const A: usize>(
    updates: &mut Vec<Update>,
    table: &Table,
    there: &Entries<K, A>,
    desired: &Entries<K, A>,
) {
    let gone = there.keys().filter(|key| !desired.contains_key(*key));
    updates.extend(gone.map(|key| delete(of_table(table.key_of(key)))));
}

fn add_entry<const K: usize, const A: usize>(
    entries: &mut Entries<K, A>,
    table: &Table,
    entity: &Entity,
    kbps: Option<u32>,
) {
    if let Some((key, args)) = table.values(entity)
        && let (Ok(key), Ok(args)) = (key.try_into(), args.try_into())
    {
        entries.insert(key, (args, kbps));
    }
}

/// Returns the configuration of a meter (RFC 2698) for a rate. The meter counts bytes, and marks nothing yellow.
fn meter_of(kbps: u32) -> MeterConfig {
    let bytes_per_s = u64::from(kbps) * 125;
    let burst = (bytes_per_s * BURST_MS / 1_000).max(BURST_BYTES_MIN);
    let [rate, burst] = [bytes_per_s, burst].map(|it| i64::try_from(it).unwrap_or(i64::MAX));
    MeterConfig {
        cir: rate,
        cburst: burst,
        pir: rate,
        pburst: burst,
        ..MeterConfig::default()
    }
}

fn kbps_of(config: &MeterConfig) -> u32 {
    u32::try_from(config.pir / 125).unwrap_or(0)
}

/// Returns the key of a socket in table `sockets`.
pub(crate) fn socket_key(binding: &BindingRecord) -> [u128; 4] {
    [
        binding.port.into(),
        number_of(binding.address),
        binding.udp_port.into(),
        mac(binding.mac),
    ]
}

/// Returns an address as the P4 program has it: the IPv4 address a.b.c.d is ::ffff:a.b.c.d.
fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn mac(bytes: [u8; 6]) -> u128 {
    bytes
        .into_iter()
        .fold(0, |value, byte| value << 8 | u128::from(byte))
}
