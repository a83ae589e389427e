//! Compares two programs that should behave the same, on two switches with the same entries and
//! packets.

use std::fmt::Write as _;

use bmv2_json::Program as Json;
use dataplane::{
    ActionCall, CloneSession, CounterValue, KeyField, MatchField, MatchKind, MulticastGroup,
    PortId, ProfileMember, Program, Replica, Switch, SwitchConfig, TableAction, TableEntry,
    TableId, WeightedCall,
};
use fastrand::Rng;

const PORTS: u16 = 8;
const ENTRIES_PER_TABLE: usize = 6;
/// Number of cells to compare in each array; indexes in the corpus are small.
const CELLS: u64 = 64;

/// A program and the names of its arrays.
pub struct Subject {
    program: Program,
    registers: Vec<String>,
    counters: Vec<String>,
}

/// An entry by names, so that both programs accept it.
#[derive(Debug, Clone)]
struct Entry {
    table: String,
    action: String,
    args: Vec<Vec<u8>>,
    /// `None` for the default action.
    key: Option<(Vec<MatchField>, i32)>,
}

#[derive(Debug, Clone)]
pub struct Case {
    entries: Vec<Entry>,
    pub packets: Vec<(PortId, Vec<u8>)>,
}

impl Subject {
    pub fn new(json: &Json) -> Result<Self, String> {
        // As text, because a switch gets text.
        let text = serde_json::to_string(json).map_err(|error| error.to_string())?;
        let program = Program::from_json_str(&text).map_err(|error| error.to_string())?;
        let counters = json.counter_arrays.iter().filter(|it| !it.is_direct);
        Ok(Self {
            program,
            registers: json
                .register_arrays
                .iter()
                .map(|it| it.name.clone())
                .collect(),
            counters: counters.map(|it| it.name.clone()).collect(),
        })
    }

    /// Everything observable, as text.
    fn outcome(&self, case: &Case) -> Vec<String> {
        let mut switch = Switch::new(SwitchConfig::default());
        switch.set_program(self.program.clone());
        (0..PORTS).for_each(|port| switch.add_port(PortId(port)));
        copies(&mut switch);
        let mut seen = Vec::new();
        for entry in &case.entries {
            seen.push(format!("entry {entry:?}: {}", self.add(&mut switch, entry)));
        }
        for (position, (port, frame)) in case.packets.iter().enumerate() {
            let now = 1_000_000 * position as u64;
            switch.handle_frame(now, *port, frame);
            while let Some(sent) = switch.poll_transmit(now) {
                let sent = sent.to_owned();
                seen.push(format!("packet {position}: {sent:?}"));
            }
            while let Some(frame) = switch.poll_packet_in() {
                seen.push(format!("packet {position}: packet-in {frame:02x?}"));
            }
            while let Some(digest) = switch.poll_digest() {
                seen.push(format!("packet {position}: {digest:?}"));
            }
            let drops = switch.counters().drops().filter(|(_, count)| *count > 0);
            seen.push(format!(
                "packet {position}: drops {:?}",
                drops.collect::<Vec<_>>()
            ));
        }
        self.state(&switch, &mut seen);
        seen
    }

    fn state(&self, switch: &Switch, seen: &mut Vec<String>) {
        let ports: Vec<_> = switch.counters().ports().collect();
        seen.push(format!("ports {ports:?}"));
        for (id, info) in self
            .program
            .tables()
            .filter(|(_, info)| !info.is_generated())
        {
            let counted = switch.counters().table(id);
            let counters: Vec<CounterValue> = switch
                .entries(id)
                .iter()
                .map(|entry| entry.counter)
                .collect();
            seen.push(format!("table {}: {counted:?} {counters:?}", info.name));
        }
        for name in &self.registers {
            let id = self.program.register(name).unwrap();
            let cells = (0..switch.register_size(id).min(CELLS))
                .map(|index| switch.register_cell(id, index).unwrap());
            seen.push(format!("register {name}: {:x?}", cells.collect::<Vec<_>>()));
        }
        for name in &self.counters {
            let id = self.program.counter(name).unwrap();
            let cells = (0..switch.counter_size(id).min(CELLS))
                .map(|index| switch.counter_cell(id, index).unwrap());
            seen.push(format!("counter {name}: {:?}", cells.collect::<Vec<_>>()));
        }
    }

