//! The sequencer's P4 program, the entries that a state of the service needs in the switch, and a connection that
//! writes exactly these entries to the switch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aom::wire::LANES;
use p4runtime_client::batches;
use p4runtime_client::bytestring::bytes;
use p4runtime_client::entities::{
    any_multicast_group, delete, insert, modify, multicast_group, of_table,
};
use p4runtime_client::field_match::Match;
use p4runtime_client::objects::{Array, ObjectError, Table};
use p4runtime_client::{Client, ClientError, SwitchAddress};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::{
    Entity, TableEntry, Update, entity, packet_replication_engine_entry::Type as PreType,
};

use crate::operator::Variant;
use crate::state::{Epoch, Group, Mac, Member, Phase, State};

/// The multicast group of `p4/lib/stations.p4` for frames to unknown MACs.
const FLOOD_GROUP: u16 = 0xffff;

/// The switch's program, and the values that all groups share.
#[derive(Debug, Clone)]
pub struct Sequencer {
    p4info: P4Info,
    device_config: Vec<u8>,
    tables: Tables,
    registers: Registers,
    /// The source MAC of packets to receivers.
    own_mac: Mac,
    /// Ports of hosts that are not members: frames to unknown MACs are flooded to these ports too.
    ports: Vec<u16>,
}

#[derive(Debug, Clone)]
struct Tables {
    groups: Table,
    receivers: Table,
    stations: Table,
    of_variant: OfVariant,
}

#[derive(Debug, Clone)]
enum OfVariant {
    Tagged { lane_keys: Table },
    Signed { signers: Table },
}

#[derive(Debug, Clone)]
struct Registers {
    epochs: Array,
    active: Array,
    sequences: Array,
}

#[derive(Debug, thiserror::Error)]
pub enum SequencerError {
    #[error(
        "expected the program of a sequencer, p4/aom_hm.p4, p4/aom_hm_rounds.p4 or p4/aom_pk.p4: {0}"
    )]
    Program(#[from] ObjectError),
    #[error("{0}")]
    Mac(String),
}

impl Sequencer {
    /// Takes a compiled program, the source MAC of packets to receivers, and the ports of hosts that are not members.
    ///
    /// # Errors
    /// If the program is not a sequencer, or the MAC is invalid.
    pub fn new(
        p4info: P4Info,
        device_config: Vec<u8>,
        own_mac: &str,
        ports: Vec<u16>,
    ) -> Result<Sequencer, SequencerError> {
        let find = |name, fields: &[&str], action| Table::find(&p4info, name, fields, action);
        let register =
            |name: &str| Array::register(&p4info, &format!("AomIngress.sequencer.{name}"));
        let lane_keys = find(
            "lane_keys",
            &["group", "epoch", "shard"],
            ("set_keys", 2 * LANES),
        );
        let of_variant = match lane_keys {
            Ok(lane_keys) => OfVariant::Tagged { lane_keys },
            Err(_) => OfVariant::Signed {
                signers: find("signers", &["port", "group"], ("deliver", 1))?,
            },
        };
        Ok(Sequencer {
            tables: Tables {
                groups: find("groups", &["address", "group"], ("set_group", 4))?,
                receivers: find("receivers", &["group", "receiver"], ("set_receiver", 4))?,
                stations: find("stations", &["dst_addr"], ("forward", 1))?,
                of_variant,
            },
            registers: Registers {
                epochs: register("epochs")?,
                active: register("active")?,
                sequences: register("sequences")?,
            },
            own_mac: own_mac.parse().map_err(SequencerError::Mac)?,
            p4info,
            device_config,
            ports,
        })
    }

    /// Checks that the program authenticates packets as the group needs.
    ///
    /// # Errors
    /// If the program does not do this; the error's text says which program to load instead.
    pub(crate) fn check(&self, variant: &Variant) -> Result<(), String> {
        let (program, other) = match (variant, &self.tables.of_variant) {
            (Variant::Tagged, OfVariant::Tagged { .. })
            | (Variant::Signed { .. }, OfVariant::Signed { .. }) => return Ok(()),
            (Variant::Tagged, _) => ("p4/aom_hm.p4", "signed"),
            (Variant::Signed { .. }, _) => ("p4/aom_pk.p4", "tagged"),
        };
        Err(format!(
            "this service's sequencer makes {other} groups: for others start a service with --program {program} for another switch"
        ))
    }

