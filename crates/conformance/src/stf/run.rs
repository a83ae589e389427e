//! Commands to a switch.

use std::collections::{HashMap, VecDeque};

use dataplane::{
    ActionCall, CloneSession, CounterValue, KeyField, MatchField, MatchKind, MulticastGroup,
    PortId, Program, Replica, Switch, SwitchConfig, TableEntry, TableId,
};

use super::parse::{Command, Match, Named};

/// Why a test failed.
#[derive(Debug)]
pub struct Failure {
    /// The line of the command, from 1; 0 for the end of the test.
    pub line: usize,
    /// What was expected and what was found.
    pub message: String,
}

type Done<T = ()> = Result<T, String>;

/// A multicast node: its instance and ports.
type McNode = (u16, Vec<u16>);

struct Runner {
    switch: Switch,
    /// Frames that left and were not expected yet, by port.
    left: HashMap<u16, VecDeque<Vec<u8>>>,
    nodes: Vec<McNode>,
}

/// Ports 0 to so many are there in every test.
const N_PORTS: u16 = 64;

/// Runs a test on a new switch. Every frame that leaves must be expected.
///
/// # Errors
/// The first command that failed.
pub fn run(program: Program, commands: &[(usize, Command)]) -> Result<(), Failure> {
    let mut switch = Switch::new(SwitchConfig::default());
    (0..N_PORTS).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program);
    let mut runner = Runner {
        switch,
        left: HashMap::new(),
        nodes: Vec::new(),
    };
    for (line, command) in commands {
        runner.command(command).map_err(|message| Failure {
            line: *line,
            message,
        })?;
    }
    runner
        .no_packet()
        .map_err(|message| Failure { line: 0, message })
}

/// The one name that is wanted, or the only one that ends with it after a dot.
fn find<'n, T>(kind: &str, wanted: &str, names: impl Iterator<Item = (T, &'n str)>) -> Done<T> {
    let suffix = format!(".{wanted}");
    let mut found = Vec::new();
    for (id, name) in names {
        if name == wanted {
            return Ok(id);
        }
        if name.ends_with(&suffix) {
            found.push(id);
        }
    }
    match found.len() {
        1 => found.pop().ok_or_else(String::new),
        0 => Err(format!("no {kind} \"{wanted}\"")),
        n => Err(format!("{n} {kind}s end with \"{wanted}\"")),
    }
}

impl Runner {
    fn command(&mut self, command: &Command) -> Done {
        match command {
            Command::Add {
                table,
                priority,
                key,
                action,
                args,
            } => self.add(table, *priority, key, action, args),
            Command::SetDefault {
                table,
                action,
                args,
            } => {
                let table = self.table(table)?;
                let call = self.call(table, action, args)?;
                self.switch
                    .set_default_action(table, Some(call))
                    .map_err(|e| e.to_string())
            }
            Command::Packet(port, frame) => {
                self.packet(*port, frame);
                Ok(())
            }
            Command::Expect(port, data) => self.expect(*port, data.as_deref()),
            Command::NoPacket => self.no_packet(),
            Command::Wait => Ok(()),
            Command::RegisterWrite(name, index, value) => {
                let register = self.program()?.register(name);
                let register = register.ok_or_else(|| format!("no register \"{name}\""))?;
                let written = self.switch.set_register_cell(register, *index, value);
                written.map_err(|e| e.to_string())
            }
            Command::RegisterCheck(name, index, value) => self.register_check(name, *index, value),
            Command::CheckCounter {
                counter,
                index,
                bytes,
                value,
            } => self.check_counter(counter, *index, *bytes, *value),
            other => self.traffic(other),
        }
    }

    fn program(&self) -> Done<&Program> {
        self.switch.program().ok_or_else(|| "no program".into())
    }

    fn table(&self, name: &str) -> Done<TableId> {
        find(
            "table",
            name,
            self.program()?
                .tables()
                .map(|(id, info)| (id, info.name.as_str())),
        )
    }

