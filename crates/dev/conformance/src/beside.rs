//! Runs several engines side by side, each in its own switch. All switches get the same set-up and the same frames, and
//! all must send the same frames.

#![expect(clippy::panic, reason = "a test's assertions and set-up")]

use dataplane::{
    ActionCall, CloneSession, MatchField, MulticastGroup, OwnedTransmit, PortId, Program, Switch,
    SwitchConfig, TableEntry, Transmit,
};
use dataplane_jit::NativeOptions;

use crate::engines::native;

/// A switch with the interpreter, and switches with other engines.
pub struct Beside {
    pub reference: Switch,
    twins: Vec<Switch>,
}

impl Beside {
    /// Makes switches with the interpreter, with the naive native engine (no optimisations), and with the native engine
    /// with every optimisation.
    pub fn all_engines(config: SwitchConfig) -> Self {
        let twins = [NativeOptions::NAIVE, NativeOptions::ALL];
        let twins = twins.map(|it| native(it)(config.clone()));
        Self {
            reference: Switch::new(config),
            twins: twins.into(),
        }
    }

    pub fn alone(switch: Switch) -> Self {
        Self {
            reference: switch,
            twins: Vec::new(),
        }
    }

    pub fn all(&mut self, mut to_do: impl FnMut(&mut Switch)) {
        to_do(&mut self.reference);
        self.twins.iter_mut().for_each(to_do);
    }

    pub fn add_port(&mut self, port: PortId) {
        self.all(|switch| switch.add_port(port));
    }

    pub fn set_program(&mut self, program: &Program) {
        self.all(|switch| switch.set_program(program.clone()));
    }

    pub fn program(&self) -> &Program {
        self.reference.program().expect("a program is set")
    }

    /// Inserts an entry. `table` and `action` may be only the last parts of the full names.
    pub fn insert(
        &mut self,
        table: &str,
        action: &str,
        (key, priority): (Vec<MatchField>, i32),
        args: &[&[u8]],
    ) {
        let program = self.program();
        let named = program
            .tables()
            .find(|(_, info)| ends_with(&info.name, table));
        let (table_id, info) = named.unwrap_or_else(|| panic!("no table is called {table}"));
        let named = info.actions.iter().copied().find(|&id| {
            let info = program.action_info(id);
            info.is_some_and(|info| ends_with(&info.name, action))
        });
        let call = ActionCall {
            action: named.expect("the table has the action"),
            args: args.iter().map(|arg| arg.to_vec()).collect(),
        };
        let entry = TableEntry::new(key, priority, call);
        self.all(|switch| {
            let inserted = switch.insert_entry(table_id, entry.clone());
            inserted.expect("the entry is new");
        });
    }

    pub fn insert_exact(&mut self, table: &str, action: &str, key: &[&[u8]], args: &[&[u8]]) {
        let key = key.iter().map(|value| MatchField::Exact(value.to_vec()));
        self.insert(table, action, (key.collect(), 0), args);
    }

    pub fn write_register(&mut self, register: &str, index: u64, value: &[u8]) {
        let register = self.program().register(register);
        let register = register.expect("the register exists");
        self.all(|switch| {
            let written = switch.set_register_cell(register, index, value);
            written.expect("the index is in range");
        });
    }

    pub fn insert_group(&mut self, group: &MulticastGroup) {
        self.all(|switch| {
            let inserted = switch.insert_multicast_group(group.clone());
            inserted.expect("the group is new");
        });
    }

    pub fn insert_session(&mut self, session: &CloneSession) {
        self.all(|switch| {
            let inserted = switch.insert_clone_session(session.clone());
            inserted.expect("the session is new");
        });
    }

    /// Sends a frame to a port and returns all output, which must be the same from every engine. The interpreter's
    /// output is taken frame by frame, the output of the other engines in batches.
    ///
    /// # Panics
    /// The output or the counters of an engine differ from the interpreter's.
    pub fn send(&mut self, port: PortId, frame: &[u8]) -> Vec<OwnedTransmit> {
        self.reference.handle_frame(0, port, frame);
        let next = || Some(self.reference.poll_transmit(0)?.to_owned());
        let expected: Vec<OwnedTransmit> = std::iter::from_fn(next).collect();
        for twin in &mut self.twins {
            twin.handle_frame(0, port, frame);
            assert!(all_of(twin) == expected, "engines differ for {frame:02x?}");
            assert_eq!(self.reference.counters(), twin.counters(), "{frame:02x?}");
        }
        expected
    }
}

/// Returns all output of a switch, taken in batches.
pub fn all_of(switch: &mut Switch) -> Vec<OwnedTransmit> {
    const FRAMES_AT_ONCE: usize = 7;
    let mut all = Vec::new();
    let mut take = |transmit: Transmit<'_>| all.push(transmit.to_owned());
    while !switch.transmit(0, FRAMES_AT_ONCE, &mut take).is_idle {}
    all
}

/// Returns whether `parts` are the last parts of a dotted name, or the whole name.
pub(crate) fn ends_with(name: &str, parts: &str) -> bool {
    let rest = name.strip_suffix(parts);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