    /// Adds an entry and returns the switch's result.
    fn add(&self, switch: &mut Switch, entry: &Entry) -> String {
        let Some(table) = self.program.table(&entry.table) else {
            return "no such table".to_owned();
        };
        let Some(action) = self.program.action_of(table, &entry.action) else {
            return "no such action".to_owned();
        };
        let call = ActionCall {
            action,
            args: entry.args.clone(),
        };
        let info = self.program.table_info(table).unwrap();
        let (priority, action) = match (&entry.key, info.action_profile) {
            (None, _) => return said(switch.set_default_action(table, Some(call.into()))),
            (Some(key), None) => (key.1, call.into()),
            (Some(key), Some(_)) if info.has_selector => {
                let weighted = WeightedCall {
                    call,
                    weight: 1,
                    watch: None,
                };
                (key.1, TableAction::OneShot(vec![weighted]))
            }
            (Some(key), Some(profile)) => {
                // The id is derived from the entry's arguments, so it is the same on both switches.
                let id = entry
                    .args
                    .iter()
                    .flatten()
                    .map(|byte| u32::from(*byte))
                    .sum();
                let member = ProfileMember { id, action: call };
                // If a member with this id exists, the entry uses it.
                let _ = switch.insert_member(profile, member);
                (key.1, TableAction::Member(id))
            }
        };
        let key = entry
            .key
            .as_ref()
            .map_or_else(Vec::new, |key| key.0.clone());
        said(switch.insert_entry(table, TableEntry::new(key, priority, action)))
    }
}

/// The result of a call as text.
fn said(done: Result<(), dataplane::ControlError>) -> String {
    format!("{:?}", done.map_err(|error| error.kind))
}

/// Creates sessions and groups that programs may refer to.
fn copies(switch: &mut Switch) {
    for id in (1..=8).chain([100]) {
        let replica = |at: u32| Replica {
            port: PortId(((id + at) % u32::from(PORTS)) as u16),
            instance: at as u16 + 1,
        };
        let replicas: Vec<Replica> = (0..1 + id % 3).map(replica).collect();
        let group = MulticastGroup {
            id,
            replicas: replicas.clone(),
            backups: Vec::new(),
        };
        switch.insert_multicast_group(group).unwrap();
        let session = CloneSession {
            id,
            replicas,
            truncate_bytes: (id == 3).then_some(20),
            class_of_service: 0,
        };
        switch.insert_clone_session(session).unwrap();
    }
}

impl Case {
    /// Entries for every table, and packets with the values that the parser looks for.
    pub fn random(seed: u64, json: &Json, subject: &Subject, n_packets: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut entries = Vec::new();
        for (id, info) in subject.program.tables() {
            if info.is_generated() || info.actions.is_empty() {
                continue;
            }
            let n_entries = match info.key.is_empty() {
                true => 0,
                false => rng.usize(..=ENTRIES_PER_TABLE),
            };
            for _ in 0..n_entries {
                entries.push(random_entry(&mut rng, subject, id, true));
            }
            if rng.bool() {
                entries.push(random_entry(&mut rng, subject, id, false));
            }
        }
        let known = values(json);
        let packets = (0..n_packets)
            .map(|_| (PortId(rng.u16(..PORTS)), random_frame(&mut rng, &known)))
            .collect();
        Self { entries, packets }
    }

    /// The difference with the fewest packets and entries; `None` if there is none.
    pub fn shrunk(&self, plain: &Subject, other: &Subject) -> Option<String> {
        self.difference(plain, other)?;
        let mut least = self.clone();
        for at in (0..self.packets.len()).rev() {
            let mut smaller = least.clone();
            smaller.packets.remove(at);
            if smaller.difference(plain, other).is_some() {
                least = smaller;
            }
        }
        for at in (0..self.entries.len()).rev() {
            let mut smaller = least.clone();
            smaller.entries.remove(at);
            if smaller.difference(plain, other).is_some() {
                least = smaller;
            }
        }
        let (wanted, found) = least.difference(plain, other)?;
        let mut text = format!("unoptimised: {wanted}\noptimised:   {found}\n");
        for entry in &least.entries {
            writeln!(text, "with {entry:?}").unwrap();
        }
        for (port, frame) in &least.packets {
            let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "packet {} {hex}", port.0).unwrap();
        }
        Some(text)
    }

    fn difference(&self, plain: &Subject, other: &Subject) -> Option<(String, String)> {
        let (wanted, found) = (plain.outcome(self), other.outcome(self));
        let length = wanted.len().max(found.len());
        let nothing = || "nothing more".to_owned();
        (0..length)
            .map(|at| {
                (
                    wanted.get(at).cloned().unwrap_or_else(nothing),
                    found.get(at).cloned().unwrap_or_else(nothing),
                )
            })
            .find(|(wanted, found)| wanted != found)
    }
}

