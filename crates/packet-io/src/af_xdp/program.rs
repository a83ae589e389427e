//! The XDP program: sends the switch's frames to its sockets, and passes the others to the kernel.
//!
//! It is written here instruction by instruction, some tens of them. So building the switch needs no BPF compiler and
//! no unreadable object file. The kernel's verifier checks every load. In words:
//!
//! 1. Without destinations every frame is the switch's. With destinations, an IPv4 or IPv6 packet
//!    is the switch's if its destination address is one of them and, if that destination has a
//!    port, the packet is a UDP datagram to that port (for IPv4 whole or a first fragment). Frames
//!    with VLAN tags then go to the kernel.
//! 2. The switch's frames go to the socket of their receive queue; if there is none, to the kernel.

use std::net::IpAddr;
use std::os::fd::AsFd;

use bpf::{Instruction, Map, MapReference};

use super::Destination;

// Registers: R0 is a call's result, R1 to R5 its arguments, R6 to R9 survive it.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const CONTEXT: u8 = 6;
const FRAME: u8 = 7;
const FRAME_END: u8 = 8;
const TRANSPORT: u8 = 9;

// `struct xdp_md` and its verdict, `enum bpf_func_id`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
const XDP_MD_RX_QUEUE_INDEX: i16 = 16;
const XDP_PASS: i32 = 2;
const BPF_REDIRECT_MAP: i32 = 51;

// Instruction codes, RFC 9669.
const LOAD_U32: u8 = 0x61;
const LOAD_U16: u8 = 0x69;
const LOAD_U8: u8 = 0x71;
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_IMMEDIATE: u8 = 0x07;
const AND_IMMEDIATE: u8 = 0x57;
const SHIFT_LEFT_IMMEDIATE: u8 = 0x67;
const JUMP: u8 = 0x05;
const JUMP_IF_GREATER: u8 = 0x2d;
/// A comparison of 32 bits, so that the immediate is not sign-extended to a number no field has.
const JUMP_IF_NOT_EQUAL_IMMEDIATE: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

// Where fields are in an untagged frame.
const ETHER_TYPE: i16 = 12;
const IP: i16 = 14;
const IPV4_HEADER_BYTES: i16 = 20;
const IPV6_HEADER_BYTES: i16 = 40;
const UDP_DESTINATION: i16 = 2;
const UDP: i32 = 17;

/// The target of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ipv4Addresses,
    Ipv6,
    Ipv6Addresses,
    /// After the destination with this index.
    NotDestination(usize),
    Pass,
    Redirect,
}

/// The port's own program for these destinations; without any, it takes all frames.
pub(super) fn assemble(destinations: &[Destination], sockets: &Map) -> Vec<Instruction> {
    let mut program = filter(destinations);
    let mut code = Assembler::default();
    code.load(LOAD_U32, R2, R1, XDP_MD_RX_QUEUE_INDEX);
    code.add_all(&Instruction::load_map(
        R1,
        MapReference::Map,
        sockets.as_fd(),
    ));
    // The action if the map has no socket for the queue.
    code.add(MOVE_IMMEDIATE, R3, 0, 0, XDP_PASS);
    code.add(CALL, 0, 0, 0, BPF_REDIRECT_MAP);
    code.add(EXIT, 0, 0, 0, 0);
    program.extend(code.link());
    program
}

/// Returns [`XDP_PASS`] for a frame to none of the destinations, and falls through for others with R1 unchanged.
pub(super) fn filter(destinations: &[Destination]) -> Vec<Instruction> {
    let mut code = Assembler::default();
    if !destinations.is_empty() {
        code.move_register(CONTEXT, R1);
        code.find_destination(destinations);
        code.mark(Label::Pass);
        code.add(MOVE_IMMEDIATE, R0, 0, 0, XDP_PASS);
        code.add(EXIT, 0, 0, 0, 0);
    }
    code.mark(Label::Redirect);
    code.link()
}

