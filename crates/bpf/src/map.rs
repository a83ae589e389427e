//! Maps: what programs and the process share.

#![expect(unsafe_code, reason = "keys and values go to bpf(2) as addresses")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::Program;
use crate::pin;
use crate::processors::n_possible_processors;
use crate::sys::{
    MapCreate, MapDelete, MapDeleteBatch, MapLookUp, MapLookUpBatch, MapNextKey, MapUpdate,
    MapUpdateBatch, ObjectInfo, call, call_for_descriptor, number, object_name,
};

/// What a map is, of `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kernel's names")]
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

/// A map to be made.
#[derive(Clone, Copy, Debug)]
pub struct MapConfig<'a> {
    /// As `bpftool` shows it; the first 15 characters.
    pub name: &'a str,
    /// What it is.
    pub kind: MapKind,
    /// Bytes of a key; of an LPM trie with the four of the length.
    pub key_bytes: u32,
    /// Bytes of a value, of one processor.
    pub value_bytes: u32,
    /// Entries that it has room for; of a ring buffer its bytes.
    pub n_entries_max: u32,
    /// `BPF_F_*`, beside those that the kind needs.
    pub flags: u32,
    /// A map as those that an array of maps has.
    pub inner: Option<BorrowedFd<'a>>,
}

impl MapConfig<'_> {
    /// Memory of its entries is taken when they are written.
    pub const NO_PREALLOCATION: u32 = 1;
    /// An array that [`crate::Cells`] can map.
    pub const MAPPABLE: u32 = 1 << 10;
    /// An inner array may have another number of entries than the outer map was made with.
    pub const INNER_OF_ANY_SIZE: u32 = 1 << 12;
}

/// Which entry a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Write {
    /// A new one or one that is there.
    Any = 0,
    /// A new one.
    New = 1,
    /// One that is there.
    Existing = 2,
}

/// Entries of a map, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// All keys.
    pub keys: Vec<u8>,
    /// All values, of per-CPU maps as [`Map::look_up`] gives one.
    pub values: Vec<u8>,
}

/// A map, as long as it or a program that uses it lives.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    kind: MapKind,
    key_bytes: usize,
    /// Of all processors, as bpf(2) copies it.
    value_bytes: usize,
    n_entries_max: u32,
}

/// `struct bpf_map_info` as far as it is read.
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
        // SAFETY: the kernel writes no more than so many bytes, all of which are numbers.
        unsafe { call(&mut attributes) }?;
        Ok(info)
    }
}

impl Map {
    /// Makes a map.
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
        let value_bytes = match kind.is_per_cpu() {
            true => (value_bytes as usize).next_multiple_of(8) * n_possible_processors()?,
            false => value_bytes as usize,
        };
        Ok(Map {
            fd,
            kind,
            key_bytes: key_bytes as usize,
            value_bytes,
            n_entries_max,
        })
    }

    /// A map that was pinned, which must be as expected.
    ///
    /// # Errors
    /// The kernel's error, or that it is another map.
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

    /// Keeps it in the BPF file system, beyond the process.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        pin::pin(self.fd.as_fd(), path)
    }

    /// The same map by another descriptor.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Map> {
        Ok(Map {
            fd: self.fd.try_clone()?,
            ..*self
        })
    }

    /// Bytes of a key.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes of a value: of a per-CPU map those of all processors, each with a multiple of eight.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Entries that it has room for; of a ring buffer its bytes.
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

    /// The value of a key into `value`, which is as long as values are; whether there is one.
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

    /// The value of a key: of a per-CPU map those of all processors, each in a multiple of eight bytes.
    ///
    /// # Errors
    /// The kernel's error; a key of a wrong length.
    pub fn look_up(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value_bytes];
        Ok(self.look_up_into(key, &mut value)?.then_some(value))
    }

    /// Removes an entry; whether there was one.
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

    /// The key behind this one, or the first one.
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

    /// Writes many entries, one after the other in one call; as many as were written where it fails are
    /// unknown.
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

    /// Removes many entries in one call, all of which are there.
    ///
    /// # Errors
    /// The kernel's error; keys of wrong lengths.
    pub fn delete_batch(&self, keys: &[u8]) -> io::Result<()> {
        let n_entries = keys.len() / self.key_bytes.max(1);
        self.check(keys.len() == n_entries * self.key_bytes)?;
        if n_entries == 0 {
            return Ok(());
        }
        let mut attributes = MapDeleteBatch {
            keys: keys.as_ptr() as u64,
            n_entries: u32::try_from(n_entries).map_err(io::Error::other)?,
            map_fd: number(self.fd.as_fd()),
            ..MapDeleteBatch::default()
        };
        // SAFETY: keys are as many and as long as said, and live through the call.
        unsafe { call(&mut attributes) }.map(drop)
    }

    /// All entries. Where the map is changed meanwhile, an entry may come twice.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn look_up_all(&self) -> io::Result<Batch> {
        /// Entries a call.
        const ENTRIES: usize = 1024;
        let mut all = Batch::default();
        let mut keys = vec![0; ENTRIES * self.key_bytes];
        let mut values = vec![0; ENTRIES * self.value_bytes];
        // A position is a key of an array, and no longer than one of a hash, which is 4 bytes.
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

    /// The values of an array from an entry on, so many, one behind the other.
    ///
    /// # Errors
    /// The kernel's error; there are not as many.
    pub fn look_up_range(&self, first: u32, n_entries: u32) -> io::Result<Vec<u8>> {
        self.check(self.key_bytes == 4)?;
        let mut keys = vec![0; n_entries as usize * self.key_bytes];
        let mut values = vec![0; n_entries as usize * self.value_bytes];
        if n_entries == 0 {
            return Ok(values);
        }
        // It goes on behind this entry.
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

    /// Puts a map into an array of maps. It waits until no packet sees the map that was there, some
    /// milliseconds.
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

    /// Puts an interface into a map of devices whose values are eight bytes, with the program that runs
    /// over what leaves by this entry.
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

    /// Its number: what a look into an array of maps gives.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn id(&self) -> io::Result<u32> {
        Ok(MapInfo::of(self.as_fd())?.id)
    }

    /// What it is.
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
