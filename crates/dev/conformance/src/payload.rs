//! Externs that change payloads, for tests and benchmarks, and the program that calls these externs. All copies of a
//! packet share one payload; for each copy the extern XORs the payload with a viewer's key.

#![expect(clippy::panic, reason = "a test's set-up")]

use std::sync::{Arc, Mutex};

use dataplane::{ParamInfo, PayloadBatch, PayloadCopy, PayloadExtern, Program, Switch};

/// The number of bytes that `seal_payload` adds to a payload. The program's header contains the resulting length.
pub const SEAL_BYTES: usize = 16;

/// Returns whether the externs reject a key.
pub fn is_unknown(key: u64) -> bool {
    key.is_multiple_of(5)
}

/// The program's `xor_payload` or `seal_payload` extern. The extern records how many copies each call gets.
#[derive(Debug, Default, Clone)]
pub struct Xor {
    /// Whether the extern appends a tag that covers headers and result.
    pub seals: bool,
    pub calls: Arc<Mutex<Vec<usize>>>,
}

/// Returns the result of `xor_payload`.
pub fn xored(payload: &[u8], key: u64, sequence: u64) -> Vec<u8> {
    let mut room = vec![0; payload.len()];
    xor_into(&mut room, payload, key, sequence);
    room
}

/// Returns the result of `seal_payload` for a copy. `head` contains the headers of the sent frame, but with 0 in the
/// last byte (`mark`), into which the extern writes the tag.
pub fn sealed(head: &[u8], payload: &[u8], key: u64) -> Vec<u8> {
    let mut result = xored(payload, key, 0);
    let tag = tag(head, &result);
    result.extend_from_slice(&[tag; SEAL_BYTES]);
    result
}

fn xor_into(room: &mut [u8], payload: &[u8], key: u64, sequence: u64) {
    let stream = key.wrapping_mul(0x9e37_79b9) ^ sequence;
    let stream = stream.to_be_bytes();
    for ((to, from), key) in room.iter_mut().zip(payload).zip(stream.iter().cycle()) {
        *to = from ^ key;
    }
}

fn tag(head: &[u8], payload: &[u8]) -> u8 {
    let bytes = head.iter().chain(payload);
    bytes.fold(0, |tag: u8, byte| tag.rotate_left(1) ^ byte)
}

impl Xor {
    fn change(&self, payload: &[u8], copy: PayloadCopy<'_>) {
        let key = copy.args[0];
        if is_unknown(key) {
            return;
        }
        let sequence = copy.args.get(1).copied().unwrap_or_default();
        let n_payload = payload.len();
        xor_into(&mut copy.room[..n_payload], payload, key, sequence);
        if self.seals {
            let tag = tag(copy.head, &copy.room[..n_payload]);
            copy.room[n_payload..].fill(tag);
            copy.head[copy.head.len() - 1] = tag;
        }
        let n_bytes = copy.room.len();
        copy.finish(n_bytes);
    }
}

impl PayloadExtern for Xor {
    fn params(&self) -> Vec<ParamInfo> {
        let all = [("key", 32), ("sequence", 16)];
        let n_params = if self.seals { 1 } else { 2 };
        let params = all[..n_params].iter();
        params
            .map(|(name, width_bits)| ParamInfo {
                name: (*name).to_owned(),
                width_bits: *width_bits,
                is_secret: false,
            })
            .collect()
    }

    fn growth_bytes_max(&self) -> usize {
        if self.seals { SEAL_BYTES } else { 0 }
    }

    fn transform(&mut self, copies: PayloadBatch<'_>) {
        let payload = copies.payload();
        let n_copies = copies.map(|copy| self.change(payload, copy)).count();
        let mut calls = self
            .calls
            .lock()
            .unwrap_or_else(|_| panic!("a test failed"));
        calls.push(n_copies);
    }
}

/// An extern that changes nothing, to measure the cost of the call.
#[derive(Debug, Clone, Copy)]
pub struct Nothing {
    /// Whether the extern appends a tag, as in [`Xor`].
    pub seals: bool,
}

impl PayloadExtern for Nothing {
    fn params(&self) -> Vec<ParamInfo> {
        let seals = self.seals;
        Xor {
            seals,
            ..Xor::default()
        }
        .params()
    }

    fn transform(&mut self, copies: PayloadBatch<'_>) {
        let n_bytes = copies.payload().len();
        copies.for_each(|copy| copy.finish(n_bytes));
    }
}

pub fn register(
    switch: &mut Switch,
    xor: impl PayloadExtern + 'static,
    seal: impl PayloadExtern + 'static,
) {
    let externs: [(&str, Box<dyn PayloadExtern>); 2] = [
        ("xor_payload", Box::new(xor)),
        ("seal_payload", Box::new(seal)),
    ];
    for (name, made) in externs {
        let registered = switch.register_payload_extern(name, made);
        registered.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Registers an [`Xor`] for each of the two externs. Returns the list to which each call adds its number of copies.
pub fn register_xor(switch: &mut Switch) -> Arc<Mutex<Vec<usize>>> {
    let xor = Xor::default();
    let seal = Xor {
        seals: true,
        ..xor.clone()
    };
    let calls = xor.calls.clone();
    register(switch, xor, seal);
    calls
}

pub fn json() -> String {
    let options = p4_compiler::Options {
        emit_externs: true,
        ..p4_compiler::Options::default()
    };
    let text = include_str!("payload.p4");
    let output = p4_compiler::compile("payload.p4", text, &|_: &str| None, &options);
    let json = output.bmv2_json;
    let json = json.unwrap_or_else(|| panic!("{:?}", output.diagnostics));
    json.to_json().expect("JSON of strings and numbers")
}

pub fn program(switch: &Switch) -> Program {
    let program = Program::from_json_str_with(&json(), &switch.payload_signatures());
    program.unwrap_or_else(|error| panic!("{error}"))
}
