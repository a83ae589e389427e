//! The XDP program: sends the switch's frames to its sockets, and passes all other frames to the kernel.
//!
//! This file assembles the program, some tens of instructions, instruction by instruction. So building the switch needs
//! no BPF compiler and no unreadable object file. The kernel's verifier checks the program each time it is loaded. In
//! words:
//!
//! 1. Without configured destinations, every frame is the switch's. With destinations, an IPv4 or IPv6 packet is the
//!    switch's if its destination address is one of theirs. If that destination has a port, the packet must also be a
//!    UDP datagram to that port (for IPv4, whole or the first fragment). With destinations, frames with VLAN tags go to
//!    the kernel, because the program does not look behind a tag.
//! 2. The switch's frames go to the socket of their receive queue, or to the kernel if the queue has no socket.

use std::net::IpAddr;
use std::os::fd::AsFd;

use bpf::asm::{Alu, Assembler, Helper, Jump, Label, MapRef, Reg, Size, Symbol, reg::*};
use bpf::{Instruction, Map};

use super::Destination;

const CONTEXT: Reg = R6;
const FRAME: Reg = R7;
const FRAME_END: Reg = R8;
const TRANSPORT: Reg = R9;

// `struct xdp_md` and its verdict.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
const XDP_MD_RX_QUEUE_INDEX: i16 = 16;
const XDP_PASS: u64 = 2;

// Offsets of fields in an untagged frame.
const ETHER_TYPE: i16 = 12;
const IP: i16 = 14;
const IPV4_HEADER_BYTES: i16 = 20;
const IPV6_HEADER_BYTES: i16 = 40;
const UDP_DESTINATION: i16 = 2;
const UDP: i32 = 17;

/// The reason why every jump reaches its label, for a panic's message.
const NEAR: &str = "destinations are limited, so the program has far less than 2^15 instructions";

/// Returns the port's own program for these destinations. Without destinations, the program takes all frames.
pub(super) fn assemble(destinations: &[Destination], sockets: &Map) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    add_filter(&mut asm, destinations);
    asm.load(Size::B4, R2, R1, XDP_MD_RX_QUEUE_INDEX);
    asm.symbol(R1, Symbol::Map(MapRef(0)));
    // The action if the map has no socket for the queue.
    asm.mov_imm(R3, XDP_PASS);
    asm.call(Helper::RedirectMap);
    asm.exit();
    let code = asm.finish().expect(NEAR);
    code.link(|_| sockets.as_fd())
}

/// Returns instructions that end the program with [`XDP_PASS`] for a frame to none of the destinations. For any other
/// frame the instructions fall through, with R1 unchanged.
pub(super) fn filter(destinations: &[Destination]) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    add_filter(&mut asm, destinations);
    asm.finish().expect(NEAR).instructions
}

fn add_filter(asm: &mut Assembler, destinations: &[Destination]) {
    if destinations.is_empty() {
        return;
    }
    let (pass, redirect) = (asm.label(), asm.label());
    let mut filter = Filter {
        asm,
        destinations,
        pass,
        redirect,
    };
    filter.find_destination();
    filter.asm.place(pass);
    filter.asm.mov_imm(R0, XDP_PASS);
    filter.asm.exit();
    filter.asm.place(redirect);
}

struct Filter<'a> {
    asm: &'a mut Assembler,
    destinations: &'a [Destination],
    pass: Label,
    redirect: Label,
}

