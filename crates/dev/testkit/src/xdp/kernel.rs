//! Loads a compiled P4 program into the kernel, and writes the program's state. In the kernel, an entry's data is a
//! body, which has slots for the entry's action (`dataplane_xdp::image::Body`).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use bpf::{
    Instruction, Map, MapConfig, MapKind, Memory, ProgramConfig, ProgramKind, RingBuffer, Verdict,
    Write,
};
use dataplane::engine::{EntryAction, EntryIndex};
use dataplane::engine::{
    State,
    ir::{Int, Matcher},
};
use dataplane::{Digest, DropReason, MeterConfig, PortId, Program, TableId};
use dataplane_xdp::asm::Code;
use dataplane_xdp::compile::compile;
use dataplane_xdp::image::{
    ACTION_MISS, ACTION_NONE, ACTION_PUNT, DigestRecord, EncodedKey, Image, Index, Interface,
    MapRole, MeterLayout, NEVER, Noted, Origin, Room, TableLayout,
};

/// The index of the loopback interface. `BPF_PROG_TEST_RUN` presents frames as if this interface had received them.
const LOOPBACK: u32 = 1;

/// The result for a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Punt,
    Pass,
    Drop(DropReason),
    Send(PortId, Vec<u8>),
    /// The frame is copied. The bytes are the XDP metadata that ingress wrote for the copies, and then the frame.
    FanOut(Vec<u8>),
}

/// The result of a run, with the counters and the digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub end: End,
    /// The numbers of the counters that have counted, sorted.
    pub counted: Vec<u32>,
    /// The digests to the control plane.
    pub digests: Vec<Digest>,
}

pub struct Kernel {
    pub image: Image,
    heap: Memory,
    maps: Vec<Option<Map>>,
    ingress: bpf::Program,
    egress: Option<bpf::Program>,
    ring: Option<RefCell<RingBuffer>>,
    program: Program,
    /// For each table, the entries by the numbers of their bodies.
    bodies: HashMap<TableId, HashMap<u32, EntryIndex>>,
    /// Number of instructions that the verifier has processed.
    pub n_verified: u64,
    keys: HashMap<u32, Vec<Vec<u8>>>,
}

/// A length that is longer than every frame.
const LONGEST: u32 = 1 << 20;

fn slot_of(
    state: &State,
    table: TableId,
    layout: &TableLayout,
    action: Option<&EntryAction>,
) -> Vec<u8> {
    let node = &state.program().ir().table_nodes[table.index()];
    let resolved = match (action, node.profile) {
        (Some(EntryAction::Call(call)), _) => Some(call.clone()),
        (Some(action @ EntryAction::Member(_)), Some(profile)) => {
            state.resolve(profile, action, || 0)
        }
        (Some(_), _) => return layout.encode_slot(ACTION_PUNT, &[]),
        (None, _) => return layout.encode_slot(ACTION_NONE, &[]),
    };
    let Some(call) = resolved else {
        return layout.encode_slot(ACTION_PUNT, &[]);
    };
    let number = layout.action_number(call.action);
    layout.encode_slot(number.unwrap_or(ACTION_PUNT), &call.args)
}

/// The masks of a table's entries.
#[derive(Default)]
struct Masks {
    masks: Vec<Vec<u8>>,
    taken: HashSet<(usize, Vec<u8>)>,
    /// Whether some entry cannot be written as a mask, so that packets must be punted.
    is_left: bool,
}

impl Masks {
    /// Returns the key with the number of its mask in the first four bytes. Entries with the same mask and key but
    /// different priorities need different numbers, so a mask may have several numbers. The first free number is taken.
    fn number(&mut self, mask: Vec<u8>, mut key: Vec<u8>) -> Vec<u8> {
        let same = |n: &usize| self.masks[*n] == mask;
        let free = |n: &usize| !self.taken.contains(&(*n, key.clone()));
        let place = (0..self.masks.len()).find(|n| same(n) && free(n));
        let place = place.unwrap_or(self.masks.len());
        if place == self.masks.len() {
            self.masks.push(mask);
        }
        self.taken.insert((place, key.clone()));
        key[..4].copy_from_slice(&(place as u32).to_ne_bytes());
        key
    }
}

