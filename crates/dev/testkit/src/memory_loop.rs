//! An event loop without ports. Each worker has a switch, and a thread that runs control work on the switch. Method
//! calls give frames to the switch and take frames from it. The real event loop is in the crate `switch`.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use control::{
    DigestNotice, DigestSender, DrainWaiters, IdleTimeoutNotice, IdleTimeoutSender, LinkSender,
    LinkState, PacketInFrame, PacketInSender, PortStatus, Subscriber, SwitchContext, SwitchHandle,
    Work,
};
use dataplane::{Nanos, OwnedTransmit, PayloadSignature, PortId, Switch, SwitchConfig};

/// The event loops of all workers. Dropping the value ends the threads. The first worker gets all frames.
pub struct MemoryLoop(Vec<Arc<Shared>>);

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    is_held: bool,
    is_stopped: bool,
    n_pieces: usize,
}

struct Inside {
    switch: Switch,
    now: Nanos,
    ports: Vec<PortStatus>,
    drain_waiters: DrainWaiters,
    subscribers: Vec<PacketInSender>,
    idle_subscribers: Vec<IdleTimeoutSender>,
    digest_subscribers: Vec<DigestSender>,
    link_subscribers: Vec<LinkSender>,
    transmitted: Vec<OwnedTransmit>,
}

impl MemoryLoop {
    pub fn start(config: SwitchConfig, n_ports: u16) -> Self {
        Self::start_workers(config, n_ports, 1)
    }

    pub fn start_workers(config: SwitchConfig, n_ports: u16, n_workers: usize) -> Self {
        let worker = |_| Shared::start(config.clone(), n_ports);
        Self((0..n_workers).map(worker).collect())
    }

    /// Runs `work` with a worker's switch, to read or to change the switch.
    pub fn in_switch<R>(&self, worker: usize, work: impl FnOnce(&mut Switch) -> R) -> R {
        work(&mut self.0[worker].inside().switch)
    }

    pub fn receive(&self, port: u16, frame: &[u8]) {
        let mut inside = self.0[0].inside();
        let now = inside.now;
        inside.switch.handle_frame(now, PortId(port), frame);
        inside.pump();
    }

    pub fn advance(&self, ns: Nanos) {
        let mut inside = self.0[0].inside();
        inside.now += ns;
        let now = inside.now;
        inside.switch.handle_timeout(now);
        inside.switch.generate(now);
        inside.pump();
    }

    pub fn set_port_up(&self, port: PortId, is_up: bool) {
        for worker in &self.0 {
            worker.inside().set_port_up(port, is_up);
        }
        self.0[0]
            .inside()
            .link_subscribers
            .iter()
            .for_each(LinkSender::notify);
    }

    /// Returns the frames that were transmitted since the last call.
    pub fn transmitted(&self) -> Vec<OwnedTransmit> {
        std::mem::take(&mut self.0[0].inside().transmitted)
    }

    /// Keeps new work in the workers' queues until `release` is called.
    pub fn hold(&self) {
        (0..self.0.len()).for_each(|worker| self.hold_worker(worker));
    }

    pub fn hold_worker(&self, worker: usize) {
        self.0[worker].queue().is_held = true;
    }

    /// Returns the length of the longest queue of work.
    pub fn n_held(&self) -> usize {
        let n_held = self.0.iter().map(|worker| worker.queue().work.len());
        n_held.max().unwrap_or(0)
    }

    /// Returns the largest number of pieces of work that a worker has run.
    pub fn n_pieces(&self) -> usize {
        let n_pieces = self.0.iter().map(|worker| worker.queue().n_pieces);
        n_pieces.max().unwrap_or(0)
    }

    pub fn release(&self) {
        for worker in &self.0 {
            worker.queue().is_held = false;
            worker.wake.notify_all();
        }
    }

    /// Ends the threads. Work that has not run is dropped.
    pub fn stop(&self) {
        for worker in &self.0 {
            let mut queue = worker.queue();
            queue.is_stopped = true;
            queue.work.clear();
            drop(queue);
            worker.wake.notify_all();
        }
    }
}

impl Drop for MemoryLoop {
    fn drop(&mut self) {
        self.stop();
    }
}

impl SwitchHandle for MemoryLoop {
    fn n_workers(&self) -> usize {
        self.0.len()
    }

