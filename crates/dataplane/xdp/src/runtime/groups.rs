//! Writes multicast groups into the kernel's maps. Each version of a group is a fan-out: a device map, and the
//! instances (`egress_rid`) of the group's copies.
//!
//! Inserting a device map into the outer map (the map whose values are the device maps) takes a grace period of RCU;
//! writing into a device map does not. So a fan-out that no packet sees any more (a spare) keeps its map, for a later
//! version of any group with about as many replicas. When there is time, spare fan-outs are created
//! ([`FanOuts::stock`]). Without a spare, a thread inserts a new map and waits for the kernel. Nobody else waits for
//! the grace period, because packets find the map before it ends ([`FanOuts::publish`]). An empty entry of a device map
//! costs a packet some 9 ns, so a map has at most a quarter more entries than its group has replicas.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use bpf::{Batch, Map, Program, Write};
use dataplane::{PortId, Replica};

use super::grace::Graces;
use super::maps::{Maps, device_map};
use super::messages::Interface;
use super::ranges::Ranges;
use crate::image::FanOut;

/// The most spare fan-outs of one size. This many groups of that size can change within one grace period without
/// waiting.
const SPARES_MAX: usize = 4;

/// The most threads that wait for the kernel. If all of them are busy, the writer itself waits.
const THREADS_MAX: usize = 16;

/// How often the writer checks whether packets can find maps that are being inserted.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// Returns how many entries a device map has for `n_replicas` replicas.
fn n_places(n_replicas: u32) -> u32 {
    n_replicas.next_multiple_of((n_replicas.next_power_of_two() / 8).max(1))
}

/// A device map, which belongs to a fan-out or is a spare.
#[derive(Debug)]
struct Devices {
    /// The map's position in the outer map.
    number: u32,
    map: Arc<Map>,
    n_places: u32,
    /// For each entry, the number of its [`Device`], if it has one.
    there: Vec<Option<u64>>,
}

impl Devices {
    /// Writes only the entries that differ from `replicas`. In a conference all copies leave by the same port, so few
    /// entries differ.
    fn write(&mut self, replicas: &[Replica], target: &Target) -> io::Result<()> {
        for (place, replica) in replicas.iter().enumerate() {
            let device = target.devices.get(&replica.port);
            let before = self.there.get(place).copied();
            if before == Some(device.map(|it| it.number)) {
                continue;
            }
            let is_there = match device {
                Some(device) => target.put(&self.map, place as u32, device)?,
                None => false,
            };
            if !is_there && before.flatten().is_some() {
                self.map.delete(&(place as u32).to_ne_bytes())?;
            }
            let now = device.map(|it| it.number).filter(|_| is_there);
            match self.there.get_mut(place) {
                Some(there) => *there = now,
                None => self.there.push(now),
            }
        }
        for place in replicas.len()..self.there.len() {
            self.map.delete(&(place as u32).to_ne_bytes())?;
        }
        self.there.truncate(replicas.len());
        Ok(())
    }
}

/// A port's interface, for as long as the port has it. The kernel removes a disappearing interface from all maps.
#[derive(Debug, Clone, Copy)]
struct Device {
    interface: Interface,
    /// Differs each time the port gets an interface, even an interface with the same index.
    number: u64,
}

/// The program and the interfaces to which the entries of device maps refer.
#[derive(Debug)]
struct Target {
    egress: Program,
    /// Only ports that have an interface.
    devices: HashMap<PortId, Device>,
    n_devices: u64,
}

impl Target {
    /// Puts an interface into an entry of a device map. Returns false if the interface has disappeared, although
    /// [`FanOuts::set_interface`] has not been called for this yet.
    fn put(&self, map: &Map, place: u32, device: &Device) -> io::Result<bool> {
        match map.set_device(place, device.interface.index, Some(&self.egress)) {
            Ok(()) => Ok(true),
            Err(error) => {
                let index = device.interface.index.cast_signed();
                match packet_io::receive_queues(index) {
                    None => Ok(false),
                    Some(_) => Err(error),
                }
            }
        }
    }
}