/// Random bytes of a width, often from few values, so that keys and fields match.
fn random_value(rng: &mut Rng, bits: u32) -> Vec<u8> {
    let length = bits.div_ceil(8) as usize;
    let mut bytes = vec![0; length];
    match rng.u8(..4) {
        0 => bytes.fill_with(|| rng.u8(..)),
        1 => bytes.fill(0xff),
        _ => {
            if let Some(last) = bytes.last_mut() {
                *last = rng.u8(..8);
            }
        }
    }
    if let Some(first) = bytes.first_mut()
        && !bits.is_multiple_of(8)
    {
        *first &= (1 << (bits % 8)) - 1;
    }
    bytes
}

fn masked(value: Vec<u8>, mask: &[u8]) -> Vec<u8> {
    value.iter().zip(mask).map(|(a, b)| a & b).collect()
}

fn random_match(rng: &mut Rng, field: &KeyField) -> MatchField {
    let bits = field.width_bits;
    let value = random_value(rng, bits);
    match field.kind {
        MatchKind::Exact => MatchField::Exact(value),
        MatchKind::Lpm => {
            let prefix_len = rng.u32(..=bits);
            let mut mask = vec![0_u8; value.len()];
            let unused = value.len() * 8 - bits as usize;
            for bit in unused..unused + prefix_len as usize {
                mask[bit / 8] |= 0x80 >> (bit % 8);
            }
            MatchField::Lpm {
                value: masked(value, &mask),
                prefix_len,
            }
        }
        MatchKind::Ternary => {
            let mask = random_value(rng, bits);
            MatchField::Ternary {
                value: masked(value, &mask),
                mask,
            }
        }
        MatchKind::Range => {
            let other = random_value(rng, bits);
            let (low, high) = match field.is_ascending(&value, &other) {
                true => (value, other),
                false => (other, value),
            };
            MatchField::Range { low, high }
        }
        MatchKind::Optional => MatchField::Optional(rng.bool().then_some(value)),
    }
}

fn random_entry(rng: &mut Rng, subject: &Subject, table: TableId, keyed: bool) -> Entry {
    let info = subject.program.table_info(table).unwrap();
    let action = info.actions[rng.usize(..info.actions.len())];
    let action = subject.program.action_info(action).unwrap();
    let args = action
        .params
        .iter()
        .map(|param| random_value(rng, param.width_bits))
        .collect();
    let key = keyed.then(|| {
        let key = info.key.iter().map(|field| random_match(rng, field));
        let key = key.collect();
        let priority = if info.has_priority() {
            rng.i32(1..9)
        } else {
            0
        };
        (key, priority)
    });
    Entry {
        table: info.name.clone(),
        action: action.name.clone(),
        args,
        key,
    }
}

/// The values that the parser's transitions look for.
fn values(json: &Json) -> Vec<Vec<u8>> {
    let states = json.parsers.iter().flat_map(|it| &it.parse_states);
    let texts = states
        .flat_map(|state| &state.transitions)
        .filter_map(|arrow| arrow.value.as_deref()?.strip_prefix("0x"));
    let bytes = |text: &str| {
        let text = format!(
            "{}{text}",
            if text.len().is_multiple_of(2) {
                ""
            } else {
                "0"
            }
        );
        (0..text.len())
            .step_by(2)
            .filter_map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
            .collect()
    };
    texts.map(bytes).collect()
}

fn random_frame(rng: &mut Rng, known: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = match rng.u8(..3) {
        0 => conformance::packet::presenter_frame(rng.u8(..), &[7; 24]),
        _ => vec![0; rng.usize(..120)],
    };
    let length = frame.len();
    if length > 0 {
        for _ in 0..rng.usize(..length) {
            let value = if rng.bool() { rng.u8(..) } else { rng.u8(..10) };
            frame[rng.usize(..length.min(48))] = value;
        }
    }
    for _ in 0..rng.usize(..4) {
        if known.is_empty() {
            break;
        }
        let value = &known[rng.usize(..known.len())];
        // Mostly where headers begin and type fields are.
        let at = rng.usize(..40.min(length.max(1)));
        if at + value.len() <= length {
            frame[at..at + value.len()].copy_from_slice(value);
        }
    }
    frame
}
