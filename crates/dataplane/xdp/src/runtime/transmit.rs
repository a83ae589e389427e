//! Counts the frames that leave by the switch's ports. A frame is counted when a device takes it, since only then is it
//! known that the frame leaves.
//!
//! The kernel queues redirected frames, up to 16 for each device and processor. When it flushes a queue, it runs the
//! device map's program on each frame, passes the remaining frames to the driver, and hits a tracepoint
//! (`xdp_devmap_xmit`) that reports how many frames the driver took. These are always the first frames of the queue.
//! All of this happens without interruption on one processor. So the device map's program records the length of each
//! frame that it passes. A second program, at the tracepoint, adds the taken and the refused frames to the port's
//! counts. It also adds the frames' residence times to a histogram, in one step for all frames with the same [`Origin`]
//! (arrival time and stream), such as the copies of a packet.
//!
//! ```text
//! queue of a device: | a | b | c |  ->  program: record 60, 1400, 90  ->  driver  ->  tracepoint: 2 taken, so
//!                                                                            60 + 1400 bytes sent, 90 refused
//! ```

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;

use bpf::{
    Instruction, Link, Map, MapConfig, MapKind, Program, ProgramConfig, ProgramKind, Write,
    n_possible_processors,
};
use dataplane::{CounterValue, PortId};

use crate::asm::reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::asm::{Alu, Assembler, Helper, Jump, Reg, Size, Symbol};
use crate::image::{MapRef, Origin};

/// Frames in one device's queue on one processor, `DEV_MAP_BULK_SIZE`.
const QUEUE_FRAMES: u32 = 16;

// Offsets in `struct xdp_md`, and a value of `enum xdp_action`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
const XDP_MD_DATA_META: i16 = 8;
const XDP_MD_EGRESS_IFINDEX: i16 = 20;
const XDP_PASS: u64 = 2;

/// The layout of the record that each processor has of the frames in a queue. The record consists of the interface, the
/// number of frames, counters of the tracepoint's program, the frames, and the table of [`times::bits`].
///
/// The counters are in memory because the verifier tracks the values of registers. With counters in registers it would
/// verify the rest of the program once for each number of frames, and once for each pair of numbers of taken and
/// refused frames. It does not track values loaded from memory.
mod note {
    pub(super) const INTERFACE: i16 = 0;
    pub(super) const N_FRAMES: i16 = 4;
    /// Frames that left the queue.
    pub(super) const N_LEFT: i16 = 8;
    /// Number of consecutive frames with the same origin.
    pub(super) const N_EQUAL: i16 = 12;
    pub(super) const FRAMES: i16 = 16;
    pub(super) const BITS: i16 = FRAMES + ((super::QUEUE_FRAMES as i16) << frame::SHIFT);
    pub(super) const BYTES: u32 = BITS as u32 + 256;

    /// A recorded frame: its arrival time (0 if unknown), its stream, and its length.
    pub(super) mod frame {
        pub(in super::super) const SHIFT: i32 = 4;
        pub(in super::super) const ARRIVAL: i16 = 0;
        pub(in super::super) const STREAM: i16 = 8;
        pub(in super::super) const LENGTH: i16 = 12;
    }
}

/// A port's counts on one processor.
mod count {
    pub(super) const SENT: i16 = 0;
    pub(super) const REFUSED: i16 = 16;
    /// The port's number plus 1; 0 for an interface without a port.
    pub(super) const PORT: i16 = 32;
    pub(super) const BYTES: u32 = 40;
}

/// Room for interfaces in addition to two for each port.
const PORTS_BESIDE: u32 = 64;

/// Offset of the tracepoint's third argument: how many frames the driver took.
const TRACEPOINT_SENT: i16 = 16;

/// Opcodes of RFC 9669, section 4.3: end of the program, and unconditional jump.
const EXIT: u8 = 0x95;
const JUMP: u8 = 0x05;

mod polls;
mod times;

pub(super) use polls::PollEnds;

/// The numbers by which the programs refer to the maps.
const NOTES: MapRef = MapRef(0);
const COUNTS: MapRef = MapRef(1);
const TIMES: MapRef = MapRef(2);
const POLLS: MapRef = MapRef(3);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCount {
    pub sent: CounterValue,
    pub refused: CounterValue,
}

/// A class of frames that an interface's device took. The frames of a class belong to the same stream, and their
/// residence times differ by at most 3 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeKey {
    pub interface: u32,
    /// The group, if the frames are copies; 0 if their packets went to one port.
    pub stream: u32,
    bucket: u32,
}

impl TimeKey {
    fn from_bytes(bytes: &[u8]) -> Option<TimeKey> {
        let word = |at| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(TimeKey {
            interface: word(0)?,
            stream: word(4)?,
            bucket: word(8)?,
        })
    }

    fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        let words = [self.interface, self.stream, self.bucket];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Middle of the class' residence times, in nanoseconds.
    pub fn time_ns(self) -> u64 {
        times::middle_ns(self.bucket)
    }
}

/// Counts frames that devices take.
#[derive(Debug)]
pub struct Transmit {
    notes: Map,
    counts: Map,
    times: Map,
    _link: Link,
    _program: Program,
}

impl Transmit {
    /// Starts to count for these interfaces.
    ///
    /// # Errors
    /// The kernel's error, or the kernel has no tracepoint `xdp_devmap_xmit`.
    pub fn new(interfaces: impl IntoIterator<Item = u32>) -> io::Result<Transmit> {
        let interfaces: Vec<u32> = interfaces.into_iter().collect();
        let transmit = Self::with_room(interfaces.len(), None)?;
        for interface in interfaces {
            transmit.add_as(interface, 0)?;
        }
        Ok(transmit)
    }

    /// Starts to count for the ports' interfaces. If there is a map of role [`MapRole::Polls`], in which `PollEnds`
    /// counts NAPI polls, the tracepoint's program also reports there which ports refused copies.
    ///
    /// # Errors
    /// The kernel's error, or the kernel has no tracepoint `xdp_devmap_xmit`.
    pub fn of_ports(
        ports: impl IntoIterator<Item = (PortId, u32)>,
        polls: Option<&Map>,
    ) -> io::Result<Transmit> {
        let ports: Vec<(PortId, u32)> = ports.into_iter().collect();
        let transmit = Self::with_room(ports.len(), polls)?;
        for (port, interface) in ports {
            transmit.add(port, interface)?;
        }
        Ok(transmit)
    }

    /// Starts without interfaces. There is room for `n_ports` interfaces, and for the same number of old interfaces
    /// that are not forgotten yet.
    ///
    /// # Errors
    /// The kernel's error, or the kernel has no tracepoint `xdp_devmap_xmit`.
    pub fn with_room(n_ports: usize, polls: Option<&Map>) -> io::Result<Transmit> {
        let map = |name, kind, [key_bytes, value_bytes]: [u32; 2], n_entries_max| {
            Map::create(&MapConfig {
                name,
                kind,
                key_bytes,
                value_bytes,
                n_entries_max,
                flags: 0,
                inner: None,
            })
        };
        let notes = map("reprise_notes", MapKind::PerCpuArray, [4, note::BYTES], 1)?;
        let n_counts = 2 * n_ports as u32 + PORTS_BESIDE;
        let per_processor = MapKind::PerCpuHash;
        let counts = map("reprise_sent", per_processor, [4, count::BYTES], n_counts)?;
        let times = map("reprise_times", per_processor, [12, 8], times::KEYS_MAX)?;
        let mut note = vec![0; note::BYTES as usize];
        note.splice(note::BITS as usize.., times::bits());
        let note = note.repeat(n_possible_processors()?);
        notes.update(&0_u32.to_ne_bytes(), &note, Write::Any)?;
        let program = Program::load(&ProgramConfig {
            name: "reprise_taken",
            kind: ProgramKind::RawTracepoint,
            has_fragments: false,
            instructions: &at_tracepoint(&notes, &counts, &times, polls)?,
        })?;
        let link = Link::attach_tracepoint(&program, c"xdp_devmap_xmit")?;
        Ok(Transmit {
            notes,
            counts,
            times,
            _link: link,
            _program: program,
        })
    }

    /// Starts to count for a port's interface. An interface that was counted before keeps its counts.
    ///
    /// # Errors
    /// The kernel's error, or there are too many interfaces.
    pub fn add(&self, port: PortId, interface: u32) -> io::Result<()> {
        self.add_as(interface, u64::from(port.0) + 1)
    }

    /// `place` is the port number plus 1, as in the map of `Polls`, or 0 for an interface without a port.
    fn add_as(&self, interface: u32, place: u64) -> io::Result<()> {
        let key = interface.to_ne_bytes();
        let n_processors = n_possible_processors()?;
        let empty = || vec![0; count::BYTES as usize].repeat(n_processors);
        let mut counts = self.counts.look_up(&key)?.unwrap_or_else(empty);
        for count in counts.chunks_exact_mut(count::BYTES as usize) {
            count[count::PORT as usize..].copy_from_slice(&place.to_ne_bytes());
        }
        self.counts.update(&key, &counts, Write::Any)
    }

