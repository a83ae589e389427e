//! Plans a program's maps: how each table is looked up, and the layout of the heap. The heap is the value of a map that
//! the loader writes.

use dataplane::{
    ActionId, DropReason, MatchKind, Program, TableId, TableInfo,
    engine::{
        Interpreted,
        ir::{Algorithm, Expr},
    },
};

use bpf::MapConfig;

use super::{control, digest::ring_bytes, hash, layout::Layout, needs::Needs};
use crate::image::{
    Body, Counters, FanOut, GroupArg, Heap, Index, Interface, KeyPart, MapKind, MapRef, MapRole,
    MapSpec, MeterLayout, Polls, Room, TableLayout,
};

/// Keys of at most this width are used as positions in an array. With this width, the array's 4096 numbers take four
/// pages.
const DIRECT_BITS_MAX: u32 = 12;
/// The longest key. The stack, on which keys are assembled, limits it.
pub(super) const KEY_BYTES_MAX: u32 = 240;
/// The most words that an action's arguments can have. The limit exists because offsets in an entry's memory (its body)
/// have 16 bits.
const ARG_WORDS_MAX: u32 = 1024;
/// The largest heap: the verifier limits offsets in a map's value to below 2^29.
const HEAP_BYTES_MAX: u32 = 1 << 28;
/// The most cells of all counters together. A cell takes 16 bytes for each processor.
const COUNTERS_MAX: u32 = 1 << 22;
/// The most maps of one program, the kernel's `MAX_USED_MAPS`.
const MAPS_MAX: usize = 64;
/// A cache line: parts of the heap are aligned to it.
const LINE_BYTES: u32 = 64;

/// Everything that an image (the result of compiling a program) contains, except the code.
#[derive(Debug)]
pub(super) struct Memory {
    pub maps: Vec<MapSpec>,
    pub heap: Heap,
    pub counters: Counters,
    pub tables: Vec<TableLayout>,
    pub meters: Vec<Option<MeterLayout>>,
    pub direct_meters: Vec<Option<MeterLayout>>,
    pub fan_out: Option<FanOut>,
    /// The ring buffer that carries digests to the control plane, if the program sends any digests.
    pub digests: Option<MapRef>,
    pub scratch: MapRef,
    pub counter_map: MapRef,
    pub devices: MapRef,
    pub sockets: MapRef,
    pub heap_map: MapRef,
    /// The heap's initial contents.
    pub constants: Vec<(u32, Vec<u8>)>,
    crc_tables: Vec<(Algorithm, u32)>,
    room: Room,
}

/// Returns how many bodies ([`crate::image::Body`], an entry's memory) a table of this size needs, including those of
/// removed entries that packets may still read.
fn bodies(size: usize) -> Option<u32> {
    let size = u32::try_from(size).ok()?;
    size.checked_add((size / 4).max(64))?.checked_add(1)
}

/// Places the parts of a key one after the other, widest first, so that each part is aligned.
fn host_parts(widths: &[u32], from: u32) -> (Vec<KeyPart>, u32) {
    let bytes = |bits: u32| match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8 * bits.div_ceil(64),
    };
    let mut order: Vec<usize> = (0..widths.len()).collect();
    order.sort_by_key(|position| std::cmp::Reverse(bytes(widths[*position])));
    let mut parts = vec![
        KeyPart {
            bits: 0,
            at: 0,
            bytes: 0
        };
        widths.len()
    ];
    let mut at = from;
    for position in order {
        let bits = widths[position];
        parts[position] = KeyPart {
            bits,
            at,
            bytes: bytes(bits),
        };
        at += bytes(bits);
    }
    (parts, at)
}

/// Places the parts of a key in network order, in whole words of 4 bytes, the prefix last.
fn network_parts(widths: &[u32], prefix: usize) -> (Vec<KeyPart>, u32) {
    let mut at = 4;
    let mut part = |bits: u32| {
        let bytes = 4 * bits.div_ceil(32).max(1);
        let part = KeyPart { bits, at, bytes };
        at += bytes;
        part
    };
    let mut parts = Vec::new();
    for (position, bits) in widths.iter().enumerate() {
        if position != prefix {
            parts.push(part(*bits));
        }
    }
    parts.insert(prefix, part(widths[prefix]));
    (parts, at)
}

