//! Runs a switch on real veth pairs, with the kernel engine. The kernel engine is an offload that forwards packets with
//! XDP programs in the kernel.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dataplane::{
    ActionCall, CounterValue, DropReason, MatchField, MulticastGroup, OffloadStatus, PortId,
    Replica, Switch, SwitchConfig, TableEntry, TableId,
};
use dataplane_xdp::runtime::{KernelOffload, KernelPort, KernelPorts};
use packet_io::{AfPacketPort, AfXdpPort, Port};

pub mod burst;

use super::cable::{cable, served};
use super::program_at;
use crate::frames::{TIMEOUT, numbered, receive, send};
use crate::namespace::{interface_index, ip, run};
use crate::repository::root;

pub const N_PORTS: u16 = 3;

/// Loads a program of the kernel engine's tests into the switch. Returns the program's table of addresses.
fn set_program(switch: &mut Switch, name: &str) -> TableId {
    let path = root()
        .join("crates/dataplane/xdp/tests/programs")
        .join(name);
    let program = program_at(&path).unwrap();
    let table = program.table("ExchangeIngress.addresses").unwrap();
    switch.set_program(program);
    table
}

/// Makes a frame with a number, to the address whose last byte is `to`.
pub fn frame(to: u8, number: u32) -> Vec<u8> {
    let mut frame = numbered(number, 100);
    frame[5] = to;
    frame
}

/// Returns the frame that the switch sends for [`frame`]`(to, number)`: the copy for the replica with this instance
/// number. The program writes the instance number into bytes 18 and 19.
pub fn left(to: u8, number: u32, instance: u16) -> Vec<u8> {
    let mut frame = frame(to, number);
    frame[18..20].copy_from_slice(&instance.to_be_bytes());
    frame
}

/// A switch whose ports are veths, and the other ends of the veth pairs.
pub struct Beside {
    pub switch: Switch,
    pub ports: Vec<AfXdpPort>,
    pub outside: Vec<AfPacketPort>,
    pub table: TableId,
    start: Instant,
    /// The offload's handle to the ports.
    pub kernel_ports: KernelPorts,
    /// Number of frames that were punted, that is, that the XDP programs left to the switch's engine.
    pub n_punted: u64,
}

impl Beside {
    pub fn start() -> Beside {
        Beside::with("exchange.p4", |_| {})
    }

    /// Loads a program of the folder `programs`. `prepare` writes state before the kernel engine starts.
    pub fn with(name: &str, prepare: impl FnOnce(&mut Switch)) -> Beside {
        let (ports, outside) = (0..N_PORTS).map(cable).unzip();
        let mut switch = Switch::new(SwitchConfig::default());
        (0..N_PORTS).for_each(|port| switch.add_port(PortId(port)));
        let table = set_program(&mut switch, name);
        prepare(&mut switch);
        let mut beside = Beside {
            switch,
            ports,
            outside,
            table,
            start: Instant::now(),
            kernel_ports: KernelPorts::default(),
            n_punted: 0,
        };
        beside.set_offload();
        beside
    }

    /// Replaces the program by another program of the folder `programs`.
    pub fn set_program(&mut self, name: &str) {
        self.table = set_program(&mut self.switch, name);
    }

    /// Returns the ports in the form that an offload needs.
    pub fn served(&self) -> Vec<KernelPort> {
        served((0..).zip(&self.ports))
    }

    pub fn set_offload(&mut self) {
        self.set_offload_on(self.served());
    }

    pub fn set_offload_on(&mut self, ports: Vec<KernelPort>) {
        self.set_offload_that_leaves(ports, Arc::default());
    }

    /// Sets an offload whose programs keep running after a stop if `leaves` is true.
    pub fn set_offload_that_leaves(&mut self, ports: Vec<KernelPort>, leaves: Arc<AtomicBool>) {
        let start = self.start;
        let clock = Box::new(move || start.elapsed().as_nanos() as u64);
        let offload = KernelOffload::leaving(ports, clock, leaves);
        self.kernel_ports = offload.ports();
        self.switch.set_offload(Some(Box::new(offload)));
    }

