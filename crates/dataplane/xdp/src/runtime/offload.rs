//! The kernel engine as an offload of the switch ([`dataplane::offload`]).
//!
//! Each port has an XDP program of its own that passes all frames to the port's socket ([`packet_io::AfXdpPort`]).
//! While a P4 program is loaded, its compiled form runs at all ports instead, and passes to the sockets only frames
//! that it punts.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use dataplane::engine::{Change, Interpreted};
use dataplane::offload::{Accounts, Unable, Written};
use dataplane::{DropReason, Nanos, Offload, OffloadNotice, Program};

use super::grace::Wait;
use super::loaded::{Left, Loaded, Reason, Refused, Wake};
use super::prepared::Prepared;
use super::serving::{KernelPort, KernelPorts};
use super::translator::{ChangeError, NoRoom};

pub struct KernelOffload {
    ports: KernelPorts,
    clock: Box<dyn Fn() -> Nanos + Send>,
    loaded: Option<Box<Loaded>>,
    /// Tables whose packets are punted, since the kernel cannot hold some of their entries.
    left: Left,
    /// The table that is full, and when it became full. `None` once the program is loaded again.
    full: Option<(NoRoom, Nanos)>,
    notices: VecDeque<OffloadNotice>,
    /// Whether the kernel programs keep running after a stop.
    leaves: Arc<AtomicBool>,
    /// Waits for a grace period of RCU.
    wait: Wait,
    /// Asks the caller to look at the offload again. Set if programs are prepared in the background.
    wake: Option<Wake>,
    preparing: Option<Preparing>,
    /// Locked while a program is prepared, so that only one program is prepared at a time.
    gate: Arc<Mutex<()>>,
}

/// A program that a thread prepares.
struct Preparing {
    /// Set once the program is ready or refused.
    made: Option<Result<Box<Prepared>, Reason>>,
    coming: Receiver<Result<Box<Prepared>, Reason>>,
    /// When this is dropped, the thread need not prepare the program any more.
    _wanted: Arc<()>,
}

impl Preparing {
    fn is_over(&mut self) -> bool {
        if self.made.is_none() {
            self.made = match self.coming.try_recv() {
                Ok(made) => Some(made),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => {
                    Some(Err("the thread that prepares it has ended".to_owned()))
                }
            };
        }
        self.made.is_some()
    }
}

impl KernelOffload {
    /// Serves these ports. `clock` returns the switch's time: `CLOCK_MONOTONIC` plus a constant offset.
    pub fn new(ports: Vec<KernelPort>, clock: Box<dyn Fn() -> Nanos + Send>) -> KernelOffload {
        KernelOffload::leaving(ports, clock, Arc::default())
    }

    /// Like `new`, but a stop leaves the kernel programs running while `leaves` is true.
    pub fn leaving(
        ports: Vec<KernelPort>,
        clock: Box<dyn Fn() -> Nanos + Send>,
        leaves: Arc<AtomicBool>,
    ) -> KernelOffload {
        KernelOffload {
            ports: KernelPorts::new(ports),
            clock,
            loaded: None,
            left: Left::new(),
            full: None,
            notices: VecDeque::new(),
            leaves,
            wait: bpf::wait_for_programs,
            wake: None,
            preparing: None,
            gate: Arc::default(),
        }
    }

    /// Does slow work in the background, and calls `wake` when the caller should look again
    /// ([`dataplane::Switch::look_at_offload`]).
    pub fn beside(self, wake: impl Fn() + Send + Sync + 'static) -> KernelOffload {
        KernelOffload {
            wake: Some(Arc::new(wake)),
            ..self
        }
    }

    /// Returns a handle to the ports, for whoever replaces their interfaces.
    pub fn ports(&self) -> KernelPorts {
        self.ports.clone()
    }

    /// Replaces the wait for RCU.
    #[cfg(test)]
    pub(super) fn waiting(self, wait: Wait) -> KernelOffload {
        KernelOffload { wait, ..self }
    }