impl Memory {
    /// # Errors
    /// The program does not fit.
    pub(super) fn new(
        program: &Program,
        layout: &Layout,
        room: &Room,
        needs: &Needs<'_>,
        left: &mut Vec<Interpreted>,
    ) -> Result<Self, String> {
        let mut memory = Self::with_fixed_maps(layout, room);
        for (table, info) in program.tables() {
            let planned = memory.table(program, table, info);
            let table = planned.unwrap_or_else(|reason| {
                left.push(Interpreted {
                    place: format!("table \"{}\"", info.name),
                    reason,
                });
                TableLayout {
                    index: Index::Left,
                    key_bits: Vec::new(),
                    body: Body::new(0, 0, false, 0),
                    actions: Vec::new(),
                    args: Vec::new(),
                }
            });
            memory.counters.tables.push(memory.counters.n);
            memory.counters.n += table.body.n;
            memory.tables.push(table);
        }
        memory.crc_tables(program)?;
        memory.cells(program, left);
        memory.meters(program, left);
        if needs.may_multicast() {
            memory.fan_out = Some(memory.fan_out(program));
        }
        memory.digests = ring_bytes(program.ir(), &needs.digests).map(|bytes| memory.ring(bytes));
        memory.close()?;
        Ok(memory)
    }

    fn with_fixed_maps(layout: &Layout, room: &Room) -> Self {
        let n_interfaces = room.interfaces;
        let interfaces = LINE_BYTES;
        let ports = interfaces + n_interfaces * Interface::BYTES;
        let processors = (ports + 4 * Heap::N_PORTS).next_multiple_of(1 << Heap::PROCESSOR_SHIFT);
        let n_processors = room.processors;
        let n_reasons = DropReason::ALL.len() as u32;
        let mut memory = Self {
            maps: Vec::new(),
            heap: Heap {
                bytes: processors + (n_processors << Heap::PROCESSOR_SHIFT),
                version: 0,
                clock: 8,
                interfaces,
                n_interfaces,
                ports,
                processors,
                n_processors,
            },
            counters: Counters {
                n: 2 * Heap::N_PORTS + n_reasons + 2,
                received: 0,
                sent: Heap::N_PORTS,
                dropped: 2 * Heap::N_PORTS,
                replicated: 2 * Heap::N_PORTS + n_reasons,
                digests_lost: 2 * Heap::N_PORTS + n_reasons + 1,
                tables: Vec::new(),
                cells: Vec::new(),
                colors: 0,
            },
            tables: Vec::new(),
            meters: Vec::new(),
            direct_meters: Vec::new(),
            fan_out: None,
            digests: None,
            constants: Vec::new(),
            crc_tables: Vec::new(),
            scratch: MapRef(0),
            counter_map: MapRef(0),
            devices: MapRef(0),
            sockets: MapRef(0),
            heap_map: MapRef(0),
            room: room.clone(),
        };
        memory.add_fixed_maps(layout.bytes);
        memory
    }

    /// Adds the maps that every program has. [`Self::close`] sets the sizes of heap and counters.
    fn add_fixed_maps(&mut self, scratch_bytes: u32) {
        let mut map = |role, name: &str, kind, [value_bytes, n_entries_max]: [u32; 2], flags| {
            self.add(MapSpec {
                role,
                name: name.into(),
                kind,
                key_bytes: 4,
                value_bytes,
                n_entries_max,
                flags,
            })
        };
        let (one, ports) = ([0, 1], [4, Heap::N_PORTS]);
        let per_cpu = MapKind::PerCpuArray;
        let mappable = MapConfig::MAPPABLE;
        let heap = map(MapRole::Heap, "heap", MapKind::Array, one, mappable);
        let scratch = map(MapRole::Scratch, "scratch", per_cpu, [scratch_bytes, 1], 0);
        let counters = map(MapRole::Counters, "counters", per_cpu, [16, 0], 0);
        let devices = map(MapRole::Devices, "devices", MapKind::DeviceMap, ports, 0);
        let sockets = map(MapRole::Sockets, "sockets", MapKind::SocketMap, ports, 0);
        self.heap_map = heap;
        self.scratch = scratch;
        self.counter_map = counters;
        self.devices = devices;
        self.sockets = sockets;
    }