    /// Leaves this process no free file descriptor, so that the offload's writer cannot create a map.
    pub fn leave_no_descriptors(&self) {
        run(&format!("prlimit --nofile=3: --pid {}", std::process::id()));
    }

    /// Removes a port's veth pair.
    pub fn lose_port(&mut self, port: u16) {
        ip(&format!("link del out{port}"));
        self.kernel_ports.set(PortId(port), None);
        self.switch.look_at_offload();
    }

    /// Gives the port an interface again, and waits until the port is served.
    pub fn find_port(&mut self, port: u16) {
        let (inside, outside) = cable(port);
        self.kernel_ports
            .set(PortId(port), Some(inside.interface()));
        self.ports[usize::from(port)] = inside;
        self.outside[usize::from(port)] = outside;
        let start = Instant::now();
        while !self.kernel_ports.is_served(PortId(port)) {
            assert!(
                start.elapsed() < TIMEOUT,
                "{:?}",
                self.switch.offload_status()
            );
            self.switch.look_at_offload();
        }
        // The switch must check the offload once more, since the port is served only now.
        self.switch.look_at_offload();
        self.drain();
    }

    pub fn entry(&self, to: u8, action: &str, args: &[u16]) -> TableEntry {
        TableEntry::new(self.key(to), 0, self.call(action, args))
    }

    pub fn key(&self, to: u8) -> Vec<MatchField> {
        vec![MatchField::Exact(vec![2, 0, 0, 0, 0, to])]
    }

    pub fn call(&self, action: &str, args: &[u16]) -> ActionCall {
        let program = self.switch.program().unwrap();
        let action = program.action_of(self.table, &format!("ExchangeIngress.{action}"));
        ActionCall {
            action: action.unwrap(),
            args: args.iter().map(|arg| arg.to_be_bytes().to_vec()).collect(),
        }
    }

    pub fn insert(&mut self, to: u8, action: &str, args: &[u16]) {
        let entry = self.entry(to, action, args);
        self.switch.insert_entry(self.table, entry).unwrap();
    }

    pub fn modify(&mut self, to: u8, action: &str, args: &[u16]) {
        let entry = self.entry(to, action, args);
        self.switch.modify_entry(self.table, entry).unwrap();
    }

    pub fn delete(&mut self, to: u8) {
        let key = self.key(to);
        self.switch.delete_entry(self.table, &key, 0).unwrap();
    }

    pub fn group(&mut self, id: u32, replicas: &[(u16, u16)], is_new: bool) {
        let replicas = replicas.iter().map(|(port, instance)| Replica {
            port: PortId(*port),
            instance: *instance,
        });
        let group = MulticastGroup {
            id,
            replicas: replicas.collect(),
            ..MulticastGroup::default()
        };
        if is_new {
            self.switch.insert_multicast_group(group).unwrap()
        } else {
            self.switch.modify_multicast_group(group).unwrap()
        }
    }