/// How many times the kernel runs a program in one test run.
const IN_A_ROW: u32 = 50;

fn average(
    program: &bpf::Program,
    frame: &[u8],
    note_bytes: u32,
    repeat: u32,
    between: impl Fn(),
) -> u128 {
    let rounds = u128::from(repeat / IN_A_ROW).max(1);
    let run = |_| {
        let run = program.test_run_behind(frame, note_bytes, LOOPBACK, IN_A_ROW);
        between();
        run.unwrap().duration.as_nanos()
    };
    let times: Vec<u128> = (0..rounds).map(run).collect();
    times.iter().sum::<u128>() / rounds
}

fn load(code: &Code, maps: &[Option<Map>], heap: &Memory) -> Result<bpf::Program, String> {
    let linked: Vec<Instruction> = code.link(|map| {
        let map = maps[map.index()].as_ref().unwrap_or_else(|| heap.map());
        map.as_fd()
    });
    let config = ProgramConfig {
        name: "p4",
        kind: ProgramKind::Xdp,
        has_fragments: false,
        instructions: &linked,
    };
    bpf::Program::load(&config).map_err(|error| error.to_string())
}

/// Returns a small room for state, which is enough for the tests.
pub fn little_room() -> Room {
    Room {
        interfaces: 16,
        groups: 64,
        replicas: 1024,
        masks: 32,
        ..Room::default()
    }
}

impl Kernel {
    /// Compiles and loads a program. The error is from the compiler or from the verifier.
    pub fn new(program: &Program) -> Result<Self, String> {
        Self::with(program, &little_room())
    }

    /// Compiles and loads a program like [`Self::new`], with this room for state in the image.
    pub fn with(program: &Program, room: &Room) -> Result<Self, String> {
        let image = compile(program, room).map_err(|error| format!("refused: {error}"))?;
        let inner = Map::create(&MapConfig {
            name: "inner",
            kind: MapKind::DeviceMap,
            key_bytes: 4,
            value_bytes: 8,
            n_entries_max: 1,
            flags: 0,
            inner: None,
        })
        .map_err(|error| format!("map: {error}"))?;
        let mut maps = Vec::new();
        for spec in &image.maps {
            if spec.role == MapRole::Heap {
                maps.push(None);
                continue;
            }
            let map = Map::create(&MapConfig {
                name: "map",
                kind: spec.kind,
                key_bytes: spec.key_bytes,
                value_bytes: spec.value_bytes,
                n_entries_max: spec.n_entries_max,
                flags: spec.flags,
                inner: (spec.role == MapRole::FanOuts).then(|| inner.as_fd()),
            });
            let map = map.map_err(|error| format!("map {}: {error}", spec.name))?;
            match spec.role {
                MapRole::Devices => (0..512_u32).for_each(|port| {
                    let loopback = LOOPBACK.to_ne_bytes();
                    map.update(&port.to_ne_bytes(), &loopback, Write::Any)
                        .unwrap();
                }),
                MapRole::FanOuts => map.set_map(0, &inner).unwrap(),
                _ => {}
            }
            maps.push(Some(map));
        }
        let ring = image.map(MapRole::Digests).map(|map| {
            let map = maps[map.index()].as_ref().unwrap().try_clone().unwrap();
            RefCell::new(RingBuffer::new(map).unwrap())
        });
        let heap = Memory::create("heap", image.heap.bytes);
        let heap = heap.map_err(|error| format!("heap: {error}"))?;
        let ingress = load(&image.ingress, &maps, &heap).map_err(|e| format!("ports: {e}"))?;
        let egress = image.egress.clone();
        let egress = egress.map(|code| {
            let code = code.with_egress_interface(LOOPBACK + 1);
            load(&code, &maps, &heap).map_err(|error| format!("copies: {error}"))
        });
        let egress = egress.transpose()?;
        let n_verified = ingress.n_verified() + egress.as_ref().map_or(0, bpf::Program::n_verified);
        let kernel = Self {
            image,
            heap,
            maps,
            ingress,
            egress,
            ring,
            program: program.clone(),
            bodies: HashMap::new(),
            n_verified,
            keys: HashMap::new(),
        };
        kernel.put_beginning();
        Ok(kernel)
    }

