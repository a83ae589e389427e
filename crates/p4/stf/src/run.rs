//! Executes the commands of a test on a switch.

mod externs;

use std::collections::{HashMap, VecDeque};

use data_encoding::HEXLOWER;
use dataplane::{
    ActionCall, CloneSession, CounterId, CounterValue, Digest, MatchField, MulticastGroup, Nanos,
    PortId, Program, RegisterId, Replica, Switch, SwitchConfig, TableEntry, TableId, TraceSink,
};

use crate::{
    command::{Command, Comparison, Counted, Match, Named},
    frames::{Failure, Frames},
    key::match_field,
    names::{find, key_field},
};

/// Every test has ports 0 to `N_PORTS` - 1, and the ports that its commands name.
const N_PORTS: u16 = 64;
const MS: Nanos = 1_000_000;

type Done<T = ()> = Result<T, String>;

type McNode = (u16, Vec<u16>);

/// Table, key and priority of an entry that has an ID.
type EntryOf = (TableId, Vec<MatchField>, i32);

#[derive(Debug)]
pub struct Outcome {
    /// Empty if the test passed.
    pub failures: Vec<Failure>,
    pub n_packets: usize,
    pub n_expected: usize,
    /// Line of a command that could not be executed and so ended the test.
    pub stopped_at: Option<usize>,
}

/// How frames reach the switch and leave it. By default, the methods call the switch directly.
pub trait Wire {
    fn give(&mut self, switch: &mut Switch, now: Nanos, port: PortId, frame: &[u8]) {
        switch.handle_frame(now, port, frame);
    }

    /// Takes the frames that the switch has sent since the last call; the frames of each port are in order.
    fn take(&mut self, switch: &mut Switch, now: Nanos) -> Vec<(PortId, Vec<u8>)> {
        let mut left = Vec::new();
        while let Some(transmit) = switch.poll_transmit(now) {
            let sent = transmit.to_owned();
            left.push((sent.port, sent.frame));
        }
        left
    }
}

struct Calls;

impl Wire for Calls {}

struct Runner<'w> {
    switch: Switch,
    wire: &'w mut dyn Wire,
    now: Nanos,
    frames: Frames,
    nodes: Vec<McNode>,
    entries: HashMap<String, EntryOf>,
    digests: VecDeque<Digest>,
}

/// Runs a test on a new switch. Every frame that the switch sends must be expected. A command that
/// cannot be executed ends the test.
pub fn run(
    program: Program,
    commands: &[(usize, Command)],
    trace: Option<Box<dyn TraceSink>>,
) -> Outcome {
    run_and_keep(program, commands, trace).0
}

/// Like [`run`], and returns the switch with its final state.
pub fn run_and_keep(
    program: Program,
    commands: &[(usize, Command)],
    trace: Option<Box<dyn TraceSink>>,
) -> (Outcome, Switch) {
    run_on(
        Switch::new(SwitchConfig::default()),
        program,
        commands,
        trace,
    )
}

/// Like [`run_and_keep`], on a given new switch, for example with another engine.
pub fn run_on(
    switch: Switch,
    program: Program,
    commands: &[(usize, Command)],
    trace: Option<Box<dyn TraceSink>>,
) -> (Outcome, Switch) {
    run_over(&mut Calls, switch, program, commands, trace)
}

/// Like [`run_on`], with frames that pass through a wire.
pub fn run_over(
    wire: &mut dyn Wire,
    mut switch: Switch,
    program: Program,
    commands: &[(usize, Command)],
    trace: Option<Box<dyn TraceSink>>,
) -> (Outcome, Switch) {
    let named = commands.iter().filter_map(|(_, command)| match command {
        Command::Packet(port, _) | Command::Expect(port, _) => Some(*port),
        _ => None,
    });
    for port in (0..N_PORTS).chain(named) {
        switch.add_port(PortId(port));
    }
    switch.set_program(program);
    switch.set_trace(trace);
    let mut runner = Runner {
        switch,
        wire,
        now: 0,
        frames: Frames::default(),
        nodes: Vec::new(),
        entries: HashMap::new(),
        digests: VecDeque::new(),
    };
    let count = |is_it: fn(&Command) -> bool| commands.iter().filter(|(_, c)| is_it(c)).count();
    let mut broken = None;
    for (line, command) in commands {
        if let Err(message) = runner.command(*line, command) {
            broken = Some(Failure::new(*line, message));
            break;
        }
    }
    runner.switch.set_trace(None);
    let is_broken = broken.is_some();
    let mut failures = if is_broken {
        runner.frames.failures
    } else {
        let drops = drops(&runner.switch);
        runner.frames.finish(|_| drops.clone())
    };
    let stopped_at = broken.as_ref().map(|failure| failure.line);
    failures.extend(broken);
    // Sorts the failures by line; failures at the end of the test (line 0) come last.
    failures.sort_by_key(|failure| failure.line.wrapping_sub(1));
    let outcome = Outcome {
        failures,
        stopped_at,
        n_packets: count(|command| matches!(command, Command::Packet(..))),
        n_expected: count(|command| matches!(command, Command::Expect(..))),
    };
    (outcome, runner.switch)
}

