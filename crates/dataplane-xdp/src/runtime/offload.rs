//! The program in the kernel as the switch has it: an offload ([`dataplane::offload`]).
//!
//! Each port has an XDP program of its own that gives all frames to its socket ([`packet_io::AfXdpPort`]). While
//! a program is loaded, the compiled one runs in its place and gives the socket what it punts.

use dataplane::engine::{Change, Interpreted};
use dataplane::offload::{Accounts, Written};
use dataplane::{DropReason, Nanos, Offload, PortId};
use packet_io::XdpInterface;

use super::loaded::Loaded;

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
    loaded: Option<Loaded>,
}

impl KernelOffload {
    /// Serves these ports. `clock` gives the switch's time, which is the machine's monotonic one and an
    /// offset that does not change.
    pub fn new(ports: Vec<KernelPort>, clock: Box<dyn Fn() -> Nanos + Send>) -> KernelOffload {
        KernelOffload {
            ports,
            clock,
            loaded: None,
        }
    }
}

impl Offload for KernelOffload {
    fn load(&mut self, written: &Written<'_>) -> Result<Vec<Interpreted>, String> {
        self.loaded = None;
        // Programs read the machine's clock and add this.
        let offset_ns = (self.clock)().wrapping_sub(bpf::kernel_clock_ns());
        let loaded = Loaded::new(&self.ports, offset_ns, written)?;
        let left = loaded.left();
        self.loaded = Some(loaded);
        Ok(left)
    }

    fn changed(&mut self, written: &Written<'_>, change: &Change<'_>) {
        if let Some(loaded) = &mut self.loaded {
            loaded.changed(written, change);
        }
    }

    fn commit(&mut self, _written: &Written<'_>) -> Result<(), String> {
        self.loaded.as_mut().map_or(Ok(()), Loaded::commit)
    }

    fn collect(&mut self, accounts: &mut Accounts<'_>) -> Result<(), String> {
        let now = (self.clock)();
        let loaded = self.loaded.as_mut();
        loaded.map_or(Ok(()), |loaded| loaded.collect(now, accounts))
    }

    fn begin_drain(&mut self, epoch: u64) {
        if let Some(loaded) = &mut self.loaded {
            loaded.begin_drain(epoch);
        }
    }

    fn is_drained(&self, epoch: u64) -> bool {
        self.loaded.as_ref().is_none_or(|it| it.is_drained(epoch))
    }

    fn stop(&mut self, reason: DropReason, accounts: &mut Accounts<'_>) {
        if let Some(loaded) = self.loaded.take() {
            loaded.stop((self.clock)(), reason, accounts);
        }
    }
}