    /// Writes the constants, and a switch clock that starts at approximately 0.
    fn put_beginning(&self) {
        for (at, bytes) in &self.image.constants {
            self.put(*at, bytes);
        }
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let clock = -((uptime - 1.0) * 1e9) as i64;
        self.put_word(self.image.heap.clock, clock.cast_unsigned());
    }

    fn put(&self, at: u32, bytes: &[u8]) {
        for (at, byte) in (at as usize..).zip(bytes) {
            let (cell, shift) = (at / 8, 8 * (at % 8));
            let old = self.heap.words()[cell].load(Relaxed);
            let new = old & !(0xff << shift) | u64::from(*byte) << shift;
            self.heap.words()[cell].store(new, Relaxed);
        }
    }

    fn put_word(&self, at: u32, word: u64) {
        self.heap.words()[at as usize / 8].store(word, Relaxed);
    }

    fn put_body(&mut self, layout: &TableLayout, number: u32, link: u64, slot: &[u8]) {
        let body = layout.body;
        let at = body.at(number);
        self.put_word(at, 0);
        self.put_word(at + 8, NEVER);
        if let Some(link_at) = body.link {
            self.put_word(at + link_at, link);
        }
        self.put(at + body.slots[0], slot);
    }

    /// Writes a slot of a body, with the version from which the slot is valid.
    pub fn put_slot(&self, layout: &TableLayout, body: u32, slot: usize, from: u64, bytes: &[u8]) {
        let at = layout.body.at(body);
        self.put(at + layout.body.slots[slot], bytes);
        self.put_word(at + 8 * slot as u32, from);
    }

    /// Writes the link of a body. In an LPM table, the link is the body of the next shorter prefix. In a ternary table,
    /// the link is the rank of the entry.
    pub fn put_link(&self, layout: &TableLayout, body: u32, link: u64) {
        let at = layout.body.at(body) + layout.body.link.unwrap();
        self.put_word(at, link);
    }

    /// Writes a key, with the number of its body, into the map of a table.
    pub fn put_key(&mut self, layout: &TableLayout, key: &[Matcher], body: u32) {
        let Ok(EncodedKey::Bytes(key)) = layout.encode_key(key) else {
            panic!("a key of no map");
        };
        let map = self.map_of(&layout.index).unwrap();
        self.write_key(map, key, body);
    }

    /// Sets the version that packets use.
    pub fn set_version(&self, version: u64) {
        self.put_word(self.image.heap.version, version);
    }

    /// Makes an interface a port.
    pub fn set_port(&self, interface: u32, port: PortId) {
        let interface_at = self.image.heap.interface(interface).unwrap();
        let described = Interface {
            port: Some(port),
            sockets: 0,
        };
        self.put(interface_at, &described.to_bytes());
    }

    pub fn forward_to(&self, port: PortId, forwards: bool) {
        let longest = if forwards { LONGEST } else { 0 };
        let word = longest.to_ne_bytes();
        self.put(self.image.heap.port(port), &word);
    }

    fn map_of(&self, index: &Index) -> Option<u32> {
        match index {
            Index::Hash { map, .. } | Index::Lpm { map, .. } | Index::Ternary { map, .. } => {
                Some(map.0)
            }
            _ => None,
        }
    }