    /// Returns all entries that the switch must have for a state.
    pub(crate) fn entries(&self, state: &State) -> Vec<Entity> {
        let mut entries = Vec::new();
        for group in state.groups.values() {
            if let Some(epoch) = in_the_switch(group) {
                self.entries_of(group, epoch, &mut entries);
            }
        }
        self.add_stations(state, &mut entries);
        entries
    }

    fn entries_of(&self, group: &Group, epoch: &Epoch, entries: &mut Vec<Entity>) {
        let number = u64::from(group.number);
        let [shards, receivers] = multicast_ids(group);
        entries.push(of_table(self.group_entry(group, shards, receivers)));
        let ports = epoch.receivers.iter().map(|it| it.switch_port);
        entries.push(multicast_group(receivers, ports.zip(0..)));
        for (place, receiver) in (0..).zip(&epoch.receivers) {
            let arguments = self.receiver(receiver);
            let entry = self.tables.receivers.entry(&[number, place], &arguments);
            entries.push(of_table(entry));
        }
        match (&self.tables.of_variant, &group.variant) {
            (OfVariant::Signed { signers }, Variant::Signed { signer_port, .. }) => {
                entries.push(multicast_group(shards, [(*signer_port, 0)]));
                let key = [u64::from(*signer_port), number];
                entries.push(of_table(signers.entry(&key, &[u64::from(receivers)])));
            }
            (OfVariant::Tagged { lane_keys }, _) => {
                // The copy that multicast makes for a shard recirculates in egress, so the copy's port does not matter.
                let port = epoch.receivers.first().map_or(0, |it| it.switch_port);
                let of_shards = epoch.keys.chunks(LANES);
                let replicas = (0..).take(of_shards.len()).map(|shard| (port, shard));
                entries.push(multicast_group(shards, replicas));
                for (shard, lanes) in (0..).zip(of_shards) {
                    let key = [number, u64::from(epoch.on_the_wire()), shard];
                    let words = lanes.iter().flat_map(|key| [key.0.k0, key.0.k1]);
                    let words: Vec<u64> = words.map(u64::from).collect();
                    entries.push(of_table(lane_keys.entry(&key, &words)));
                }
            }
            (OfVariant::Signed { .. }, Variant::Tagged) => {}
        }
    }

    /// Makes the entry that matches the group's address, or the group's number if the group has no address.
    fn group_entry(&self, group: &Group, shards: u16, receivers: u16) -> TableEntry {
        let number = u64::from(group.number);
        let arguments = [number, group.slot.into(), shards.into(), receivers.into()];
        let (place, value) = match group.address {
            Some(address) => (0, u64::from(address.to_bits())),
            None => (1, number),
        };
        let mut entry = self.tables.groups.entry(&[0, 0], &arguments);
        let field = entry.r#match.get(place);
        let optional = field.map(|it| Match::Optional(bytes(value)).field(it.field_id));
        entry.r#match = optional.into_iter().collect();
        entry.priority = 1;
        entry
    }

    fn receiver(&self, member: &Member) -> [u64; 4] {
        [
            self.own_mac.to_u64(),
            member.mac.to_u64(),
            member.ip.to_bits().into(),
            member.udp_port.into(),
        ]
    }

    /// Adds the entries that forward frames other than requests: a frame goes to the port of its destination MAC, or to
    /// all known ports if that MAC has no port.
    fn add_stations(&self, state: &State, entries: &mut Vec<Entity>) {
        let members = state.groups.values().flat_map(|group| &group.members);
        let stations: BTreeMap<Mac, u16> = members.map(|it| (it.mac, it.switch_port)).collect();
        let ports = stations.values().chain(&self.ports).copied();
        let ports: BTreeSet<u16> = ports.collect();
        for (mac, port) in &stations {
            let entry = self
                .tables
                .stations
                .entry(&[mac.to_u64()], &[u64::from(*port)]);
            entries.push(of_table(entry));
        }
        if !ports.is_empty() {
            let replicas = ports.into_iter().map(|port| (port, 0));
            entries.push(multicast_group(FLOOD_GROUP, replicas));
        }
    }
}

