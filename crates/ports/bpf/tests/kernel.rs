//! Tests maps, programs and test runs in this machine's kernel. The kernel lets only root create maps and programs, and
//! only outside any user namespace. The tests need no network.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]
#![expect(
    unsafe_code,
    reason = "poll(2) has no safe form in the standard library"
)]

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;

use bpf::{
    Batch, Instruction, Map, MapConfig, MapKind, MapReference, Memory, Program, ProgramConfig,
    ProgramKind, RingBuffer, Verdict, Write, n_possible_processors,
};
use testkit::namespace::may_use_bpf;

fn map(kind: MapKind, key_bytes: u32, value_bytes: u32) -> Map {
    let config = MapConfig {
        name: "test",
        kind,
        key_bytes,
        value_bytes,
        n_entries_max: 3000,
        flags: 0,
        inner: None,
    };
    Map::create(&config).unwrap()
}

fn load(kind: ProgramKind, instructions: &[Instruction]) -> std::io::Result<Program> {
    Program::load(&ProgramConfig {
        name: "test",
        kind,
        has_fragments: false,
        instructions,
    })
}

fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers,
        offset,
        immediate,
    }
}

/// `r0 = immediate; exit`.
fn returning(immediate: i32) -> [Instruction; 2] {
    [
        instruction(0xb7, 0, 0, immediate),
        instruction(0x95, 0, 0, 0),
    ]
}

#[test]
fn entries_are_written_found_and_removed_one_by_one_and_together() {
    if !may_use_bpf() {
        return;
    }
    for kind in [MapKind::Hash, MapKind::PerCpuHash] {
        let map = map(kind, 4, 12);
        let value = vec![7; map.value_bytes()];
        let key = 5_u32.to_ne_bytes();
        assert_eq!(map.look_up(&key).unwrap(), None);
        assert!(map.update(&key, &value, Write::Existing).is_err());
        map.update(&key, &value, Write::New).unwrap();
        assert!(map.update(&key, &value, Write::New).is_err());
        let found = map.look_up(&key).unwrap().unwrap();
        assert_eq!(found[..12], value[..12]);
        assert_eq!(map.next_key(None).unwrap(), Some(key.to_vec()));
        assert_eq!(map.next_key(Some(&key)).unwrap(), None);
        assert!(map.delete(&key).unwrap());
        assert!(!map.delete(&key).unwrap());
        let error = map.update(&key[..3], &value, Write::Any).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        let batch = Batch {
            keys: (0..2500_u32).flat_map(u32::to_ne_bytes).collect(),
            values: vec![1; 2500 * map.value_bytes()],
        };
        map.update_batch(&batch).unwrap();
        let all = map.look_up_all().unwrap();
        assert_eq!(all.keys.len(), batch.keys.len());
        assert_eq!(all.values.len(), batch.values.len());
    }
}

#[test]
fn an_array_has_all_its_entries_and_a_value_for_each_processor() {
    if !may_use_bpf() {
        return;
    }
    let map = map(MapKind::PerCpuArray, 4, 12);
    assert_eq!(map.value_bytes(), 16 * n_possible_processors().unwrap());
    let all = map.look_up_all().unwrap();
    assert_eq!(all.keys.len(), 3000 * 4);
    assert_eq!(all.values, vec![0; 3000 * map.value_bytes()]);
    for key in 0..3000_u32 {
        let value = vec![key as u8; map.value_bytes()];
        map.update(&key.to_ne_bytes(), &value, Write::Any).unwrap();
    }
    for (first, n) in [(0, 3), (5, 7), (2999, 1), (7, 0)] {
        let values = map.look_up_range(first, n).unwrap();
        let firsts = values.chunks(map.value_bytes()).map(|value| value[0]);
        let expected = (first..first + n).map(|key| key as u8);
        assert!(firsts.eq(expected), "{first} {n}");
    }
    assert!(map.look_up_range(2999, 2).is_err());
}