    fn crc_tables(&mut self, program: &Program) -> Result<(), String> {
        let calculations = &program.ir().calculations;
        for algorithm in hash::CRCS {
            let is_used = calculations.iter().any(|it| it.algorithm == algorithm);
            if let Some(crc) = algorithm.crc().filter(|_| is_used) {
                let table = hash::crc_table(crc);
                let at = self.take(table.len() as u32)?;
                self.constants.push((at, table));
                self.crc_tables.push((algorithm, at));
            }
        }
        Ok(())
    }

    pub(super) fn crc_table(&self, algorithm: Algorithm) -> Option<u32> {
        let mut tables = self.crc_tables.iter();
        tables.find(|(of, _)| *of == algorithm).map(|(_, at)| *at)
    }

    fn add(&mut self, map: MapSpec) -> MapRef {
        self.maps.push(map);
        MapRef(self.maps.len() as u32 - 1)
    }

    fn take(&mut self, bytes: u32) -> Result<u32, String> {
        let at = self.heap.bytes.next_multiple_of(LINE_BYTES);
        let end = at.checked_add(bytes).filter(|end| *end <= HEAP_BYTES_MAX);
        self.heap.bytes = end.ok_or("the tables are larger than a map may be")?;
        Ok(at)
    }

    fn table(
        &mut self,
        program: &Program,
        table: TableId,
        info: &TableInfo,
    ) -> Result<TableLayout, String> {
        if let Some(reason) = self.room.left.get(&table.index()) {
            return Err(reason.clone());
        }
        let actions = control::actions_of(program, table);
        let args: Vec<Vec<u32>> = actions
            .iter()
            .map(|action| widths_of(program, *action))
            .collect();
        let words = args
            .iter()
            .map(|widths| widths.iter().map(|bits| TableLayout::words(*bits)).sum());
        let arg_words: u32 = words.max().unwrap_or_default();
        if arg_words > ARG_WORDS_MAX {
            return Err("an action with too many arguments".into());
        }
        let n = if info.key.is_empty() {
            1
        } else {
            bodies(info.size).ok_or("it is too large")?
        };
        let key_bits: Vec<u32> = info.key.iter().map(|field| field.width_bits).collect();
        let index = self.index(info, &key_bits, n)?;
        let has_link = matches!(index, Index::Lpm { .. } | Index::Ternary { .. });
        let mut body = Body::new(0, n, has_link, arg_words);
        let bytes = body.stride.checked_mul(n).ok_or("it is too large")?;
        body.first = self.take(bytes)?;
        Ok(TableLayout {
            index,
            key_bits,
            body,
            actions,
            args,
        })
    }

    fn index(&mut self, info: &TableInfo, widths: &[u32], n: u32) -> Result<Index, String> {
        if widths.is_empty() {
            return Ok(Index::None);
        }
        let kinds = info.key.iter().map(|field| field.kind);
        if info.has_priority() {
            return self.ternary(info, widths, n);
        }
        if let Some(prefix) = kinds.clone().position(|kind| kind == MatchKind::Lpm) {
            let (parts, key_bytes) = network_parts(widths, prefix);
            check_key(key_bytes)?;
            let map = self.index_map(info, MapKind::LpmTrie, key_bytes, n);
            return Ok(Index::Lpm {
                map,
                parts,
                prefix,
                key_bytes,
            });
        }
        let bits: u32 = widths.iter().sum();
        if bits <= DIRECT_BITS_MAX {
            let at = self.take(4 << bits)?;
            return Ok(Index::Direct { at, bits });
        }
        let (parts, end) = host_parts(widths, 0);
        let key_bytes = end.next_multiple_of(4);
        check_key(key_bytes)?;
        let map = self.index_map(info, MapKind::Hash, key_bytes, n);
        Ok(Index::Hash {
            map,
            parts,
            key_bytes,
        })
    }

