//! Drives the offload beside the engine: loads and stops it, and forwards changes and requests to it.
//! [`crate::offload`] has the contract.

use std::os::fd::BorrowedFd;

use crate::{
    DropReason, Offload, OffloadNotice, OffloadStatus,
    engine::{Change, Interpreted},
    offload::{Accounts, Unable, Written},
    switch::Switch,
    v1model::V1Model,
};

pub(super) struct Attached {
    offload: Box<dyn Offload>,
    status: OffloadStatus,
    /// The parts of the program that the offload leaves to the engine. `Some` while the program is loaded into the
    /// offload, which then receives changes.
    left: Option<Vec<Interpreted>>,
    /// Whether the offload received a change since the last commit.
    has_changes: bool,
    /// Packets inside the offload when it last reported.
    pub n_inside: u64,
}

fn written(model: &V1Model) -> Written<'_> {
    Written {
        state: &model.state,
        traffic: &model.traffic,
    }
}

fn accounts<'a>(model: &'a mut V1Model, n_inside: &'a mut u64) -> Accounts<'a> {
    Accounts {
        state: &mut model.state,
        latencies: &mut model.latencies,
        digests: &mut model.digests,
        n_inside,
    }
}

impl Attached {
    fn is_loaded(&self) -> bool {
        self.left.is_some()
    }

    fn load(&mut self, model: &mut V1Model) {
        if !self.offload.prepare(&model.state.program) {
            self.status = OffloadStatus::Loading;
            return;
        }
        self.has_changes = false;
        match self.offload.load(&written(model)) {
            Ok(left) => {
                self.left = Some(left);
                self.status = OffloadStatus::Loading;
                self.look_whether_begun();
            }
            Err(Unable::Failed(reason)) => {
                let refused = OffloadStatus::Refused(reason);
                self.end(model, DropReason::OffloadStopped, refused);
            }
            Err(Unable::Anew) => {
                self.end(model, DropReason::OffloadStopped, OffloadStatus::Waiting);
                self.load(model);
            }
        }
    }

    fn look_whether_begun(&mut self) {
        if let Some(left) = &self.left
            && self.status == OffloadStatus::Loading
            && self.offload.has_begun()
        {
            self.status = OffloadStatus::Forwarding(left.clone());
        }
    }

    /// Checks whether the offload forwards now, and lets it check its ports.
    fn look(&mut self, model: &mut V1Model) {
        self.look_whether_begun();
        if self.is_loaded() && self.offload.look_at_ports(&written(model)) {
            self.has_changes = true;
            self.commit(model);
        }
    }

    /// Stops the offload; afterwards it holds no packet.
    fn stop(&mut self, model: &mut V1Model, reason: DropReason, status: OffloadStatus) {
        if self.is_loaded() {
            self.end(model, reason, status);
        } else if self.status == OffloadStatus::Loading {
            self.status = status;
        }
    }

    fn end(&mut self, model: &mut V1Model, reason: DropReason, status: OffloadStatus) {
        self.left = None;
        let mut accounts = accounts(model, &mut self.n_inside);
        let stopped = self.offload.stop(reason, &mut accounts);
        self.n_inside = 0;
        self.status = match stopped {
            Ok(()) => status,
            Err(reason) => OffloadStatus::Failed(reason),
        };
    }

    /// Stops an offload that cannot continue. After `Unable::Anew` the offload waits to be loaded again.
    fn end_unable(&mut self, model: &mut V1Model, result: Result<(), Unable>) {
        let status = match result {
            Ok(()) => return,
            Err(Unable::Failed(reason)) => OffloadStatus::Failed(reason),
            Err(Unable::Anew) => OffloadStatus::Waiting,
        };
        self.stop(model, DropReason::OffloadStopped, status);
    }

    fn changed(&mut self, model: &V1Model, change: &Change<'_>) {
        if self.is_loaded() {
            self.offload.changed(&written(model), change);
            self.has_changes = true;
        }
    }

    fn commit(&mut self, model: &mut V1Model) {
        if std::mem::take(&mut self.has_changes) && self.is_loaded() {
            let result = self.offload.commit(&written(model));
            self.end_unable(model, result);
        }
    }

    fn collect(&mut self, model: &mut V1Model) {
        if self.is_loaded() {
            let result = self
                .offload
                .collect(&mut accounts(model, &mut self.n_inside));
            self.end_unable(model, result);
            self.take_digests(model, usize::MAX);
        }
    }

    /// Takes up to `n_max` digests from the offload, but no more than the control plane's queue has room for. Digests
    /// that stay in the offload are not lost.
    fn take_digests(&mut self, model: &mut V1Model, n_max: usize) -> usize {
        let n_max = n_max.min(model.digests.room());
        if self.is_loaded() {
            let mut accounts = accounts(model, &mut self.n_inside);
            self.offload.take_digests(n_max, &mut accounts)
        } else {
            0
        }
    }

    fn check(&mut self, model: &mut V1Model) {
        if self.is_loaded() {
            let result = self.offload.check();
            self.end_unable(model, result);
        }
    }

    pub(super) fn begin_drain(&mut self, epoch: u64) {
        if self.is_loaded() {
            self.offload.begin_drain(epoch);
        }
    }