    /// After the kernel could not take a change, returns whether the program must be loaded again or has failed.
    fn unable(&mut self, error: ChangeError) -> Unable {
        match error {
            ChangeError::Table(table, reason) => drop(self.left.insert(table, reason)),
            ChangeError::NoRoom(full) => self.full = Some((full, (self.clock)())),
            ChangeError::NoRoomForPorts => {}
            ChangeError::Failed(reason) => return Unable::Failed(reason),
        }
        Unable::Anew
    }

    /// Reports that the offload forwards again, if a table was full.
    fn note_loaded_anew(&mut self, written: &Written<'_>) {
        if let Some((full, since)) = self.full.take() {
            self.notices.push_back(OffloadNotice::LoadedAnew {
                table: full.table(written.state().program()),
                n_entries: full.n_entries(written),
                n_entries_max: full.n_entries_max,
                taken_ns: (self.clock)().saturating_sub(since),
            });
        }
    }

    fn begin_to_prepare(&self, program: &Program, wake: &Wake) -> Preparing {
        let (program, ports) = (program.clone(), self.ports.there());
        let (left, wait, wake) = (self.left.clone(), self.wait, Arc::clone(wake));
        let gate = Arc::clone(&self.gate);
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        let (made_to, coming) = mpsc::channel();
        let thread = thread::Builder::new().name("reprise-load".into());
        // If no thread starts, the channel disconnects.
        let _ = thread.spawn(move || {
            let alone = gate.lock().unwrap_or_else(PoisonError::into_inner);
            if is_wanted.strong_count() > 0 {
                let made = Prepared::new(&program, &ports, &left, wait).map(Box::new);
                // If the program was replaced meanwhile, nobody receives this.
                let _ = made_to.send(made);
                wake();
            }
            drop(alone);
        });
        Preparing {
            made: None,
            coming,
            _wanted: wanted,
        }
    }

    /// Returns the program that was prepared in the background, or prepares it now if there is none.
    fn take_prepared(&mut self, program: &Program) -> Result<Box<Prepared>, Reason> {
        match self.preparing.take().and_then(|it| it.made) {
            Some(made) => made,
            None => {
                let ports = self.ports.there();
                Prepared::new(program, &ports, &self.left, self.wait).map(Box::new)
            }
        }
    }

    /// Starts the program. Packets are punted at tables with entries that the kernel cannot hold.
    fn take(&mut self, written: &Written<'_>) -> Result<Loaded, Refused> {
        // Programs add this offset to `CLOCK_MONOTONIC`.
        let offset_ns = (self.clock)().wrapping_sub(bpf::kernel_clock_ns());
        loop {
            let prepared = self.take_prepared(written.state().program())?;
            let wake = self.wake.clone();
            let begun = Loaded::begin(*prepared, &self.ports, wake, offset_ns, written);
            let refused = match begun {
                Ok(loaded) => return Ok(loaded),
                Err(refused) => refused,
            };
            let ChangeError::Table(table, reason) = &refused.why else {
                return Err(refused);
            };
            // The program has not forwarded a packet, so it can be compiled again, to punt at this table.
            if self.left.insert(*table, reason.clone()).is_some() {
                return Err(reason.clone().into());
            }
            if self.wake.is_some() {
                return Err(refused);
            }
        }
    }

    /// Returns why the program is refused, or that it must be prepared again.
    fn refused(&self, why: ChangeError, written: &Written<'_>) -> Unable {
        match why {
            // From now on, packets are punted at this table.
            ChangeError::Table(..) if self.wake.is_some() => Unable::Anew,
            ChangeError::Table(_, reason) | ChangeError::Failed(reason) => Unable::Failed(reason),
            ChangeError::NoRoomForPorts => Unable::Failed("no room for more ports".to_owned()),
            ChangeError::NoRoom(full) => {
                let table = full.table(written.state().program());
                let n_entries_max = full.n_entries_max;
                Unable::Failed(format!("{table}: no room for more than {n_entries_max}"))
            }
        }
    }
}

