//! The SFU programs on an in-memory switch: set up by direct control calls, fed with frames, for
//! tests of what the programs do. The native engine, naive and with every optimisation, does the same
//! beside the interpreter. The controller is not involved; `tests/one_version.rs` has it.

#![expect(clippy::panic, reason = "a test's assertions and set-up")]

use std::net::Ipv4Addr;

use dataplane::{
    ActionCall, CloneSession, MatchField, MulticastGroup, OwnedTransmit, PortId, Replica, Switch,
    SwitchConfig, TableEntry, Transmit,
};
use dataplane_jit::NativeOptions;

use crate::engines::native;

/// The port that the conference uses.
pub const SFU_PORT: PortId = PortId(1);
/// The SFU's own address on [`SFU_PORT`].
pub const SFU_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 100);
/// The SFU's own MAC on [`SFU_PORT`].
pub const SFU_MAC: [u8; 6] = [2, 0, 0, 0, 1, 100];
/// The presenter of group [`GROUP`].
pub const PRESENTER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
/// The presenter's MAC.
pub const PRESENTER_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
/// The UDP port of the presenter's stream.
pub const STREAM_PORT: u16 = 5004;
/// The group under test.
pub const GROUP: u16 = 4;
/// The mirror session of the recirculation program.
const MIRROR_SESSION: u32 = 100;

/// One of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SfuProgram {
    /// `p4/sfu_recirculation.p4`
    Recirculation,
    /// `p4/sfu.p4`
    Replication,
}

impl SfuProgram {
    /// Both, for tests that hold for either.
    pub const ALL: [SfuProgram; 2] = [SfuProgram::Recirculation, SfuProgram::Replication];

    /// Path of the source below the repository's root.
    pub fn path(self) -> &'static str {
        match self {
            SfuProgram::Recirculation => "p4/sfu_recirculation.p4",
            SfuProgram::Replication => "p4/sfu.p4",
        }
    }
}

/// A viewer as the programs know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewer {
    /// Ethernet destination of its copies.
    pub mac: [u8; 6],
    /// IPv4 destination of its copies.
    pub ip: Ipv4Addr,
    /// UDP destination of its copies; the recirculation program has no place for it.
    pub udp_port: u16,
}

impl Viewer {
    /// The `n`th of up to 65,536 distinct viewers.
    pub fn nth(n: u16) -> Self {
        let [high, low] = n.to_be_bytes();
        Self {
            mac: [2, 0, 0, 1, high, low],
            ip: Ipv4Addr::new(10, 1, high, low),
            udp_port: 6000 + n % 1000,
        }
    }
}

/// A switch with one of the programs, the SFU's address and one presenter.
pub struct Sfu {
    /// The switch itself, with the interpreter.
    pub switch: Switch,
    /// Switches with other engines; what leaves them must be the same.
    twins: Vec<Switch>,
    program: SfuProgram,
}

impl Sfu {
    /// Compiles and loads the program and sets up address, mirror session and presenter.
    pub fn new(program: SfuProgram, config: SwitchConfig) -> Self {
        let twins = [NativeOptions::NAIVE, NativeOptions::ALL];
        let twins = twins.map(|it| native(it)(config.clone()));
        Self::set_up(program, Switch::new(config), twins.into())
    }

    /// The same on a switch of whatever engine, alone.
    pub fn on(switch: Switch, program: SfuProgram) -> Self {
        Self::set_up(program, switch, Vec::new())
    }

    fn set_up(program: SfuProgram, switch: Switch, twins: Vec<Switch>) -> Self {
        let mut sfu = Self {
            twins,
            switch,
            program,
        };
        sfu.add_port(SFU_PORT);
        let compiled = crate::compile::program_at(program.path());
        sfu.all(|switch| switch.set_program(compiled.clone()));
        sfu.insert(
            "own_addresses",
            "set_own_mac",
            &[&SFU_PORT.0.to_be_bytes(), &SFU_IP.octets()],
            &[&SFU_MAC],
        );
        match program {
            SfuProgram::Recirculation => {
                sfu.insert(
                    "presenters",
                    "set_group",
                    &[&PRESENTER_IP.octets()],
                    &[&GROUP.to_be_bytes(), &[0]],
                );
                let session = CloneSession {
                    id: MIRROR_SESSION,
                    replicas: vec![Replica {
                        port: SFU_PORT,
                        instance: 0,
                    }],
                    truncate_bytes: None,
                    class_of_service: 0,
                };
                sfu.all(|switch| {
                    let inserted = switch.insert_clone_session(session.clone());
                    inserted.expect("session 100 is free");
                });
            }
            SfuProgram::Replication => sfu.insert(
                "streams",
                "set_group",
                &[&PRESENTER_IP.octets(), &STREAM_PORT.to_be_bytes()],
                &[&GROUP.to_be_bytes(), &[0]],
            ),
        }
        sfu
    }