    fn ternary(&mut self, info: &TableInfo, widths: &[u32], n: u32) -> Result<Index, String> {
        let (parts, end) = host_parts(widths, 8);
        let key_bytes = end.next_multiple_of(8);
        // The stack holds the key and the masked key.
        check_key(2 * key_bytes)?;
        let n_masks_max = self.room.masks;
        let masks = self.take(LINE_BYTES + key_bytes * n_masks_max)?;
        let map = self.index_map(info, MapKind::Hash, key_bytes, n);
        Ok(Index::Ternary {
            map,
            parts,
            key_bytes,
            n_masks: masks,
            masks: masks + LINE_BYTES,
            n_masks_max,
        })
    }

    fn index_map(&mut self, info: &TableInfo, kind: MapKind, key_bytes: u32, n: u32) -> MapRef {
        let name = info.name.rsplit('.').next().unwrap_or(&info.name);
        self.add(MapSpec {
            role: MapRole::Index,
            name: name.into(),
            kind,
            key_bytes,
            value_bytes: 4,
            n_entries_max: n,
            flags: match kind {
                MapKind::LpmTrie => MapConfig::NO_PREALLOCATION,
                _ => 0,
            },
        })
    }

    /// Assigns a counter of the kernel program to each cell of the P4 program's counters.
    fn cells(&mut self, program: &Program, left: &mut Vec<Interpreted>) {
        for array in &program.ir().counters {
            let n = u32::try_from(array.cells).ok();
            let end = n.and_then(|n| self.counters.n.checked_add(n));
            let end = end.filter(|end| *end <= COUNTERS_MAX);
            if end.is_none() {
                left.push(Interpreted {
                    place: format!("counter \"{}\"", array.name),
                    reason: "it has too many cells".into(),
                });
            }
            self.counters.cells.push(end.map(|_| self.counters.n));
            self.counters.n = end.unwrap_or(self.counters.n);
        }
    }

    /// Places the cells of meter arrays and of tables' meters. A table whose meters do not fit is left to the engine in
    /// user space.
    fn meters(&mut self, program: &Program, left: &mut Vec<Interpreted>) {
        let ir = program.ir();
        self.counters.colors = self.counters.n;
        for array in &ir.meters {
            let cells = u32::try_from(array.cells).ok();
            let layout = cells.and_then(|cells| self.meter(cells));
            if layout.is_none() {
                left.push(Interpreted {
                    place: format!("meter \"{}\"", array.name),
                    reason: "it has too many cells".into(),
                });
            }
            self.meters.push(layout);
        }
        for (table, info) in program.tables() {
            let has_meter = ir.direct_meter(table).is_some();
            let is_left = self.tables[table.index()].index == Index::Left;
            let is_needed = has_meter && !is_left;
            let n = self.tables[table.index()].body.n;
            let layout = is_needed.then(|| self.meter(n)).flatten();
            if is_needed && layout.is_none() {
                self.tables[table.index()].index = Index::Left;
                left.push(Interpreted {
                    place: format!("table \"{}\"", info.name),
                    reason: "its entries have too many meters".into(),
                });
            }
            self.direct_meters.push(layout);
        }
    }

    /// Takes room for a meter's cells and their counters.
    fn meter(&mut self, n: u32) -> Option<MeterLayout> {
        let rest = self.room.meter_cells.checked_sub(n)?;
        let counters = MeterLayout::N_COLORS.checked_mul(n)?;
        let end = self.counters.n.checked_add(counters);
        let end = end.filter(|end| *end <= COUNTERS_MAX)?;
        let first = self.take(MeterLayout::bytes(n)?).ok()?;
        let layout = MeterLayout::new(first, n, self.counters.n);
        self.room.meter_cells = rest;
        self.counters.n = end;
        Some(layout)
    }