#[derive(Default)]
struct Assembler {
    instructions: Vec<Instruction>,
    labels: Vec<(Label, usize)>,
    /// Instructions whose jump offset is still missing.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn add(&mut self, code: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        self.instructions.push(Instruction {
            code,
            registers: source << 4 | destination,
            offset,
            immediate,
        });
    }

    fn add_all(&mut self, instructions: &[Instruction]) {
        self.instructions.extend_from_slice(instructions);
    }

    fn load(&mut self, code: u8, to: u8, from: u8, offset: i16) {
        self.add(code, to, from, offset, 0);
    }

    fn move_register(&mut self, to: u8, from: u8) {
        self.add(MOVE, to, from, 0, 0);
    }

    fn mark(&mut self, label: Label) {
        self.labels.push((label, self.instructions.len()));
    }

    fn jump(&mut self, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.add(JUMP, 0, 0, 0, 0);
    }

    /// `immediate` is in the byte order of the frame, like the value loaded from it.
    fn jump_if_not(&mut self, register: u8, immediate: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.add(JUMP_IF_NOT_EQUAL_IMMEDIATE, register, 0, 0, immediate);
    }

    /// Jumps if the frame ends before `base + n_bytes`.
    fn jump_if_shorter(&mut self, base: u8, n_bytes: i16, to: Label) {
        self.move_register(R2, base);
        self.add(ADD_IMMEDIATE, R2, 0, 0, i32::from(n_bytes));
        self.jumps.push((self.instructions.len(), to));
        self.add(JUMP_IF_GREATER, R2, FRAME_END, 0, 0);
    }

    /// Jumps to [`Label::Redirect`] for a frame to one of the destinations, falls through for others.
    fn find_destination(&mut self, destinations: &[Destination]) {
        self.load(LOAD_U32, FRAME, CONTEXT, XDP_MD_DATA);
        self.load(LOAD_U32, FRAME_END, CONTEXT, XDP_MD_DATA_END);
        self.jump_if_shorter(FRAME, IP + IPV4_HEADER_BYTES, Label::Pass);
        self.load(LOAD_U16, R3, FRAME, ETHER_TYPE);
        self.jump_if_not(R3, of_two([0x08, 0x00]), Label::Ipv6);
        self.ipv4_port();
        self.mark(Label::Ipv4Addresses);
        self.compare(destinations, IP + 16);
        self.jump(Label::Pass);
        self.mark(Label::Ipv6);
        self.jump_if_not(R3, of_two([0x86, 0xdd]), Label::Pass);
        self.ipv6_port();
        self.mark(Label::Ipv6Addresses);
        self.compare(destinations, IP + 24);
    }

    /// Loads the UDP destination port into R5, or -1, which is no port.
    fn ipv4_port(&mut self) {
        self.add(MOVE_IMMEDIATE, R5, 0, 0, -1);
        self.load(LOAD_U8, R2, FRAME, IP + 9);
        self.jump_if_not(R2, UDP, Label::Ipv4Addresses);
        // A later fragment has no UDP header.
        self.load(LOAD_U16, R2, FRAME, IP + 6);
        self.add(AND_IMMEDIATE, R2, 0, 0, of_two([0x1f, 0xff]));
        self.jump_if_not(R2, 0, Label::Ipv4Addresses);
        self.load(LOAD_U8, R2, FRAME, IP);
        self.add(AND_IMMEDIATE, R2, 0, 0, 0x0f);
        self.add(SHIFT_LEFT_IMMEDIATE, R2, 0, 0, 2);
        self.move_register(TRANSPORT, FRAME);
        self.add(ADD, TRANSPORT, R2, 0, 0);
        let end = IP + UDP_DESTINATION + 2;
        self.jump_if_shorter(TRANSPORT, end, Label::Ipv4Addresses);
        self.load(LOAD_U16, R5, TRANSPORT, IP + UDP_DESTINATION);
    }

    fn ipv6_port(&mut self) {
        self.jump_if_shorter(FRAME, IP + IPV6_HEADER_BYTES, Label::Pass);
        self.add(MOVE_IMMEDIATE, R5, 0, 0, -1);
        self.load(LOAD_U8, R2, FRAME, IP + 6);
        self.jump_if_not(R2, UDP, Label::Ipv6Addresses);
        let port = IP + IPV6_HEADER_BYTES + UDP_DESTINATION;
        self.jump_if_shorter(FRAME, port + 2, Label::Ipv6Addresses);
        self.load(LOAD_U16, R5, FRAME, port);
    }

    /// Compares the address at `offset` with the destinations that have as many bytes.
    fn compare(&mut self, destinations: &[Destination], offset: i16) {
        let is_ipv4 = offset == IP + 16;
        for (place, destination) in destinations.iter().enumerate() {
            if destination.address.is_ipv4() != is_ipv4 {
                continue;
            }
            let next = Label::NotDestination(place);
            let octets = match destination.address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            for (at, word) in (offset..).step_by(4).zip(octets.chunks_exact(4)) {
                self.load(LOAD_U32, R4, FRAME, at);
                let word = i32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
                self.jump_if_not(R4, word, next);
            }
            if let Some(port) = destination.udp_port {
                self.jump_if_not(R5, of_two(port.to_be_bytes()), next);
            }
            self.jump(Label::Redirect);
            self.mark(next);
        }
    }

    /// Writes the jumps' distances, which count from the instruction after the jump.
    fn link(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let place = self.labels.iter().find(|(marked, _)| *marked == label);
            // Every label above is marked; the verifier would refuse a jump to itself.
            let to = place.map_or(from, |(_, place)| *place);
            // A program has far less than 2^15 instructions: destinations are limited.
            self.instructions[from].offset = (to as i64 - from as i64 - 1) as i16;
        }
        self.instructions
    }
}

/// Two bytes of a frame as a 16-bit load sees them.
fn of_two(bytes: [u8; 2]) -> i32 {
    i32::from(u16::from_ne_bytes(bytes))
}
