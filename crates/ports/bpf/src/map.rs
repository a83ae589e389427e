//! Maps: memory that programs and the process share.

#![expect(unsafe_code, reason = "keys and values go to bpf(2) as addresses")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::Program;
use crate::pin;
use crate::processors::n_possible_processors;
use crate::sys::{
    MapCreate, MapDelete, MapLookUp, MapLookUpBatch, MapNextKey, MapUpdate, MapUpdateBatch,
    ObjectInfo, call, call_for_descriptor, number, object_name,
};

/// Values of `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    PerCpuHash = 5,
    PerCpuArray = 6,
    LpmTrie = 11,
    ArrayOfMaps = 12,
    DeviceMap = 14,
    SocketMap = 17,
    DeviceMapHash = 25,
    RingBuffer = 27,
}

impl MapKind {
    fn is_per_cpu(self) -> bool {
        matches!(self, MapKind::PerCpuHash | MapKind::PerCpuArray)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct MapConfig<'a> {
    /// `bpftool` shows the first 15 characters.
    pub name: &'a str,
    pub kind: MapKind,
    /// The size of a key in bytes. An LPM trie's key begins with four bytes for the length of the prefix.
    pub key_bytes: u32,
    /// The size of a value in bytes. In a per-CPU map this is the size of one processor's value.
    pub value_bytes: u32,
    /// The maximum number of entries; for a ring buffer, its size in bytes.
    pub n_entries_max: u32,
    /// `BPF_F_*` flags in addition to those that the kind needs.
    pub flags: u32,
    /// For an array of maps: a map with the properties of all inner maps.
    pub inner: Option<BorrowedFd<'a>>,
}

impl MapConfig<'_> {
    /// The kernel allocates the memory of an entry only when the entry is written.
    pub const NO_PREALLOCATION: u32 = 1;
    /// The process can map the array into its memory ([`crate::Memory`]).
    pub const MAPPABLE: u32 = 1 << 10;
}

/// The condition under which a write succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Write {
    /// Always: the key may have an entry or not.
    Any = 0,
    /// Only if the key has no entry.
    New = 1,
    /// Only if the key has an entry.
    Existing = 2,
}

/// Entries of a map: all keys one after the other, and all values one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub keys: Vec<u8>,
    /// In a per-CPU map, each value is as [`Map::look_up`] returns it.
    pub values: Vec<u8>,
}

/// A map. The kernel keeps it as long as a descriptor or a program refers to it.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    kind: MapKind,
    key_bytes: usize,
    /// The size in bytes of a value as bpf(2) copies it. In a per-CPU map bpf(2) copies the values of all processors
    /// together.
    value_bytes: usize,
    n_entries_max: u32,
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    map_type: u32,
    id: u32,
    key_bytes: u32,
    value_bytes: u32,
    n_entries_max: u32,
    flags: u32,
}

impl MapInfo {
    fn of(fd: BorrowedFd<'_>) -> io::Result<MapInfo> {
        let mut info = MapInfo::default();
        let mut attributes = ObjectInfo {
            fd: number(fd),
            info_bytes: size_of::<MapInfo>() as u32,
            info: &raw mut info as u64,
        };
        // SAFETY: the kernel writes at most `info_bytes` bytes, into fields that are all integers.
        unsafe { call(&mut attributes) }?;
        Ok(info)
    }
}

