//! Multicast groups as the kernel has them: for each version of a group, a fan-out, with a map of devices
//! and the instances of its copies.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use bpf::{Batch, Map, Program, Write};
use dataplane::{PortId, Replica};

use super::maps::{Maps, device_map};
use super::ranges::Ranges;
use crate::image::FanOut;

/// One version of a group.
#[derive(Debug)]
struct Made {
    /// Keys in the map of places.
    ports: Vec<PortId>,
    first_instance: u32,
    n_instances: u32,
    /// Held: the outer map has it too.
    _devices: Map,
}

/// The fan-outs that there are.
#[derive(Debug)]
pub(crate) struct FanOuts {
    layout: FanOut,
    made: HashMap<u32, Made>,
    numbers: Ranges,
    instances: Ranges,
    /// Those that are not in the outer map yet.
    new: Batch,
    egress: Arc<Program>,
    /// By port.
    interfaces: HashMap<PortId, u32>,
}

impl FanOuts {
    pub(crate) fn new(
        layout: FanOut,
        n_fan_outs: u32,
        egress: Arc<Program>,
        interfaces: HashMap<PortId, u32>,
    ) -> FanOuts {
        FanOuts {
            numbers: Ranges::new(n_fan_outs),
            instances: Ranges::new(layout.n_instances),
            layout,
            made: HashMap::new(),
            new: Batch::default(),
            egress,
            interfaces,
        }
    }

    /// Makes a fan-out for these replicas, of which there is at least one. Packets find it after
    /// [`FanOuts::publish`].
    ///
    /// # Errors
    /// The kernel's error; there is no room; a replica's port has no interface.
    pub(crate) fn make(&mut self, maps: &Maps, replicas: &[Replica]) -> io::Result<u32> {
        let full = |what| io::Error::other(format!("no room for more {what}"));
        let n_instances = replicas.len() as u32;
        let number = self.numbers.take(1).ok_or_else(|| full("groups"))?;
        let first = self.instances.take(n_instances);
        let Some(first) = first else {
            self.numbers.give_back(number, 1);
            return Err(full("replicas"));
        };
        let devices = device_map(n_instances)?;
        let mut by_port: BTreeMap<PortId, Vec<u16>> = BTreeMap::new();
        for (place, replica) in (0..).zip(replicas) {
            let Some(interface) = self.interfaces.get(&replica.port) else {
                let message = format!("port {} has no interface", replica.port);
                return Err(io::Error::other(message));
            };
            devices.set_device(place, *interface, Some(&self.egress))?;
            by_port
                .entry(replica.port)
                .or_default()
                .push(replica.instance);
        }
        let places = maps.get(self.layout.places)?;
        let mut next = first;
        for (port, instances) in &by_port {
            let key = place_key(number, *port);
            places.update(&key, &next.to_ne_bytes(), Write::Any)?;
            for instance in instances {
                maps.store_u32(self.layout.instances + 4 * next, u32::from(*instance));
                next += 1;
            }
        }
        self.new.keys.extend(number.to_ne_bytes());
        let descriptor = devices.as_fd().as_raw_fd();
        self.new.values.extend(descriptor.to_ne_bytes());
        let made = Made {
            ports: by_port.into_keys().collect(),
            first_instance: first,
            n_instances,
            _devices: devices,
        };
        self.made.insert(number, made);
        Ok(number)
    }

    /// Whether [`FanOuts::publish`] has something to do.
    pub(crate) fn is_to_be_published(&self) -> bool {
        !self.new.keys.is_empty()
    }

    /// Puts all that were made into the outer map. The kernel waits for one grace period.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn publish(&mut self, maps: &Maps) -> io::Result<()> {
        let new = std::mem::take(&mut self.new);
        maps.get(self.layout.devices)?.update_batch(&new)
    }

    /// Takes a fan-out away that no packet sees any more.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn take_away(&mut self, maps: &Maps, number: u32) -> io::Result<()> {
        let Some(made) = self.made.remove(&number) else {
            return Ok(());
        };
        let places = maps.get(self.layout.places)?;
        for port in &made.ports {
            places.delete(&place_key(number, *port))?;
        }
        self.instances
            .give_back(made.first_instance, made.n_instances);
        self.numbers.give_back(number, 1);
        Ok(())
    }
}

fn place_key(number: u32, port: PortId) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&number.to_ne_bytes());
    key[4..].copy_from_slice(&u32::from(port.0).to_ne_bytes());
    key
}
