//! A switch in the caller's process that a device borrows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataplane::{PayloadSignature, Switch, SwitchConfig};

use crate::switch_handle::{DrainWaiters, Subscriber, SwitchContext, SwitchHandle, Work};

/// The borrowed switch. Work that the device submits to the switch runs at once, in the thread that submits it. The
/// switch processes no packets while the work runs. Subscribers are ignored, so they get no events.
#[derive(Clone)]
pub struct BorrowedSwitch(Arc<Mutex<Switch>>);

impl BorrowedSwitch {
    /// Puts the switch behind a lock that the device and the caller share.
    pub fn new(switch: Switch) -> Self {
        Self(Arc::new(Mutex::new(switch)))
    }

    /// Locks the switch for the caller; the device's work waits meanwhile.
    pub fn switch(&self) -> MutexGuard<'_, Switch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the switch back. Clones of this handle then refer to an empty switch.
    pub fn take(self) -> Switch {
        std::mem::replace(&mut *self.switch(), Switch::new(SwitchConfig::default()))
    }
}

impl SwitchHandle for BorrowedSwitch {
    fn payload_signatures(&self) -> Vec<PayloadSignature> {
        self.switch().payload_signatures()
    }

    fn submit(&self, _worker: usize, work: Work) {
        let mut switch = self.switch();
        let mut waiters = DrainWaiters::default();
        let mut next = Some(work);
        while let Some(work) = next {
            let mut context = SwitchContext {
                switch: &mut switch,
                now: 0,
                ports: &[],
                drain_waiters: &mut waiters,
                n_updates: 0,
                rest: None,
            };
            work(&mut context);
            next = context.rest;
        }
        waiters.notify(&switch);
    }

    fn subscribe(&self, _subscriber: Subscriber) {}
}
