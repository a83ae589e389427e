//! The offload beside the engine, as the event loop drives it, from when frames may come until the ports are closed. It
//! wakes the loop only for digests; the loop polls it for everything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::engine::Interpreted;
use dataplane::{Nanos, OffloadNotice, OffloadStatus, PortCounters};
use dataplane_xdp::runtime::{KernelOffload, KernelPort, KernelPorts};
use packet_io::PortStatistics;

use super::EventLoop;
use crate::parts::Offloaded;
use crate::say;

/// How often to ask whether the offload is drained, in nanoseconds: about one NAPI poll of a driver in the kernel.
const DRAIN_RETRY_NS: Nanos = 200_000;

/// How often to check that the offload can go on, in nanoseconds. If it cannot, the engine forwards.
const CHECK_EVERY_NS: Nanos = 1_000_000_000;

/// Digests taken from the offload in an iteration: some tens of microseconds.
const DIGESTS_PER_ITERATION: usize = 256;

const NS_PER_MS: Nanos = 1_000_000;

/// The loop's part of an offload in the kernel.
pub(super) struct Kernel {
    pub(super) ports: KernelPorts,
    has_called: Arc<AtomicBool>,
}

impl EventLoop {
    /// Sets an offload; all ports must have been added. It forwards when [`EventLoop::run`] begins, so no packet comes
    /// before everything on the command line is written.
    pub(crate) fn set_offload(&mut self, offloaded: Offloaded) {
        for attached in &mut self.ports {
            attached.is_offloaded = offloaded.ports.contains(&attached.id);
            attached.was_offloaded |= attached.is_offloaded;
        }
        self.offload = Some(offloaded.offload);
    }

    /// Offloads the program to the kernel, on the ports that can run it there; all ports must have been added. A port
    /// that is replaced is served again.
    pub(crate) fn serve_in_kernel(&mut self) {
        let served = self.ports.iter().filter_map(|attached| {
            Some(KernelPort {
                id: attached.id,
                interface: attached.port.xdp_interface()?,
            })
        });
        let served: Vec<KernelPort> = served.collect();
        let ports = served.iter().map(|port| port.id).collect();
        let (clock, leaves) = (self.clock, Arc::clone(&self.leaves_offload));
        let offload = KernelOffload::leaving(served, Box::new(move || clock.now()), leaves);
        let (waker, has_called) = (self.mailbox.shared_waker(), Arc::<AtomicBool>::default());
        let calls = Arc::clone(&has_called);
        let offload = offload.beside(move || {
            calls.store(true, Ordering::Release);
            waker.wake();
        });
        self.kernel = Some(Kernel {
            ports: offload.ports(),
            has_called,
        });
        self.set_offload(Offloaded {
            ports,
            offload: Box::new(offload),
        });
    }

    /// Continues the offload if it has woken the loop.
    pub(super) fn answer_offload(&mut self) {
        let has_called = |it: &Kernel| it.has_called.swap(false, Ordering::AcqRel);
        if self.kernel.as_ref().is_some_and(has_called) {
            self.switch.look_at_offload();
            self.log_offload();
        }
    }

    /// Calls `notify` once the offload has loaded or refused the first program; until then the engine forwards. Calls it
    /// at once if there is no offload.
    pub(crate) fn when_ready(&mut self, notify: Box<dyn FnOnce() + Send>) {
        self.when_ready = Some(notify);
        self.notify_ready();
    }

    fn notify_ready(&mut self) {
        let is_loading = self.switch.offload_status() == Some(&OffloadStatus::Loading);
        if let Some(notify) = self.when_ready.take_if(|_| !is_loading) {
            notify();
        }
    }

    /// Lets the programs in the kernel run on when the loop is closed. Until the switch has a program, those of an
    /// earlier switch run.
    pub(crate) fn keep_forwarding(&mut self) {
        self.keeps_forwarding = true;
        self.has_earlier = true;
    }