    fn call(&self, table: TableId, name: &str, args: &[Named<Vec<u8>>]) -> Done<ActionCall> {
        let program = self.program()?;
        let ids = program
            .table_info(table)
            .map_or(&[][..], |info| &info.actions);
        let names = ids
            .iter()
            .filter_map(|id| Some((*id, program.action_info(*id)?.name.as_str())));
        let action = find("action", name, names)?;
        let info = program.action_info(action).ok_or("no such action")?;
        let value = |param: &str| {
            let found = args.iter().find(|(name, _)| name == param);
            found
                .map(|(_, value)| value.clone())
                .ok_or_else(|| format!("no argument \"{param}\""))
        };
        let args: Done<Vec<_>> = info.params.iter().map(|param| value(&param.name)).collect();
        Ok(ActionCall {
            action,
            args: args?,
        })
    }

    fn add(
        &mut self,
        table: &str,
        priority: Option<i32>,
        key: &[Named<Match>],
        action: &str,
        args: &[Named<Vec<u8>>],
    ) -> Done {
        let table = self.table(table)?;
        let action = self.call(table, action, args)?;
        let info = self.program()?.table_info(table).ok_or("no such table")?;
        let has_priority = info.has_priority();
        let mut given: Vec<Option<&Match>> = vec![None; info.key.len()];
        for (name, value) in key {
            let fields = info.key.iter().enumerate();
            let index = find(
                "key",
                name,
                fields.map(|(i, field)| (i, field.name.as_str())),
            )?;
            given[index] = Some(value);
        }
        let fields = info.key.iter().zip(given);
        let key: Done<Vec<_>> = fields
            .map(|(field, value)| match_field(field, value))
            .collect();
        let priority = if has_priority {
            priority.unwrap_or(1).max(1)
        } else {
            0
        };
        let entry = TableEntry {
            key: key?,
            priority,
            action,
            is_const: false,
            counter: CounterValue::default(),
        };
        self.switch
            .insert_entry(table, entry)
            .map_err(|e| e.to_string())
    }

    fn packet(&mut self, port: u16, frame: &[u8]) {
        self.switch.handle_frame(0, PortId(port), frame);
        while let Some(transmit) = self.switch.poll_transmit(0) {
            self.left
                .entry(transmit.port.0)
                .or_default()
                .push_back(transmit.frame);
        }
        while let Some(frame) = self.switch.poll_packet_in() {
            let port = self
                .switch
                .config()
                .cpu_port
                .map_or(u16::MAX, |port| port.0);
            self.left.entry(port).or_default().push_back(frame);
        }
    }

    fn expect(&mut self, port: u16, data: Option<&str>) -> Done {
        let frame = self.left.get_mut(&port).and_then(VecDeque::pop_front);
        let frame = frame.ok_or_else(|| format!("expected a frame on port {port}, found none"))?;
        let found: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let Some(data) = data else { return Ok(()) };
        let (digits, is_whole) = match data.strip_suffix('$') {
            Some(digits) => (digits, true),
            None => (data, false),
        };
        let fits = digits
            .chars()
            .zip(found.chars())
            .all(|(wanted, digit)| wanted == '*' || wanted.eq_ignore_ascii_case(&digit));
        let len_fits = if is_whole {
            found.len() == digits.len()
        } else {
            found.len() >= digits.len()
        };
        if fits && len_fits {
            return Ok(());
        }
        Err(format!("port {port}: expected {data}, found {found}"))
    }

    fn no_packet(&mut self) -> Done {
        for (port, frames) in &self.left {
            if let Some(frame) = frames.front() {
                let found: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
                return Err(format!("port {port}: expected no frame, found {found}"));
            }
        }
        Ok(())
    }

    fn register_check(&self, name: &str, index: u64, value: &[u8]) -> Done {
        let register = self.program()?.register(name);
        let register = register.ok_or_else(|| format!("no register \"{name}\""))?;
        let found = self
            .switch
            .register_cell(register, index)
            .map_err(|e| e.to_string())?;
        let zeros = value.iter().take_while(|byte| **byte == 0).count();
        let wanted = if zeros == value.len() {
            &[0][..]
        } else {
            &value[zeros..]
        };
        if found == wanted {
            return Ok(());
        }
        Err(format!(
            "register \"{name}\"[{index}]: expected {wanted:02x?}, found {found:02x?}"
        ))
    }

    fn check_counter(&self, name: &str, index: u64, bytes: bool, value: u64) -> Done {
        let counter = self.program()?.counter(name);
        let counter = counter.ok_or_else(|| format!("no counter \"{name}\""))?;
        let cell = self
            .switch
            .counter_cell(counter, index)
            .map_err(|e| e.to_string())?;
        let found = if bytes { cell.bytes } else { cell.packets };
        if found == value {
            return Ok(());
        }
        Err(format!(
            "counter \"{name}\"[{index}]: expected {value}, found {found}"
        ))
    }

