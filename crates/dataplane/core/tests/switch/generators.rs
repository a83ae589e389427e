//! Packet generators: counts, pace, lateness, control calls, program change. The tests pass the time to the switch and
//! use no clock.

use std::sync::Arc;

use dataplane::{
    ControlErrorKind, DropReason, GeneratorChange, GeneratorConfig, GeneratorState,
    GeneratorStatus, Pace, PortId, Switch, SwitchConfig,
};
use testkit::builder::*;

/// A switch that sends everything to port 3 and writes the ingress port into the frame.
fn switch(config: SwitchConfig) -> Switch {
    let mut b = Builder::default();
    let to_3 = [
        assign("pkt.kind", field("standard_metadata.ingress_port")),
        output_to(3),
    ];
    b.run(INGRESS, "in", &to_3);
    b.switch(config)
}

fn frames(contents: &[u8]) -> Arc<[Box<[u8]>]> {
    let frame = |content: &u8| {
        let mut frame = vec![0; 14];
        frame[1] = *content;
        frame.into_boxed_slice()
    };
    contents.iter().map(frame).collect()
}

fn of_lengths(lengths: &[usize]) -> Arc<[Box<[u8]>]> {
    let frame = |len: &usize| vec![0; *len].into_boxed_slice();
    lengths.iter().map(frame).collect()
}

fn config(pace: Pace, count: Option<u64>) -> GeneratorConfig {
    GeneratorConfig {
        name: "load".into(),
        // The port does not exist.
        port: PortId(90),
        frames: frames(&[1, 2, 3]),
        pace,
        count,
    }
}

fn only(switch: &Switch) -> GeneratorStatus {
    let [generator] = &switch.generators()[..] else {
        panic!("one generator, found {:?}", switch.generators());
    };
    generator.clone()
}

/// Runs from one due time to the next until `end`, like an event loop; returns when frames left,
/// and the second byte of each.
fn run(switch: &mut Switch, end: u64) -> Vec<(u64, u8)> {
    let mut left = Vec::new();
    let mut now = 0;
    while let Some(due) = switch.next_generated().filter(|due| *due <= end) {
        now = due.max(now);
        assert!(switch.generate(now) > 0, "something was due at {now}");
        for transmit in drain(switch, now) {
            assert_eq!((transmit.port, transmit.frame[0]), (PortId(3), 90));
            left.push((now, transmit.frame[1]));
        }
    }
    left
}

#[test]
fn the_frames_come_in_turn_at_their_times_and_no_more_than_are_wanted() {
    let mut switch = switch(SwitchConfig::default());
    switch
        .insert_generator(1, config(Pace::every(250), Some(5)), true)
        .unwrap();
    assert_eq!(switch.next_generated(), Some(0));
    switch.generate(1_000);
    let first = drain(&mut switch, 1_000);
    assert_eq!(first[0].frame[1], 1);
    assert_eq!(switch.next_generated(), Some(1_250));
    assert_eq!(switch.generate(1_249), 0);
    let rest = run(&mut switch, u64::MAX);
    assert_eq!(rest, [(1_250, 2), (1_500, 3), (1_750, 1), (2_000, 2)]);
    let generator = only(&switch);
    assert_eq!(generator.state, GeneratorState::Finished);
    let counters = generator.counters;
    assert_eq!((counters.sent, counters.dropped), (5, 0));
    assert_eq!((counters.late, counters.late_max_ns), (0, 0));
    assert_eq!(switch.counters().received, 5);
    assert_eq!(switch.counters().generated, 5);
    assert_accounted(&switch);
}

#[test]
fn a_rate_that_is_no_whole_period_does_not_drift() {
    let mut switch = switch(SwitchConfig::default());
    // The period is 333,333 1/3 ns.
    let pace = Pace::per_second(3_000);
    switch
        .insert_generator(1, config(pace, None), true)
        .unwrap();
    switch.generate(0);
    drain(&mut switch, 0);
    let left = run(&mut switch, 2_000_000_000);
    assert_eq!(left.len(), 6_000);
    assert_eq!(left[2_999].0, 1_000_000_000);
    assert_eq!(left[0].0, 333_333);
    assert_eq!(only(&switch).state, GeneratorState::Running);
}

