//! The program in the kernel as the switch has it: an offload ([`dataplane::offload`]).
//!
//! Each port has an XDP program of its own that gives all frames to its socket ([`packet_io::AfXdpPort`]). While
//! a program is loaded, the compiled one runs in its place and gives the socket what it punts.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::engine::{Change, Interpreted};
use dataplane::offload::{Accounts, Unable, Written};
use dataplane::{DropReason, Nanos, Offload, OffloadNotice, PortId};
use packet_io::XdpInterface;

use super::grace::Wait;
use super::loaded::{Left, Loaded, Refused};
use super::told::{NoRoom, Unsaid};

/// A port that is served.
#[derive(Clone)]
pub struct KernelPort {
    /// Its number.
    pub id: PortId,
    /// Its interface.
    pub interface: XdpInterface,
}

/// Forwards in the kernel's receive path.
pub struct KernelOffload {
    ports: Vec<KernelPort>,
    clock: Box<dyn Fn() -> Nanos + Send>,
    loaded: Option<Box<Loaded>>,
    /// Tables of the program with entries that the kernel cannot have.
    left: Left,
    /// What has no room, and since when, until the program is loaded anew.
    full: Option<(NoRoom, Nanos)>,
    notices: VecDeque<OffloadNotice>,
    /// The programs are to run on when it is stopped.
    leaves: Arc<AtomicBool>,
    /// For a grace period of RCU.
    wait: Wait,
}

impl KernelOffload {
    /// Serves these ports. `clock` gives the switch's time, which is the machine's monotonic one and an
    /// offset that does not change.
    pub fn new(ports: Vec<KernelPort>, clock: Box<dyn Fn() -> Nanos + Send>) -> KernelOffload {
        KernelOffload::leaving(ports, clock, Arc::default())
    }

    /// The same, but its programs run on when it is stopped while `leaves` says so.
    pub fn leaving(
        ports: Vec<KernelPort>,
        clock: Box<dyn Fn() -> Nanos + Send>,
        leaves: Arc<AtomicBool>,
    ) -> KernelOffload {
        KernelOffload {
            ports,
            clock,
            loaded: None,
            left: Left::new(),
            full: None,
            notices: VecDeque::new(),
            leaves,
            wait: bpf::wait_for_programs,
        }
    }

    /// The same, with another wait in RCU's place.
    #[cfg(test)]
    pub(super) fn waiting(self, wait: Wait) -> KernelOffload {
        KernelOffload { wait, ..self }
    }

    /// What is to be done about something that cannot be said in the kernel.
    fn unable(&mut self, unsaid: Unsaid) -> Unable {
        match unsaid {
            Unsaid::Table(table, reason) => drop(self.left.insert(table, reason)),
            Unsaid::NoRoom(full) => self.full = Some((full, (self.clock)())),
            Unsaid::Failed(reason) => return Unable::Failed(reason),
        }
        Unable::Anew
    }

    /// It forwards again, if something had no room.
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

    /// Takes the program over, without the tables with entries that the kernel cannot have.
    fn take(&mut self, written: &Written<'_>) -> Result<Loaded, Refused> {
        // Programs read the machine's clock and add this.
        let offset_ns = (self.clock)().wrapping_sub(bpf::kernel_clock_ns());
        loop {
            let refused = match Loaded::new(&self.ports, &self.left, offset_ns, self.wait, written)
            {
                Ok(loaded) => return Ok(loaded),
                Err(refused) => refused,
            };
            match &refused.why {
                // Nothing of it has forwarded.
                Unsaid::Table(table, reason) if !self.left.contains_key(table) => {
                    self.left.insert(*table, reason.clone());
                }
                _ => return Err(refused),
            }
        }
    }
}

impl Offload for KernelOffload {
    fn load(&mut self, written: &Written<'_>) -> Result<Vec<Interpreted>, String> {
        self.loaded = None;
        match self.take(written) {
            Ok(loaded) => {
                let left = loaded.left();
                self.loaded = Some(Box::new(loaded));
                self.note_loaded_anew(written);
                Ok(left)
            }
            Err(Refused { half, why }) => {
                // What an earlier process has left there is over, too.
                for port in &self.ports {
                    let _ = port.interface.run_own();
                }
                // What it has forwarded is told when it is stopped.
                self.loaded = half;
                Err(match why {
                    Unsaid::Table(_, reason) | Unsaid::Failed(reason) => reason,
                    Unsaid::NoRoom(full) => {
                        let table = full.table(written.state().program());
                        format!("{table}: no room for more than {}", full.n_entries_max)
                    }
                })
            }
        }
    }

    fn forget_program(&mut self) {
        self.left.clear();
        self.full = None;
    }

    fn changed(&mut self, written: &Written<'_>, change: &Change<'_>) {
        if let Some(loaded) = &mut self.loaded {
            loaded.changed(written, change);
        }
    }

    fn commit(&mut self, _written: &Written<'_>) -> Result<(), Unable> {
        let committed = self.loaded.as_mut().map_or(Ok(()), |it| it.commit());
        committed.map_err(|unsaid| self.unable(unsaid))
    }

    fn collect(&mut self, accounts: &mut Accounts<'_>) -> Result<(), Unable> {
        let now = (self.clock)();
        let loaded = self.loaded.as_mut();
        let collected = loaded.map_or(Ok(()), |loaded| loaded.collect(now, accounts));
        collected.map_err(|unsaid| self.unable(unsaid))
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
        checked.map_err(|unsaid| self.unable(unsaid))
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
