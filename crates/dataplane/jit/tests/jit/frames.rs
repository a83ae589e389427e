//! Sends frames through whole switches, on the native engine and on the interpreter. Tests headers that stay as they
//! are on the wire, and checksums that are updated from the changed fields.

use dataplane::{PortId, Program, Switch, SwitchConfig};
use dataplane_jit::{NativeFactory, NativeOptions};
use fastrand::Rng;
use testkit::p4::program_of;

fn native(options: NativeOptions, program: &Program) -> Switch {
    let factory = NativeFactory { options };
    let switch = Switch::with_engine(SwitchConfig::default(), Box::new(factory));
    let switch = ready(switch, program);
    let left = switch.interpreted();
    assert!(left.is_empty(), "{left:?}");
    switch
}

fn ready(mut switch: Switch, program: &Program) -> Switch {
    switch.add_port(PortId(1));
    switch.add_port(PortId(2));
    switch.set_program(program.clone());
    switch
}

/// Sends a frame through a switch, and returns the frames that leave.
fn through(switch: &mut Switch, frame: &[u8]) -> Vec<Vec<u8>> {
    switch.handle_frame(0, PortId(1), frame);
    let mut out = Vec::new();
    while let Some(transmit) = switch.poll_transmit(0) {
        out.push([transmit.frame.head, transmit.frame.payload].concat());
    }
    out
}

/// Returns combinations of the options that concern frames: none, each alone, and all.
fn choices() -> Vec<NativeOptions> {
    let names = [
        "parser-specialisation",
        "inline-editing",
        "incremental-checksum",
    ];
    let alone = names.iter().map(|name| {
        let mut options = NativeOptions::NAIVE;
        *options.by_name_mut(name).unwrap() = true;
        options
    });
    [NativeOptions::NAIVE, NativeOptions::ALL]
        .into_iter()
        .chain(alone)
        .collect()
}

fn agree(text: &str, frames: impl Iterator<Item = Vec<u8>> + Clone) -> usize {
    let program = program_of(text);
    let mut left = 0;
    for options in choices() {
        let mut interpreter = ready(Switch::new(SwitchConfig::default()), &program);
        let mut native = native(options, &program);
        for frame in frames.clone() {
            let wanted = through(&mut interpreter, &frame);
            let found = through(&mut native, &frame);
            assert_eq!(found, wanted, "{options:?}: {frame:02x?}");
            left += wanted.len();
        }
    }
    left
}