#[test]
fn the_longest_prefix_is_found() {
    if !may_use_bpf() {
        return;
    }
    let map = map(MapKind::LpmTrie, 8, 4);
    let key = |bits: u32, address: [u8; 4]| [bits.to_ne_bytes(), address].concat();
    for (bits, address) in [(8, [10, 0, 0, 0]), (16, [10, 1, 0, 0])] {
        map.update(&key(bits, address), &bits.to_ne_bytes(), Write::New)
            .unwrap();
    }
    let find = |address| map.look_up(&key(32, address)).unwrap();
    assert_eq!(find([10, 1, 2, 3]), Some(16_u32.to_ne_bytes().to_vec()));
    assert_eq!(find([10, 2, 2, 3]), Some(8_u32.to_ne_bytes().to_vec()));
    assert_eq!(find([11, 2, 2, 3]), None);
}

#[test]
fn a_program_runs_over_bytes_and_reads_what_the_process_stores() {
    if !may_use_bpf() {
        return;
    }
    let dropping = load(ProgramKind::Xdp, &returning(1)).unwrap();
    let run = dropping.test_run(&[9; 60], 10).unwrap();
    assert_eq!((run.verdict, run.frame), (Verdict::Drop, vec![9; 60]));
    assert_eq!(dropping.n_verified(), 2);
    let memory = Memory::create("memory", 4804).unwrap();
    let mut instructions =
        Instruction::load_map(1, MapReference::Value(512 * 8), memory.map().as_fd()).to_vec();
    instructions.push(instruction(0x79, 0x10, 0, 0));
    instructions.push(instruction(0x95, 0, 0, 0));
    let reading = load(ProgramKind::Xdp, &instructions).unwrap();
    for (number, verdict) in [(2, Verdict::Pass), (3, Verdict::Transmit)] {
        memory.words()[512].store(number, Ordering::Release);
        assert_eq!(reading.test_run(&[0; 14], 1).unwrap().verdict, verdict);
    }
}

#[test]
fn a_refused_program_is_explained_by_the_verifier() {
    if !may_use_bpf() {
        return;
    }
    let error = load(ProgramKind::Xdp, &[instruction(0x95, 0, 0, 0)]).unwrap_err();
    assert!(error.to_string().contains("R0 !read_ok"), "{error}");
}