    pub(super) fn is_drained(&self, epoch: u64) -> bool {
        !self.is_loaded() || self.offload.is_drained(epoch)
    }
}

impl Switch {
    /// Sets or removes the offload beside the engine, and stops the previous one. The new offload is loaded at once if
    /// a program is loaded, no trace is on and no port is disabled.
    pub fn set_offload(&mut self, offload: Option<Box<dyn Offload>>) {
        self.stop_offload(DropReason::OffloadStopped);
        self.offload = offload.map(|offload| Attached {
            offload,
            status: OffloadStatus::Waiting,
            left: None,
            has_changes: false,
            n_inside: 0,
        });
        self.load_offload();
    }

    /// The state of the offload, if there is one.
    pub fn offload_status(&self) -> Option<&OffloadStatus> {
        self.offload.as_ref().map(|attached| &attached.status)
    }

    /// The next event of a running offload that an operator may want to know.
    pub fn poll_offload_notice(&mut self) -> Option<OffloadNotice> {
        self.offload.as_mut()?.offload.poll_notice()
    }

    /// Adds to the switch's state what the offload has counted. The caller must call this before it reads counters,
    /// tables, registers, latencies or the number of packets inside.
    pub fn collect(&mut self) {
        if let Some(attached) = &mut self.offload {
            attached.collect(&mut self.model);
            self.load_offload();
        }
    }

    /// Moves at most `n_max` digests from the offload to the queue of [`Switch::poll_digest`], as far as the queue has
    /// room. Returns their number; if it is `n_max`, there may be more. The call costs almost nothing if no digest
    /// waits.
    pub fn take_offloaded_digests(&mut self, n_max: usize) -> usize {
        let attached = self.offload.as_mut();
        attached.map_or(0, |it| it.take_digests(&mut self.model, n_max))
    }

    /// A descriptor that is readable while [`Switch::take_offloaded_digests`] would find digests. Valid until the next
    /// call on the switch.
    pub fn offloaded_digests_fd(&self) -> Option<BorrowedFd<'_>> {
        let attached = self.offload.as_ref()?;
        let is_of_use = attached.is_loaded() && self.model.digests.room() > 0;
        attached.offload.digests_fd().filter(|_| is_of_use)
    }

    /// Checks the offload, and stops it if it can no longer forward. The caller's packet loop should call this about
    /// once a second.
    pub fn check_offload(&mut self) {
        if let Some(attached) = &mut self.offload {
            attached.check(&mut self.model);
            self.load_offload();
        }
    }

    /// Lets the offload continue its background work. The caller calls this when the offload has woken the packet loop,
    /// or when a port got another interface.
    pub fn look_at_offload(&mut self) {
        self.collect();
        if let Some(attached) = &mut self.offload {
            attached.look(&mut self.model);
            self.load_offload();
        }
    }

    /// Starts a batch of control calls, up to [`Switch::end_batch`]. A packet in the offload sees all calls of the
    /// batch or none, including a new program. The engine sees each call immediately.
    pub fn begin_batch(&mut self) {
        self.is_in_batch = true;
    }

    /// Ends a batch and commits it to the offload.
    pub fn end_batch(&mut self) {
        self.is_in_batch = false;
        self.load_offload();
        if let Some(attached) = &mut self.offload {
            attached.commit(&mut self.model);
            self.load_offload();
        }
    }

    /// Loads the program into the offload, unless one of these forbids it: an open batch, a trace, a disabled port, or
    /// an earlier refusal or failure.
    pub(super) fn load_offload(&mut self) {
        if let Some(attached) = &mut self.offload
            && self.engine.is_some()
            && !self.is_in_batch
            && !self.model.state.tracer.is_on()
            && self.model.state.ports_disabled.is_empty()
            && !attached.is_loaded()
            && matches!(
                attached.status,
                OffloadStatus::Waiting | OffloadStatus::Loading
            )
        {
            attached.load(&mut self.model);
        }
    }

    /// Returns whether a new program can be set without waiting for the offload to stop. The caller repeats the call
    /// until it returns true; meanwhile the offload may already punt everything.
    pub fn withdraw_offload(&mut self) -> bool {
        let attached = self.offload.as_mut().filter(|it| it.is_loaded());
        attached.is_none_or(|it| it.offload.withdraw())
    }

    /// Makes the offload punt everything until it is loaded again.
    pub(super) fn stop_offload(&mut self, reason: DropReason) {
        if let Some(attached) = &mut self.offload {
            attached.stop(&mut self.model, reason, OffloadStatus::Waiting);
        }
    }

    /// Resets the offload for a new program, also after a refusal or failure.
    pub(super) fn forget_offload_s_program(&mut self) {
        self.stop_offload(DropReason::PipelineChanged);
        if let Some(attached) = &mut self.offload {
            attached.offload.forget_program();
            attached.status = OffloadStatus::Waiting;
        }
    }

    /// Reports a change to the offload, and commits it unless a batch is open.
    pub(super) fn notify_offload(&mut self, change: &Change<'_>) {
        if let Some(attached) = &mut self.offload {
            attached.changed(&self.model, change);
            if !self.is_in_batch {
                attached.commit(&mut self.model);
                self.load_offload();
            }
        }
    }
}