impl Offload for KernelOffload {
    fn prepare(&mut self, program: &Program) -> bool {
        let Some(wake) = &self.wake else {
            return true;
        };
        if self.preparing.is_none() {
            self.preparing = Some(self.begin_to_prepare(program, wake));
        }
        self.preparing.as_mut().is_some_and(Preparing::is_over)
    }

    fn load(&mut self, written: &Written<'_>) -> Result<Vec<Interpreted>, Unable> {
        self.loaded = None;
        match self.take(written) {
            Ok(loaded) => {
                let left = loaded.left();
                self.loaded = Some(Box::new(loaded));
                self.note_loaded_anew(written);
                Ok(left)
            }
            Err(Refused { half, why }) => {
                // `stop` reports what the half-started program has forwarded.
                self.loaded = half;
                let unable = self.refused(why, written);
                if let Unable::Failed(_) = unable {
                    // Also detaches programs that an earlier process may have left on the ports.
                    for port in self.ports.there() {
                        let _ = port.interface.run_own();
                    }
                }
                Err(unable)
            }
        }
    }

    fn has_begun(&self) -> bool {
        self.loaded.as_ref().is_none_or(|it| it.has_begun())
    }

    fn look_at_ports(&mut self, written: &Written<'_>) -> bool {
        let loaded = self.loaded.as_mut();
        loaded.is_some_and(|it| it.look_at_ports(written))
    }

    fn withdraw(&mut self) -> bool {
        self.loaded.as_mut().is_none_or(|it| it.withdraw())
    }

    fn forget_program(&mut self) {
        self.left.clear();
        self.full = None;
        self.preparing = None;
    }

    fn changed(&mut self, written: &Written<'_>, change: &Change<'_>) {
        if let Some(loaded) = &mut self.loaded {
            loaded.changed(written, change);
        }
    }

    fn commit(&mut self, _written: &Written<'_>) -> Result<(), Unable> {
        let committed = self.loaded.as_mut().map_or(Ok(()), |it| it.commit());
        committed.map_err(|error| self.unable(error))
    }

    fn collect(&mut self, accounts: &mut Accounts<'_>) -> Result<(), Unable> {
        let now = (self.clock)();
        let loaded = self.loaded.as_mut();
        let collected = loaded.map_or(Ok(()), |loaded| loaded.collect(now, accounts));
        collected.map_err(|error| self.unable(error))
    }

    fn take_digests(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        let loaded = self.loaded.as_mut();
        loaded.map_or(0, |loaded| loaded.take_digests(n_max, accounts))
    }

    fn digests_fd(&self) -> Option<BorrowedFd<'_>> {
        self.loaded.as_ref()?.digests_fd()
    }

    fn check(&mut self) -> Result<(), Unable> {
        let checked = self.loaded.as_mut().map_or(Ok(()), |it| it.check());
        checked.map_err(|error| self.unable(error))
    }

    fn begin_drain(&mut self, epoch: u64) {
        if let Some(loaded) = &mut self.loaded {
            loaded.begin_drain(epoch);
        }
    }

    fn is_drained(&self, epoch: u64) -> bool {
        self.loaded.as_ref().is_none_or(|it| it.is_drained(epoch))
    }

    fn poll_notice(&mut self) -> Option<OffloadNotice> {
        let own = self.notices.pop_front();
        own.or_else(|| self.loaded.as_ref()?.poll_notice())
    }

    fn stop(&mut self, reason: DropReason, accounts: &mut Accounts<'_>) -> Result<(), String> {
        match self.loaded.take() {
            Some(mut loaded) => {
                if self.leaves.load(Ordering::Relaxed) {
                    loaded.leave();
                }
                loaded.stop((self.clock)(), reason, accounts)
            }
            None => Ok(()),
        }
    }
}