    /// Waits until packets use everything that was written.
    pub fn drain(&mut self) {
        let token = self.switch.begin_drain();
        let start = Instant::now();
        while !self.switch.is_drained(token) {
            assert!(
                start.elapsed() < TIMEOUT,
                "{:?}",
                self.switch.offload_status()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn send(&mut self, port: usize, frames: impl IntoIterator<Item = Vec<u8>>) {
        send(&mut self.outside[port], frames);
    }

    pub fn receive(&mut self, port: usize, n: usize) -> Vec<Vec<u8>> {
        let received = receive(&mut self.outside[port], n);
        if received.len() < n {
            let counters = self.counters().clone();
            let status = self.switch.offload_status();
            eprintln!("{} of {n}: {counters:?} {status:?}", received.len());
        }
        received
    }

    /// Returns a frame if one has already arrived.
    pub fn receive_now(&mut self, port: usize) -> Option<Vec<u8>> {
        let mut frames = Vec::new();
        let mut take = |frame: &[u8]| frames.push(frame.to_vec());
        self.outside[port].receive(0, 1, &mut take).unwrap();
        frames.pop()
    }

    /// Lets the engine forward `n` punted frames.
    pub fn forward_punted(&mut self, n: u64) {
        self.forward_punted_of(&[0, 1, 2], n);
    }

    /// Lets the engine forward `n` frames that these ports punted.
    pub fn forward_punted_of(&mut self, ports: &[usize], n: u64) {
        self.take_punted_of(ports, n);
        while let Some(sent) = self.switch.poll_transmit(0) {
            let port = usize::from(sent.port.0);
            let sent = sent.to_owned();
            self.ports[port].transmit(0, sent.frame[..].into()).unwrap();
            self.ports[port].flush().unwrap();
        }
    }

    /// Gives the engine `n` frames that these ports punted.
    pub fn take_punted_of(&mut self, ports: &[usize], n: u64) {
        let start = Instant::now();
        let before = self.n_punted;
        while self.n_punted < before + n {
            assert!(
                start.elapsed() < TIMEOUT,
                "{} punted",
                self.n_punted - before
            );
            for port in ports {
                let (switch, id) = (&mut self.switch, PortId(*port as u16));
                let mut take = |frame: &[u8]| switch.handle_frame(0, id, frame);
                self.n_punted += self.ports[*port].receive(0, 64, &mut take).unwrap() as u64;
            }
        }
    }

    pub fn counters(&mut self) -> &dataplane::SwitchCounters {
        self.switch.collect();
        self.switch.counters()
    }

    pub fn hits(&mut self, to: u8) -> CounterValue {
        self.switch.collect();
        let key = self.key(to);
        self.switch.direct_counter(self.table, &key, 0).unwrap()
    }

    pub fn by_port(&mut self, port: u64) -> u64 {
        self.cell("ExchangeIngress.by_port", port)
    }

    /// Returns the number of copies that were made for a port.
    pub fn made_for(&mut self, port: u16) -> u64 {
        self.cell("ExchangeEgress.copies", port.into())
    }

    fn cell(&mut self, counter: &str, cell: u64) -> u64 {
        self.switch.collect();
        let program = self.switch.program().unwrap();
        let counter = program.counter(counter).unwrap();
        self.switch.counter_cell(counter, cell).unwrap().packets
    }

    /// Sends bursts to a port. The frames' destinations cycle through `to`.
    pub fn send_bursts(&self, port: usize, to: &[u8], n_bursts: u32) {
        let interface = interface_index(&format!("out{port}"));
        burst::send(interface, &frame(0, 0), to, n_bursts);
    }

    /// Waits until `n` packets and copies have been sent or refused.
    pub fn await_ended(&mut self, n: u64) {
        let start = Instant::now();
        loop {
            let counters = self.counters();
            let refused = counters.dropped(DropReason::DeviceRefused);
            if counters.transmitted + refused == n {
                return;
            }
            assert!(start.elapsed() < TIMEOUT, "{counters:?}, expected {n}");
        }
    }

    pub fn assert_forwards(&self) {
        let status = self.switch.offload_status();
        assert!(
            matches!(status, Some(OffloadStatus::Forwarding(_))),
            "{status:?}"
        );
    }

    /// Asserts that all received packets and copies were sent or dropped.
    pub fn assert_accounted(&mut self) {
        let counters = self.counters().clone();
        let dropped: u64 = DropReason::ALL.iter().map(|it| counters.dropped(*it)).sum();
        assert_eq!(
            counters.received + counters.created_by_replication,
            counters.transmitted + dropped,
            "{counters:?}"
        );
        assert_eq!(self.switch.packets_inside(), 0);
    }
}

pub fn packets(packets: u64) -> CounterValue {
    CounterValue {
        packets,
        bytes: 100 * packets,
    }
}
