//! Measures what headers cost, depending on how they are edited, and what checksums cost, depending on how they are
//! updated. Prints CSV: nanoseconds per packet through a whole switch that has no network interfaces.
//!
//! The column `headers` is the number of additional headers, of eight bytes each. In rows named `added`, the program
//! puts these headers in front of the others. In rows named `edited`, the frame already has them, and the program
//! changes a field of each.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark stops at what it did not expect, and prints what it found"
)]

use std::time::Instant;

use dataplane::{PortId, Program, Switch, SwitchConfig};
use dataplane_jit::{NativeFactory, NativeOptions};
use testkit::p4::program_of;

/// The number of packets in one timing.
const PACKETS: u32 = 4_000;
/// The number of timings. The benchmark prints the shortest, because other work on the machine disturbs most timings.
const ROUNDS: usize = 41;

const PARTS: &str = "
header ethernet_t { bit<48> dst_addr; bit<48> src_addr; bit<16> ether_type; }
header ipv4_t { bit<4> version; bit<4> ihl; bit<8> type_of_service; bit<16> total_length;
    bit<16> identification; bit<3> flags; bit<13> fragment_offset; bit<8> ttl; bit<8> protocol;
    bit<16> header_checksum; bit<32> src_addr; bit<32> dst_addr; }
header udp_t { bit<16> src_port; bit<16> dst_port; bit<16> length; bit<16> checksum; }
header tag_t { bit<16> a; bit<4> b; bit<12> c; bit<32> d; }
struct meta_t { bit<8> unused; }
";

/// Returns a P4 program with `n_tags` tag headers in front of the other headers. The parser extracts the first
/// `parsed_tags` of them.
fn program(n_tags: usize, parsed_tags: usize, checksums: &[String; 2], ingress: &str) -> Program {
    let tags: String = (0..n_tags).map(|it| format!("tag_t tag{it};")).collect();
    let emits: String = (0..n_tags)
        .map(|it| format!("packet.emit(hdr.tag{it});"))
        .collect();
    let extracts: String = (0..parsed_tags)
        .map(|it| format!("packet.extract(hdr.tag{it});"))
        .collect();
    let [verify, update] = checksums;
    program_of(&format!(
        "#include <core.p4>\n#include <v1model.p4>\n{PARTS}
struct headers_t {{ {tags} ethernet_t ethernet; ipv4_t ipv4; udp_t udp; }}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta,
    inout standard_metadata_t standard_metadata) {{
    state start {{ {extracts} packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {{ 0x0800: ipv4; default: accept; }} }}
    state ipv4 {{ packet.extract(hdr.ipv4); packet.extract(hdr.udp); transition accept; }}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {{
    apply {{ standard_metadata.egress_spec = 2; {ingress} }} }}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {{
    apply {{ }} }}
control U(inout headers_t hdr, inout meta_t meta) {{ apply {{ {update} }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ {emits} packet.emit(hdr.ethernet);
    packet.emit(hdr.ipv4); packet.emit(hdr.udp); }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;"
    ))
}

fn frame(n_tags: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![0x11; n_tags * 8];
    frame.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]);
    let bytes = (0_u8..=255).cycle();
    frame.extend(bytes.take(len - 16));
    frame
}

fn options_of(names: &[&str]) -> NativeOptions {
    let mut options = NativeOptions::NAIVE;
    for name in names {
        *options.by_name_mut(name).unwrap() = true;
    }
    options
}

/// Measures how many nanoseconds the switch takes per packet.
fn time(program: &Program, options: NativeOptions, frame: &[u8]) -> f64 {
    let factory = NativeFactory { options };
    let mut switch = Switch::with_engine(SwitchConfig::default(), Box::new(factory));
    for port in 1..3 {
        switch.add_port(PortId(port));
    }
    switch.set_program(program.clone());
    let mut shortest = f64::MAX;
    for _ in 0..ROUNDS {
        let (begin, mut left) = (Instant::now(), 0);
        for _ in 0..PACKETS {
            switch.handle_frame(0, PortId(1), frame);
            while let Some(transmit) = switch.poll_transmit(0) {
                left += u32::from(!transmit.frame.head.is_empty());
            }
        }
        assert_eq!(left, PACKETS, "every packet leaves");
        shortest = shortest.min(begin.elapsed().as_secs_f64());
    }
    shortest * 1e9 / f64::from(PACKETS)
}

fn editing() {
    let none = [String::new(), String::new()];
    for n in [1, 2, 4, 8, 12, 16] {
        let added: String = (0..n)
            .map(|it| {
                let of = format!("hdr.tag{it}");
                format!("{of}.setValid(); {of}.a = {it}; {of}.b = 3; {of}.c = 77; {of}.d = 5;")
            })
            .collect();
        let edited: String = (0..n)
            .map(|it| format!("hdr.tag{it}.d = hdr.tag{it}.d + 1;"))
            .collect();
        for (change, n_parsed, ingress) in [("added", 0, added), ("edited", n, edited)] {
            let program = program(n, n_parsed, &none, &ingress);
            for names in [
                &[][..],
                &["parser-specialisation"],
                &["inline-editing"],
                &["parser-specialisation", "inline-editing"],
            ] {
                let ns = time(&program, options_of(names), &frame(n_parsed, 100));
                println!("{change},{n},100,{},{ns:.1}", names.join("+"));
            }
        }
    }
}

fn checksums() {
    let header = "{ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.type_of_service,
        hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.flags,
        hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr,
        hdr.ipv4.dst_addr }, hdr.ipv4.header_checksum, HashAlgorithm.csum16";
    let payload = "{ hdr.ipv4.src_addr, hdr.ipv4.dst_addr, 8w0, hdr.ipv4.protocol,
        hdr.udp.length, hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length },
        hdr.udp.checksum, HashAlgorithm.csum16";
    let calls = |suffix: &str, of: &str| {
        let condition = "hdr.ipv4.isValid()";
        [
            format!("verify_checksum{suffix}({condition}, {of});"),
            format!("update_checksum{suffix}({condition}, {of});"),
        ]
    };
    let ingress = "hdr.ipv4.ttl = hdr.ipv4.ttl - 1; hdr.ipv4.dst_addr = 0x0a000001;";
    for (name, calls) in [
        ("ipv4", calls("", header)),
        ("udp", calls("_with_payload", payload)),
    ] {
        let program = program(0, 0, &calls, ingress);
        for len in [64, 512, 1400] {
            for names in [
                &[][..],
                &["incremental-checksum"],
                &["inline-editing"],
                &["inline-editing", "incremental-checksum"],
            ] {
                let ns = time(&program, options_of(names), &frame(0, len));
                println!("{name} checksum,0,{len},{},{ns:.1}", names.join("+"));
            }
        }
    }
}

fn main() {
    println!("change,headers,packet_size_bytes,optimisations,ns_per_packet");
    editing();
    checksums();
}