#[test]
fn what_is_behind_is_made_in_bursts_all_of_it_and_counted_as_late() {
    let mut switch = switch(SwitchConfig::default());
    switch
        .insert_generator(1, config(Pace::every(10), Some(200)), true)
        .unwrap();
    assert_eq!(switch.generate(1_000), 1);
    drain(&mut switch, 1_000);
    // No call for 1,500 ns: 150 frames are due, of which the last is on time.
    for n_made in [64, 64, 22, 0] {
        assert_eq!(switch.generate(2_500), n_made);
        assert_eq!(drain(&mut switch, 2_500).len(), n_made);
    }
    let counters = only(&switch).counters;
    assert_eq!((counters.sent, counters.late), (151, 149));
    assert_eq!(counters.late_max_ns, 1_490);
    assert_eq!(run(&mut switch, u64::MAX).len(), 49);
    assert_eq!(only(&switch).counters.late, 149);
}

#[test]
fn between_two_calls_no_more_come_than_a_burst_of_each() {
    let mut switch = switch(SwitchConfig::default());
    switch
        .insert_generator(1, config(Pace::every(1), None), true)
        .unwrap();
    switch
        .insert_generator(2, config(Pace::every(100), None), true)
        .unwrap();
    assert_eq!(switch.generate(0), 2);
    assert_eq!(switch.generate_more(10), 10);
    // The first generator does not delay the second.
    assert_eq!(switch.generate_more(1_000), 64 - 11 + 10);
    assert_eq!(switch.generate_more(1_000), 0);
    assert_eq!(switch.next_generated(), Some(64));
    assert_eq!(switch.generate(1_000), 64);
}

#[test]
fn frames_for_which_there_is_no_room_are_dropped_and_counted() {
    let mut switch = switch(config_with(|it| it.ingress_queue_packets = 4));
    switch
        .insert_generator(1, config(Pace::every(1), Some(10)), true)
        .unwrap();
    switch.generate(0);
    assert_eq!(switch.generate(100), 9);
    let counters = only(&switch).counters;
    assert_eq!((counters.sent, counters.dropped), (4, 6));
    assert_eq!(switch.counters().dropped(DropReason::IngressQueueFull), 6);
    assert_accounted(&switch);
    assert_eq!(drain(&mut switch, 100).len(), 4);
    assert_accounted(&switch);
}

#[test]
fn generators_are_started_stopped_and_changed() {
    let mut switch = switch(SwitchConfig::default());
    switch
        .insert_generator(7, config(Pace::every(100), Some(3)), false)
        .unwrap();
    assert_eq!((switch.next_generated(), switch.generate(5_000)), (None, 0));
    assert_eq!(only(&switch).state, GeneratorState::Stopped);
    let runs = |runs| GeneratorChange {
        runs: Some(runs),
        ..GeneratorChange::default()
    };
    switch.modify_generator(7, &runs(true)).unwrap();
    assert_eq!(switch.generate(6_000), 1);
    // A second start has no effect: the next frame is number 2.
    switch.modify_generator(7, &runs(true)).unwrap();
    assert_eq!(switch.next_generated(), Some(6_100));
    switch.modify_generator(7, &runs(false)).unwrap();
    assert_eq!((switch.next_generated(), switch.generate(9_000)), (None, 0));
    // A new run starts at the first frame, with the whole count.
    drain(&mut switch, 9_000);
    switch.modify_generator(7, &runs(true)).unwrap();
    switch.generate(10_000);
    assert_eq!(drain(&mut switch, 10_000)[0].frame[1], 1);
    assert_eq!(run(&mut switch, u64::MAX).len(), 2);
    assert_eq!(only(&switch).state, GeneratorState::Finished);
    assert_eq!(only(&switch).counters.sent, 4);
    // A new pace does not start a stopped generator.
    let faster = GeneratorChange {
        pace: Some(Pace::every(10)),
        ..GeneratorChange::default()
    };
    switch.modify_generator(7, &faster).unwrap();
    assert_eq!(switch.next_generated(), None);
    switch.modify_generator(7, &runs(true)).unwrap();
    switch.generate(20_000);
    assert_eq!(switch.next_generated(), Some(20_010));
    // A new pace restarts a running generator.
    let slower = GeneratorChange {
        pace: Some(Pace::every(1_000)),
        count: Some(Some(1)),
        ..GeneratorChange::default()
    };
    switch.modify_generator(7, &slower).unwrap();
    switch.generate(20_001);
    assert_eq!(only(&switch).state, GeneratorState::Finished);
    assert_eq!(only(&switch).counters.sent, 6);
    switch.delete_generator(7).unwrap();
    assert_eq!(switch.generators(), []);
    assert_eq!(switch.counters().generated, 6);
}