    fn traffic(&mut self, command: &Command) -> Done {
        let replica = |port: u16, instance: u16| Replica {
            port: PortId(port),
            instance,
        };
        let done = match command {
            Command::Group(id, replicas) => {
                let replicas = replicas
                    .iter()
                    .map(|(port, rid)| replica(*port, *rid))
                    .collect();
                self.switch
                    .insert_multicast_group(MulticastGroup { id: *id, replicas })
            }
            Command::GroupCreate(id) => self.switch.insert_multicast_group(MulticastGroup {
                id: *id,
                replicas: Vec::new(),
            }),
            Command::NodeCreate(rid, ports) => {
                self.nodes.push((*rid, ports.clone()));
                Ok(())
            }
            Command::NodeAssociate(id, node) => {
                let (rid, ports) = self.nodes.get(*node).ok_or("no such node")?.clone();
                let mut group = self.group(*id)?;
                group
                    .replicas
                    .extend(ports.iter().map(|port| replica(*port, rid)));
                self.switch.modify_multicast_group(group)
            }
            Command::Mirror(id, port) => self.mirror(*id, vec![replica(*port, 0)]),
            Command::MirrorGroup(id, group) => {
                let replicas = self.group(*group)?.replicas;
                self.mirror(*id, replicas)
            }
            other => return Err(format!("cannot run {other:?}")),
        };
        done.map_err(|e| e.to_string())
    }

    fn group(&self, id: u32) -> Done<MulticastGroup> {
        let groups = self.switch.multicast_groups();
        groups
            .into_iter()
            .find(|group| group.id == id)
            .ok_or_else(|| format!("no group {id}"))
    }

    fn mirror(&mut self, id: u32, replicas: Vec<Replica>) -> Result<(), dataplane::ControlError> {
        self.switch.insert_clone_session(CloneSession {
            id,
            replicas,
            truncate_bytes: None,
            class_of_service: 0,
        })
    }
}

/// A key field of the table's kind; one that is left out matches everything.
fn match_field(field: &KeyField, given: Option<&Match>) -> Done<MatchField> {
    let ones = || {
        let mut bytes = vec![0xff; field.width_bits.div_ceil(8) as usize];
        if let (Some(first), rest @ 1..) = (bytes.first_mut(), field.width_bits % 8) {
            *first = (1 << rest) - 1;
        }
        bytes
    };
    let pair = |value: &Vec<u8>| value.clone();
    Ok(match (field.kind, given) {
        (MatchKind::Exact, Some(Match::Value(value))) => MatchField::Exact(pair(value)),
        (MatchKind::Lpm, Some(Match::Value(value))) => MatchField::Lpm {
            value: pair(value),
            prefix_len: field.width_bits,
        },
        (MatchKind::Lpm, Some(Match::Prefix(value, len))) => MatchField::Lpm {
            value: pair(value),
            prefix_len: *len,
        },
        (MatchKind::Lpm, None) => MatchField::Lpm {
            value: vec![0],
            prefix_len: 0,
        },
        (MatchKind::Ternary, Some(Match::Value(value))) => MatchField::Ternary {
            value: pair(value),
            mask: ones(),
        },
        (MatchKind::Ternary, Some(Match::Mask(value, mask))) => MatchField::Ternary {
            value: pair(value),
            mask: pair(mask),
        },
        (MatchKind::Ternary, None) => MatchField::Ternary {
            value: vec![0],
            mask: vec![0],
        },
        (MatchKind::Range, Some(Match::Range(low, high))) => MatchField::Range {
            low: pair(low),
            high: pair(high),
        },
        (MatchKind::Range, Some(Match::Value(value))) => MatchField::Range {
            low: pair(value),
            high: pair(value),
        },
        (MatchKind::Range, None) => MatchField::Range {
            low: vec![0],
            high: ones(),
        },
        (MatchKind::Optional, Some(Match::Value(value))) => MatchField::Optional(Some(pair(value))),
        (MatchKind::Optional, None) => MatchField::Optional(None),
        (kind, given) => {
            return Err(format!(
                "key \"{}\" of kind {kind:?}: found {given:?}",
                field.name
            ));
        }
    })
}
