//! Makes copies through a device map, with XDP programs that are written by hand. The ingress program broadcasts each
//! frame. The egress program writes into each copy the copy's position among the copies of its port.

use std::os::fd::AsFd;

use bpf::{Instruction, Map, MapConfig, MapKind};
use dataplane_xdp::asm::{Alu, Assembler, Helper, Jump, Reg, Size, Symbol};
use dataplane_xdp::image::MapRef;

/// The offset of the byte in a copy that contains the copy's position among the copies of its port.
pub const PLACE: usize = 14;

const R0: Reg = Reg(0);
const R1: Reg = Reg(1);
const R2: Reg = Reg(2);
const R3: Reg = Reg(3);
const R4: Reg = Reg(4);
const R6: Reg = Reg(6);
const R7: Reg = Reg(7);
const R10: Reg = Reg(10);

/// Makes a map with keys of four bytes.
pub fn map(kind: MapKind, value_bytes: u32, n_entries_max: u32, inner: Option<&Map>) -> Map {
    Map::create(&MapConfig {
        name: "test",
        kind,
        key_bytes: 4,
        value_bytes,
        n_entries_max,
        flags: 0,
        inner: inner.map(Map::as_fd),
    })
    .unwrap()
}

fn linked(asm: Assembler, maps: &[&Map]) -> Vec<Instruction> {
    let code = asm.finish().unwrap();
    code.link(|map| maps[map.index()].as_fd())
}

/// Loads the address of a map's value into R0. The key is at `R10 - 4`. The frame is dropped if there is no value.
fn look_up(asm: &mut Assembler, map: u32) {
    asm.symbol(R1, Symbol::Map(MapRef(map)));
    asm.mov(R2, R10);
    asm.alu_imm(Alu::Add, R2, -4);
    asm.call(Helper::MapLookupElem);
    let found = asm.label();
    asm.jump_if_imm(Jump::Ne, R0, 0, found);
    asm.mov_imm(R0, 1);
    asm.exit();
    asm.place(found);
}

/// Makes the ingress program. It gives each frame a serial number, counted per processor, and broadcasts the frame
/// through the first device map.
pub fn ingress(serials: &Map, groups: &Map) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    asm.mov(R6, R1);
    asm.store_imm(Size::B4, R10, -4, 0);
    look_up(&mut asm, 0);
    asm.load(Size::B4, R7, R0, 0);
    asm.alu_imm(Alu::Add, R7, 1);
    asm.store(Size::B4, R0, 0, R7);
    asm.mov(R1, R6);
    asm.mov_imm(R2, (-4_i64).cast_unsigned());
    asm.call(Helper::XdpAdjustMeta);
    asm.load(Size::B4, R1, R6, 8);
    asm.load(Size::B4, R2, R6, 0);
    asm.mov(R3, R1);
    asm.alu_imm(Alu::Add, R3, 4);
    let has_room = asm.label();
    asm.jump_if(Jump::Le, R3, R2, has_room);
    asm.mov_imm(R0, 1);
    asm.exit();
    asm.place(has_room);
    asm.store(Size::B4, R1, 0, R7);
    look_up(&mut asm, 1);
    asm.mov(R1, R0);
    asm.mov_imm(R2, 0);
    // `BPF_F_BROADCAST`
    asm.mov_imm(R3, 1 << 3);
    asm.call(Helper::RedirectMap);
    asm.exit();
    linked(asm, &[serials, groups])
}

/// Makes the egress program. It writes into each copy the number of earlier copies of the frame at the same port.
pub fn egress(places: &Map) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let drop = asm.label();
    asm.mov(R6, R1);
    asm.load(Size::B4, R1, R6, 20);
    asm.alu_imm(Alu::And, R1, 255);
    asm.store(Size::B4, R10, -4, R1);
    look_up(&mut asm, 0);
    asm.load(Size::B4, R1, R6, 8);
    asm.load(Size::B4, R2, R6, 0);
    asm.mov(R3, R1);
    asm.alu_imm(Alu::Add, R3, 4);
    asm.jump_if(Jump::Gt, R3, R2, drop);
    asm.load(Size::B4, R7, R1, 0);
    // If the serial number is new, this is the first copy of the frame.
    asm.load(Size::B4, R3, R0, 0);
    let is_next = asm.label();
    asm.jump_if(Jump::Eq, R3, R7, is_next);
    asm.store(Size::B4, R0, 0, R7);
    asm.store_imm(Size::B4, R0, 4, 0);
    asm.place(is_next);
    asm.load(Size::B4, R4, R0, 4);
    asm.mov(R3, R4);
    asm.alu_imm(Alu::Add, R3, 1);
    asm.store(Size::B4, R0, 4, R3);
    asm.load(Size::B4, R1, R6, 4);
    asm.mov(R3, R2);
    asm.alu_imm(Alu::Add, R3, PLACE as i32 + 1);
    asm.jump_if(Jump::Gt, R3, R1, drop);
    asm.store(Size::B1, R2, PLACE as i16, R4);
    asm.mov_imm(R0, 2);
    asm.exit();
    asm.place(drop);
    asm.mov_imm(R0, 1);
    asm.exit();
    linked(asm, &[places])
}
