//! Tests externs that change a copy's payload. Both engines send what the test computes, copies that call no extern
//! still share the payload, and failures are counted.

use std::sync::{Arc, Mutex};

use conformance::{
    beside::Beside,
    engines::{Activity, Case, choices, names_of, native},
    payload::{Nothing, SEAL_BYTES, Xor, json, program, register, register_xor, sealed, xored},
};
use dataplane::{
    CloneSession, DropReason, MulticastGroup, PortId, Program, Replica, Switch, SwitchConfig,
};

const PORT: PortId = PortId(1);
const GROUP: u16 = 7;
const STREAM: u16 = 3;
const SESSION: u32 = 9;
const SEQUENCE: u16 = 0x1234;
/// Length of the program's headers. `MARK` is the offset of their last byte.
const HEAD_BYTES: usize = 22;
const MARK: usize = HEAD_BYTES - 1;

fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    let length = u16::try_from(payload.len()).unwrap();
    for word in [STREAM, SEQUENCE, length, 0] {
        frame.extend_from_slice(&word.to_be_bytes());
    }
    frame.extend_from_slice(payload);
    frame
}

fn mac(viewer: u16) -> [u8; 6] {
    let [high, low] = viewer.to_be_bytes();
    [2, 0, 0, 1, high, low]
}

fn payload() -> Vec<u8> {
    (0..1_200u16)
        .map(|number| number.to_be_bytes()[1] ^ 0x5a)
        .collect()
}

/// Makes a switch with the program for each engine. The stream goes to a group of `n_viewers` viewers. Also returns,
/// for each switch, how many copies each call of an extern got.
fn with_viewers(n_viewers: u16) -> (Beside, Vec<Arc<Mutex<Vec<usize>>>>) {
    let mut switches = Beside::all_engines(SwitchConfig::default());
    let mut calls = Vec::new();
    switches.all(|switch| calls.push(register_xor(switch)));
    switches.add_port(PORT);
    let program = program(&switches.reference);
    switches.set_program(&program);
    let stream = [&STREAM.to_be_bytes()[..], &[0]];
    switches.insert_exact("streams", "to_group", &stream, &[&GROUP.to_be_bytes()]);
    switches.insert_group(&MulticastGroup {
        id: GROUP.into(),
        replicas: (1..=n_viewers)
            .map(|instance| Replica {
                port: PORT,
                instance,
            })
            .collect(),
        backups: Vec::new(),
    });
    (switches, calls)
}

fn viewer(switches: &mut Beside, viewer: u16, action: &str, args: &[&[u8]]) {
    switches.insert_exact("viewers", action, &[&viewer.to_be_bytes()], args);
}

/// Returns the key of a viewer with an odd number, which is derived from the number. Other viewers have no key.
fn key_of(viewer: u16) -> Option<u32> {
    (!viewer.is_multiple_of(2)).then_some(1 + 5 * u32::from(viewer))
}

fn set_keys(switches: &mut Beside, n_viewers: u16, action: &str) {
    for number in 1..=n_viewers {
        match key_of(number) {
            Some(key) => viewer(
                switches,
                number,
                action,
                &[&mac(number), &key.to_be_bytes()],
            ),
            None => viewer(switches, number, "send", &[&mac(number)]),
        }
    }
}

/// Checks that the counters are consistent and that no packet is left inside the switches.
fn check_accounts(switches: &mut Beside) {
    switches.all(|switch| {
        let counters = switch.counters();
        let came = counters.received + counters.created_by_clone + counters.created_by_replication;
        let gone = counters.transmitted + counters.to_cpu + counters.dropped_total();
        assert_eq!((came, switch.packets_inside()), (gone, 0));
    });
}

fn dropped(switches: &Beside) -> u64 {
    let counters = switches.reference.counters();
    counters.dropped(DropReason::PayloadExternFailed)
}