    fn ring(&mut self, bytes: u32) -> MapRef {
        self.add(MapSpec {
            role: MapRole::Digests,
            name: "digests".into(),
            kind: MapKind::RingBuffer,
            key_bytes: 0,
            value_bytes: 0,
            n_entries_max: bytes,
            flags: 0,
        })
    }

    fn fan_out(&mut self, program: &Program) -> FanOut {
        let n = self.room.groups.max(1);
        let n_instances = self.room.replicas.next_power_of_two();
        let mut map = |role, name: &str, kind, key_bytes, n_entries_max, flags| {
            self.add(MapSpec {
                role,
                name: name.into(),
                kind,
                key_bytes,
                value_bytes: 4,
                n_entries_max,
                flags,
            })
        };
        let groups = map(MapRole::Index, "groups", MapKind::Hash, 4, n, 0);
        let devices = map(
            MapRole::FanOuts,
            "fan_outs",
            MapKind::ArrayOfMaps,
            4,
            2 * n,
            0,
        );
        let places = map(
            MapRole::Places,
            "places",
            MapKind::Hash,
            8,
            n_instances,
            MapConfig::NO_PREALLOCATION,
        );
        let polls = self.add(MapSpec {
            role: MapRole::Polls,
            name: "polls".into(),
            kind: MapKind::PerCpuArray,
            key_bytes: 4,
            value_bytes: Polls::BYTES,
            n_entries_max: 1,
            flags: 0,
        });
        let mut body = Body::new(0, n + 1, false, GroupArg::N);
        let first = self.heap.bytes.next_multiple_of(LINE_BYTES);
        body.first = first;
        let instances = (first + body.stride * body.n).next_multiple_of(LINE_BYTES);
        self.heap.bytes = instances + 4 * n_instances;
        FanOut {
            groups: TableLayout {
                index: Index::Hash {
                    map: groups,
                    parts: vec![KeyPart {
                        bits: 32,
                        at: 0,
                        bytes: 4,
                    }],
                    key_bytes: 4,
                },
                key_bits: vec![32],
                body,
                actions: Vec::new(),
                args: vec![vec![64; GroupArg::N as usize]],
            },
            devices,
            places,
            polls,
            instances,
            n_instances,
            note_bytes: 0,
            tables: control::tables_of(program, program.ir().egress),
        }
    }

    /// Sets the sizes that are known only after everything else has been placed.
    fn close(&mut self) -> Result<(), String> {
        if self.maps.len() > MAPS_MAX {
            return Err(format!(
                "expected at most {MAPS_MAX} maps, it needs {}",
                self.maps.len()
            ));
        }
        if self.heap.bytes > HEAP_BYTES_MAX || self.counters.n > COUNTERS_MAX {
            return Err("its tables and counters are larger than maps may be".into());
        }
        self.heap.bytes = self.heap.bytes.next_multiple_of(LINE_BYTES);
        self.maps[self.heap_map.index()].value_bytes = self.heap.bytes;
        self.maps[self.counter_map.index()].n_entries_max = self.counters.n;
        Ok(())
    }
}

fn check_key(bytes: u32) -> Result<(), String> {
    if bytes <= KEY_BYTES_MAX {
        Ok(())
    } else {
        Err(format!("its key is longer than {KEY_BYTES_MAX} bytes"))
    }
}

fn widths_of(program: &Program, action: ActionId) -> Vec<u32> {
    let info = program.action_info(action);
    info.map_or_else(Vec::new, |info| {
        info.params.iter().map(|param| param.width_bits).collect()
    })
}

/// Whether an expression of a key is only a field. A key's field counts as zero if its header is invalid.
pub(super) fn is_field(expr: &Expr) -> bool {
    matches!(expr, Expr::Field(_))
}