/// Spares that a thread is inserting into the outer map, and the result of the insertion.
#[derive(Debug)]
struct Coming {
    result: Arc<OnceLock<io::Result<()>>>,
    made: Vec<Devices>,
}

/// A fan-out: one version of a group.
#[derive(Debug)]
struct Made {
    devices: Devices,
    /// The ports for which the fan-out has a key in the map [`FanOut::places`].
    ports: Vec<PortId>,
    first_instance: u32,
    n_instances: u32,
}

#[derive(Debug)]
pub(crate) struct FanOuts {
    layout: FanOut,
    /// Fan-outs that packets may see, by number.
    made: HashMap<u32, Made>,
    /// Device maps of fan-outs that no packet sees, by number of entries.
    spares: BTreeMap<u32, Vec<Devices>>,
    coming: Option<Coming>,
    /// Why the last spares could not be inserted.
    refused: Option<io::Error>,
    /// Number of fan-outs in `made`, by number of entries of their device maps.
    n_in_use: BTreeMap<u32, usize>,
    numbers: Ranges,
    instances: Ranges,
    /// Maps that are not in the outer map yet.
    new: Vec<New>,
    /// Each thread that waits for the kernel holds a clone, so the number of clones is the number of these threads.
    threads: Arc<()>,
    target: Target,
}

impl FanOuts {
    pub(crate) fn new(layout: FanOut, n_fan_outs: u32, egress: Program) -> FanOuts {
        FanOuts {
            numbers: Ranges::new(n_fan_outs),
            instances: Ranges::new(layout.n_instances),
            layout,
            made: HashMap::new(),
            spares: BTreeMap::new(),
            coming: None,
            refused: None,
            n_in_use: BTreeMap::new(),
            new: Vec::new(),
            threads: Arc::new(()),
            target: Target {
                egress,
                devices: HashMap::new(),
                n_devices: 0,
            },
        }
    }

    /// Sets a port's interface. Without an interface, no copies are made for the port.
    pub(crate) fn set_interface(&mut self, port: PortId, interface: Option<Interface>) {
        let devices = &mut self.target.devices;
        match interface {
            None => drop(devices.remove(&port)),
            Some(interface) => {
                self.target.n_devices += 1;
                let number = self.target.n_devices;
                devices.insert(port, Device { interface, number });
            }
        }
    }

    /// Returns the length of the longest frame that all interfaces of these replicas accept, in bytes.
    pub(crate) fn longest(&self, replicas: &[Replica]) -> u32 {
        let devices = replicas
            .iter()
            .filter_map(|replica| self.target.devices.get(&replica.port));
        let longest = devices.map(|device| device.interface.longest);
        longest.min().unwrap_or(u32::MAX)
    }

