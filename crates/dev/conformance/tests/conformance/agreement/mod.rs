//! Compares two programs that should behave the same, on two switches with the same entries and
//! packets.

use std::fmt::Write as _;

use bmv2_json::Program as Json;
use conformance::engines::{PORTS, Write, Writer, random_frame};
use dataplane::{
    ActionCall, CounterValue, MatchField, PortId, ProfileMember, Program, Switch, SwitchConfig,
    TableAction, TableEntry, TableInfo, WeightedCall,
};
use fastrand::Rng;

/// Maximum number of frames taken after one packet, since some programs clone and recirculate without end.
const FRAMES_MAX: usize = 1_000;
const ENTRIES_PER_TABLE: usize = 6;
/// Number of cells of each register and counter array that are compared. The corpus's programs use only small indexes.
const CELLS: u64 = 64;

/// A program, and the names of its registers and counters.
pub struct Subject {
    program: Program,
    registers: Vec<String>,
    counters: Vec<String>,
}

/// An entry that names its table and its action, so that it can be added to both programs.
#[derive(Debug, Clone)]
struct Entry {
    table: String,
    action: String,
    args: Vec<Vec<u8>>,
    /// The key and the priority, or `None` for the default action of the table.
    key: Option<(Vec<MatchField>, i32)>,
}

#[derive(Debug, Clone)]
pub struct Case {
    /// Calls that write the multicast groups and clone sessions to which programs may refer.
    groups: Vec<Write>,
    entries: Vec<Entry>,
    pub packets: Vec<(PortId, Vec<u8>)>,
}

impl Subject {
    pub fn new(json: &Json) -> Result<Self, String> {
        // A switch loads a program from JSON text.
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

    /// Runs a case and returns everything observable as lines of text.
    fn outcome(&self, case: &Case) -> Vec<String> {
        let mut switch = Switch::new(SwitchConfig::default());
        switch.set_program(self.program.clone());
        (0..PORTS).for_each(|port| switch.add_port(PortId(port)));
        let mut seen = Vec::new();
        for write in &case.groups {
            seen.push(format!("{write:?}: {}", said(write.apply(&mut switch))));
        }
        for entry in &case.entries {
            seen.push(format!("entry {entry:?}: {}", self.add(&mut switch, entry)));
        }
        for (position, (port, frame)) in case.packets.iter().enumerate() {
            let now = 1_000_000 * position as u64;
            switch.handle_frame(now, *port, frame);
            switch.transmit(now, FRAMES_MAX, &mut |sent| {
                seen.push(format!("packet {position}: {:?}", sent.to_owned()));
            });
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

/// Returns the result of a call as text.
fn said(done: Result<(), dataplane::ControlError>) -> String {
    format!("{:?}", done.map_err(|error| error.kind))
}

impl Case {
    /// Makes groups, clone sessions, entries for every table, and packets that the program's parser accepts.
    pub fn random(seed: u64, subject: &Subject, n_packets: usize) -> Self {
        let program = &subject.program;
        let mut rng = Rng::with_seed(seed);
        let mut writer = Writer::new(program, &mut rng);
        let groups = writer.groups_and_sessions();
        let mut entries = Vec::new();
        for (_, info) in program.tables() {
            if info.is_generated() || info.actions.is_empty() {
                continue;
            }
            let n_entries = if info.key.is_empty() {
                0
            } else {
                writer.rng().usize(..=ENTRIES_PER_TABLE)
            };
            for _ in 0..n_entries {
                entries.push(random_entry(&mut writer, program, info, true));
            }
            if writer.rng().bool() {
                entries.push(random_entry(&mut writer, program, info, false));
            }
        }
        let packets = (0..n_packets).map(|_| {
            let port = PortId(rng.u16(..PORTS));
            (port, random_frame(program.ir(), &mut rng))
        });
        let packets = packets.collect();
        Self {
            groups,
            entries,
            packets,
        }
    }

    /// Leaves out the packets and entries that are not necessary for a difference, and returns the difference that
    /// remains. Returns `None` if the programs do not differ.
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

fn random_entry(
    writer: &mut Writer<'_>,
    program: &Program,
    info: &TableInfo,
    keyed: bool,
) -> Entry {
    let key = keyed.then(|| writer.key(info));
    let call = writer.call(info).unwrap();
    Entry {
        table: info.name.clone(),
        action: program.action_info(call.action).unwrap().name.clone(),
        args: call.args,
        key,
    }
}