    fn write_key(&mut self, map: u32, key: Vec<u8>, number: u32) {
        let of = self.maps[map as usize].as_ref().unwrap();
        of.update(&key, &number.to_ne_bytes(), Write::Any).unwrap();
        self.keys.entry(map).or_default().push(key);
    }

    fn clear(&mut self, index: &Index) {
        if let Index::Direct { at, bits } = index {
            (0..1_u32 << bits).for_each(|n| self.put(at + 4 * n, &[0; 4]));
        }
        let Some(map) = self.map_of(index) else {
            return;
        };
        for key in self.keys.remove(&map).unwrap_or_default() {
            self.maps[map as usize]
                .as_ref()
                .unwrap()
                .delete(&key)
                .unwrap();
        }
    }

    /// Writes the whole state.
    pub fn sync(&mut self, state: &State) {
        let program = state.program().clone();
        for (table, _) in program.tables() {
            let layout = self.image.tables[table.index()].clone();
            if layout.index != Index::Left {
                self.sync_table(state, table, &layout);
            }
        }
        for (meter, _) in program.meters() {
            let layout = self.image.meters[meter.index()].clone();
            let n = layout.as_ref().map_or(0, |it| it.cells.body.n);
            for cell in 0..n {
                let config = state.meter_config(meter, cell as usize);
                self.sync_meter(layout.as_ref(), cell, config);
            }
        }
    }

    /// Writes a meter's cell. If the cell has rates, its packets are punted, because the interpreter and the kernel
    /// have different clocks.
    fn sync_meter(&mut self, layout: Option<&MeterLayout>, cell: u32, config: Option<MeterConfig>) {
        let Some(MeterLayout { cells, .. }) = layout else {
            return;
        };
        let action = config.map_or(MeterLayout::GREEN, |_| ACTION_PUNT);
        self.put_body(cells, cell, 0, &cells.encode_slot(action, &[]));
    }

    fn sync_table(&mut self, state: &State, table: TableId, layout: &TableLayout) {
        self.clear(&layout.index);
        let slot = slot_of(state, table, layout, state.default_action(table));
        self.put_body(layout, 0, 0, &slot);
        let entries: Vec<_> = state.entries(table).collect();
        let mut bodies = HashMap::new();
        let mut masks = Masks::default();
        let meters = self.image.direct_meters[table.index()].clone();
        let n = entries.len() as u64;
        for (position, (entry, view)) in entries.iter().enumerate() {
            let number = position as u32 + 1;
            assert!(number < layout.body.n, "too many entries");
            // The older of two entries with equal priority has precedence. The older entry is first in this order.
            let link = match layout.index {
                Index::Ternary { .. } => {
                    (u64::from(view.priority as u32) << 32) + n - position as u64
                }
                _ => 0,
            };
            bodies.insert(number, *entry);
            let slot = slot_of(state, table, layout, Some(view.action));
            self.put_body(layout, number, link, &slot);
            let config = state.direct_meter_config(table, *entry);
            self.sync_meter(meters.as_ref(), number, config);
            match layout.encode_key(view.key) {
                Ok(EncodedKey::None) => {}
                Ok(EncodedKey::Position(place)) => {
                    let Index::Direct { at, .. } = layout.index else {
                        panic!("a position in no array");
                    };
                    self.put(at + 4 * place, &number.to_ne_bytes());
                }
                Ok(EncodedKey::Bytes(key)) => {
                    let map = self.map_of(&layout.index).unwrap();
                    self.write_key(map, key, number);
                }
                Ok(EncodedKey::Masked { mask, key }) => {
                    let map = self.map_of(&layout.index).unwrap();
                    let key = masks.number(mask, key);
                    self.write_key(map, key, number);
                }
                Err(_) => masks.is_left = true,
            }
        }
        self.write_masks(layout, masks);
        self.bodies.insert(table, bodies);
    }