#[test]
fn copies_have_their_viewers_key_over_the_payload_in_the_order_of_the_group() {
    for n_viewers in [1, 2, 64, 200] {
        let (mut switches, _) = with_viewers(n_viewers);
        set_keys(&mut switches, n_viewers, "send_xored");
        let copies = switches.send(PORT, &frame(&payload()));
        assert_eq!(copies.len(), usize::from(n_viewers));
        for (copy, number) in copies.iter().zip(1..) {
            let expected = match key_of(number) {
                Some(key) => xored(&payload(), key.into(), SEQUENCE.into()),
                None => payload(),
            };
            assert_eq!(copy.frame[..6], mac(number));
            assert!(copy.frame[HEAD_BYTES..] == expected, "viewer {number}");
        }
        check_accounts(&mut switches);
    }
}

/// Sends a packet. Returns the memory address and the id of each copy's payload.
fn places(switch: &mut Switch) -> Vec<(usize, u64)> {
    switch.handle_frame(0, PORT, &frame(&payload()));
    let mut places = Vec::new();
    let mut take = |sent: dataplane::Transmit<'_>| {
        let payload = sent.frame.payload;
        places.push((payload.as_ptr() as usize, sent.frame.payload_id));
    };
    while !switch.transmit(0, usize::MAX, &mut take).is_idle {}
    places
}

#[test]
fn copies_without_a_request_share_their_payload_and_those_with_one_have_their_own() {
    let (mut switches, _) = with_viewers(64);
    set_keys(&mut switches, 64, "send_xored");
    switches.all(|switch| {
        let places = places(switch);
        let of = |with_key: bool| {
            let all = places.iter().zip(1..);
            let some = all.filter(move |(_, number)| key_of(*number).is_some() == with_key);
            some.map(|(place, _)| *place).collect::<Vec<_>>()
        };
        let shared = of(false);
        assert_eq!(shared.len(), 32);
        assert_ne!(shared[0].1, 0);
        assert!(shared.iter().all(|place| *place == shared[0]));
        for (first, id) in of(true) {
            assert_ne!(first, shared[0].0);
            assert_ne!(id, shared[0].1);
        }
    });
}

#[test]
fn the_native_engine_calls_an_extern_once_for_up_to_64_copies() {
    let (mut switches, calls) = with_viewers(200);
    set_keys(&mut switches, 200, "send_xored");
    switches.all(|switch| {
        places(switch);
    });
    let calls: Vec<Vec<usize>> = calls.iter().map(|it| it.lock().unwrap().clone()).collect();
    assert_eq!(calls[0], [1; 100], "the interpreter");
    // Every other copy calls the extern, beginning with the first copy. The engine takes up to 64 copies at once.
    assert_eq!(calls[2], [32, 32, 32, 4], "the native engine");
}

#[test]
fn a_payload_may_become_longer_and_its_headers_be_written() {
    let (mut switches, _) = with_viewers(3);
    set_keys(&mut switches, 3, "send_sealed");
    let copies = switches.send(PORT, &frame(&payload()));
    let lengths: Vec<usize> = copies.iter().map(|copy| copy.frame.len()).collect();
    let plain = HEAD_BYTES + payload().len();
    assert_eq!(lengths, [plain + SEAL_BYTES, plain, plain + SEAL_BYTES]);
    for number in [1, 3u16] {
        let copy = &copies[usize::from(number) - 1].frame;
        let mut head = copy[..HEAD_BYTES].to_vec();
        head[MARK] = 0;
        let expected = sealed(&head, &payload(), key_of(number).unwrap().into());
        assert!(copy[HEAD_BYTES..] == expected, "viewer {number}");
        assert_eq!(copy[MARK], *expected.last().unwrap());
        // The program wrote the length of the resulting payload.
        assert_eq!(
            usize::from(u16::from_be_bytes([copy[18], copy[19]])),
            expected.len()
        );
    }
    let bytes: usize = lengths.iter().sum();
    assert_eq!(
        switches.reference.counters().port(PORT).tx_bytes,
        bytes as u64
    );
}