    /// Gives an empty switch's group its viewers.
    pub fn set_viewers(&mut self, viewers: &[Viewer]) {
        match self.program {
            SfuProgram::Recirculation => {
                for (slot, viewer) in (0u64..).zip(viewers) {
                    self.write_register(
                        "SfuIngress.viewer_rewrite.viewer_ips",
                        slot,
                        &viewer.ip.octets(),
                    );
                    self.write_register("SfuIngress.viewer_rewrite.viewer_macs", slot, &viewer.mac);
                    self.write_register(
                        "SfuIngress.viewer_rewrite.viewer_ids",
                        slot,
                        &slot.to_be_bytes(),
                    );
                }
                let block = (viewers.len() as u64).to_be_bytes();
                self.write_register("SfuIngress.group_block.groups", u64::from(GROUP), &block);
            }
            SfuProgram::Replication => {
                let mut replicas = Vec::new();
                for (rid, viewer) in (1u16..).zip(viewers) {
                    self.insert(
                        "viewers",
                        "send_to",
                        &[&GROUP.to_be_bytes(), &rid.to_be_bytes()],
                        &[
                            &viewer.mac,
                            &viewer.ip.octets(),
                            &viewer.udp_port.to_be_bytes(),
                        ],
                    );
                    replicas.push(Replica {
                        port: SFU_PORT,
                        instance: rid,
                    });
                }
                let group = MulticastGroup {
                    id: u32::from(GROUP),
                    replicas,
                };
                self.all(|switch| {
                    let inserted = switch.insert_multicast_group(group.clone());
                    inserted.expect("the group is new");
                });
            }
        }
    }

    /// Adds another port.
    pub fn add_port(&mut self, port: PortId) {
        self.all(|switch| switch.add_port(port));
    }

    /// Gives a frame to the SFU's port and takes everything that leaves.
    pub fn send(&mut self, frame: &[u8]) -> Vec<OwnedTransmit> {
        self.send_from(SFU_PORT, frame)
    }

    /// Gives a frame to a port and takes everything that leaves, from every engine the same: from the
    /// first frame by frame, from the others many at once.
    ///
    /// # Panics
    /// An engine gives something else than the interpreter.
    pub fn send_from(&mut self, port: PortId, frame: &[u8]) -> Vec<OwnedTransmit> {
        self.switch.handle_frame(0, port, frame);
        let next = || Some(self.switch.poll_transmit(0)?.to_owned());
        let expected: Vec<OwnedTransmit> = std::iter::from_fn(next).collect();
        for twin in &mut self.twins {
            twin.handle_frame(0, port, frame);
            assert!(all_of(twin) == expected, "engines differ for {frame:02x?}");
            assert_eq!(self.switch.counters(), twin.counters(), "{frame:02x?}");
        }
        expected
    }

    fn all(&mut self, mut to_do: impl FnMut(&mut Switch)) {
        to_do(&mut self.switch);
        self.twins.iter_mut().for_each(to_do);
    }

    /// Every verdict's name and how many packets got it.
    pub fn verdicts(&self) -> Vec<(String, u64)> {
        let program = self.switch.program().expect("a program is set");
        let table = self.full_name("verdicts");
        let table = program.table(&table).expect("the program has verdicts");
        self.switch
            .entries(table)
            .into_iter()
            .map(|entry| {
                let call = entry.action.call().expect("an action");
                let name = program
                    .action_info(call.action)
                    .expect("an entry's action exists")
                    .name
                    .clone();
                (last_part(&name).to_owned(), entry.counter.packets)
            })
            .collect()
    }

    /// How many packets got one verdict.
    pub fn verdict(&self, name: &str) -> u64 {
        self.verdicts()
            .into_iter()
            .find_map(|(verdict, packets)| (verdict == name).then_some(packets))
            .unwrap_or_else(|| panic!("no verdict is called {name}"))
    }

    fn insert(&mut self, table: &str, action: &str, key: &[&[u8]], args: &[&[u8]]) {
        let program = self.switch.program().expect("a program is set");
        let table_id = program
            .table(&self.full_name(table))
            .expect("the table exists");
        let action = program
            .tables()
            .find(|(id, _)| *id == table_id)
            .and_then(|(_, info)| {
                info.actions.iter().copied().find(|&id| {
                    program
                        .action_info(id)
                        .is_some_and(|info| last_part(&info.name) == action)
                })
            })
            .expect("the table has the action");
        let key = key.iter().map(|value| MatchField::Exact(value.to_vec()));
        let call = ActionCall {
            action,
            args: args.iter().map(|arg| arg.to_vec()).collect(),
        };
        let entry = TableEntry::new(key.collect(), 0, call);
        self.all(|switch| {
            let inserted = switch.insert_entry(table_id, entry.clone());
            inserted.expect("the entry is new");
        });
    }

    fn write_register(&mut self, register: &str, index: u64, value: &[u8]) {
        let program = self.switch.program().expect("a program is set");
        let register = program.register(register).expect("the register exists");
        self.all(|switch| {
            let written = switch.set_register_cell(register, index, value);
            written.expect("the index is in range");
        });
    }

    /// The fully qualified name of a table given by its last part.
    fn full_name(&self, short: &str) -> String {
        let program = self.switch.program().expect("a program is set");
        program
            .tables()
            .map(|(_, info)| info.name.clone())
            .find(|name| last_part(name) == short)
            .unwrap_or_else(|| panic!("no table is called {short}"))
    }
}

/// The last part of a fully qualified name.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Everything that leaves a switch now, some frames at a time.
pub fn all_of(switch: &mut Switch) -> Vec<OwnedTransmit> {
    const FRAMES_AT_ONCE: usize = 7;
    let mut all = Vec::new();
    let mut take = |transmit: Transmit<'_>| all.push(transmit.to_owned());
    while !switch.transmit(0, FRAMES_AT_ONCE, &mut take).is_idle {}
    all
}
