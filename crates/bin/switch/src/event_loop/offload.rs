//! How the event loop drives an offload, such as a program in the kernel, which forwards packets beside the engine. The
//! loop drives it from the first frame until the ports are closed. The offload wakes the loop for digests, and when it
//! has finished work in the background; the loop polls it for everything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::engine::Interpreted;
use dataplane::{Nanos, Offload, OffloadNotice, OffloadStatus, PortId, Switch};
use dataplane_xdp::runtime::{KernelOffload, KernelPort, KernelPorts};

use super::EventLoop;
use crate::parts::Offloaded;
use crate::say;

/// How often to check whether the offload is drained, in nanoseconds: about as long as one NAPI poll of a driver takes
/// in the kernel.
const DRAIN_RETRY_NS: Nanos = 200_000;

/// How often to check that the offload can go on, in nanoseconds. If it cannot, the engine forwards.
const CHECK_EVERY_NS: Nanos = 1_000_000_000;

/// The most digests that an iteration takes from the offload. Taking them all lasts some tens of microseconds.
const DIGESTS_PER_ITERATION: usize = 256;

const NS_PER_MS: Nanos = 1_000_000;

/// The loop's part of an offload in the kernel.
struct Kernel {
    ports: KernelPorts,
    has_called: Arc<AtomicBool>,
}

/// What the loop knows of its offload, in addition to what the switch knows.
#[derive(Default)]
pub(super) struct Offloading {
    /// An offload that was set but does not run yet; it starts when the event loop runs.
    waiting: Option<Box<dyn Offload>>,
    kernel: Option<Kernel>,
    /// The offload's status as last logged.
    logged: Option<OffloadStatus>,
    /// The generation of the program with which the offload forwarded last, and the program's constructs that the
    /// offload left to the engine.
    left: Option<(u64, Vec<Interpreted>)>,
    explains: bool,
    /// Called once, when the offload has loaded or refused the first program.
    when_ready: Option<Box<dyn FnOnce() + Send>>,
    keeps_forwarding: bool,
    /// Whether programs of an earlier switch process may still forward in the kernel.
    has_earlier: bool,
    /// Whether the offload's programs go on forwarding when the offload is stopped.
    leaves: Arc<AtomicBool>,
    /// When to check next whether the offload can go on.
    next_check: Nanos,
}

impl Offloading {
    /// Whether the offload serves this port when the offload forwards. The port must be one that the offload was given.
    pub(super) fn serves(&self, id: PortId) -> bool {
        let kernel = self.kernel.as_ref();
        kernel.is_none_or(|it| it.ports.is_served(id))
    }

    /// Decides whether the programs in the kernel go on when the offload is removed.
    pub(super) fn leave_or_end(&self) {
        self.leaves.store(self.keeps_forwarding, Ordering::Relaxed);
    }

    fn has_called(&self) -> bool {
        let has_called = |it: &Kernel| it.has_called.swap(false, Ordering::AcqRel);
        self.kernel.as_ref().is_some_and(has_called)
    }

    fn notify_ready(&mut self, switch: &Switch) {
        let is_loading = switch.offload_status() == Some(&OffloadStatus::Loading);
        if let Some(notify) = self.when_ready.take_if(|_| !is_loading) {
            notify();
        }
    }

    /// Logs the offload's notices, and its status if that has changed.
    fn log(&mut self, switch: &mut Switch) {
        while let Some(notice) = switch.poll_offload_notice() {
            log_notice(&notice);
        }
        let status = switch.offload_status();
        if status == self.logged.as_ref() {
            return;
        }
        self.notify_ready(switch);
        if let Some(status) = status.filter(|_| self.explains) {
            explain(status);
        }
        if let Some(OffloadStatus::Forwarding(left)) = status {
            self.log_newly_left(switch.generation(), left);
            self.left = Some((switch.generation(), left.clone()));
        }
        let was_forwarding = matches!(self.logged, Some(OffloadStatus::Forwarding(_)));
        if let Some(status) = status {
            log_status(status, was_forwarding);
        }
        self.logged = status.cloned();
    }

    /// Logs the constructs of the program that the offload leaves to the engine from now on, because of entries that
    /// were written to the tables.
    fn log_newly_left(&self, generation: u64, left: &[Interpreted]) {
        let before = match &self.left {
            Some((of, before)) if *of == generation => before,
            _ => return,
        };
        for Interpreted { place, reason } in left.iter().filter(|it| !before.contains(it)) {
            tracing::warn!(
                event = "offload_leaves",
                place,
                reason,
                "packets that come to {place} go to the engine from now on: {reason}"
            );
        }
    }
}