    /// Ends the programs of an earlier switch when this switch has a program that the offload does not forward.
    pub(super) fn end_earlier(&mut self) {
        if !self.has_earlier || self.switch.program().is_none() || !self.is_forwarding {
            return;
        }
        if self.switch.offload_status() == Some(&OffloadStatus::Loading) {
            return;
        }
        self.has_earlier = false;
        if self.is_offload_forwarding() {
            return;
        }
        for attached in &self.ports {
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

    /// Tells the offload that the port in a place was replaced; it goes on forwarding for the others.
    pub(super) fn serve_anew(&mut self, place: usize) {
        let Some(kernel) = &self.kernel else { return };
        let attached = &mut self.ports[place];
        let interface = attached.port.xdp_interface();
        attached.is_offloaded = interface.is_some();
        attached.was_offloaded |= attached.is_offloaded;
        kernel.ports.set(attached.id, interface);
        self.switch.look_at_offload();
        self.log_offload();
    }

    /// Sets whether to print what the offload takes of each program, and what it leaves.
    pub(crate) fn set_explains_offload(&mut self, explains: bool) {
        self.explains_offload = explains;
    }

    /// Gives the offload the program. In the kernel that may take some hundred milliseconds, since the verifier checks
    /// every path through it; the engine forwards meanwhile.
    pub(crate) fn begin_offload(&mut self) {
        if let Some(offload) = self.offload.take() {
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
        is_asked.then_some(self.next_check)
    }

    pub(super) fn check_offload(&mut self, now: Nanos) {
        if self.next_check().is_some_and(|at| at <= now) {
            self.switch.check_offload();
            self.next_check = self.clock.now() + CHECK_EVERY_NS;
            self.log_offload();
        }
    }

    /// Publishes digests of what the offload has forwarded. These include digests that it returned when it failed, and
    /// those in a queue that was full before anybody subscribed: nothing wakes the loop for either.
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

    /// Logs the offload's notices, and its status if that has changed.
    pub(super) fn log_offload(&mut self) {
        while let Some(notice) = self.switch.poll_offload_notice() {
            log_notice(&notice);
        }
        let status = self.switch.offload_status();
        if status == self.offload_logged.as_ref() {
            return;
        }
        let was_forwarding = matches!(self.offload_logged, Some(OffloadStatus::Forwarding(_)));
        self.notify_ready();
        let status = self.switch.offload_status();
        if let Some(status) = status.filter(|_| self.explains_offload) {
            explain(status);
        }
        match status {
            Some(OffloadStatus::Forwarding(left)) => {
                self.log_newly_left(left);
                self.offload_left = Some((self.switch.generation(), left.clone()));
                tracing::info!(
                    event = "offload_forwards",
                    left = left.len(),
                    "the offload forwards, and leaves {} places of the program to the engine",
                    left.len()
                );
            }
            Some(OffloadStatus::Refused(reason)) => tracing::warn!(
                event = "offload_refused",
                reason,
                "the engine forwards all, since the offload does not take the program: {reason}"
            ),
            Some(OffloadStatus::Failed(reason)) => tracing::error!(
                event = "offload_failed",
                reason,
                "the engine forwards all until the next program, since the offload has failed: {reason}"
            ),
            Some(OffloadStatus::Loading) if was_forwarding => tracing::info!(
                event = "offload_stopped",
                "the engine forwards all, until the program is ready for the offload"
            ),
            Some(OffloadStatus::Waiting) if was_forwarding => tracing::info!(
                event = "offload_stopped",
                "the engine forwards all, as long as somebody listens to a trace or a port is disabled"
            ),
            Some(OffloadStatus::Loading | OffloadStatus::Waiting) | None => {}
        }
        self.offload_logged = status.cloned();
    }

    /// Logs the places of the program that the offload leaves to the engine from now on, because of what was written to
    /// the tables.
    fn log_newly_left(&self, left: &[Interpreted]) {
        let Some((generation, before)) = &self.offload_left else {
            return;
        };
        if *generation != self.switch.generation() {
            return;
        }
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
            "the offload had no room for the {n_entries} entries of {table} beside those that packets still saw, \
             {n_entries_max} in all: it was loaded anew in {} ms",
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

/// Sets the frames of engine and offload together, as the switch has counted them.
pub(super) fn count_both(statistics: &mut PortStatistics, counters: PortCounters) {
    statistics.rx_frames = counters.rx_packets;
    statistics.rx_bytes = counters.rx_bytes;
    statistics.tx_frames = counters.tx_packets;
    statistics.tx_bytes = counters.tx_bytes;
}
