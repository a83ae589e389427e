//! A switch that belongs to the caller, lent to a device in the same process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataplane::{PayloadSignature, Switch, SwitchConfig};

use crate::switch_handle::{DrainWaiters, Subscriber, SwitchContext, SwitchHandle, Work};

/// The switch, lent to a device. Work runs at once, in the thread that hands it over; no packet comes
/// meanwhile, and nobody is told of what happens.
#[derive(Clone)]
pub struct Lent(Arc<Mutex<Switch>>);

impl Lent {
    /// Lends it.
    pub fn new(switch: Switch) -> Self {
        Self(Arc::new(Mutex::new(switch)))
    }

    /// The switch as it is now, to look at.
    pub fn switch(&self) -> MutexGuard<'_, Switch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The switch back. What is left to a device that still has the handle is one that is never used.
    pub fn take(self) -> Switch {
        std::mem::replace(&mut *self.switch(), Switch::new(SwitchConfig::default()))
    }
}

impl SwitchHandle for Lent {
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