    fn write_masks(&mut self, layout: &TableLayout, mut masks: Masks) {
        let Index::Ternary {
            n_masks,
            masks: at,
            key_bytes,
            n_masks_max,
            ..
        } = layout.index
        else {
            return;
        };
        if masks.is_left || masks.masks.len() > n_masks_max as usize {
            self.punt_all(layout);
            masks.masks.clear();
        }
        for (position, mask) in masks.masks.iter().enumerate() {
            self.put(at + position as u32 * key_bytes, mask);
        }
        self.put(n_masks, &(masks.masks.len() as u32).to_ne_bytes());
    }

    /// Punts all packets that reach the table, because an entry of the table cannot be written.
    fn punt_all(&mut self, layout: &TableLayout) {
        let slot = layout.encode_slot(ACTION_PUNT, &[]);
        for number in 0..layout.body.n {
            self.put(layout.body.at(number) + layout.body.slots[0], &slot[..8]);
        }
    }

    /// Writes a group with this number of replicas.
    pub fn set_group(&mut self, group: u32, n_replicas: u64) {
        let Some(fan_out) = self.image.fan_out.clone() else {
            return;
        };
        let layout = &fan_out.groups;
        self.clear(&layout.index);
        let args = [0, n_replicas, 0, LONGEST.into()].map(Int::from);
        let slot = layout.encode_slot(0, &args);
        self.put_body(layout, 1, 0, &slot);
        let miss = layout.encode_slot(ACTION_MISS, &[]);
        self.put_body(layout, 0, 0, &miss);
        let map = self.map_of(&layout.index).unwrap();
        self.write_key(map, group.to_ne_bytes().to_vec(), 1);
    }

    fn scratch(&self) -> Vec<Vec<u8>> {
        let map = self.image.map(MapRole::Scratch).unwrap();
        let map = self.maps[map.index()].as_ref().unwrap();
        let all = map.look_up(&0_u32.to_ne_bytes()).unwrap().unwrap();
        let n = all.len() / bpf::n_possible_processors().unwrap();
        all.chunks(n).map(<[u8]>::to_vec).collect()
    }

    /// Fills every processor's scratch memory with values that no run writes.
    fn soil_scratch(&self) {
        let scratch = self.image.map(MapRole::Scratch).unwrap();
        let scratch = self.maps[scratch.index()].as_ref().unwrap();
        let soil = vec![0xff; scratch.value_bytes()];
        scratch
            .update(&0_u32.to_ne_bytes(), &soil, Write::Any)
            .unwrap();
    }

    fn outcome(&self, verdict: Verdict, frame: Vec<u8>, noted: &[Noted], copy: bool) -> Run {
        let end = self.image.scratch.end as usize;
        let ran = |scratch: &Vec<u8>| scratch[end..end + 8] != [0xff; 8];
        let scratch = self.scratch().into_iter().find(ran);
        let Some(scratch) = scratch else {
            let end = match verdict {
                Verdict::Aborted => End::Punt,
                Verdict::Pass => End::Pass,
                other => panic!("verdict {other:?}, but no record of how the packet ended"),
            };
            let (counted, digests) = (Vec::new(), self.take_digests());
            return Run {
                end,
                counted,
                digests,
            };
        };
        let word = |at: u32| u64::from_ne_bytes(scratch[at as usize..][..8].try_into().unwrap());
        let places = &self.image.scratch;
        let mut counted: Vec<u32> = noted
            .iter()
            .filter_map(|noted| {
                let entry = &scratch[noted.at as usize..][..4];
                let entry = u32::from_ne_bytes(entry.try_into().unwrap());
                entry.checked_sub(1).map(|entry| noted.first + entry)
            })
            // The interpreter's meters are not compared.
            .filter(|counter| *counter < self.image.counters.colors)
            .collect();
        counted.sort_unstable();
        let out_port = PortId(word(places.out_port) as u16);
        let end = match verdict {
            Verdict::Aborted => End::Punt,
            Verdict::Pass if copy => End::Send(out_port, frame),
            Verdict::Pass => End::Pass,
            Verdict::Drop => End::Drop(DropReason::ALL[word(places.reason) as usize]),
            _ if word(places.end) == 2 => End::FanOut(frame),
            _ => End::Send(out_port, frame[Origin::BYTES as usize..].to_vec()),
        };
        if matches!(end, End::Punt | End::Pass) {
            counted.clear();
        }
        Run {
            end,
            counted,
            digests: self.take_digests(),
        }
    }