#[test]
fn a_copy_without_a_key_is_dropped_and_counted_and_the_others_leave() {
    let (mut switches, _) = with_viewers(6);
    for (number, key) in (1..).zip([1u32, 5, 2, 10, 3, 15]) {
        viewer(
            &mut switches,
            number,
            "send_xored",
            &[&mac(number), &key.to_be_bytes()],
        );
    }
    let copies = switches.send(PORT, &frame(&payload()));
    let went: Vec<u8> = copies.iter().map(|copy| copy.frame[5]).collect();
    assert_eq!(went, [1, 3, 5]);
    assert_eq!(dropped(&switches), 3);
    check_accounts(&mut switches);
    // A packet to a single port, without a group, is dropped too.
    let stream = [&STREAM.to_be_bytes()[..], &[1]];
    switches.insert_exact("streams", "to_port", &stream, &[&PORT.0.to_be_bytes()]);
    viewer(
        &mut switches,
        0,
        "send_xored",
        &[&mac(0), &5u32.to_be_bytes()],
    );
    let mut alone = frame(&payload());
    alone[20] = 1;
    assert!(switches.send(PORT, &alone).is_empty());
    assert_eq!(dropped(&switches), 4);
    check_accounts(&mut switches);
}

#[test]
fn a_clone_has_the_payload_as_it_was() {
    let (mut switches, _) = with_viewers(1);
    switches.insert_session(&CloneSession {
        id: SESSION,
        replicas: vec![Replica {
            port: PORT,
            instance: 0,
        }],
        truncate_bytes: None,
        class_of_service: 0,
    });
    viewer(
        &mut switches,
        1,
        "mirror",
        &[&7u32.to_be_bytes(), &SESSION.to_be_bytes()],
    );
    let sent = switches.send(PORT, &frame(&payload()));
    let payloads: Vec<&[u8]> = sent.iter().map(|it| &it.frame[HEAD_BYTES..]).collect();
    assert_eq!(payloads, [&xored(&payload(), 7, 0)[..], &payload()]);
    // A clone may call the extern itself.
    switches.insert_exact(
        "clones",
        "send_xored",
        &[&[0]],
        &[&mac(9), &8u32.to_be_bytes()],
    );
    let sent = switches.send(PORT, &frame(&payload()));
    assert_eq!(
        sent[1].frame[HEAD_BYTES..],
        xored(&payload(), 8, SEQUENCE.into())
    );
    check_accounts(&mut switches);
}

#[test]
fn what_recirculates_comes_again_with_the_payload_that_it_got() {
    let (mut switches, _) = with_viewers(1);
    viewer(&mut switches, 1, "again", &[&7u32.to_be_bytes()]);
    let stream = [&STREAM.to_be_bytes()[..], &[1]];
    switches.insert_exact("streams", "to_group", &stream, &[&8u16.to_be_bytes()]);
    switches.insert_group(&MulticastGroup {
        id: 8,
        replicas: (20..22)
            .map(|instance| Replica {
                port: PORT,
                instance,
            })
            .collect(),
        ..MulticastGroup::default()
    });
    viewer(
        &mut switches,
        21,
        "send_xored",
        &[&mac(2), &3u32.to_be_bytes()],
    );
    let sent = switches.send(PORT, &frame(&payload()));
    let first = xored(&payload(), 8, SEQUENCE.into());
    let second = xored(&first, 3, SEQUENCE.into());
    let payloads: Vec<&[u8]> = sent.iter().map(|it| &it.frame[HEAD_BYTES..]).collect();
    assert_eq!(payloads, [&first[..], &second]);
    check_accounts(&mut switches);
}

