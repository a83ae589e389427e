//! Runs the SFU programs on switches in memory, for tests of the programs. The tests write the switches' state by
//! direct calls. The controller is not involved (`tests/conformance/one_version.rs` tests with the controller). The
//! native engine, naive and with every optimisation, gets the same frames as the interpreter and must send the same
//! frames.

#![expect(clippy::panic, reason = "a test's assertions and set-up")]

use std::net::Ipv4Addr;

use dataplane::{
    CloneSession, MulticastGroup, OwnedTransmit, PortId, Replica, Switch, SwitchConfig,
};

use crate::beside::{Beside, ends_with};

pub const SFU_PORT: PortId = PortId(1);
/// The SFU's own address on [`SFU_PORT`].
pub const SFU_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 100);
pub const SFU_MAC: [u8; 6] = [2, 0, 0, 0, 1, 100];
pub const PRESENTER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
pub const PRESENTER_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub const STREAM_PORT: u16 = 5004;
pub const GROUP: u16 = 4;
const MIRROR_SESSION: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SfuProgram {
    /// `p4/sfu_recirculation.p4`
    Recirculation,
    /// `p4/sfu.p4`
    Replication,
}

impl SfuProgram {
    pub const ALL: [SfuProgram; 2] = [SfuProgram::Recirculation, SfuProgram::Replication];

    /// Returns the path of the source, relative to the repository's root.
    pub fn path(self) -> &'static str {
        match self {
            SfuProgram::Recirculation => "p4/sfu_recirculation.p4",
            SfuProgram::Replication => "p4/sfu.p4",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewer {
    pub mac: [u8; 6],
    pub ip: Ipv4Addr,
    /// The UDP destination port of the viewer's copies. The recirculation program ignores this port.
    pub udp_port: u16,
}

impl Viewer {
    /// Returns the `n`th of up to 65,536 distinct viewers.
    pub fn nth(n: u16) -> Self {
        let [high, low] = n.to_be_bytes();
        Self {
            mac: [2, 0, 0, 1, high, low],
            ip: Ipv4Addr::new(10, 1, high, low),
            udp_port: 6000 + n % 1000,
        }
    }
}

/// Switches with one of the programs, the SFU's address and one presenter.
pub struct Sfu {
    pub switches: Beside,
    program: SfuProgram,
}

impl Sfu {
    /// Compiles and loads the program, and sets up the SFU's address, the presenter, and a clone session if the program
    /// needs one.
    pub fn new(program: SfuProgram, config: SwitchConfig) -> Self {
        Self::set_up(program, Beside::all_engines(config))
    }

    pub fn on(switch: Switch, program: SfuProgram) -> Self {
        Self::set_up(program, Beside::alone(switch))
    }

    fn set_up(program: SfuProgram, mut switches: Beside) -> Self {
        switches.add_port(SFU_PORT);
        switches.set_program(&crate::compile::program_at(program.path()));
        switches.insert_exact(
            "own_addresses",
            "set_own_mac",
            &[&SFU_PORT.0.to_be_bytes(), &SFU_IP.octets()],
            &[&SFU_MAC],
        );
        match program {
            SfuProgram::Recirculation => {
                switches.insert_exact(
                    "presenters",
                    "set_group",
                    &[&PRESENTER_IP.octets()],
                    &[&GROUP.to_be_bytes(), &[0]],
                );
                switches.insert_session(&CloneSession {
                    id: MIRROR_SESSION,
                    replicas: vec![Replica {
                        port: SFU_PORT,
                        instance: 0,
                    }],
                    truncate_bytes: None,
                    class_of_service: 0,
                });
            }
            SfuProgram::Replication => switches.insert_exact(
                "streams",
                "set_group",
                &[&PRESENTER_IP.octets(), &STREAM_PORT.to_be_bytes()],
                &[&GROUP.to_be_bytes(), &[0]],
            ),
        }
        Self { switches, program }
    }

    /// Sets the viewers of the group. The group must be empty.
    pub fn set_viewers(&mut self, viewers: &[Viewer]) {
        match self.program {
            SfuProgram::Recirculation => {
                for (slot, viewer) in (0u64..).zip(viewers) {
                    self.switches.write_register(
                        "SfuIngress.viewer_rewrite.viewer_ips",
                        slot,
                        &viewer.ip.octets(),
                    );
                    self.switches.write_register(
                        "SfuIngress.viewer_rewrite.viewer_macs",
                        slot,
                        &viewer.mac,
                    );
                    self.switches.write_register(
                        "SfuIngress.viewer_rewrite.viewer_ids",
                        slot,
                        &slot.to_be_bytes(),
                    );
                }
                let block = (viewers.len() as u64).to_be_bytes();
                self.switches.write_register(
                    "SfuIngress.group_block.groups",
                    u64::from(GROUP),
                    &block,
                );
            }
            SfuProgram::Replication => {
                let mut replicas = Vec::new();
                for (rid, viewer) in (1u16..).zip(viewers) {
                    self.switches.insert_exact(
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
                self.switches.insert_group(&MulticastGroup {
                    id: u32::from(GROUP),
                    replicas,
                    backups: Vec::new(),
                });
            }
        }
    }

    pub fn add_port(&mut self, port: PortId) {
        self.switches.add_port(port);
    }

    /// Sends a frame to the SFU's port and returns all output.
    pub fn send(&mut self, frame: &[u8]) -> Vec<OwnedTransmit> {
        self.send_from(SFU_PORT, frame)
    }

    /// Sends a frame to a port and returns all output, which must be the same from every engine.
    pub fn send_from(&mut self, port: PortId, frame: &[u8]) -> Vec<OwnedTransmit> {
        self.switches.send(port, frame)
    }

    pub fn verdicts(&self) -> Vec<(String, u64)> {
        let program = self.switches.program();
        let mut tables = program.tables();
        let (table, _) = tables
            .find(|(_, info)| ends_with(&info.name, "verdicts"))
            .expect("the program has verdicts");
        let entries = self.switches.reference.entries(table).into_iter();
        let named = entries.map(|entry| {
            let call = entry.action.call().expect("an action");
            let info = program.action_info(call.action);
            let name = &info.expect("an entry's action exists").name;
            let verdict = name.rsplit('.').next().unwrap_or(name);
            (verdict.to_owned(), entry.counter.packets)
        });
        named.collect()
    }

    pub fn verdict(&self, name: &str) -> u64 {
        self.verdicts()
            .into_iter()
            .find_map(|(verdict, packets)| (verdict == name).then_some(packets))
            .unwrap_or_else(|| panic!("no verdict is called {name}"))
    }
}