    /// Takes the digests that were sent since the last call.
    pub fn take_digests(&self) -> Vec<Digest> {
        let mut digests = Vec::new();
        let ir = self.program.ir();
        let mut take = |message: &[u8]| digests.push(DigestRecord::decode(ir, message).unwrap());
        if let Some(ring) = &self.ring {
            ring.borrow_mut().read(usize::MAX, &mut take);
        }
        digests
    }

    /// Runs the ingress program on a frame that arrives at this port.
    pub fn run(&self, port: PortId, frame: &[u8]) -> Run {
        self.set_port(LOOPBACK, port);
        self.soil_scratch();
        let run = self.ingress.test_run_behind(frame, 0, LOOPBACK, 1).unwrap();
        self.outcome(
            run.verdict,
            run.frame,
            &self.image.scratch.journals[0],
            false,
        )
    }

    /// Runs the egress program on metadata and frame, for a copy that leaves at this port.
    pub fn run_copy(&self, frame: &[u8], port: PortId, instance: u16) -> Run {
        let fan_out = self.image.fan_out.as_ref().unwrap();
        self.set_port(LOOPBACK + 1, port);
        self.put(fan_out.instances, &u32::from(instance).to_ne_bytes());
        let mut key = 0_u32.to_ne_bytes().to_vec();
        key.extend_from_slice(&u32::from(port.0).to_ne_bytes());
        let places = self.maps[fan_out.places.index()].as_ref().unwrap();
        places
            .update(&key, &0_u32.to_ne_bytes(), Write::Any)
            .unwrap();
        let egress = self.egress.as_ref().unwrap();
        self.soil_scratch();
        let run = egress
            .test_run_behind(frame, fan_out.note_bytes, LOOPBACK, 1)
            .unwrap();
        let frame = run.frame[fan_out.note_bytes as usize..].to_vec();
        self.outcome(run.verdict, frame, &self.image.scratch.journals[1], true)
    }

    /// Returns the average time of a run in nanoseconds. At most `IN_A_ROW` runs follow each other, because each run
    /// starts with the frame that the previous run left, and each run decreases the frame's time to live.
    pub fn time(&self, port: PortId, frame: &[u8], repeat: u32) -> u128 {
        self.set_port(LOOPBACK, port);
        average(&self.ingress, frame, 0, repeat, || {
            self.take_digests();
        })
    }

    /// Returns the average time like [`Self::time`], for a frame that arrives at an interface that is not a port.
    pub fn time_of_strangers(&self, frame: &[u8], repeat: u32) -> u128 {
        average(&self.ingress, frame, 0, repeat, || ())
    }

    /// Returns the average time like [`Self::time`], for a copy of this instance.
    pub fn time_copy(&self, frame: &[u8], instance: u16, repeat: u32) -> u128 {
        let fan_out = self.image.fan_out.as_ref().unwrap();
        for place in 0..2 * IN_A_ROW {
            let at = fan_out.instances + 4 * place;
            self.put(at, &u32::from(instance).to_ne_bytes());
        }
        let egress = self.egress.as_ref().unwrap();
        average(egress, frame, fan_out.note_bytes, repeat, || ())
    }

    /// Returns the entry of a table that has the body with this number.
    pub fn entry(&self, table: TableId, body: u32) -> Option<EntryIndex> {
        self.bodies.get(&table)?.get(&body).copied()
    }
}
