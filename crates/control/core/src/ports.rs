//! The ports of a device: state and counters, summed over all workers, and whether a port is enabled.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataplane::{PortCounters, PortId};
use tokio::sync::watch;

use crate::device::{Device, lock};
use crate::error::Error;
use crate::exclusive::Exclusive;
use crate::store::Kept;
use crate::switch_handle::PortStatus;

/// The last control call that enabled or disabled a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EnabledSince {
    is_enabled: bool,
    /// Nanoseconds since the Unix epoch.
    since_ns: u64,
}

/// A port's state and its counters, which are summed over all workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Port {
    /// The port's state as the event loops know it.
    pub status: PortStatus,
    /// The switch's counters of the port.
    pub counters: PortCounters,
    /// When the port was last enabled or disabled or its link changed, in nanoseconds since the Unix epoch; 0 if
    /// unknown.
    pub last_change_ns: u64,
}

impl Port {
    fn add(mut self, other: &Self) -> Self {
        self.status.add(&other.status);
        self.counters.add(&other.counters);
        self
    }
}

impl Device {
    /// Returns every port in command-line order, without exclusive access. The counters include the offload's counts.
    /// Whether a port is reported as enabled depends on the last finished call that enabled or disabled it.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn ports(&self) -> Result<Vec<Port>, Error> {
        let answers = self.submit(|_, context| {
            context.switch.collect();
            let counters = context.switch.counters();
            let port = |status: &PortStatus| Port {
                status: status.clone(),
                counters: counters.port(status.id),
                last_change_ns: status.link_changed_ns,
            };
            context.ports.iter().map(port).collect::<Vec<_>>()
        });
        let mut workers = answers.all().await?.into_iter();
        let mut ports = workers.next().unwrap_or_default();
        for theirs in workers {
            let both = ports.into_iter().zip(theirs);
            ports = both.map(|(ours, theirs)| ours.add(&theirs)).collect();
        }
        let enabled = lock(&self.enabled);
        for port in &mut ports {
            let said = enabled.get(&port.status.id);
            port.status.is_disabled = said.is_some_and(|said| !said.is_enabled);
            let since_ns = said.map_or(0, |said| said.since_ns);
            port.last_change_ns = port.last_change_ns.max(since_ns);
        }
        Ok(ports)
    }

    /// Returns a receiver that is notified when a port's link changes or a port is enabled or disabled. Several changes
    /// may cause one notification.
    pub fn port_changes(&self) -> watch::Receiver<u64> {
        self.links.follow()
    }

    /// Enables ports (true) or disables them (false), all under one exclusive access. Changes nothing at ports that
    /// already have the wanted state. `clock` returns nanoseconds since the Unix epoch. It is called when the change is
    /// in force, which may be long after the call.
    ///
    /// # Errors
    /// [`Error::Stopped`]; [`Error::NotStored`]: the switch has the change, but a restart may lose it.
    pub async fn set_ports_enabled(
        self: &Arc<Self>,
        ports: Vec<(PortId, bool)>,
        clock: fn() -> u64,
    ) -> Result<(), Error> {
        let call = move |exclusive: Exclusive| async move {
            exclusive.set_ports_enabled(ports, clock).await
        };
        self.exclusively(call).await?
    }
}

impl Exclusive {
    /// Like [`Device::set_ports_enabled`], under this exclusive access, which then ends. If a port occurs several
    /// times, its last value counts.
    ///
    /// # Errors
    /// [`Error::Stopped`]; [`Error::NotStored`].
    pub async fn set_ports_enabled(
        self,
        ports: Vec<(PortId, bool)>,
        clock: fn() -> u64,
    ) -> Result<(), Error> {
        let device = Arc::clone(self.device());
        let mut new: BTreeMap<PortId, bool> = ports.into_iter().collect();
        {
            let enabled = lock(&device.enabled);
            let is_so = |id: &PortId| enabled.get(id).is_none_or(|said| said.is_enabled);
            new.retain(|id, is_enabled| *is_enabled != is_so(id));
        }
        if new.is_empty() {
            return Ok(());
        }
        let new: Arc<[(PortId, bool)]> = new.into_iter().collect();
        let written = Arc::clone(&new);
        let answers = device.submit(move |_, context| {
            for (id, is_enabled) in written.iter() {
                context.switch.set_port_enabled(*id, *is_enabled);
            }
            context.n_updates += written.len();
        });
        answers.all().await?;
        // The switch has the change even if the store fails, so the change is reported in any case.
        let kept = self.keep(Kept::Ports(Arc::clone(&new))).await;
        {
            let mut enabled = lock(&device.enabled);
            let since_ns = clock();
            for (id, is_enabled) in new.iter() {
                let said = EnabledSince {
                    is_enabled: *is_enabled,
                    since_ns,
                };
                enabled.insert(*id, said);
            }
        }
        device.links.notify();
        kept
    }
}
