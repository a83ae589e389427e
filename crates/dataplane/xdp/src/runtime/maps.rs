//! The maps of a compiled program (an [`Image`]), created in the kernel. One of them, the heap, has a single value that
//! is mapped into this process.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use bpf::{Map, MapConfig, MapKind, Memory};

use crate::asm::Code;
use crate::image::{Image, MapRef, MapRole};

/// The number of entries of the template. The kernel requires a map as a template for the maps in an array of maps.
const TEMPLATE_ENTRIES: u32 = 1;

/// The size of `struct bpf_devmap_val`, which names an interface and a program that runs on frames leaving through it.
const DEVICE_BYTES: u32 = 8;

enum Made {
    Heap(Memory),
    Map(Map),
}

/// An image's maps, by [`MapRef`].
pub(crate) struct Maps {
    made: Vec<Made>,
    heap: usize,
}

impl Maps {
    /// Creates the maps, with room for at least `n_sockets` sockets.
    ///
    /// # Errors
    /// The kernel refuses a map, or the image has no heap.
    pub(crate) fn create(image: &Image, n_sockets: u32) -> io::Result<Maps> {
        let template = device_map(TEMPLATE_ENTRIES)?;
        let mut made = Vec::with_capacity(image.maps.len());
        let mut heap = None;
        for spec in &image.maps {
            let is_fan_outs = spec.role == MapRole::FanOuts;
            let map = Map::create(&MapConfig {
                name: &spec.name,
                kind: spec.kind,
                key_bytes: spec.key_bytes,
                value_bytes: match spec.role {
                    MapRole::Devices => DEVICE_BYTES,
                    _ => spec.value_bytes,
                },
                n_entries_max: match spec.role {
                    MapRole::Sockets => spec.n_entries_max.max(n_sockets),
                    _ => spec.n_entries_max,
                },
                flags: spec.flags,
                inner: is_fan_outs.then(|| template.as_fd()),
            });
            let map = map.map_err(|error| of_map(&spec.name, &error))?;
            made.push(match spec.role {
                MapRole::Heap => {
                    heap = Some(made.len());
                    Made::Heap(Memory::map_array(map).map_err(|error| of_map(&spec.name, &error))?)
                }
                _ => Made::Map(map),
            });
        }
        let heap = heap.ok_or_else(|| io::Error::other("the image has no heap"))?;
        let maps = Maps { made, heap };
        for (at, bytes) in &image.constants {
            maps.store_bytes(*at, bytes);
        }
        Ok(maps)
    }

    /// # Errors
    /// The program was compiled without this map.
    pub(crate) fn get(&self, map: MapRef) -> io::Result<&Map> {
        match self.made.get(map.index()) {
            Some(Made::Map(map)) => Ok(map),
            Some(Made::Heap(memory)) => Ok(memory.map()),
            None => Err(io::Error::other(format!("the image has no map {}", map.0))),
        }
    }

    /// Returns the code with the maps' descriptors in it.
    pub(crate) fn link(&self, code: &Code) -> Vec<bpf::Instruction> {
        code.link(|map| match &self.made[map.index()] {
            Made::Heap(memory) => memory.map().as_fd(),
            Made::Map(map) => map.as_fd(),
        })
    }

    fn heap(&self) -> Option<&Memory> {
        match self.made.get(self.heap) {
            Some(Made::Heap(memory)) => Some(memory),
            _ => None,
        }
    }

    pub(crate) fn store_u32(&self, at: u32, value: u32) {
        let word = self
            .heap()
            .and_then(|heap| heap.halves().get(at as usize / 4));
        if let Some(word) = word {
            word.store(value, Ordering::Release);
        }
    }

    /// Stores eight bytes in the heap. Programs that see this store also see all earlier stores.
    pub(crate) fn store_u64(&self, at: u32, value: u64) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    /// Loads eight bytes from the heap, before all later loads and stores (acquire).
    pub(crate) fn load_u64(&self, at: u32) -> Option<u64> {
        self.word(at).map(|word| word.load(Ordering::Acquire))
    }

    /// Stores words of eight bytes in host order.
    pub(crate) fn store_bytes(&self, at: u32, bytes: &[u8]) {
        for (at, word) in (at..).step_by(8).zip(bytes.chunks_exact(8)) {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            self.store_u64(at, word);
        }
    }

    fn word(&self, at: u32) -> Option<&AtomicU64> {
        self.heap()?.words().get(at as usize / 8)
    }
}

/// Creates an empty device map with room for this number of entries, which must not be 0.
///
/// # Errors
/// The kernel's error.
pub(crate) fn device_map(n_entries: u32) -> io::Result<Map> {
    Map::create(&MapConfig {
        name: "reprise_copies",
        kind: MapKind::DeviceMap,
        key_bytes: 4,
        value_bytes: DEVICE_BYTES,
        n_entries_max: n_entries,
        flags: 0,
        inner: None,
    })
}

fn of_map(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("map \"{name}\": {error}"))
}