#[test]
fn the_copies_of_a_packet_that_goes_rounds_have_their_keys() {
    let (mut switches, calls) = with_viewers(0);
    switches.insert_session(&CloneSession {
        id: SESSION,
        replicas: vec![Replica {
            port: PORT,
            instance: 0,
        }],
        truncate_bytes: None,
        class_of_service: 0,
    });
    let rounds = 12u8;
    for round in 1..=rounds {
        let stream = [&STREAM.to_be_bytes()[..], &[round]];
        switches.insert_exact("streams", "to_port", &stream, &[&PORT.0.to_be_bytes()]);
        let key = u32::from(round).to_be_bytes();
        switches.insert_exact(
            "clones",
            "send_xored",
            &[&[round]],
            &[&mac(round.into()), &key],
        );
    }
    viewer(
        &mut switches,
        0,
        "round_with_copy",
        &[&SESSION.to_be_bytes()],
    );
    let mut first = frame(&payload());
    first[20] = 1;
    let sent = switches.send(PORT, &first);
    let expected = (2..=rounds + 1).filter(|round| !u32::from(*round).is_multiple_of(5));
    let expected: Vec<Vec<u8>> = expected
        .map(|round| {
            if round <= rounds {
                xored(&payload(), round.into(), SEQUENCE.into())
            } else {
                payload()
            }
        })
        .collect();
    let payloads: Vec<&[u8]> = sent.iter().map(|it| &it.frame[HEAD_BYTES..]).collect();
    assert_eq!(payloads, expected);
    assert_eq!(dropped(&switches), 2);
    check_accounts(&mut switches);
    let native = calls[2].lock().unwrap();
    assert!(native.iter().any(|n_copies| *n_copies > 1), "{native:?}");
}

#[test]
fn a_frame_is_cut_after_its_payload_was_changed() {
    let (mut switches, _) = with_viewers(2);
    let length = (HEAD_BYTES as u32 + 10).to_be_bytes();
    viewer(
        &mut switches,
        1,
        "send_cut",
        &[&7u32.to_be_bytes(), &length],
    );
    let sent = switches.send(PORT, &frame(&payload()));
    assert_eq!(sent[0].frame[HEAD_BYTES..], xored(&payload(), 7, 0)[..10]);
    // The other copy's payload is still whole.
    assert_eq!(sent[1].frame[HEAD_BYTES..], payload());
}

#[test]
fn a_packet_in_has_the_payload_that_would_leave() {
    let (mut switches, _) = with_viewers(1);
    let cpu = SwitchConfig::default().cpu_port.unwrap();
    let stream = [&STREAM.to_be_bytes()[..], &[1]];
    switches.insert_exact("streams", "to_port", &stream, &[&cpu.0.to_be_bytes()]);
    viewer(
        &mut switches,
        0,
        "send_xored",
        &[&mac(0), &7u32.to_be_bytes()],
    );
    let mut frame = frame(&payload());
    frame[20] = 1;
    assert!(switches.send(PORT, &frame).is_empty());
    switches.all(|switch| {
        let packet_in = switch.poll_packet_in().unwrap();
        assert!(packet_in[HEAD_BYTES..] == xored(&payload(), 7, SEQUENCE.into()));
    });
}

#[test]
fn an_empty_payload_is_sealed_too() {
    let (mut switches, _) = with_viewers(2);
    set_keys(&mut switches, 2, "send_sealed");
    let sent = switches.send(PORT, &frame(&[]));
    assert_eq!(sent[0].frame.len(), HEAD_BYTES + SEAL_BYTES);
    assert_eq!(sent[1].frame.len(), HEAD_BYTES);
}

/// Replaces parts of the program's JSON, and returns the error with which the loader refuses it.
fn refused(changes: &[(&str, &str)]) -> String {
    let mut switch = Switch::new(SwitchConfig::default());
    register_xor(&mut switch);
    let mut json = json();
    for (from, to) in changes {
        assert!(json.contains(from), "{from}");
        json = json.replace(from, to);
    }
    let loaded = Program::from_json_str_with(&json, &switch.payload_signatures());
    loaded.unwrap_err().to_string()
}