impl EventLoop {
    /// Sets an offload; all ports must have been added. The offload starts when [`EventLoop::run`] begins, so that it
    /// forwards no packet before everything that the command line asks for is in place.
    pub(crate) fn set_offload(&mut self, offloaded: Offloaded) {
        for attached in self.ports.iter_mut() {
            attached.set_offloaded(offloaded.ports.contains(&attached.id));
        }
        self.offloading.waiting = Some(offloaded.offload);
    }

    /// Offloads the program to the kernel, on the ports that can run it there; all ports must have been added. When a
    /// port is replaced, the offload serves the new port.
    pub(crate) fn serve_in_kernel(&mut self) {
        let served = self.ports.iter().filter_map(|attached| {
            Some(KernelPort {
                id: attached.id,
                interface: attached.port.xdp_interface()?,
            })
        });
        let served: Vec<KernelPort> = served.collect();
        let ports = served.iter().map(|port| port.id).collect();
        let (clock, leaves) = (self.clock, Arc::clone(&self.offloading.leaves));
        let offload = KernelOffload::leaving(served, Box::new(move || clock.now()), leaves);
        let (waker, has_called) = (self.mailbox.shared_waker(), Arc::<AtomicBool>::default());
        let calls = Arc::clone(&has_called);
        let offload = offload.beside(move || {
            calls.store(true, Ordering::Release);
            waker.wake();
        });
        self.offloading.kernel = Some(Kernel {
            ports: offload.ports(),
            has_called,
        });
        self.set_offload(Offloaded {
            ports,
            offload: Box::new(offload),
        });
    }

    /// Lets the offload continue its work if the offload has woken the loop.
    pub(super) fn answer_offload(&mut self) {
        if self.offloading.has_called() {
            self.switch.look_at_offload();
            self.log_offload();
        }
    }

    /// Calls `notify` once the offload has loaded or refused the first program; until then the engine forwards. If
    /// there is no offload, `notify` is called at once.
    pub(crate) fn when_ready(&mut self, notify: Box<dyn FnOnce() + Send>) {
        self.offloading.when_ready = Some(notify);
        self.offloading.notify_ready(&self.switch);
    }

    /// Lets the programs in the kernel run on when the loop is closed. Until this switch has a program, the programs of
    /// an earlier switch process go on.
    pub(crate) fn keep_forwarding(&mut self) {
        self.offloading.keeps_forwarding = true;
        self.offloading.has_earlier = true;
    }

    /// Ends the programs of an earlier switch process once this switch has a program, but the offload does not forward
    /// with it.
    pub(super) fn end_earlier(&mut self) {
        if !self.offloading.has_earlier || self.switch.program().is_none() || !self.is_forwarding {
            return;
        }
        if self.switch.offload_status() == Some(&OffloadStatus::Loading) {
            return;
        }
        self.offloading.has_earlier = false;
        if self.is_offload_forwarding() {
            return;
        }
        for attached in self.ports.iter() {
            if let Some(interface) = attached.port.xdp_interface()
                && let Err(error) = interface.run_own()
            {
                let id = attached.id;
                tracing::error!(
                    event = "port_failed",
                    port = id.0,
                    %error,
                    "port {id} gets no frames: {error}"
                );
            }
        }
    }

    /// Informs the offload that a port was replaced; `place` is its index. The offload goes on for the other ports.
    pub(super) fn serve_anew(&mut self, place: usize) {
        let Some(kernel) = &self.offloading.kernel else {
            return;
        };
        let attached = self.ports.at(place);
        let interface = attached.port.xdp_interface();
        attached.set_offloaded(interface.is_some());
        kernel.ports.set(attached.id, interface);
        self.switch.look_at_offload();
        self.log_offload();
    }

    /// Sets whether to print which part of each program the offload takes, and which part it leaves to the engine.
    pub(crate) fn set_explains_offload(&mut self, explains: bool) {
        self.offloading.explains = explains;
    }

    /// Gives the offload the program. In the kernel this may take some hundred milliseconds, since the verifier checks
    /// every path through the program; the engine forwards meanwhile.
    pub(crate) fn begin_offload(&mut self) {
        if let Some(offload) = self.offloading.waiting.take() {
            self.switch.set_offload(Some(offload));
        }
    }