impl Map {
    /// Creates a map.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn create(config: &MapConfig<'_>) -> io::Result<Map> {
        let mut flags = config.flags;
        if config.kind == MapKind::LpmTrie {
            flags |= MapConfig::NO_PREALLOCATION;
        }
        let mut attributes = MapCreate {
            map_type: config.kind as u32,
            key_bytes: config.key_bytes,
            value_bytes: config.value_bytes,
            n_entries_max: config.n_entries_max,
            flags,
            inner_map_fd: config.inner.map_or(0, number),
            name: object_name(config.name),
            ..MapCreate::default()
        };
        // SAFETY: the attributes hold no addresses.
        let fd = unsafe { call_for_descriptor(&mut attributes) }?;
        Map::of(
            fd,
            config.kind,
            config.key_bytes,
            config.value_bytes,
            config.n_entries_max,
        )
    }

    fn of(
        fd: OwnedFd,
        kind: MapKind,
        key_bytes: u32,
        value_bytes: u32,
        n_entries_max: u32,
    ) -> io::Result<Map> {
        let value_bytes = if kind.is_per_cpu() {
            (value_bytes as usize).next_multiple_of(8) * n_possible_processors()?
        } else {
            value_bytes as usize
        };
        Ok(Map {
            fd,
            kind,
            key_bytes: key_bytes as usize,
            value_bytes,
            n_entries_max,
        })
    }

    /// Opens a pinned map.
    ///
    /// # Errors
    /// The kernel's error; a map whose type, sizes or number of entries differ from `expected`.
    pub fn pinned(path: &Path, expected: &MapConfig<'_>) -> io::Result<Map> {
        let fd = pin::get(path)?;
        let info = MapInfo::of(fd.as_fd())?;
        let found = (
            info.map_type,
            info.key_bytes,
            info.value_bytes,
            info.n_entries_max,
        );
        let wanted = (
            expected.kind as u32,
            expected.key_bytes,
            expected.value_bytes,
            expected.n_entries_max,
        );
        if found != wanted {
            let message = format!(
                "{}: expected a map of type, key, value and entries {wanted:?}, found {found:?}",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let (_, key_bytes, value_bytes, n_entries_max) = found;
        Map::of(fd, expected.kind, key_bytes, value_bytes, n_entries_max)
    }

    /// Pins the map: gives it a name in the BPF file system, so that it outlives the process.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        pin::pin(self.fd.as_fd(), path)
    }

    /// Duplicates the descriptor.
    ///
    /// # Errors
    /// The process has no free descriptor.
    pub fn try_clone(&self) -> io::Result<Map> {
        Ok(Map {
            fd: self.fd.try_clone()?,
            ..*self
        })
    }

    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Returns the size of a value in bytes. In a per-CPU map this is the size of all processors' values together, each
    /// padded to a multiple of eight bytes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Returns the maximum number of entries; for a ring buffer, its size in bytes.
    pub fn n_entries_max(&self) -> u32 {
        self.n_entries_max
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// The kernel's error; a key or a value of a wrong length.
    pub fn update(&self, key: &[u8], value: &[u8], write: Write) -> io::Result<()> {
        self.check(key.len() == self.key_bytes && value.len() == self.value_bytes)?;
        let mut attributes = MapUpdate {
            map_fd: number(self.fd.as_fd()),
            key: key.as_ptr() as u64,
            value: value.as_ptr() as u64,
            flags: write as u64,
            padding: 0,
        };
        // SAFETY: key and value are as long as the kernel reads, and live through the call.
        unsafe { call(&mut attributes) }.map(drop)
    }

    /// Reads a key's value into `value`, which must have a value's length. Returns whether the key has an entry.
    ///
    /// # Errors
    /// The kernel's error; a key or a value of a wrong length.
    pub fn look_up_into(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        self.check(key.len() == self.key_bytes && value.len() == self.value_bytes)?;
        let mut attributes = MapLookUp {
            map_fd: number(self.fd.as_fd()),
            key: key.as_ptr() as u64,
            value: value.as_mut_ptr() as u64,
            flags: 0,
            padding: 0,
        };
        // SAFETY: key and value are as long as the kernel reads and writes, and live through the call.
        is_there(unsafe { call(&mut attributes) })
    }

    /// Reads a key's value; in a per-CPU map, all processors' values, each padded to a multiple of eight bytes.
    ///
    /// # Errors
    /// The kernel's error; a key of a wrong length.
    pub fn look_up(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value_bytes];
        Ok(self.look_up_into(key, &mut value)?.then_some(value))
    }

    /// Removes a key's entry. Returns whether there was one.
    ///
    /// # Errors
    /// The kernel's error; a key of a wrong length.
    pub fn delete(&self, key: &[u8]) -> io::Result<bool> {
        self.check(key.len() == self.key_bytes)?;
        let mut attributes = MapDelete {
            map_fd: number(self.fd.as_fd()),
            key: key.as_ptr() as u64,
            padding: 0,
        };
        // SAFETY: the key is as long as the kernel reads, and lives through the call.
        is_there(unsafe { call(&mut attributes) })
    }

    /// Returns the key after `key` in the map's order, or the first key if `key` is `None`; `None` after the last key.
    ///
    /// # Errors
    /// The kernel's error; a key of a wrong length.
    pub fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        self.check(key.is_none_or(|key| key.len() == self.key_bytes))?;
        let mut next = vec![0; self.key_bytes];
        let mut attributes = MapNextKey {
            map_fd: number(self.fd.as_fd()),
            key: key.map_or(0, |key| key.as_ptr() as u64),
            next_key: next.as_mut_ptr() as u64,
            padding: 0,
        };
        // SAFETY: both keys are as long as the kernel reads and writes, and live through the call.
        Ok(is_there(unsafe { call(&mut attributes) })?.then_some(next))
    }

    /// Writes many entries in one call, one after the other. On an error, the number of entries written is unknown.
    ///
    /// # Errors
    /// The kernel's error; keys or values of wrong lengths.
    pub fn update_batch(&self, batch: &Batch) -> io::Result<()> {
        let n_entries = batch.keys.len() / self.key_bytes.max(1);
        self.check(
            batch.keys.len() == n_entries * self.key_bytes
                && batch.values.len() == n_entries * self.value_bytes,
        )?;
        if n_entries == 0 {
            return Ok(());
        }
        let mut attributes = MapUpdateBatch {
            keys: batch.keys.as_ptr() as u64,
            values: batch.values.as_ptr() as u64,
            n_entries: u32::try_from(n_entries).map_err(io::Error::other)?,
            map_fd: number(self.fd.as_fd()),
            ..MapUpdateBatch::default()
        };
        // SAFETY: keys and values are as many and as long as said, and live through the call.
        unsafe { call(&mut attributes) }.map(drop)
    }

    /// Reads all entries. If the map changes during the call, an entry may appear twice.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn look_up_all(&self) -> io::Result<Batch> {
        /// Entries per call.
        const ENTRIES: usize = 1024;
        let mut all = Batch::default();
        let mut keys = vec![0; ENTRIES * self.key_bytes];
        let mut values = vec![0; ENTRIES * self.value_bytes];
        // The kernel writes its position here: a key of an array, or four bytes for a hash. Eight bytes hold either.
        let mut position = vec![0_u8; self.key_bytes.max(8)];
        let mut is_first = true;
        loop {
            let position_at = position.as_mut_ptr() as u64;
            let mut attributes = MapLookUpBatch {
                in_batch: if is_first { 0 } else { position_at },
                out_batch: position_at,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                n_entries: ENTRIES as u32,
                map_fd: number(self.fd.as_fd()),
                ..MapLookUpBatch::default()
            };
            // SAFETY: keys and values have room for as many entries as said, the position for either
            // kind, and all live through the call.
            let result = unsafe { call(&mut attributes) };
            let is_last = match result {
                Ok(_) => false,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
                Err(error) => return Err(error),
            };
            let n_found = (attributes.n_entries as usize).min(ENTRIES);
            all.keys
                .extend_from_slice(&keys[..n_found * self.key_bytes]);
            all.values
                .extend_from_slice(&values[..n_found * self.value_bytes]);
            if is_last {
                return Ok(all);
            }
            is_first = false;
        }
    }

    /// Reads the values of `n_entries` entries of an array, from `first` on.
    ///
    /// # Errors
    /// The kernel's error, or the array ends before the last of these entries.
    pub fn look_up_range(&self, first: u32, n_entries: u32) -> io::Result<Vec<u8>> {
        self.check(self.key_bytes == 4)?;
        let mut keys = vec![0; n_entries as usize * self.key_bytes];
        let mut values = vec![0; n_entries as usize * self.value_bytes];
        if n_entries == 0 {
            return Ok(values);
        }
        // The kernel starts after the entry at this position.
        let before = first.wrapping_sub(1).to_ne_bytes();
        let mut position = [0_u8; 8];
        let mut attributes = MapLookUpBatch {
            in_batch: match first {
                0 => 0,
                _ => before.as_ptr() as u64,
            },
            out_batch: position.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            n_entries,
            map_fd: number(self.fd.as_fd()),
            ..MapLookUpBatch::default()
        };
        // SAFETY: keys and values have room for as many entries as said, a position of an array is four
        // bytes, and all live through the call.
        let found = is_there(unsafe { call(&mut attributes) });
        found?;
        self.check(attributes.n_entries == n_entries)?;
        Ok(values)
    }

    /// Puts a map into an array of maps. Blocks for some milliseconds, until no running program uses the previous inner
    /// map.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_map(&self, index: u32, inner: &Map) -> io::Result<()> {
        self.update(
            &index.to_ne_bytes(),
            &number(inner.as_fd()).to_ne_bytes(),
            Write::Any,
        )
    }

    /// Puts a socket into a map of AF_XDP sockets.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.update(
            &queue.to_ne_bytes(),
            &number(socket).to_ne_bytes(),
            Write::Any,
        )
    }

    /// Puts an interface into a map of devices whose values have eight bytes. `egress` runs on each frame that leaves
    /// through this entry.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_device(
        &self,
        key: u32,
        interface_index: u32,
        egress: Option<&Program>,
    ) -> io::Result<()> {
        let mut value = [0; 8];
        let program = egress.map_or(0, |program| number(program.as_fd()));
        value[..4].copy_from_slice(&interface_index.to_ne_bytes());
        value[4..].copy_from_slice(&program.to_ne_bytes());
        self.update(&key.to_ne_bytes(), &value, Write::Any)
    }

    /// Returns the map's id in the kernel. A lookup in an array of maps returns the id of the inner map.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn id(&self) -> io::Result<u32> {
        Ok(MapInfo::of(self.as_fd())?.id)
    }

    pub fn kind(&self) -> MapKind {
        self.kind
    }

    fn check(&self, is_as_long: bool) -> io::Result<()> {
        if is_as_long {
            return Ok(());
        }
        let message = format!(
            "expected a key of {} and a value of {} bytes",
            self.key_bytes, self.value_bytes
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_there(result: io::Result<libc::c_long>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}