/// Returns the epoch whose entries the switch must have.
fn in_the_switch(group: &Group) -> Option<&Epoch> {
    match group.phase {
        Phase::Write => group.next.as_ref(),
        _ => group.current.as_ref(),
    }
}

fn multicast_ids(group: &Group) -> [u16; 2] {
    // A slot (the group's cell in the registers) is below 1,024, so these ids are below `FLOOD_GROUP`.
    let first = 1 + 2 * (group.slot as u16);
    [first, first + 1]
}

/// A connection to a switch that has the sequencer's program and only this service's entries. It belongs to one process
/// of the switch, and fails when that process ends.
pub(crate) struct Connection {
    client: Client,
    sequencer: Sequencer,
    cookie: u64,
    instance: u64,
    /// The entries in the switch, as last read or written.
    entries: BTreeMap<Key, Entity>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(
        "expected a switch without a program or with the sequencer's, found another program: use another switch for the sequencer, or replace the program with --replace-program"
    )]
    OtherProgram,
    #[error(
        "the switch has lost its state: it was started anew, or its program was replaced, or something else has written its registers"
    )]
    Lost,
}

impl ConnectionError {
    /// Whether another controller competes for the switch.
    pub(crate) fn is_of_a_rival(&self) -> bool {
        use ClientError::{Busy, NotPrimary, Outbid, Unbeatable};
        let ConnectionError::Client(error) = self else {
            return matches!(self, ConnectionError::OtherProgram);
        };
        matches!(
            error,
            Busy { .. } | NotPrimary { .. } | Outbid { .. } | Unbeatable
        )
    }

    /// Returns the election id of the other controller, if that controller is primary and may still end.
    pub(crate) fn primary(&self) -> Option<u128> {
        match self {
            ConnectionError::Client(ClientError::Busy { election_id, .. }) => Some(*election_id),
            _ => None,
        }
    }

    /// Whether another controller has become primary in this service's place.
    pub(crate) fn is_displaced(&self) -> bool {
        matches!(
            self,
            ConnectionError::Client(ClientError::NotPrimary { .. })
        )
    }

    /// Returns the same error, with the time that the service has waited.
    pub(crate) fn after(self, waited: Duration) -> ConnectionError {
        match self {
            ConnectionError::Client(ClientError::Busy { election_id, .. }) => ClientError::Busy {
                election_id,
                wait_s: waited.as_secs(),
            }
            .into(),
            error => error,
        }
    }
}

/// What a new connection finds in the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The program and the entries are this service's.
    Ours,
    /// The program must be loaded, which discards the switch's state. A restarted switch also needs this: its state
    /// file restores entries, but not the sequence numbers that were assigned after the file was written.
    Nothing,
}

/// Identifies an entry in the switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Table(u32, Vec<(u32, Vec<u8>)>),
    Multicast(u32),
}

impl Connection {
    /// Connects as the switch's primary controller. If there is another primary, this fails, or displaces the other
    /// primary if `takes_over` is set.
    pub(crate) async fn open(
        switch: &SwitchAddress,
        device_id: u64,
        sequencer: &Sequencer,
        known: &State,
        replaces_programs: bool,
        takes_over: bool,
    ) -> Result<(Connection, Found), ConnectionError> {
        let mut client = Client::connect_once(switch, device_id).await?;
        if takes_over {
            client.become_primary().await?
        } else {
            client.await_primary(Duration::ZERO, |_| {}).await?
        }
        let instance = client.instance().await?;
        let found = match client.pipeline(ResponseType::P4infoAndCookie).await {
            Err(ClientError::NoPipeline) => Found::Nothing,
            Err(ClientError::NoP4Info) if replaces_programs => Found::Nothing,
            Err(ClientError::NoP4Info) => return Err(ConnectionError::OtherProgram),
            Err(error) => return Err(error.into()),
            Ok(config) => {
                let is_ours = config.p4info.as_ref() == Some(&sequencer.p4info);
                let has_cookie = config.cookie.map(|it| it.cookie) == Some(known.cookie);
                match has_cookie && instance == known.instance {
                    true if is_ours => Found::Ours,
                    _ if is_ours || replaces_programs => Found::Nothing,
                    _ => return Err(ConnectionError::OtherProgram),
                }
            }
        };
        let connection = Connection {
            client,
            sequencer: sequencer.clone(),
            cookie: known.cookie,
            instance,
            entries: BTreeMap::new(),
        };
        Ok((connection, found))
    }