    pub(super) fn is_offload_forwarding(&self) -> bool {
        let status = self.switch.offload_status();
        matches!(status, Some(OffloadStatus::Forwarding(_)))
    }

    /// When to check the offload, which does not wake the loop when it fails.
    pub(super) fn next_check(&self) -> Option<Nanos> {
        let is_asked = self.is_offload_forwarding() && !self.clock.is_virtual();
        is_asked.then_some(self.offloading.next_check)
    }

    pub(super) fn check_offload(&mut self, now: Nanos) {
        if self.next_check().is_some_and(|at| at <= now) {
            self.switch.check_offload();
            self.offloading.next_check = self.clock.now() + CHECK_EVERY_NS;
            self.log_offload();
        }
    }

    /// Publishes digests of packets that the offload has forwarded. Every iteration calls this, because nothing wakes
    /// the loop for some digests: those that the offload returned when it failed, and those in a queue that was full
    /// before anybody subscribed.
    pub(super) fn take_digests(&mut self) {
        if self.switch.offload_status().is_some() {
            self.switch.take_offloaded_digests(DIGESTS_PER_ITERATION);
            self.publish_digests();
        }
    }

    /// When to check for drains: the offload does not wake the loop when its last packet has left.
    pub(super) fn next_look_at_drain(&self) -> Option<Nanos> {
        let is_waited_for = self.is_offload_forwarding() && !self.drain_waiters.is_empty();
        is_waited_for.then(|| self.clock.now() + DRAIN_RETRY_NS)
    }

    pub(super) fn log_offload(&mut self) {
        self.offloading.log(&mut self.switch);
    }
}

fn log_status(status: &OffloadStatus, was_forwarding: bool) {
    match status {
        OffloadStatus::Forwarding(left) => tracing::info!(
            event = "offload_forwards",
            left = left.len(),
            "the offload forwards, and leaves {} places of the program to the engine",
            left.len()
        ),
        OffloadStatus::Refused(reason) => tracing::warn!(
            event = "offload_refused",
            reason,
            "the engine forwards all, since the offload does not take the program: {reason}"
        ),
        OffloadStatus::Failed(reason) => tracing::error!(
            event = "offload_failed",
            reason,
            "the engine forwards all until the next program, since the offload has failed: {reason}"
        ),
        OffloadStatus::Loading if was_forwarding => tracing::info!(
            event = "offload_stopped",
            "the engine forwards all, until the program is ready for the offload"
        ),
        OffloadStatus::Waiting if was_forwarding => tracing::info!(
            event = "offload_stopped",
            "the engine forwards all, as long as packets are traced or a port is disabled"
        ),
        OffloadStatus::Loading | OffloadStatus::Waiting => {}
    }
}

fn log_notice(notice: &OffloadNotice) {
    match notice {
        OffloadNotice::LoadedAnew {
            table,
            n_entries,
            n_entries_max,
            taken_ns,
        } => tracing::info!(
            event = "offload_loaded_anew",
            table,
            entries = n_entries,
            room = n_entries_max,
            taken_ms = taken_ns / NS_PER_MS,
            "the offload has room for {n_entries_max} entries of {table}, too few for {n_entries} beside those that \
             packets still saw: it was loaded anew in {} ms",
            taken_ns / NS_PER_MS
        ),
        OffloadNotice::LeavesPort { port, reason } => tracing::warn!(
            event = "offload_leaves_port",
            port = port.0,
            reason,
            "the engine forwards what comes and leaves by port {port}, until the offload can: {reason}"
        ),
        OffloadNotice::ServesPort { port } => tracing::warn!(
            event = "offload_serves_port",
            port = port.0,
            "the offload serves port {port} now"
        ),
        OffloadNotice::DoesWithout { what, reason } => tracing::warn!(
            event = "offload_without",
            what,
            reason,
            "the offload goes on without {what}: {reason}"
        ),
    }
}

fn explain(status: &OffloadStatus) {
    match status {
        OffloadStatus::Forwarding(left) if left.is_empty() => {
            say("offload: the whole program");
        }
        OffloadStatus::Forwarding(left) => {
            say("offload: the program, but packets that come to these go to the engine:");
            for construct in left {
                say(&format!("  {}: {}", construct.place, construct.reason));
            }
        }
        OffloadStatus::Refused(reason) => {
            say(&format!("offload: nothing of the program: {reason}"))
        }
        OffloadStatus::Waiting | OffloadStatus::Loading | OffloadStatus::Failed(_) => {}
    }
}