    fn payload_signatures(&self) -> Vec<PayloadSignature> {
        self.in_switch(0, |switch| switch.payload_signatures())
    }

    fn submit(&self, worker: usize, work: Work) {
        let mut queue = self.0[worker].queue();
        if !queue.is_stopped {
            queue.work.push_back(work);
        }
        drop(queue);
        self.0[worker].wake.notify_all();
    }

    fn subscribe(&self, subscriber: Subscriber) {
        for worker in &self.0 {
            let mut inside = worker.inside();
            match subscriber.clone() {
                Subscriber::PacketIns(sender) => inside.subscribers.push(sender),
                Subscriber::IdleTimeouts(sender) => inside.idle_subscribers.push(sender),
                Subscriber::Digests(sender) => inside.digest_subscribers.push(sender),
                Subscriber::Links(sender) => inside.link_subscribers.push(sender),
            }
        }
    }
}

impl Shared {
    fn start(config: SwitchConfig, n_ports: u16) -> Arc<Self> {
        let mut switch = Switch::new(config);
        let ports: Vec<PortStatus> = (0..n_ports)
            .map(|id| PortStatus {
                id: PortId(id),
                name: format!("veth{id}"),
                rx_dropped: 0,
                tx_dropped: u64::from(id),
                ..PortStatus::default()
            })
            .collect();
        for port in &ports {
            switch.add_port(port.id);
        }
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            inside: Mutex::new(Inside {
                switch,
                now: 1_000,
                ports,
                drain_waiters: DrainWaiters::default(),
                subscribers: Vec::new(),
                idle_subscribers: Vec::new(),
                digest_subscribers: Vec::new(),
                link_subscribers: Vec::new(),
                transmitted: Vec::new(),
            }),
        });
        let there = Arc::clone(&shared);
        std::thread::spawn(move || {
            while let Some(work) = there.next() {
                // Counts the work before running it, because the work may wake a test that then reads the count.
                there.queue().n_pieces += 1;
                let rest = there.inside().run(work);
                if let Some(rest) = rest {
                    there.queue().work.push_front(rest);
                }
            }
        });
        shared
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no thread has panicked")
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("no thread has panicked")
    }

    fn next(&self) -> Option<Work> {
        let waiting =
            |queue: &mut Queue| !queue.is_stopped && (queue.is_held || queue.work.is_empty());
        let queue = self.wake.wait_while(self.queue(), waiting);
        let mut queue = queue.expect("no thread has panicked");
        if queue.is_stopped {
            return None;
        }
        queue.work.pop_front()
    }
}

impl Inside {
    fn set_port_up(&mut self, port: PortId, is_up: bool) {
        self.switch.set_port_up(port, is_up);
        let states = [LinkState::Down, LinkState::Up];
        for status in self.ports.iter_mut().filter(|status| status.id == port) {
            status.link = states[usize::from(is_up)];
            status.link_transitions += 1;
            status.link_changed_ns += 1;
        }
    }

    fn run(&mut self, work: Work) -> Option<Work> {
        let mut context = SwitchContext {
            switch: &mut self.switch,
            now: self.now,
            ports: &self.ports,
            drain_waiters: &mut self.drain_waiters,
            n_updates: 0,
            rest: None,
        };
        work(&mut context);
        let rest = context.rest;
        self.pump();
        rest
    }

    fn pump(&mut self) {
        while let Some(transmit) = self.switch.poll_transmit(self.now) {
            self.transmitted.push(transmit.to_owned());
        }
        while let Some(frame) = self.switch.poll_packet_in() {
            let generation = self.switch.generation();
            let packet = PacketInFrame { generation, frame };
            self.subscribers
                .retain(|subscriber| subscriber.send(packet.clone()));
        }
        while let Some(idle) = self.switch.poll_idle_timeout() {
            let generation = self.switch.generation();
            let notice = IdleTimeoutNotice { generation, idle };
            self.idle_subscribers
                .retain(|subscriber| subscriber.send(notice.clone()));
        }
        while let Some(digest) = self.switch.poll_digest() {
            let generation = self.switch.generation();
            let notice = DigestNotice { generation, digest };
            self.digest_subscribers
                .retain(|subscriber| subscriber.send(notice.clone()));
        }
        self.drain_waiters.notify(&self.switch);
    }
}