#[test]
fn a_program_is_attached_to_a_tracepoint_of_the_kernel() {
    if !may_use_bpf() {
        return;
    }
    let program = load(ProgramKind::RawTracepoint, &returning(0)).unwrap();
    bpf::Link::attach_tracepoint(&program, c"xdp_devmap_xmit").unwrap();
    let error = bpf::Link::attach_tracepoint(&program, c"no_such_tracepoint").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_grace_period_ends() {
    bpf::wait_for_programs().unwrap();
}

/// Loads a program that copies the first 28 bytes of the frame into a ring. The program passes the frame if the ring
/// had room, else drops it.
fn noting(ring: &RingBuffer) -> Program {
    let mut instructions = vec![
        // r2 = data, r3 = data_end; r4 = r2 + 28; if r4 > r3, drop the frame
        instruction(0x61, 0x12, 0, 0),
        instruction(0x61, 0x13, 4, 0),
        instruction(0xbf, 0x24, 0, 0),
        instruction(0x07, 4, 0, 28),
        instruction(0x2d, 0x34, 18, 0),
        // Copy the bytes to the stack, from 32 bytes below the stack's end on.
        instruction(0x79, 0x25, 0, 0),
        instruction(0x7b, 0x5a, -32, 0),
        instruction(0x79, 0x25, 8, 0),
        instruction(0x7b, 0x5a, -24, 0),
        instruction(0x79, 0x25, 16, 0),
        instruction(0x7b, 0x5a, -16, 0),
        instruction(0x61, 0x25, 24, 0),
        instruction(0x63, 0x5a, -8, 0),
        instruction(0xbf, 0xa2, 0, 0),
        instruction(0x07, 2, 0, -32),
    ];
    instructions.extend(Instruction::load_map(
        1,
        MapReference::Map,
        ring.map().as_fd(),
    ));
    instructions.extend([
        // bpf_ringbuf_output(ring, stack, 28, 0)
        instruction(0xb7, 3, 0, 28),
        instruction(0xb7, 4, 0, 0),
        instruction(0x85, 0, 0, 130),
        instruction(0x55, 0, 2, 0),
    ]);
    instructions.extend(returning(2));
    instructions.extend(returning(1));
    load(ProgramKind::Xdp, &instructions).unwrap()
}

/// Loads a program that reserves a record in the ring and discards the record.
fn taking_back(ring: &RingBuffer) -> Program {
    let mut instructions = Instruction::load_map(1, MapReference::Map, ring.map().as_fd()).to_vec();
    instructions.extend([
        // r0 = bpf_ringbuf_reserve(ring, 8, 0); if r0 == 0, skip the discard
        instruction(0xb7, 2, 0, 8),
        instruction(0xb7, 3, 0, 0),
        instruction(0x85, 0, 0, 131),
        instruction(0x15, 0, 3, 0),
        // bpf_ringbuf_discard(r0, 0)
        instruction(0xbf, 0x01, 0, 0),
        instruction(0xb7, 2, 0, 0),
        instruction(0x85, 0, 0, 133),
    ]);
    instructions.extend(returning(2));
    load(ProgramKind::Xdp, &instructions).unwrap()
}

/// Whether poll(2) reports the ring readable.
fn is_readable(ring: &RingBuffer) -> bool {
    let mut poll = libc::pollfd {
        fd: ring.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, which lives through the call.
    assert!(unsafe { libc::poll(&raw mut poll, 1, 0) } >= 0);
    poll.revents == libc::POLLIN
}

#[test]
fn a_ring_gives_its_records_in_order_round_after_round_and_says_when_it_is_full() {
    if !may_use_bpf() {
        return;
    }
    const RING_BYTES: usize = 1 << 16;
    // A record has a header of 8 bytes and 28 bytes of data, and is padded to a multiple of 8 bytes.
    const RECORD_BYTES: usize = 40;
    let mut ring = RingBuffer::create("ring", RING_BYTES as u32).unwrap();
    let (program, taking_back) = (noting(&ring), taking_back(&ring));
    let frame = |number: u32| [&number.to_ne_bytes()[..], &[7; 28]].concat();
    let note = |number: u32| program.test_run(&frame(number), 1).unwrap().verdict;
    let mut read = |n_max: usize, expected: std::ops::Range<u32>| {
        let mut found = Vec::new();
        let n = ring.read(n_max, &mut |record| found.push(record.to_vec()));
        assert_eq!(n, found.len());
        let expected = expected.map(|number| frame(number)[..28].to_vec());
        assert!(found.into_iter().eq(expected));
        is_readable(&ring)
    };
    assert!(!read(9, 0..0));
    assert_eq!(note(0), Verdict::Pass);
    assert!(read(0, 0..0), "it is there until it is read");
    assert!(!read(9, 0..1));
    // A ring always keeps a byte free. In some round a record crosses the ring's end.
    let n_fit = ((RING_BYTES - 1) / RECORD_BYTES) as u32;
    for round in 0..3 {
        let first = 1 + round * n_fit;
        (first..first + n_fit).for_each(|number| assert_eq!(note(number), Verdict::Pass));
        assert_eq!(note(u32::MAX), Verdict::Drop, "it is full");
        assert!(read(1, first..first + 1));
        assert!(!read(usize::MAX, first + 1..first + n_fit));
    }
    for _ in 0..2 {
        taking_back.test_run(&[0; 14], 1).unwrap();
        assert_eq!(note(5), Verdict::Pass);
        assert!(!read(9, 5..6));
    }
    let array = map(MapKind::Array, 4, 8);
    assert!(RingBuffer::new(array).is_err());
}