#[test]
fn a_program_is_refused_by_name_where_an_extern_is_unknown_or_called_otherwise() {
    let unknown = Program::from_json_str(&json()).unwrap_err().to_string();
    assert!(
        unknown.contains("xor_payload\": unknown primitive"),
        "{unknown}"
    );
    let unknown = refused(&[("\"xor_payload\"", "\"or_payload\"")]);
    assert!(
        unknown.contains("or_payload\": unknown primitive"),
        "{unknown}"
    );
    let arity = refused(&[("\"seal_payload\"", "\"xor_payload\"")]);
    assert!(arity.contains("expected 2 parameters, found 1"), "{arity}");
    let width = refused(&[(
        "[\"sequence\",16,false]",
        "[\"sequence\",15,false],[\"pad\",1,false]",
    )]);
    let expected = "parameter 1 \"sequence\" has 16 bits, found \"media.sequence\" of 15 bits";
    assert!(width.contains(expected), "{width}");
    let place = refused(&[
        ("\"mark_to_drop\"", "\"seal_payload\""),
        (
            "{\"type\":\"header\",\"value\":\"standard_metadata\"}",
            "{\"type\":\"hexstr\",\"value\":\"0x7\"}",
        ),
    ]);
    assert!(
        place.contains("MediaIngress.nowhere")
            && place.contains("expected \"seal_payload\" to be called in egress"),
        "{place}"
    );
}

#[test]
fn an_extern_is_registered_once_by_a_name_of_its_own() {
    let mut switch = Switch::new(SwitchConfig::default());
    let mut register = |name: &str| {
        let registered = switch.register_payload_extern(name, Box::new(Nothing { seals: false }));
        registered.map_err(|error| error.to_string())
    };
    assert_eq!(register("cipher"), Ok(()));
    for (name, part) in [
        ("cipher", "registered already"),
        ("truncate", "no primitive"),
        ("", "a name"),
    ] {
        let error = register(name).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
#[should_panic(expected = "calls the extern \"xor_payload\", which this switch does not have")]
fn a_program_of_another_switch_is_not_set() {
    let mut other = Switch::new(SwitchConfig::default());
    register_xor(&mut other);
    Switch::new(SwitchConfig::default()).set_program(program(&other));
}

#[test]
fn engines_agree_on_random_packets_and_calls() {
    const CASES: u64 = 40;
    const FRAMES: usize = 60;
    let asked = Xor::default();
    let seal = Xor {
        seals: true,
        ..asked.clone()
    };
    let make = |config: SwitchConfig| {
        let mut switch = Switch::new(config);
        register(&mut switch, asked.clone(), seal.clone());
        switch
    };
    let program = program(&make(SwitchConfig::default()));
    let choices = choices();
    let mut done = Activity::default();
    for seed in 0..CASES {
        let own = choices[usize::try_from(seed).unwrap() % choices.len()];
        let options = [
            dataplane_jit::NativeOptions::NAIVE,
            dataplane_jit::NativeOptions::ALL,
            own,
        ];
        let makes = options.map(|options| {
            move |config: SwitchConfig| {
                let mut switch = native(options)(config);
                register_xor(&mut switch);
                switch
            }
        });
        let case = Case::random(&program, seed, FRAMES);
        let compared = case.compare_each(&program, &make, &[&makes[0], &makes[1], &makes[2]]);
        let activity = compared.unwrap_or_else(|mismatch| {
            panic!(
                "seed {seed}, {}: {}",
                names_of(options[mismatch.engine]),
                mismatch.description
            )
        });
        done = done.plus(activity);
    }
    let n_asked = asked.calls.lock().unwrap().len() as u64;
    assert!(
        n_asked > 10 * CASES,
        "{n_asked} payloads changed in {done:?}"
    );
}
