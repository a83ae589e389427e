//! Sends bursts. The frames of a burst all arrive before the port's program runs.

use std::os::fd::AsFd;

use bpf::{Map, MapConfig, MapKind, Program, ProgramConfig, ProgramKind};
use dataplane_xdp::asm::{Alu, Assembler, Helper, Jump, Reg, Size, Symbol};
use dataplane_xdp::image::MapRef;

use crate::namespace::run;

/// Number of frames in a burst.
pub const FRAMES: u32 = 64;

const R0: Reg = Reg(0);
const R1: Reg = Reg(1);
const R2: Reg = Reg(2);
const R3: Reg = Reg(3);
const R4: Reg = Reg(4);
const R7: Reg = Reg(7);
const R10: Reg = Reg(10);
/// The offset of the last byte of a frame's destination address.
const TO: i16 = 5;
// The following constants are from `struct xdp_md` and `enum xdp_action`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
const XDP_DROP: u64 = 1;

fn map(kind: MapKind, value_bytes: u32) -> Map {
    let map = Map::create(&MapConfig {
        name: "test",
        kind,
        key_bytes: 4,
        value_bytes,
        n_entries_max: 1,
        flags: 0,
        inner: None,
    });
    map.unwrap()
}

/// Makes a program that sets the last byte of each frame's destination, cycling through `to`, and sends the frame to
/// the first entry of a device map.
fn sender(numbers: &Map, devices: &Map, to: &[u8]) -> Program {
    let mut asm = Assembler::default();
    let dropped = asm.label();
    asm.load(Size::B4, R7, R1, XDP_MD_DATA);
    asm.load(Size::B4, R3, R1, XDP_MD_DATA_END);
    asm.mov(R4, R7);
    asm.alu_imm(Alu::Add, R4, 14);
    asm.jump_if(Jump::Gt, R4, R3, dropped);
    asm.store_imm(Size::B4, R10, -4, 0);
    asm.symbol(R1, Symbol::Map(MapRef(0)));
    asm.mov(R2, R10);
    asm.alu_imm(Alu::Add, R2, -4);
    asm.call(Helper::MapLookupElem);
    asm.jump_if_imm(Jump::Eq, R0, 0, dropped);
    asm.load(Size::B4, R1, R0, 0);
    asm.mov(R2, R1);
    asm.alu_imm(Alu::Add, R2, 1);
    asm.store(Size::B4, R0, 0, R2);
    asm.alu_imm(Alu::Mod, R1, to.len() as i32);
    for (position, to) in (0..).zip(to) {
        let other = asm.label();
        asm.jump_if_imm(Jump::Ne, R1, position, other);
        asm.store_imm(Size::B1, R7, TO, i32::from(*to));
        asm.place(other);
    }
    asm.symbol(R1, Symbol::Map(MapRef(1)));
    asm.mov_imm(R2, 0);
    asm.mov_imm(R3, 0);
    asm.call(Helper::RedirectMap);
    asm.exit();
    asm.place(dropped);
    asm.mov_imm(R0, XDP_DROP);
    asm.exit();
    let code = asm.finish().unwrap();
    let maps = [numbers, devices];
    let program = Program::load(&ProgramConfig {
        name: "test",
        kind: ProgramKind::Xdp,
        has_fragments: false,
        instructions: &code.link(|map| maps[map.index()].as_fd()),
    });
    program.unwrap()
}

/// Sends bursts of [`FRAMES`] through an interface. The destinations cycle through `to`.
pub fn send(interface: u32, frame: &[u8], to: &[u8], n_bursts: u32) {
    let numbers = map(MapKind::PerCpuArray, 4);
    let devices = map(MapKind::DeviceMap, 8);
    devices.set_device(0, interface, None).unwrap();
    let program = sender(&numbers, &devices, to);
    program.send(frame, n_bursts * FRAMES).unwrap();
}

/// Pins this thread to one processor, because the XDP program counts for each processor separately how many copies it
/// may still make.
pub fn stay() {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap();
    run(&format!("taskset --cpu-list --pid 0 {}", thread.display()));
}