    /// Returns when the switch reports another primary controller or closes the stream. Cancellation safe.
    pub(crate) async fn lost(&mut self) -> ConnectionError {
        loop {
            if let Err(error) = self.client.next_message().await {
                return error.into();
            }
        }
    }

    /// Returns the random number that identifies the switch's process.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    pub(crate) async fn load(&mut self, cookie: u64) -> Result<(), ConnectionError> {
        let Sequencer {
            p4info,
            device_config,
            ..
        } = self.sequencer.clone();
        self.client
            .set_pipeline_with_cookie(p4info, device_config, cookie)
            .await?;
        self.cookie = cookie;
        self.entries.clear();
        Ok(())
    }

    /// Reads all entries. The switch returns zeros for members' secret keys, so entries with such keys differ from the
    /// wanted entries, and `write_entries` writes them once after each connection.
    pub(crate) async fn read_entries(&mut self) -> Result<(), ConnectionError> {
        let tables = &self.sequencer.tables;
        let mut wanted: Vec<Entity> = [&tables.groups, &tables.receivers, &tables.stations]
            .map(Table::wildcard)
            .into();
        wanted.push(match &tables.of_variant {
            OfVariant::Tagged { lane_keys } => lane_keys.wildcard(),
            OfVariant::Signed { signers } => signers.wildcard(),
        });
        wanted.push(any_multicast_group());
        let found = self.client.read(wanted).await?;
        let found = found.into_iter().filter_map(as_written);
        self.entries = found.collect();
        Ok(())
    }

    /// Returns whether the switch has the state's entries, and the epochs of the state's active groups. If not, another
    /// service with a copy of this state, or with an older state, has written to the switch since.
    pub(crate) async fn is_as_written(&mut self, state: &State) -> Result<bool, ConnectionError> {
        let wanted = self.sequencer.entries(state);
        let wanted: BTreeMap<Key, Entity> = wanted.into_iter().filter_map(as_written).collect();
        let (found, wanted) = (self.readable(&self.entries), self.readable(&wanted));
        if found != wanted {
            return Ok(false);
        }
        let groups = state.groups.values();
        for group in groups.filter(|group| group.phase == Phase::Active) {
            if self.last_number(group).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the entries without members' secret keys, for comparisons: the switch never returns these keys.
    fn readable(&self, entries: &BTreeMap<Key, Entity>) -> BTreeMap<Key, Entity> {
        let secret = match &self.sequencer.tables.of_variant {
            OfVariant::Tagged { lane_keys } => Some(lane_keys.id()),
            OfVariant::Signed { .. } => None,
        };
        let without_keys = |(key, entity): (&Key, &Entity)| {
            let mut entity = entity.clone();
            if let Some(entity::Entity::TableEntry(entry)) = &mut entity.entity
                && secret == Some(entry.table_id)
            {
                entry.action = None;
            }
            (key.clone(), entity)
        };
        entries.iter().map(without_keys).collect()
    }

    /// Writes the updates that turn the switch's entries into the state's entries, so that the switch then has exactly
    /// the state's entries.
    pub(crate) async fn write_entries(&mut self, state: &State) -> Result<(), ConnectionError> {
        let wanted = self.sequencer.entries(state);
        let wanted: BTreeMap<Key, Entity> = wanted.into_iter().filter_map(as_written).collect();
        let updates = difference(&self.entries, &wanted);
        for batch in batches(&updates) {
            self.client.write(batch.to_vec()).await?;
        }
        self.entries = wanted;
        Ok(())
    }

    /// Stops a group. When this function returns, the switch gives no further request of the group a sequence number,
    /// and no request that has one is inside the switch. Returns the last sequence number of the group's epoch, if the
    /// switch still has it.
    pub(crate) async fn stop(&mut self, group: &Group) -> Result<Option<u32>, ConnectionError> {
        self.set_active(group, false).await?;
        self.client.drain().await?;
        self.last_number(group).await
    }

    /// Writes a new epoch's registers. The group must be inactive.
    pub(crate) async fn begin_epoch(
        &mut self,
        group: &Group,
        epoch: &Epoch,
    ) -> Result<(), ConnectionError> {
        let registers = &self.sequencer.registers;
        let updates = vec![
            registers.sequences.write(group.slot, 1),
            registers
                .epochs
                .write(group.slot, epoch.on_the_wire().into()),
        ];
        Ok(self.client.write(updates).await?)
    }

    pub(crate) async fn set_active(
        &mut self,
        group: &Group,
        is_active: bool,
    ) -> Result<(), ConnectionError> {
        let active = &self.sequencer.registers.active;
        let update = active.write(group.slot, u64::from(is_active));
        Ok(self.client.write(vec![update]).await?)
    }

    /// Returns the last sequence number of the group's epoch; `None` if the switch's registers belong to another epoch.
    pub(crate) async fn last_number(
        &mut self,
        group: &Group,
    ) -> Result<Option<u32>, ConnectionError> {
        let Registers {
            epochs, sequences, ..
        } = &self.sequencer.registers;
        let wanted = vec![epochs.cell(group.slot), sequences.cell(group.slot)];
        let found = self.client.read(wanted).await?;
        let value = |of: &Array| {
            let mut values = found.iter().filter_map(|cell| of.cell_value(cell));
            values.next().map(|(_, value)| value)
        };
        let epoch = group.current.as_ref().map(Epoch::on_the_wire);
        let is_of_epoch = epoch.map(u64::from) == value(epochs);
        let next = value(sequences).and_then(|next| u32::try_from(next).ok());
        let next = next.ok_or(ConnectionError::Lost)?;
        // The register wraps to 0 after the last sequence number.
        Ok(is_of_epoch.then(|| next.wrapping_sub(1)))
    }

    /// Checks that the switch is still the same process, with the program that this service loaded.
    pub(crate) async fn check(&mut self) -> Result<(), ConnectionError> {
        let config = self.client.pipeline(ResponseType::CookieOnly).await;
        let config = config.map_err(|error| match error {
            ClientError::NoPipeline => ConnectionError::Lost,
            error => error.into(),
        })?;
        let is_same = self.client.instance().await? == self.instance;
        if is_same && config.cookie.map(|it| it.cookie) == Some(self.cookie) {
            Ok(())
        } else {
            Err(ConnectionError::Lost)
        }
    }
}

/// Returns the entry's key, and the entry without counters and other read-only fields. Returns `None` if this service
/// does not write such entries.
fn as_written(entity: Entity) -> Option<(Key, Entity)> {
    match entity.entity? {
        entity::Entity::TableEntry(entry) if !entry.is_default_action => {
            let mut fields = Vec::new();
            for field in &entry.r#match {
                let (Match::Exact(value) | Match::Optional(value)) = Match::of(field)? else {
                    return None;
                };
                fields.push((field.field_id, value));
            }
            fields.sort();
            let key = Key::Table(entry.table_id, fields);
            let entry = TableEntry {
                table_id: entry.table_id,
                r#match: entry.r#match,
                action: entry.action,
                priority: entry.priority,
                ..TableEntry::default()
            };
            Some((key, of_table(entry)))
        }
        entity::Entity::PacketReplicationEngineEntry(entry) => match entry.r#type.clone()? {
            PreType::MulticastGroupEntry(group) => {
                let key = Key::Multicast(group.multicast_group_id);
                let entity = Some(entity::Entity::PacketReplicationEngineEntry(entry));
                Some((key, Entity { entity }))
            }
            PreType::CloneSessionEntry(_) => None,
        },
        _ => None,
    }
}

/// Returns the updates that turn the entries `has` into the entries `wanted`. Deletions come first, to make room for
/// insertions.
fn difference(has: &BTreeMap<Key, Entity>, wanted: &BTreeMap<Key, Entity>) -> Vec<Update> {
    let gone = has.iter().filter(|(key, _)| !wanted.contains_key(key));
    let mut updates: Vec<Update> = gone.map(|(_, entity)| delete(entity.clone())).collect();
    for (key, entity) in wanted {
        match has.get(key) {
            Some(same) if same == entity => {}
            Some(_) => updates.push(modify(entity.clone())),
            None => updates.push(insert(entity.clone())),
        }
    }
    updates
}