    /// Makes a fan-out for at least one replica. Packets find it after [`FanOuts::publish`]. Returns `None` if there
    /// is no room.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn make(&mut self, maps: &Maps, replicas: &[Replica]) -> io::Result<Option<u32>> {
        let n_instances = replicas.len() as u32;
        let Some(first_instance) = self.instances.take(n_instances) else {
            return Ok(None);
        };
        let Some(mut devices) = self.devices(n_places(n_instances))? else {
            self.instances.give_back(first_instance, n_instances);
            return Ok(None);
        };
        devices.write(replicas, &self.target)?;
        let number = devices.number;
        let mut by_port: BTreeMap<PortId, Vec<u16>> = BTreeMap::new();
        for replica in replicas {
            let instances = by_port.entry(replica.port).or_default();
            instances.push(replica.instance);
        }
        let places = maps.get(self.layout.places)?;
        let mut next = first_instance;
        for (port, instances) in &by_port {
            let key = place_key(number, *port);
            places.update(&key, &next.to_ne_bytes(), Write::Any)?;
            for instance in instances {
                maps.store_u32(self.layout.instances + 4 * next, u32::from(*instance));
                next += 1;
            }
        }
        *self.n_in_use.entry(devices.n_places).or_default() += 1;
        let made = Made {
            devices,
            ports: by_port.into_keys().collect(),
            first_instance,
            n_instances,
        };
        self.made.insert(number, made);
        Ok(Some(number))
    }

    /// Returns a map that no packet sees, or `None` if there are too many maps already.
    fn devices(&mut self, n_places: u32) -> io::Result<Option<Devices>> {
        self.receive();
        match self.spares.get_mut(&n_places).and_then(Vec::pop) {
            Some(spare) => Ok(Some(spare)),
            None => self.new_devices(n_places),
        }
    }

    fn new_devices(&mut self, n_places: u32) -> io::Result<Option<Devices>> {
        let number = self.numbers.take(1).or_else(|| {
            // Reuses the number of a spare of another size.
            let mut spares = self.spares.values_mut();
            spares.find_map(Vec::pop).map(|spare| spare.number)
        });
        let Some(number) = number else {
            return Ok(None);
        };
        let map = match device_map(n_places) {
            Ok(map) => Arc::new(map),
            Err(error) => {
                self.numbers.give_back(number, 1);
                return Err(error);
            }
        };
        let new = Arc::clone(&map);
        self.new.push(New { number, map: new });
        Ok(Some(Devices {
            number,
            map,
            n_places,
            there: Vec::new(),
        }))
    }

    /// Creates spares for the next versions of the present groups; they are ready a grace period later. Returns false
    /// if the caller must call again later: other spares are being inserted, or a commit has new maps that must reach
    /// the outer map before the commit is visible.
    ///
    /// # Errors
    /// Why there are fewer spares than there should be. Without a spare, a change of a group takes a little longer.
    pub(crate) fn stock(&mut self, maps: &Arc<Maps>, graces: &Graces) -> io::Result<bool> {
        self.receive();
        if self.coming.is_some() || !self.new.is_empty() {
            return Ok(false);
        }
        let mut made = Vec::new();
        let all = self.make_spares(&mut made);
        if !made.is_empty() {
            self.put_spares(made, maps, graces);
        }
        all.map(|()| true)
    }

    fn make_spares(&mut self, made: &mut Vec<Devices>) -> io::Result<()> {
        for (size, n) in self.wanted() {
            let n_there = self.spares.get(&size).map_or(0, Vec::len);
            for _ in n_there..n {
                // Do not take the number of another spare.
                if self.numbers.is_empty() {
                    break;
                }
                made.extend(self.new_devices(size)?);
            }
        }
        Ok(())
    }

    /// Queues a job that inserts the spares into the outer map and thereby waits for a grace period. If the kernel
    /// refuses the insertion, there are no spares; no packet depends on them.
    fn put_spares(&mut self, made: Vec<Devices>, maps: &Arc<Maps>, graces: &Graces) {
        let (new, devices) = (std::mem::take(&mut self.new), self.layout.devices);
        let (maps, result) = (Arc::clone(maps), Arc::new(OnceLock::new()));
        self.coming = Some(Coming {
            result: Arc::clone(&result),
            made,
        });
        graces.do_within(Box::new(move || {
            let put = maps.get(devices).and_then(|map| put(map, &new));
            let has_waited = put.is_ok();
            // Only this job sets the result.
            let _ = result.set(put);
            if has_waited {
                Ok(())
            } else {
                bpf::wait_for_programs()
            }
        }));
    }

    /// Returns why the kernel refused the last spares, if it did.
    pub(crate) fn take_refused(&mut self) -> Option<io::Error> {
        self.receive();
        self.refused.take()
    }

    /// Returns how many spares there should be, by number of entries.
    fn wanted(&self) -> BTreeMap<u32, usize> {
        let mut wanted: BTreeMap<u32, usize> = BTreeMap::new();
        for (size, n) in &self.n_in_use {
            for size in [*size, n_places(size + 1)] {
                let wanted = wanted.entry(size).or_default();
                *wanted = (*wanted + n).min(SPARES_MAX);
            }
        }
        wanted
    }

    /// Takes in spares that have been inserted.
    fn receive(&mut self) {
        let Some(come) = self.coming.take_if(|it| it.result.get().is_some()) else {
            return;
        };
        let refused = come.result.get().and_then(|result| result.as_ref().err());
        if let Some(error) = refused {
            self.refused = Some(io::Error::new(error.kind(), error.to_string()));
        }
        for devices in come.made {
            if refused.is_some() {
                self.numbers.give_back(devices.number, 1);
                continue;
            }
            let spares = self.spares.entry(devices.n_places).or_default();
            spares.push(devices);
        }
    }

    /// Inserts all new maps into the outer map, and waits until packets find them. After that the kernel still waits
    /// for a grace period because of the previous maps, which no packet sees.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn publish(&mut self, maps: &Arc<Maps>) -> io::Result<()> {
        if self.new.is_empty() {
            return Ok(());
        }
        let new = Arc::new(std::mem::take(&mut self.new));
        let (result, devices) = (Arc::new(OnceLock::new()), self.layout.devices);
        if Arc::strong_count(&self.threads) > THREADS_MAX {
            return put(maps.get(devices)?, &new);
        }
        let (of_thread, news, put_into) = (Arc::clone(&result), Arc::clone(&new), Arc::clone(maps));
        let counted = Arc::clone(&self.threads);
        // The thread ends by itself a grace period later, even if this `FanOuts` has been dropped by then.
        let thread = thread::Builder::new().name("reprise-maps".into());
        let spawned = thread.spawn(move || {
            let put = put_into.get(devices).and_then(|map| put(map, &news));
            // Only this thread sets the result.
            let _ = of_thread.set(put);
            drop(counted);
        });
        match spawned {
            Ok(_) => await_there(maps.get(devices)?, &new, &result),
            // If no thread starts, the writer waits.
            Err(_) => put(maps.get(devices)?, &new),
        }
    }

    /// Removes a fan-out that no packet sees any more.
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
        let size = made.devices.n_places;
        if let Some(n) = self.n_in_use.get_mut(&size) {
            *n -= 1;
        }
        self.n_in_use.retain(|_, n| *n > 0);
        self.spares.entry(size).or_default().push(made.devices);
        Ok(())
    }
}