impl Filter<'_> {
    /// Jumps if `register` differs from `immediate`, which is in the byte order of the frame, like the value loaded
    /// from the frame. Compares 32 bits: a comparison of 64 bits would sign-extend `immediate` to a number that no
    /// field has.
    fn jump_if_not(&mut self, register: Reg, immediate: i32, to: Label) {
        self.asm.jump32_if_imm(Jump::Ne, register, immediate, to);
    }

    /// Jumps if the frame ends before `base + n_bytes`.
    fn jump_if_shorter(&mut self, base: Reg, n_bytes: i16, to: Label) {
        self.asm.mov(R2, base);
        self.asm.alu_imm(Alu::Add, R2, i32::from(n_bytes));
        self.asm.jump_if(Jump::Gt, R2, FRAME_END, to);
    }

    /// Jumps to `redirect` for a frame to one of the destinations, and falls through for any other frame.
    fn find_destination(&mut self) {
        let pass = self.pass;
        self.asm.mov(CONTEXT, R1);
        self.asm.load(Size::B4, FRAME, CONTEXT, XDP_MD_DATA);
        self.asm.load(Size::B4, FRAME_END, CONTEXT, XDP_MD_DATA_END);
        self.jump_if_shorter(FRAME, IP + IPV4_HEADER_BYTES, pass);
        self.asm.load(Size::B2, R3, FRAME, ETHER_TYPE);
        let ipv6 = self.asm.label();
        self.jump_if_not(R3, of_two([0x08, 0x00]), ipv6);
        self.ipv4_port();
        self.compare(IP + 16);
        self.asm.jump(pass);
        self.asm.place(ipv6);
        self.jump_if_not(R3, of_two([0x86, 0xdd]), pass);
        self.ipv6_port();
        self.compare(IP + 24);
    }

    /// Loads the UDP destination port into R5, or -1 if the packet has none.
    fn ipv4_port(&mut self) {
        let addresses = self.asm.label();
        self.asm.mov_imm(R5, u64::MAX);
        self.asm.load(Size::B1, R2, FRAME, IP + 9);
        self.jump_if_not(R2, UDP, addresses);
        // A later fragment has no UDP header.
        self.asm.load(Size::B2, R2, FRAME, IP + 6);
        self.asm.alu_imm(Alu::And, R2, of_two([0x1f, 0xff]));
        self.jump_if_not(R2, 0, addresses);
        self.asm.load(Size::B1, R2, FRAME, IP);
        self.asm.alu_imm(Alu::And, R2, 0x0f);
        self.asm.alu_imm(Alu::Lsh, R2, 2);
        self.asm.mov(TRANSPORT, FRAME);
        self.asm.alu(Alu::Add, TRANSPORT, R2);
        let end = IP + UDP_DESTINATION + 2;
        self.jump_if_shorter(TRANSPORT, end, addresses);
        self.asm.load(Size::B2, R5, TRANSPORT, IP + UDP_DESTINATION);
        self.asm.place(addresses);
    }

    fn ipv6_port(&mut self) {
        let addresses = self.asm.label();
        self.jump_if_shorter(FRAME, IP + IPV6_HEADER_BYTES, self.pass);
        self.asm.mov_imm(R5, u64::MAX);
        self.asm.load(Size::B1, R2, FRAME, IP + 6);
        self.jump_if_not(R2, UDP, addresses);
        let port = IP + IPV6_HEADER_BYTES + UDP_DESTINATION;
        self.jump_if_shorter(FRAME, port + 2, addresses);
        self.asm.load(Size::B2, R5, FRAME, port);
        self.asm.place(addresses);
    }

    /// Compares the address at `offset` with the destinations of the same IP version.
    fn compare(&mut self, offset: i16) {
        let is_ipv4 = offset == IP + 16;
        for destination in self.destinations {
            if destination.address.is_ipv4() != is_ipv4 {
                continue;
            }
            let next = self.asm.label();
            let octets = match destination.address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            for (at, word) in (offset..).step_by(4).zip(octets.chunks_exact(4)) {
                self.asm.load(Size::B4, R4, FRAME, at);
                let word = i32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
                self.jump_if_not(R4, word, next);
            }
            if let Some(port) = destination.udp_port {
                self.jump_if_not(R5, of_two(port.to_be_bytes()), next);
            }
            self.asm.jump(self.redirect);
            self.asm.place(next);
        }
    }
}

/// Returns the value that a 16-bit load of these two bytes of a frame gives.
fn of_two(bytes: [u8; 2]) -> i32 {
    i32::from(u16::from_ne_bytes(bytes))
}
