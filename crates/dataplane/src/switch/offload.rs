//! The offload beside the engine: when it is told, asked, loaded and stopped. [`crate::offload`] says
//! what it must keep to.

use std::os::fd::BorrowedFd;

use crate::{
    DropReason, Offload, OffloadNotice, OffloadStatus,
    engine::{Change, Interpreted},
    offload::{Accounts, Unable, Written},
    switch::Switch,
    v1model::V1Model,
};

/// An offload, and how it stands.
pub(super) struct Attached {
    offload: Box<dyn Offload>,
    status: OffloadStatus,
    /// What it leaves to the engine, while it has the program: it hears of changes.
    left: Option<Vec<Interpreted>>,
    /// It was told of a change since the last commit.
    has_changes: bool,
    /// Packets inside of it when it was last asked.
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
    /// It has the program, and what is written for it.
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

    /// Looks whether it has begun to forward, and which ports it serves.
    fn look(&mut self, model: &mut V1Model) {
        self.look_whether_begun();
        if self.is_loaded() && self.offload.look_at_ports(&written(model)) {
            self.has_changes = true;
            self.commit(model);
        }
    }

    /// Ends its forwarding; nothing is inside of it afterwards.
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

    /// Stops it where it cannot go on; what is to be loaded anew waits for that.
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

    /// No more than the control plane's queue has room for: what waits in the offload is not lost yet.
    fn take_digests(&mut self, model: &mut V1Model, n_max: usize) -> usize {
        let n_max = n_max.min(model.digests.room());
        match self.is_loaded() {
            true => {
                let mut accounts = accounts(model, &mut self.n_inside);
                self.offload.take_digests(n_max, &mut accounts)
            }
            false => 0,
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
    /// Sets an offload beside the engine, or takes it away. It forwards at once if there is a program
    /// and nobody listens to a trace; the one that was there before is stopped.
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

    /// How the offload stands; none where there is none.
    pub fn offload_status(&self) -> Option<&OffloadStatus> {
        self.offload.as_ref().map(|attached| &attached.status)
    }

    /// What the offload has to tell beside how it stands; none is all.
    pub fn poll_offload_notice(&mut self) -> Option<OffloadNotice> {
        self.offload.as_mut()?.offload.poll_notice()
    }

    /// Takes what the offload has counted into the switch's accounts. To be called by whoever is going
    /// to read some of them: counters, tables, registers, latencies, packets inside.
    pub fn collect(&mut self) {
        if let Some(attached) = &mut self.offload {
            attached.collect(&mut self.model);
            self.load_offload();
        }
    }

    /// Takes digests of packets that the offload has forwarded, for [`Switch::poll_digest`]; so many at most, and no
    /// more than there is room for. How many: as long as it is `n_max`, there may be more. Costs next to nothing
    /// where there are none.
    pub fn take_offloaded_digests(&mut self, n_max: usize) -> usize {
        let attached = self.offload.as_mut();
        attached.map_or(0, |it| it.take_digests(&mut self.model, n_max))
    }

    /// What is readable while [`Switch::take_offloaded_digests`] finds some. Until the next call.
    pub fn offloaded_digests_fd(&self) -> Option<BorrowedFd<'_>> {
        let attached = self.offload.as_ref()?;
        let is_of_use = attached.is_loaded() && self.model.digests.room() > 0;
        attached.offload.digests_fd().filter(|_| is_of_use)
    }

    /// Takes the offload out where it cannot go on. To be called about once a second by whoever serves packets.
    pub fn check_offload(&mut self) {
        if let Some(attached) = &mut self.offload {
            attached.check(&mut self.model);
            self.load_offload();
        }
    }

    /// Has the offload go on with what it does beside the engine. To be called when it has woken whoever serves
    /// packets, or a port has another interface.
    pub fn look_at_offload(&mut self) {
        self.collect();
        if let Some(attached) = &mut self.offload {
            attached.look(&mut self.model);
            self.load_offload();
        }
    }

    /// The control calls that follow belong together, until [`Switch::end_batch`]: packets in the
    /// offload see all of them or none, and a program that is set with them. The engine sees each when
    /// it is made.
    pub fn begin_batch(&mut self) {
        self.is_in_batch = true;
    }

    /// Ends a batch.
    pub fn end_batch(&mut self) {
        self.is_in_batch = false;
        self.load_offload();
        if let Some(attached) = &mut self.offload {
            attached.commit(&mut self.model);
            self.load_offload();
        }
    }

    /// Has the offload forward the program as it is, unless it refused it or failed; at the end of a
    /// batch.
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

    /// Whether a program can be set without waiting for the offload to stop. It punts from now on until it is stopped,
    /// and whoever is going to set a program asks again until it does.
    pub fn withdraw_offload(&mut self) -> bool {
        let attached = self.offload.as_mut().filter(|it| it.is_loaded());
        attached.is_none_or(|it| it.offload.withdraw())
    }

    /// Has it punt all, until it is loaded.
    pub(super) fn stop_offload(&mut self, reason: DropReason) {
        if let Some(attached) = &mut self.offload {
            attached.stop(&mut self.model, reason, OffloadStatus::Waiting);
        }
    }

    /// The program is replaced: whatever became of the last one, the offload may try the next.
    pub(super) fn forget_offload_s_program(&mut self) {
        self.stop_offload(DropReason::PipelineChanged);
        if let Some(attached) = &mut self.offload {
            attached.offload.forget_program();
            attached.status = OffloadStatus::Waiting;
        }
    }

    /// Tells the offload of a change, and that it is whole where no batch goes on.
    pub(super) fn tell_offload(&mut self, change: &Change<'_>) {
        if let Some(attached) = &mut self.offload {
            attached.changed(&self.model, change);
            if !self.is_in_batch {
                attached.commit(&mut self.model);
                self.load_offload();
            }
        }
    }
}