/// A map that is not in the outer map yet, and its position there.
#[derive(Debug)]
struct New {
    number: u32,
    map: Arc<Map>,
}

/// Inserts maps into the outer map, and waits for a grace period of RCU.
fn put(outer: &Map, new: &[New]) -> io::Result<()> {
    let descriptor = |new: &New| new.map.as_fd().as_raw_fd().to_ne_bytes();
    outer.update_batch(&Batch {
        keys: new.iter().flat_map(|it| it.number.to_ne_bytes()).collect(),
        values: new.iter().flat_map(descriptor).collect(),
    })
}

/// Waits until the maps are in the outer map, or `result` has an error.
fn await_there(outer: &Map, new: &[New], result: &OnceLock<io::Result<()>>) -> io::Result<()> {
    for New { number, map } in new {
        let id = map.id()?.to_ne_bytes();
        loop {
            // The result is read before the lookup: then the lookup sees all maps that were inserted before the result
            // was set.
            let is_over = result.get();
            if outer.look_up(&number.to_ne_bytes())?.as_deref() == Some(&id) {
                break;
            }
            match is_over {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
                None => thread::sleep(LOOK_EVERY),
            }
        }
    }
    Ok(())
}

fn place_key(number: u32, port: PortId) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&number.to_ne_bytes());
    key[4..].copy_from_slice(&u32::from(port.0).to_ne_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing;
    use testkit::namespace::may_use_bpf;

    #[test]
    fn spares_that_the_outer_map_refuses_hold_nothing_up_and_leave_their_numbers() {
        if !may_use_bpf() {
            return;
        }
        let egress = testing::passing().expect("a program that does nothing");
        let image = testing::image();
        let maps = Arc::new(Maps::create(&image, 1).expect("maps"));
        let layout = image.fan_out.clone().expect("groups");
        let n_there = image.maps[layout.devices.index()].n_entries_max;
        // There are two more numbers than the outer map has entries.
        let mut fan_outs = FanOuts::new(layout, n_there + 2, egress);
        assert_eq!(fan_outs.numbers.take(n_there), Some(0));
        fan_outs.n_in_use.insert(1, 1);
        let graces = Arc::new(Graces::new(bpf::wait_for_programs, None));
        let thread = graces.start(|| ()).expect("a thread");
        for _ in 0..2 {
            assert!(fan_outs.stock(&maps, &graces).expect("maps for them"));
            graces.wait_past(graces.now()).expect("it goes on");
            fan_outs.take_refused().expect("a place that is not there");
            assert!(fan_outs.take_refused().is_none() && fan_outs.coming.is_none());
            assert!(fan_outs.spares.is_empty());
        }
        // Free two numbers for which the outer map has entries.
        fan_outs.numbers.give_back(0, 2);
        assert!(fan_outs.stock(&maps, &graces).expect("maps for them"));
        graces.wait_past(graces.now()).expect("it goes on");
        assert!(fan_outs.take_refused().is_none());
        let n_spares = fan_outs.spares.values().map(Vec::len);
        assert_eq!(n_spares.collect::<Vec<_>>(), [1, 1]);
        graces.stop();
        thread.join().expect("no panic");
    }

    #[test]
    fn maps_that_were_made_are_found_when_they_are_published() {
        if !may_use_bpf() {
            return;
        }
        let egress = testing::passing().expect("a program that does nothing");
        let image = testing::image();
        let maps = Arc::new(Maps::create(&image, 1).expect("maps"));
        let layout = image.fan_out.clone().expect("groups");
        let n_there = image.maps[layout.devices.index()].n_entries_max;
        let outer = maps.get(layout.devices).expect("an outer map");
        let mut fan_outs = FanOuts::new(layout, n_there + 1, egress);
        let mut all_threads = Vec::new();
        for round in 0..20 {
            if round == 15 {
                // From now on `THREADS_MAX` threads seem to wait, so `publish` inserts the maps without a thread.
                all_threads.extend((0..THREADS_MAX).map(|_| Arc::clone(&fan_outs.threads)));
            }
            let made = [1, 2, 3].map(|size| fan_outs.new_devices(size).expect("a map"));
            fan_outs.publish(&maps).expect("the kernel takes them");
            for (devices, place) in made.into_iter().flatten().zip(3 * round..) {
                assert_eq!(devices.number, place);
                let found = outer.look_up(&place.to_ne_bytes()).expect("a place");
                let id = devices.map.id().expect("it has a number");
                assert_eq!(found, Some(id.to_ne_bytes().to_vec()));
            }
        }
        // The next map has a number beyond the outer map's last entry.
        let rest = n_there - 60;
        assert_eq!(fan_outs.numbers.take(rest), Some(60));
        assert!(fan_outs.new_devices(1).expect("a map").is_some());
        let refused = fan_outs.publish(&maps);
        assert!(refused.is_err(), "a place that is not there");
    }

    #[test]
    fn a_map_has_up_to_a_quarter_more_places_than_replicas() {
        let sizes = [1, 2, 3, 5, 9, 17, 33, 64, 65, 1000];
        let places = [1, 2, 3, 5, 10, 20, 40, 64, 80, 1024];
        assert_eq!(sizes.map(n_places), places);
        for n in 1..5000 {
            assert!((n..=n + n / 4).contains(&n_places(n)), "{n}");
            assert!(n_places(n + 1) >= n_places(n), "{n}");
        }
    }
}
