//! A switch built with parts that the stock one lacks: externs that change payloads, and an offload.

use std::fs;
use std::sync::Arc;

use crate::support::{TIMEOUT, TemporaryFolder, error, program, words_of};
use dataplane::PortId;
use packet_io::{MemoryPort, Port, Waiter, memory_pair};
use reprise_switch::{MadePayloadExtern, Offloaded, Parts};
use serde_json::{Value, json};
use testkit::mask::Mask;
use testkit::offload::{Double, Takes};
use testkit::text::assert_has;

const GRPC: &str = "127.0.0.1:0";

fn masking() -> Parts {
    let mask: MadePayloadExtern = Box::new(|| Box::new(Mask));
    Parts {
        payload_externs: vec![("mask_payload".to_owned(), mask)],
        ..Parts::default()
    }
}

/// Compiles the program `masked.p4` to BMv2 JSON.
fn masked_json(folder: &TemporaryFolder) -> String {
    let text = fs::read_to_string(program("masked.p4")).expect("the program");
    let options = p4_compiler::Options {
        emit_externs: true,
        ..p4_compiler::Options::default()
    };
    let output = p4_compiler::compile("masked.p4", &text, &|_: &str| None, &options);
    let json = output.bmv2_json.expect("a sound program").to_json();
    folder.file("masked.json", json.expect("JSON of strings and numbers"))
}

type Ports = Vec<(u16, Box<dyn Port>)>;

/// Returns ports 1 and 2, and the ports at the other ends of their cables.
fn cables() -> (Ports, [MemoryPort; 2]) {
    let mut inner = Ports::new();
    let outer = [1, 2].map(|number| {
        let (inside, outside) = memory_pair("inner", "outer").expect("a cable");
        inner.push((number, Box::new(inside)));
        outside
    });
    (inner, outer)
}

fn receive(port: &mut MemoryPort) -> Vec<u8> {
    let (mut waiter, mut frames) = (Waiter::default(), Vec::new());
    let waited = waiter.wait(port.poll_fd(), Some(TIMEOUT));
    waited.expect("waiting");
    let mut take = |frame: &[u8]| frames.push(frame.to_vec());
    port.receive(0, 1, &mut take).expect("receiving");
    frames.pop().expect("a frame")
}

#[test]
fn a_switch_that_was_built_with_an_extern_runs_programs_of_the_command_line_that_call_it() {
    let folder = TemporaryFolder::new("masked");
    let source = program("masked.p4");
    for path in [source, masked_json(&folder)] {
        for engine in ["interpreter", "native"] {
            let (inner, [mut one, mut two]) = cables();
            let during = move || {
                one.transmit(0, [0x2a; 60][..].into()).expect("sending");
                let frame = receive(&mut two);
                assert_eq!((frame[0], &frame[1..]), (0x2a, &[0; 59][..]));
            };
            let arguments = ["--grpc", GRPC, "--engine", engine, &path];
            let forwarded = reprise_switch::forward(&arguments, &masking(), vec![inner], during);
            let totals = forwarded.expect("it forwards").totals;
            assert!(totals.contains("\"transmitted\":1"), "{totals}");
        }
    }
}

#[test]
fn the_stock_switch_refuses_such_a_program_and_names_the_extern_and_the_page() {
    let folder = TemporaryFolder::new("masked_stock");
    let source = program("masked.p4");
    for path in [source, masked_json(&folder)] {
        let said = error(1, &["--grpc", GRPC, &path]);
        for part in ["mask_payload", "docs/payload-externs.md"] {
            assert!(said.contains(part), "{said}");
        }
    }
}

#[test]
fn a_switch_that_cannot_be_built_says_why() {
    let taken: MadePayloadExtern = Box::new(|| Box::new(Mask));
    let parts = Parts {
        payload_externs: vec![("mark_to_drop".to_owned(), taken)],
        ..Parts::default()
    };
    let ports = vec![Vec::new()];
    let refused = reprise_switch::forward(&["--grpc", GRPC], &parts, ports, || ());
    let said = refused.expect_err("the name is a primitive's");
    assert_has(&said, "extern \"mark_to_drop\": expected a name");
}

#[test]
fn each_worker_has_an_offload_and_the_totals_are_those_of_all_and_both_sides() {
    let folder = TemporaryFolder::new("offload");
    let json = testkit::offload::program(false).json.to_string();
    let path = folder.file("double.json", &json);
    let (offloads, cores): (Vec<_>, Vec<_>) = (0..2).map(|_| Double::new(Takes::All)).unzip();
    let offloads = std::sync::Mutex::new(offloads);
    let make = move |_: u64| Offloaded {
        offload: offloads.lock().expect("no panic").remove(0),
        ports: vec![PortId(1)],
    };
    let parts = Parts {
        offload: Some(Box::new(make)),
        ..Parts::default()
    };
    let (first, _outer) = cables();
    let (second, _others) = cables();
    let held = cores.clone();
    let during = move || {
        for core in &held {
            let is_taken = || {
                let mut core = core.lock().expect("no panic");
                core.receive(0, PortId(1), &[1, 2, 3, 4])
            };
            // The offload starts with the loop, on another thread.
            let deadline = std::time::Instant::now() + TIMEOUT;
            while !is_taken() {
                assert!(std::time::Instant::now() < deadline, "it does not begin");
                std::thread::yield_now();
            }
            core.lock().expect("no panic").run(0);
        }
    };
    let arguments = format!("--grpc {GRPC} --workers 2 --registers per-worker {path}");
    let arguments = words_of(&arguments);
    let forwarded = reprise_switch::forward(&arguments, &parts, vec![first, second], during);
    let totals: Value =
        serde_json::from_str(&forwarded.expect("it forwards").totals).expect("JSON");
    assert_eq!(totals["packets"]["received"], json!(2));
    assert_eq!(totals["drops"]["ingress_drop"], json!(2));
    let ports = [&totals["ports"][0], &totals["ports"][1]];
    assert_eq!(ports.map(|port| &port["rx_frames"]), [&json!(2), &json!(0)]);
    for core in cores {
        assert_eq!(Arc::strong_count(&core), 1, "nobody has it any more");
        let core = core.lock().expect("no panic");
        assert_eq!(core.log, ["load", "stop"]);
    }
}