#[test]
fn a_generator_goes_on_with_another_program_and_without_one() {
    let program = {
        let switch = switch(SwitchConfig::default());
        switch.program().unwrap().clone()
    };
    let mut switch = Switch::new(SwitchConfig::default());
    switch.add_port(PortId(3));
    switch
        .insert_generator(1, config(Pace::every(100), None), true)
        .unwrap();
    switch.generate(0);
    assert_eq!(only(&switch).counters.dropped, 1);
    assert_eq!(switch.counters().dropped(DropReason::NoPipeline), 1);
    switch.set_program(program.clone());
    switch.generate(100);
    // Packets inside are dropped with the program, including generated ones.
    switch.set_program(program);
    assert_eq!(switch.counters().dropped(DropReason::PipelineChanged), 1);
    switch.generate(200);
    let left = drain(&mut switch, 200);
    assert_eq!((left.len(), left[0].frame[1]), (1, 3));
    assert_eq!(only(&switch).counters.sent, 2);
    assert_accounted(&switch);
}

/// Sets one field of a change.
type Set = fn(&mut GeneratorChange);

#[test]
fn what_cannot_be_is_refused_and_nothing_changes() {
    let mut switch = switch(SwitchConfig::default());
    let good = config(Pace::every(1), Some(1));
    switch.insert_generator(1, good.clone(), false).unwrap();
    let refused = |switch: &mut Switch, id, config: GeneratorConfig| {
        let error = switch.insert_generator(id, config, true).unwrap_err();
        (error.kind, error.message)
    };
    let (kind, message) = refused(&mut switch, 1, good.clone());
    assert_eq!(kind, ControlErrorKind::AlreadyExists, "{message}");
    let with = |change: GeneratorChange| {
        let mut config = good.clone();
        config.name = change.name.unwrap_or(config.name);
        config.port = change.port.unwrap_or(config.port);
        config.frames = change.frames.unwrap_or(config.frames);
        config.pace = change.pace.unwrap_or(config.pace);
        config.count = change.count.unwrap_or(config.count);
        config
    };
    let changes: [(Set, &str); 9] = [
        (|it| it.name = Some(String::new()), "found \"\""),
        (
            |it| it.name = Some("a\nb".into()),
            "without control characters",
        ),
        (|it| it.port = Some(PortId(511)), "from 0 to 510, found 511"),
        (|it| it.frames = Some(of_lengths(&[])), "at least one frame"),
        (
            |it| it.frames = Some(of_lengths(&[14, 13])),
            "frame 2: expected 14 to 65792 bytes, found 13",
        ),
        (
            |it| it.frames = Some(of_lengths(&[65_792; 32])),
            "2097152 bytes at most together, found 2105344",
        ),
        (|it| it.pace = Some(Pace::every(0)), "1 at least, found 0"),
        (
            |it| it.pace = Some(Pace::per_second(0)),
            "1 at least, found 0",
        ),
        (|it| it.count = Some(Some(0)), "a count of 1 at least"),
    ];
    for (set, expected) in changes {
        let mut change = GeneratorChange::default();
        set(&mut change);
        let (kind, message) = refused(&mut switch, 2, with(change.clone()));
        assert_eq!(kind, ControlErrorKind::InvalidArgument, "{message}");
        assert!(
            message.starts_with("generator 2: ") && message.contains(expected),
            "{message}"
        );
        let error = switch.modify_generator(1, &change).unwrap_err();
        assert!(error.message.contains(expected), "{}", error.message);
    }
    assert_eq!(only(&switch).config, good);
    let (kind, _) = refused(&mut switch, 0, good.clone());
    assert_eq!(kind, ControlErrorKind::InvalidArgument);
    let error = switch
        .modify_generator(9, &GeneratorChange::default())
        .unwrap_err();
    assert_eq!(error.kind, ControlErrorKind::NotFound);
    let error = switch.delete_generator(9).unwrap_err();
    assert_eq!(error.kind, ControlErrorKind::NotFound);
    (2..=16).for_each(|id| switch.insert_generator(id, good.clone(), false).unwrap());
    let (kind, message) = refused(&mut switch, 17, good);
    assert_eq!(kind, ControlErrorKind::ResourceExhausted, "{message}");
}