/// A v1model program with these headers and these statements of parser and controls.
fn v1(
    headers: &str,
    parse: &str,
    verify: &str,
    ingress: &str,
    egress: &str,
    update: &str,
) -> String {
    format!(
        "#include <core.p4>\n#include <v1model.p4>\n{headers}\nstruct meta_t {{ bit<16> kept; }}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta,
    inout standard_metadata_t standard_metadata) {{ {parse} }}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {{
    apply {{ standard_metadata.egress_spec = 2; {ingress} }} }}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {{
    apply {{ {egress} }} }}
control U(inout headers_t hdr, inout meta_t meta) {{ apply {{ {update} }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;"
    )
}

const CHECKED: &str = "header h_t { bit<8> kind; bit<8> how; bit<16> a; bit<16> b; bit<16> c;
    bit<16> d; bit<16> sum; bit<16> next; }
struct headers_t { h_t h; }";

fn checked(with_payload: bool, verified_if: &str) -> String {
    let input = "{ hdr.h.kind, hdr.h.how, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }";
    let suffix = if with_payload { "_with_payload" } else { "" };
    let verify = format!(
        "verify_checksum{suffix}({verified_if}, {input}, hdr.h.sum, HashAlgorithm.csum16);"
    );
    let update =
        format!("update_checksum{suffix}(true, {input}, hdr.h.sum, HashAlgorithm.csum16);");
    let ingress = "if (hdr.h.how == 1) { hdr.h.b = hdr.h.next; }
        if (standard_metadata.checksum_error == 1) { hdr.h.next = 0xbad; }
        if (hdr.h.how == 3) { truncate(20); }";
    let parse = "state start { packet.extract(hdr.h); transition accept; }";
    v1(CHECKED, parse, &verify, ingress, "", &update)
}

#[test]
fn a_checksum_of_every_sum_at_the_edges_is_updated_as_if_computed_anew() {
    // Both zeros of one's complement occur before the update and after it, with right and wrong sums.
    const EDGES: [u16; 6] = [0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff];
    let mut frames = Vec::new();
    for kind_and_how in [0x0000_u16, 0x0001, 0xfe01, 0xff00] {
        for a in EDGES {
            for b in EDGES {
                for next in EDGES {
                    let words = [kind_and_how, a, b, 0, 0xffff];
                    let sum = words.iter().fold(0_u32, |sum, it| sum + u32::from(*it));
                    let right = !u16::try_from(sum % 0xffff).unwrap();
                    for sum in [right, !right] {
                        let words = [kind_and_how, a, b, 0, 0xffff, sum, next];
                        frames.push(words.iter().flat_map(|it| it.to_be_bytes()).collect());
                    }
                }
            }
        }
    }
    frames.push(vec![0; 14]);
    let left = agree(&checked(false, "true"), frames.iter().cloned());
    assert_eq!(left, frames.len() * choices().len());
}

fn random_frames(seed: u64, n: usize, len_max: usize) -> Vec<Vec<u8>> {
    let mut random = Rng::with_seed(seed);
    let byte = |random: &mut Rng| match random.u8(0..3) {
        0 => random.u8(0..5),
        1 => 0xff,
        _ => random.u8(..),
    };
    (0..n)
        .map(|_| {
            let len = random.usize(0..len_max);
            (0..len).map(|_| byte(&mut random)).collect()
        })
        .collect()
}

#[test]
fn checksums_over_payloads_of_any_length_are_those_of_the_interpreter() {
    let frames = random_frames(1, 400, 90);
    let left = agree(&checked(true, "hdr.h.isValid()"), frames.iter().cloned());
    assert!(left > frames.len());
    // The checksum is verified only for some frames. Frames are truncated after the verification.
    let left = agree(&checked(true, "hdr.h.kind < 3"), frames.iter().cloned());
    assert!(left > frames.len());
}

/// Returns a header whose fields have random widths and together are a whole number of bytes.
fn random_header(random: &mut Rng, name: &str) -> (String, Vec<(String, u32)>) {
    let widths = [1, 3, 4, 8, 9, 13, 16, 20, 24, 32, 48, 63, 64, 65, 100, 128];
    let mut fields: Vec<(String, u32)> = (0..random.usize(1..7))
        .map(|number| (format!("f{number}"), random.choice(widths).unwrap()))
        .collect();
    let total: u32 = fields.iter().map(|(_, bits)| bits).sum();
    if !total.is_multiple_of(8) {
        fields.push(("pad".to_owned(), 8 - total % 8));
    }
    let declared: String = fields
        .iter()
        .map(|(field, bits)| format!("bit<{bits}> {field};"))
        .collect();
    (format!("header {name} {{ {declared} }}\n"), fields)
}

fn random_statements(random: &mut Rng, fields: &[Vec<(String, u32)>], n: usize) -> String {
    let place = |random: &mut Rng| {
        let header = random.usize(0..fields.len());
        let (field, bits) = random.choice(&fields[header]).unwrap();
        (format!("hdr.h{header}.{field}"), *bits)
    };
    let mut out = String::new();
    for _ in 0..n {
        let ((to, bits), (from, _)) = (place(random), place(random));
        let header = random.usize(0..fields.len());
        out += &match random.u8(0..8) {
            0 => format!("hdr.h{header}.setInvalid();"),
            1 => format!("hdr.h{header}.setValid();"),
            2 => format!("if ({from} == 3) {{ {to} = {to} + 1; }}"),
            3 => "hdr.twin = hdr.h0; hdr.twin.setValid(); hdr.h0 = hdr.twin;".to_owned(),
            4 => format!("{to} = (bit<{bits}>) meta.kept; meta.kept = (bit<16>) {from};"),
            _ => format!("{to} = (bit<{bits}>) {from};"),
        };
    }
    out
}

#[test]
fn headers_of_any_shape_leave_as_the_interpreter_writes_them() {
    let mut left = 0;
    for seed in 0..25 {
        let mut random = Rng::with_seed(seed);
        let (mut headers, mut fields, mut members) = (String::new(), Vec::new(), String::new());
        for number in 0..random.usize(1..5) {
            let (text, of) = random_header(&mut random, &format!("t{number}"));
            headers += &text;
            members += &format!("t{number} h{number};");
            fields.push(of);
        }
        headers += &format!("struct headers_t {{ {members} t0 twin; }}");
        let mut parse = String::from("state start { transition h0; }\n");
        for (number, of) in fields.iter().enumerate() {
            let (field, bits) = &of[0];
            let next = if number + 1 == fields.len() {
                "accept".to_owned()
            } else {
                format!("h{}", number + 1)
            };
            let key = format!(
                "select(hdr.h{number}.{field}) {{ {}: accept; default: {next}; }}",
                (1_u64 << (bits - 1).min(5)) - 1
            );
            parse +=
                &format!("state h{number} {{ packet.extract(hdr.h{number}); transition {key} }}\n");
        }
        let n = random.usize(0..9);
        let ingress = random_statements(&mut random, &fields, n);
        let egress = random_statements(&mut random, &fields, 2);
        let text = v1(&headers, &parse, "", &ingress, &egress, "");
        let frames = random_frames(seed, 60, 100);
        left += agree(&text, frames.into_iter());
    }
    assert!(left > 3_000, "only {left} frames left");
}