/// Formats the drop counters for the message about a missing frame.
fn drops(switch: &Switch) -> String {
    let drops: Vec<String> = switch
        .counters()
        .drops()
        .filter(|(_, n)| *n > 0)
        .map(|(reason, n)| format!("{reason} {n}"))
        .collect();
    if drops.is_empty() {
        String::new()
    } else {
        format!(" (dropped in the whole test: {})", drops.join(", "))
    }
}

impl Runner<'_> {
    fn command(&mut self, line: usize, command: &Command) -> Done {
        match command {
            Command::Add { id, .. } => {
                let (table, entry) = self.entry(command)?;
                if let Some(id) = id {
                    let named = (table, entry.key.clone(), entry.priority);
                    self.entries.insert(id.clone(), named);
                }
                self.switch.insert_entry(table, entry).map_err(text)
            }
            Command::SetDefault {
                table,
                action,
                args,
            } => {
                let table = self.table(table)?;
                let call = self.call(table, action, args)?;
                let set = self.switch.set_default_action(table, Some(call.into()));
                set.map_err(text)
            }
            Command::RemoveAll => self.remove_all(),
            Command::Packet(port, frame) => {
                self.packet(line, *port, frame);
                Ok(())
            }
            Command::Expect(port, expected) => {
                self.frames.expect(line, *port, expected.clone());
                Ok(())
            }
            Command::ExpectDigest(name, values) => {
                self.expect_digest(line, name, values.as_deref())
            }
            Command::NoDigest => {
                self.expect_no_digest(line);
                Ok(())
            }
            Command::NoPacket => {
                self.frames.expect_none(line);
                Ok(())
            }
            Command::Wait(ms) => {
                self.now += ms * MS;
                self.switch.handle_timeout(self.now);
                self.collect(line);
                Ok(())
            }
            other => self.state(line, other),
        }
    }

    /// Records a failed check; the test continues.
    fn fail(&mut self, line: usize, message: String) {
        self.frames.failures.push(Failure::new(line, message));
    }

    fn program(&self) -> Done<&Program> {
        self.switch.program().ok_or_else(|| "no program".into())
    }

    fn table(&self, name: &str) -> Done<TableId> {
        let tables = self.program()?.tables();
        find(
            "table",
            name,
            tables.map(|(id, info)| (id, info.name.as_str())),
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
        let is_param = |name: &str| info.params.iter().any(|param| param.name == name);
        if let Some((unknown, _)) = args.iter().find(|(name, _)| !is_param(name)) {
            let names = info.params.iter().map(|param| ((), param.name.as_str()));
            let message = find("parameter", unknown, names).err();
            return Err(format!(
                "action \"{}\": {}",
                info.name,
                message.unwrap_or_else(|| format!("no parameter \"{unknown}\""))
            ));
        }
        let value = |param: &str| {
            let found = args.iter().find(|(name, _)| name == param);
            found
                .map(|(_, value)| value.clone())
                .ok_or_else(|| format!("action \"{}\": no argument \"{param}\"", info.name))
        };
        let args: Done<Vec<_>> = info.params.iter().map(|param| value(&param.name)).collect();
        Ok(ActionCall {
            action,
            args: args?,
        })
    }

    fn entry(&self, command: &Command) -> Done<(TableId, TableEntry)> {
        let Command::Add {
            table,
            priority,
            key,
            action,
            args,
            ..
        } = command
        else {
            return Err("not an entry".into());
        };
        let table = self.table(table)?;
        let action = self.entry_action(table, action, args)?;
        let info = self.program()?.table_info(table).ok_or("no such table")?;
        let mut given: Vec<Option<&Match>> = vec![None; info.key.len()];
        for (name, value) in key {
            given[key_field(name, &info.key)?] = Some(value);
        }
        let fields = info.key.iter().zip(given);
        let key: Done<Vec<_>> = fields
            .map(|(field, value)| match_field(field, value))
            .collect();
        // STF priorities begin at 0, the switch's at 1.
        let priority = if info.has_priority() {
            priority.unwrap_or(0) + 1
        } else {
            0
        };
        Ok((table, TableEntry::new(key?, priority, action)))
    }

    fn remove_all(&mut self) -> Done {
        let tables: Vec<TableId> = self.program()?.tables().map(|(id, _)| id).collect();
        for table in tables {
            for entry in self.switch.entries(table) {
                if !entry.is_const {
                    let deleted = self.switch.delete_entry(table, &entry.key, entry.priority);
                    deleted.map_err(text)?;
                }
            }
        }
        Ok(())
    }

    fn packet(&mut self, line: usize, port: u16, frame: &[u8]) {
        let Runner { wire, switch, .. } = self;
        wire.give(switch, self.now, PortId(port), frame);
        self.collect(line);
    }

    /// Takes frames and digests from the switch.
    fn collect(&mut self, line: usize) {
        for (port, frame) in self.wire.take(&mut self.switch, self.now) {
            self.frames.left(line, port.0, frame);
        }
        while let Some(digest) = self.switch.poll_digest() {
            self.digests.push_back(digest);
        }
        while let Some(frame) = self.switch.poll_packet_in() {
            let cpu_port = self.switch.config().cpu_port;
            let port = cpu_port.map_or(u16::MAX, |port| port.0);
            self.frames.left(line, port, frame);
        }
    }

    fn register(&self, name: &str) -> Done<RegisterId> {
        find("register", name, self.program()?.registers())
    }

    fn counter(&self, name: &str) -> Done<CounterId> {
        find("counter", name, self.program()?.counters())
    }

    fn state(&mut self, line: usize, command: &Command) -> Done {
        match command {
            Command::RegisterWrite(name, index, value) => {
                let register = self.register(name)?;
                let written = self.switch.set_register_cell(register, *index, value);
                written.map_err(text)
            }
            Command::RegisterReset(name) => {
                let register = self.register(name)?;
                for index in 0..self.switch.register_size(register) {
                    let written = self.switch.set_register_cell(register, index, &[0]);
                    written.map_err(text)?;
                }
                Ok(())
            }
            Command::RegisterRead(name, index) => {
                let cell = self.switch.register_cell(self.register(name)?, *index);
                cell.map(|_| ()).map_err(text)
            }
            Command::RegisterCheck(name, index, value) => {
                let wrong = self.register_check(name, *index, value)?;
                wrong.into_iter().for_each(|wrong| self.fail(line, wrong));
                Ok(())
            }
            Command::CounterWrite(name, index, packets, bytes) => {
                let counter = self.counter(name)?;
                let (packets, bytes) = (*packets, *bytes);
                let value = CounterValue { packets, bytes };
                let written = self.switch.set_counter_cell(counter, *index, value);
                written.map_err(text)
            }
            Command::CounterRead(name, index) => {
                let cell = self.switch.counter_cell(self.counter(name)?, *index);
                cell.map(|_| ()).map_err(text)
            }
            Command::CheckCounter {
                counter,
                index,
                counted,
                comparison,
                value,
            } => {
                let found = self.counted(counter, index)?;
                let wrong = check_count(counter, index, *counted, *comparison, *value, found);
                wrong.into_iter().for_each(|wrong| self.fail(line, wrong));
                Ok(())
            }
            other => match self.externs(other) {
                Some(done) => done,
                None => self.traffic(other),
            },
        }
    }

    fn register_check(&self, name: &str, index: u64, value: &[u8]) -> Done<Option<String>> {
        let cell = self.switch.register_cell(self.register(name)?, index);
        let found = cell.map_err(text)?;
        let zeros = value.iter().take_while(|byte| **byte == 0).count();
        let wanted = if zeros == value.len() {
            &[0][..]
        } else {
            &value[zeros..]
        };
        Ok((found != wanted).then(|| {
            let (wanted, found) = (HEXLOWER.encode(wanted), HEXLOWER.encode(&found));
            format!("register \"{name}\"[{index}]: expected 0x{wanted}, found 0x{found}")
        }))
    }

    /// The value of a counter cell, or of the direct counter of an entry with an ID.
    fn counted(&self, name: &str, index: &str) -> Done<CounterValue> {
        let found = match self.entries.get(index) {
            Some((table, key, priority)) => self.switch.direct_counter(*table, key, *priority),
            None => {
                let index = crate::number::int(index)?;
                self.switch.counter_cell(self.counter(name)?, index)
            }
        };
        found.map_err(text)
    }

    fn traffic(&mut self, command: &Command) -> Done {
        let done = match command {
            Command::Group(id, replicas) => {
                let replicas = replicas.iter();
                let replicas = replicas.map(|(port, rid)| replica(*port, *rid)).collect();
                let group = MulticastGroup {
                    id: *id,
                    replicas,
                    backups: Vec::new(),
                };
                self.switch.insert_multicast_group(group)
            }
            Command::GroupCreate(id) => self.switch.insert_multicast_group(MulticastGroup {
                id: *id,
                replicas: Vec::new(),
                backups: Vec::new(),
            }),
            Command::NodeCreate(rid, ports) => {
                self.nodes.push((*rid, ports.clone()));
                Ok(())
            }
            Command::NodeUpdate(node, ports) => return self.node_update(*node, ports),
            Command::NodeAssociate(id, node) => {
                let (rid, ports) = self.node(*node)?.clone();
                let mut group = self.group(*id)?;
                let replicas = ports.iter().map(|port| replica(*port, rid));
                group.replicas.extend(replicas);
                self.switch.modify_multicast_group(group)
            }
            Command::Mirror(id, port) => self.mirror(*id, vec![replica(*port, 0)]),
            Command::MirrorGroup(id, group) => {
                let replicas = self.group(*group)?.replicas;
                self.mirror(*id, replicas)
            }
            Command::MirrorDelete(id) => self.switch.delete_clone_session(*id),
            Command::MirrorGet(id) => {
                let sessions = self.switch.clone_sessions();
                let found = sessions.iter().any(|session| session.id == *id);
                return found.then_some(()).ok_or(format!("no session {id}"));
            }
            _ => return Err("the runner does not know this command".to_owned()),
        };
        done.map_err(text)
    }

    fn node(&self, node: usize) -> Done<&McNode> {
        let n_nodes = self.nodes.len();
        let known = self.nodes.get(node);
        known.ok_or_else(|| format!("no node {node}: there are {n_nodes}, numbered from 0"))
    }

    /// Replaces a node's replicas in every group.
    fn node_update(&mut self, node: usize, ports: &[u16]) -> Done {
        let (rid, before) = self.node(node)?.clone();
        for mut group in self.switch.multicast_groups() {
            let is_old = |at: &Replica| at.instance == rid && before.contains(&at.port.0);
            if group.replicas.iter().any(is_old) {
                group.replicas.retain(|at| !is_old(at));
                let new = ports.iter().map(|port| replica(*port, rid));
                group.replicas.extend(new);
                self.switch.modify_multicast_group(group).map_err(text)?;
            }
        }
        self.nodes[node].1 = ports.to_vec();
        Ok(())
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

fn text(error: dataplane::ControlError) -> String {
    error.message
}

fn replica(port: u16, instance: u16) -> Replica {
    Replica {
        port: PortId(port),
        instance,
    }
}

fn check_count(
    counter: &str,
    index: &str,
    counted: Option<Counted>,
    comparison: Comparison,
    value: u64,
    found: CounterValue,
) -> Option<String> {
    let counts = match counted {
        Some(Counted::Packets) => vec![("packets", found.packets)],
        Some(Counted::Bytes) => vec![("bytes", found.bytes)],
        None => vec![("packets", found.packets), ("bytes", found.bytes)],
    };
    let (what, found) = counts
        .into_iter()
        .find(|(_, found)| !comparison.holds(*found, value))?;
    Some(format!(
        "counter \"{counter}\"({index}): expected {what} {comparison} {value}, found {found}"
    ))
}