    /// Stops counting for an interface. No packet may be on its way to the interface.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn forget(&self, interface: u32, times: &[TimeKey]) -> io::Result<()> {
        self.counts.delete(&interface.to_ne_bytes())?;
        times
            .iter()
            .try_for_each(|key| self.times.delete(&key.to_bytes()).map(drop))
    }

    /// Loads the program for a device map's entries. It runs `egress`, if given, then records the frames that it
    /// passes. `egress` must keep the context in R6.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn load_egress(&self, name: &str, egress: Option<&[Instruction]>) -> io::Result<Program> {
        Program::load(&ProgramConfig {
            name,
            kind: ProgramKind::XdpDeviceMap,
            has_fragments: false,
            instructions: &noting(&self.notes, egress)?,
        })
    }

    /// Returns the number of frames in each class so far.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn times(&self) -> io::Result<HashMap<TimeKey, u64>> {
        let all = self.times.look_up_all()?;
        let keys = all.keys.chunks_exact(self.times.key_bytes());
        let values = all.values.chunks_exact(self.times.value_bytes());
        let sum = |value: &[u8]| {
            let words = value.chunks_exact(8);
            let words = words.filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
            words.sum()
        };
        let keys = keys.zip(values);
        Ok(keys
            .filter_map(|(key, value)| Some((TimeKey::from_bytes(key)?, sum(value))))
            .collect())
    }

    /// Returns what an interface's device took and refused so far.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn count(&self, interface: u32) -> io::Result<DeviceCount> {
        let mut sum = DeviceCount::default();
        let Some(value) = self.counts.look_up(&interface.to_ne_bytes())? else {
            return Ok(sum);
        };
        let n_bytes = value.len() / n_possible_processors()?.max(1);
        for counts in value.chunks_exact(n_bytes) {
            let words: Vec<u64> = counts
                .chunks_exact(8)
                .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)))
                .collect();
            if let [sent, sent_bytes, refused, refused_bytes, _] = words[..] {
                sum.sent.packets += sent;
                sum.sent.bytes += sent_bytes;
                sum.refused.packets += refused;
                sum.refused.bytes += refused_bytes;
            }
        }
        Ok(sum)
    }
}

/// Emits a lookup of the key at `R10 - 4`, result in R0; the program returns `XDP_PASS` if there is no entry.
fn look_up(asm: &mut Assembler, map: MapRef) {
    asm.symbol(R1, Symbol::Map(map));
    asm.mov(R2, R10);
    asm.alu_imm(Alu::Add, R2, -4);
    asm.call(Helper::MapLookupElem);
    let found = asm.label();
    asm.jump_if_imm(Jump::Ne, R0, 0, found);
    give(asm, XDP_PASS);
    asm.place(found);
}

fn give(asm: &mut Assembler, number: u64) {
    asm.mov_imm(R0, number);
    asm.exit();
}

/// Builds a device map's program from `egress`, which keeps the context in R6. Puts the recording code in place of each
/// exit that passes the frame. The recording code is not a function, since `egress` may use the whole stack.
fn noting(notes: &Map, egress: Option<&[Instruction]>) -> io::Result<Vec<Instruction>> {
    let mut asm = Assembler::default();
    if egress.is_some() {
        let passes = asm.label();
        asm.jump_if_imm(Jump::Eq, R0, XDP_PASS as i32, passes);
        asm.exit();
        asm.place(passes);
    } else {
        asm.mov(R6, R1);
    }
    asm.store_imm(Size::B4, R10, -4, 0);
    look_up(&mut asm, NOTES);
    note_frame(&mut asm, egress.is_none());
    give(&mut asm, XDP_PASS);
    let mut program = egress.unwrap_or_default().to_vec();
    let end = program.len();
    for (at, instruction) in program.iter_mut().enumerate() {
        if instruction.code == EXIT {
            instruction.code = JUMP;
            instruction.offset = i16::try_from(end - at - 1).map_err(io::Error::other)?;
        }
    }
    program.extend(linked(asm, &[notes])?);
    Ok(program)
}

/// Records the frame (context in R6) in the record at R0. If the origin is the only metadata, removes it: GRO does
/// not merge packets whose metadata differ.
fn note_frame(asm: &mut Assembler, has_origin_alone: bool) {
    asm.load(Size::B4, R1, R6, XDP_MD_DATA);
    asm.load(Size::B4, R2, R6, XDP_MD_DATA_END);
    asm.alu(Alu::Sub, R2, R1);
    asm.load(Size::B4, R3, R0, note::N_FRAMES);
    asm.mov(R4, R3);
    asm.alu_imm(Alu::And, R4, QUEUE_FRAMES as i32 - 1);
    asm.alu_imm(Alu::Lsh, R4, note::frame::SHIFT);
    asm.alu(Alu::Add, R4, R0);
    asm.store(Size::B4, R4, note::FRAMES + note::frame::LENGTH, R2);
    asm.alu_imm(Alu::Add, R3, 1);
    asm.store(Size::B4, R0, note::N_FRAMES, R3);
    asm.load(Size::B4, R3, R6, XDP_MD_EGRESS_IFINDEX);
    asm.store(Size::B4, R0, note::INTERFACE, R3);
    let (unknown, end) = (asm.label(), asm.label());
    asm.load(Size::B4, R2, R6, XDP_MD_DATA_META);
    asm.mov(R3, R2);
    asm.alu_imm(Alu::Add, R3, Origin::BYTES as i32);
    asm.jump_if(Jump::Gt, R3, R1, unknown);
    asm.load(Size::B8, R3, R2, Origin::ARRIVAL);
    asm.store(Size::B8, R4, note::FRAMES + note::frame::ARRIVAL, R3);
    asm.load(Size::B8, R3, R2, Origin::STREAM);
    asm.store(Size::B4, R4, note::FRAMES + note::frame::STREAM, R3);
    if has_origin_alone {
        asm.mov(R1, R6);
        asm.mov_imm(R2, u64::from(Origin::BYTES));
        asm.call(Helper::XdpAdjustMeta);
    }
    asm.jump(end);
    asm.place(unknown);
    asm.store_imm(Size::B8, R4, note::FRAMES + note::frame::ARRIVAL, 0);
    asm.place(end);
}

/// Builds the tracepoint's program. The frames that the driver took are the first of the recorded frames.
fn at_tracepoint(
    notes: &Map,
    counts: &Map,
    times: &Map,
    polls: Option<&Map>,
) -> io::Result<Vec<Instruction>> {
    let mut asm = Assembler::default();
    asm.mov(R6, R1);
    asm.store_imm(Size::B4, R10, -4, 0);
    look_up(&mut asm, NOTES);
    asm.mov(R7, R0);
    asm.load(Size::B4, R1, R7, note::INTERFACE);
    // Without a recorded interface, the frames are those of another program.
    let is_ours = asm.label();
    asm.jump_if_imm(Jump::Ne, R1, 0, is_ours);
    give(&mut asm, 0);
    asm.place(is_ours);
    asm.store(Size::B4, R10, -4, R1);
    asm.load(Size::B4, R9, R7, note::N_FRAMES);
    asm.store(Size::B4, R7, note::N_LEFT, R9);
    asm.store_imm(Size::B4, R7, note::INTERFACE, 0);
    asm.store_imm(Size::B4, R7, note::N_FRAMES, 0);
    look_up(&mut asm, COUNTS);
    asm.load(Size::B4, R8, R6, TRACEPOINT_SENT);
    // R2 and R3: packets and bytes taken; R4 and R5: refused.
    for register in [R2, R3, R4, R5] {
        asm.mov_imm(register, 0);
    }
    let end = asm.label();
    for place in 0..QUEUE_FRAMES {
        asm.jump_if_imm(Jump::Le, R9, place as i32, end);
        let frame = note::FRAMES + ((place as i16) << note::frame::SHIFT);
        asm.load(Size::B4, R1, R7, frame + note::frame::LENGTH);
        let (is_refused, next) = (asm.label(), asm.label());
        asm.jump_if_imm(Jump::Le, R8, place as i32, is_refused);
        add(&mut asm, R2, R3);
        asm.jump(next);
        asm.place(is_refused);
        add(&mut asm, R4, R5);
        asm.place(next);
    }
    asm.place(end);
    let sums = [(count::SENT, R2, R3), (count::REFUSED, R4, R5)];
    for (at, packets, bytes) in sums {
        for (at, sum) in [(at, packets), (at + 8, bytes)] {
            asm.load(Size::B8, R1, R0, at);
            asm.alu(Alu::Add, R1, sum);
            asm.store(Size::B8, R0, at, R1);
        }
    }
    asm.load(Size::B4, R8, R6, TRACEPOINT_SENT);
    asm.load(Size::B4, R9, R7, note::N_LEFT);
    let mut maps = vec![notes, counts, times];
    if let Some(polls) = polls {
        let all = asm.label();
        asm.jump_if(Jump::Ge, R8, R9, all);
        polls::limit(&mut asm);
        asm.place(all);
        maps.push(polls);
    }
    times::add(&mut asm);
    give(&mut asm, 0);
    linked(asm, &maps)
}

/// Counts one frame; R1 is its length.
fn add(asm: &mut Assembler, packets: Reg, bytes: Reg) {
    asm.alu_imm(Alu::Add, packets, 1);
    asm.alu(Alu::Add, bytes, R1);
}

fn linked(asm: Assembler, maps: &[&Map]) -> io::Result<Vec<Instruction>> {
    let code = asm.finish().map_err(io::Error::other)?;
    Ok(code.link(|map| maps[map.index()].as_fd()))
}
