//! The traffic manager: recirculation, clones, replicas, queues, rates, drains, program change.

use dataplane::{CloneSession, DropReason, MulticastGroup, PortId, Replica, Switch, SwitchConfig};
use serde_json::json;
use testkit::builder::*;

fn session(id: u32, replicas: &[(u16, u16)]) -> CloneSession {
    CloneSession {
        id,
        replicas: to_replicas(replicas),
        truncate_bytes: None,
        class_of_service: 0,
    }
}

fn to_replicas(replicas: &[(u16, u16)]) -> Vec<Replica> {
    let replica = |(port, instance): &(u16, u16)| Replica {
        port: PortId(*port),
        instance: *instance,
    };
    replicas.iter().map(replica).collect()
}

fn dropped(switch: &Switch, reason: DropReason) -> u64 {
    switch.counters().dropped(reason)
}

/// Each pass decrements `left` and recirculates with a clone to session 5. When `left` is 0, the packet is dropped
/// although it asks for recirculation, and still makes a last clone. A clone (instance type 2) writes to `value` the
/// metadata that it found: the preserved metadata to the high byte, the metadata that are not preserved to the low
/// byte.
fn walker() -> Builder {
    let mut b = Builder::default();
    b.field_list(1, &["m.kept"]);
    b.run(
        INGRESS,
        "in",
        &[
            assign("pkt.kind", field("standard_metadata.ingress_port")),
            assign("m.kept", op("+", field("m.kept"), hex(1))),
            assign("m.lost", op("+", field("m.lost"), hex(1))),
            output_to(3),
        ],
    );
    let is_clone = op("==", field("standard_metadata.instance_type"), hex(2));
    b.condition(EGRESS, "is_clone", is_clone, Some("show"), Some("is_last"));
    let value = op("|", op("<<", field("m.kept"), hex(8)), field("m.lost"));
    b.call(EGRESS, "show", None, &[assign("pkt.value", value)]);
    b.condition(
        EGRESS,
        "is_last",
        op("==", field("pkt.left"), hex(0)),
        Some("last"),
        Some("more"),
    );
    let session = hex(5);
    b.call(
        EGRESS,
        "last",
        None,
        &[
            prim("clone_egress_pkt_to_egress", &[session.clone(), hex(1)]),
            prim("recirculate", &[hex(1)]),
            mark_to_drop(),
        ],
    );
    b.call(
        EGRESS,
        "more",
        None,
        &[
            assign("pkt.left", op("-", field("pkt.left"), hex(1))),
            prim("clone_egress_pkt_to_egress", &[session, hex(1)]),
            prim("recirculate", &[hex(1)]),
        ],
    );
    b.start(EGRESS, "is_clone");
    b
}

#[test]
fn a_drop_beats_recirculation_and_the_clone_survives_it() {
    let mut switch = walker().switch(SwitchConfig::default());
    switch.insert_clone_session(session(5, &[(7, 0)])).unwrap();
    let out = exchange(&mut switch, 0, 2, &[9, 2, 0, 0, 0xaa]);
    // A clone leaves after every pass. The ingress port is 2 in the first pass and 0 later; the
    // preserved metadata count the passes, other metadata are zero.
    assert_eq!(
        brief(&out),
        [
            (7, vec![2, 1, 1, 0, 0xaa]),
            (7, vec![0, 0, 2, 0, 0xaa]),
            (7, vec![0, 0, 3, 0, 0xaa]),
        ]
    );
    let counters = switch.counters();
    assert_eq!(counters.dropped(DropReason::EgressDrop), 1);
    assert_eq!(counters.created_by_clone, 3);
    assert_eq!(counters.port(PortId(7)).tx_packets, 3);
    assert_eq!(counters.port(PortId(7)).tx_bytes, 15);
    assert_eq!(counters.port(PortId(2)).rx_packets, 1);
    assert_accounted(&switch);
}

#[test]
fn a_clone_to_an_unknown_session_is_a_counted_drop() {
    let mut switch = walker().switch(SwitchConfig::default());
    assert_eq!(exchange(&mut switch, 0, 2, &[9, 1, 0, 0]), []);
    assert_eq!(dropped(&switch, DropReason::CloneSessionUnknown), 2);
    switch.insert_clone_session(session(5, &[])).unwrap();
    assert_eq!(exchange(&mut switch, 0, 2, &[9, 1, 0, 0]), []);
    assert_eq!(switch.counters().dropped(DropReason::CloneSessionEmpty), 2);
    assert_accounted(&switch);
}

#[test]
fn groups_and_sessions_are_read_from_any_id_on() {
    let mut switch = walker().switch(SwitchConfig::default());
    switch.insert_clone_session(session(5, &[(7, 0)])).unwrap();
    switch.insert_multicast_group(group(3, &[(5, 1)])).unwrap();
    for (first, n_groups, n_sessions) in [(0, 1, 1), (4, 0, 1), (6, 0, 0), (u32::MAX, 0, 0)] {
        assert_eq!(switch.multicast_groups_from(first, 9).len(), n_groups);
        assert_eq!(switch.clone_sessions_from(first, 9).len(), n_sessions);
    }
}

#[test]
fn a_packet_that_recirculates_for_ever_is_stopped() {
    let mut b = Builder::default();
    b.field_list(1, &[]);
    b.run(EGRESS, "again", &[prim("recirculate", &[hex(1)])]);
    let mut switch = b.switch(SwitchConfig::default());
    assert_eq!(exchange(&mut switch, 0, 0, &[0; 4]), []);
    assert_eq!(switch.counters().dropped(DropReason::RecirculationLimit), 1);
    assert_accounted(&switch);
}

#[test]
fn a_packet_that_is_resubmitted_for_ever_is_stopped() {
    let mut b = Builder::default();
    b.field_list(1, &[]);
    b.run(INGRESS, "again", &[prim("resubmit", &[hex(1)])]);
    let mut switch = b.switch(SwitchConfig::default());
    assert_eq!(exchange(&mut switch, 0, 0, &[0; 4]), []);
    assert_eq!(switch.counters().dropped(DropReason::ResubmitLimit), 1);
    assert_accounted(&switch);
}

#[test]
fn a_resubmitted_packet_comes_back_as_it_was_with_the_list_kept() {
    let mut b = Builder::default();
    b.field_list(1, &["m.kept", "standard_metadata.ingress_port"]);
    let again = op("==", field("standard_metadata.instance_type"), hex(6));
    b.condition(INGRESS, "again", again, Some("second"), Some("first"));
    b.call(
        INGRESS,
        "first",
        None,
        &[
            assign("m.kept", hex(0x77)),
            assign("m.lost", hex(0x77)),
            assign("pkt.value", hex(0x1234)),
            prim("resubmit", &[hex(1)]),
        ],
    );
    b.call(
        INGRESS,
        "second",
        None,
        &[
            assign("pkt.kind", field("m.kept")),
            assign(
                "pkt.left",
                op(
                    "+",
                    field("m.lost"),
                    field("standard_metadata.ingress_port"),
                ),
            ),
            output_to(1),
        ],
    );
    b.start(INGRESS, "again");
    let mut switch = b.switch(SwitchConfig::default());
    let out = exchange(&mut switch, 0, 6, &[1, 1, 0xbe, 0xef, 9]);
    assert_eq!(brief(&out), [(1, vec![0x77, 6, 0xbe, 0xef, 9])]);
}

#[test]
fn an_ingress_clone_has_the_headers_as_they_arrived() {
    let mut b = Builder::default();
    b.field_list(1, &["m.kept"]);
    b.run(
        INGRESS,
        "in",
        &[
            assign("m.kept", hex(0x11)),
            assign("m.lost", hex(0x22)),
            prim("clone_ingress_pkt_to_egress", &[hex(9), hex(1)]),
            assign("pkt.value", hex(0x5555)),
            output_to(1),
        ],
    );
    let kind = field("standard_metadata.instance_type");
    b.run(
        EGRESS,
        "out",
        &[
            assign("pkt.kind", kind),
            assign("pkt.left", op("|", field("m.kept"), field("m.lost"))),
        ],
    );
    let mut switch = b.switch(SwitchConfig::default());
    let mut clones = session(9, &[(4, 0), (5, 3)]);
    clones.truncate_bytes = Some(5);
    switch.insert_clone_session(clones).unwrap();
    let out = exchange(&mut switch, 0, 0, &[8, 8, 0xab, 0xcd, 1, 2, 3]);
    assert_eq!(
        brief(&out),
        [
            (4, vec![1, 0x11, 0xab, 0xcd, 1]),
            (5, vec![1, 0x11, 0xab, 0xcd, 1]),
            (1, vec![0, 0x33, 0x55, 0x55, 1, 2, 3]),
        ]
    );
    assert_accounted(&switch);
}

fn replicator() -> Builder {
    let mut b = Builder::default();
    let group = assign("standard_metadata.mcast_grp", field("pkt.kind"));
    b.run(INGRESS, "in", &[group]);
    b.run(
        EGRESS,
        "out",
        &[
            assign("pkt.value", field("standard_metadata.egress_rid")),
            assign("pkt.left", field("standard_metadata.instance_type")),
        ],
    );
    b
}

fn group(id: u32, replicas: &[(u16, u16)]) -> MulticastGroup {
    MulticastGroup {
        id,
        replicas: to_replicas(replicas),
        ..MulticastGroup::default()
    }
}

#[test]
fn replicas_are_made_in_the_order_of_the_group() {
    let mut switch = replicator().switch(SwitchConfig::default());
    switch
        .insert_multicast_group(group(3, &[(5, 1), (1, 9), (5, 2)]))
        .unwrap();
    let out = exchange(&mut switch, 0, 0, &[3, 0, 0, 0, 7]);
    assert_eq!(
        brief(&out),
        [
            (5, vec![3, 5, 0, 1, 7]),
            (1, vec![3, 5, 0, 9, 7]),
            (5, vec![3, 5, 0, 2, 7]),
        ]
    );
    assert_eq!(switch.counters().created_by_replication, 2);
    switch.modify_multicast_group(group(3, &[(2, 4)])).unwrap();
    let sent = brief(&exchange(&mut switch, 0, 0, &[3, 0, 0, 0]));
    assert_eq!(sent, [(2, vec![3, 5, 0, 4])]);
    assert_accounted(&switch);
}

#[test]
fn a_group_that_is_not_there_or_empty_is_a_counted_drop() {
    let mut switch = replicator().switch(SwitchConfig::default());
    switch.insert_multicast_group(group(4, &[])).unwrap();
    assert_eq!(exchange(&mut switch, 0, 0, &[3, 0, 0, 0]), []);
    assert_eq!(exchange(&mut switch, 0, 0, &[4, 0, 0, 0]), []);
    assert_eq!(dropped(&switch, DropReason::MulticastGroupUnknown), 1);
    assert_eq!(dropped(&switch, DropReason::MulticastGroupEmpty), 1);
    assert_accounted(&switch);
}

#[test]
fn full_queues_drop_and_count() {
    let config = SwitchConfig {
        ingress_queue_packets: 2,
        egress_queue_packets: 3,
        ..SwitchConfig::default()
    };
    let mut switch = replicator().switch(config);
    switch
        .insert_multicast_group(group(1, &[(1, 1), (1, 2), (1, 3), (1, 4), (2, 5)]))
        .unwrap();
    let out = exchange(&mut switch, 0, 0, &[1, 0, 0, 0]);
    assert_eq!(out.len(), 4);
    assert_eq!(switch.counters().dropped(DropReason::EgressQueueFull), 1);
    for _ in 0..5 {
        switch.handle_frame(0, PortId(0), &[0, 0, 0, 0]);
    }
    assert_eq!(switch.counters().dropped(DropReason::IngressQueueFull), 3);
    assert_eq!(switch.packets_inside(), 2);
    assert_accounted(&switch);
}

#[test]
fn the_recirculation_queue_is_bounded() {
    let config = SwitchConfig {
        recirculation_queue_packets: 1,
        recirculation_rate_pps: Some(1),
        ..SwitchConfig::default()
    };
    let mut switch = walker().switch(config);
    exchange(&mut switch, 0, 0, &[0, 5, 0, 0]);
    exchange(&mut switch, 0, 0, &[0, 5, 0, 0]);
    exchange(&mut switch, 0, 0, &[0, 5, 0, 0]);
    // The first packet recirculates at once and then waits; the others find the queue full.
    assert_eq!(dropped(&switch, DropReason::RecirculationQueueFull), 2);
    assert_eq!(switch.packets_inside(), 1);
    assert_accounted(&switch);
}

#[test]
fn a_rate_spaces_departures_in_virtual_time() {
    let config = config_with(|it| it.egress_rate_pps = Some(1_000));
    let mut switch = replicator().switch(config);
    switch
        .insert_multicast_group(group(1, &[(1, 1), (1, 2), (1, 3), (2, 4)]))
        .unwrap();
    let out = exchange(&mut switch, 10, 0, &[1, 0, 0, 0]);
    assert_eq!(out.iter().map(|t| t.port.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(switch.poll_timeout(), Some(1_000_010));
    assert_eq!(drain(&mut switch, 1_000_009), []);
    switch.handle_timeout(1_000_010);
    assert_eq!(drain(&mut switch, 1_000_010).len(), 1);
    // A packet that was due meanwhile leaves at the next poll, however late.
    assert_eq!(drain(&mut switch, 9_000_000).len(), 1);
    assert_eq!(switch.poll_timeout(), None);
    assert_accounted(&switch);
}

#[test]
fn a_rate_holds_recirculated_packets_and_lets_new_frames_pass() {
    let config = config_with(|it| it.recirculation_rate_pps = Some(1_000_000));
    let mut switch = walker().switch(config);
    switch.insert_clone_session(session(5, &[(7, 0)])).unwrap();
    assert_eq!(exchange(&mut switch, 0, 0, &[0, 3, 0, 0]).len(), 2);
    assert_eq!(switch.poll_timeout(), Some(1_000));
    assert_eq!(exchange(&mut switch, 0, 0, &[0, 0, 0, 0]).len(), 1);
    assert_eq!(drain(&mut switch, 1_000).len(), 1);
    assert_eq!(drain(&mut switch, 2_000).len(), 1);
    assert_accounted(&switch);
}

#[test]
fn a_disabled_port_takes_no_frame_in_and_gives_none_out_whatever_waits_for_it() {
    let config = config_with(|it| it.egress_rate_pps = Some(1_000));
    let builder = replicator();
    let mut switch = builder.switch(config);
    let flood = group(1, &[(1, 1), (1, 2), (1, 3), (2, 4)]);
    switch.insert_multicast_group(flood.clone()).unwrap();
    assert_eq!(exchange(&mut switch, 0, 0, &[1, 0, 0, 0]).len(), 2);
    let port = PortId(1);
    switch.set_port_enabled(port, false);
    assert!(!switch.is_port_enabled(port) && switch.is_port_enabled(PortId(2)));
    // Two copies wait for the port, because of its rate.
    assert_eq!(drain(&mut switch, 9_000_000), []);
    assert_eq!(switch.counters().dropped(DropReason::PortDisabled), 2);
    assert_eq!(exchange(&mut switch, 10_000_000, 1, &[1, 0, 0, 0]), []);
    let (received, sent) = (
        switch.counters().port(port).rx_packets,
        switch.counters().port(port).tx_packets,
    );
    assert_eq!((received, sent), (0, 1));
    // A change of program keeps the setting.
    switch.set_program(builder.program());
    switch.insert_multicast_group(flood).unwrap();
    let out = exchange(&mut switch, 20_000_000, 0, &[1, 0, 0, 0]);
    assert_eq!(out.iter().map(|t| t.port.0).collect::<Vec<_>>(), [2]);
    drain(&mut switch, 30_000_000);
    let counters = switch.counters();
    assert_eq!(counters.dropped(DropReason::PortDisabled), 6);
    assert_eq!(
        (
            counters.port(port).rx_disabled,
            counters.port(port).tx_disabled
        ),
        (1, 5)
    );
    switch.set_port_enabled(port, true);
    assert_eq!(exchange(&mut switch, 40_000_000, 0, &[1, 0, 0, 0]).len(), 2);
    assert_accounted(&switch);
}

#[test]
fn a_higher_priority_leaves_first() {
    let mut b = Builder::default();
    let priority = assign("standard_metadata.priority", field("pkt.kind"));
    b.run(INGRESS, "in", &[priority, output_to(1)]);
    let config = config_with(|it| it.egress_rate_pps = Some(1_000));
    let mut switch = b.switch(config);
    for kind in [0, 0, 7, 7] {
        switch.handle_frame(0, PortId(0), &[kind, 0, 0, 0]);
    }
    // Egress work goes first, so the first packet of each queue leaves before the next frame runs ingress.
    let first: Vec<u8> = drain(&mut switch, 0).iter().map(|t| t.frame[0]).collect();
    assert_eq!(first, [0, 7]);
    let second: Vec<u8> = drain(&mut switch, 1_000_000)
        .iter()
        .map(|t| t.frame[0])
        .collect();
    assert_eq!(second, [7, 0]);
}

#[test]
fn a_drain_waits_for_older_packets_and_their_descendants_only() {
    let config = config_with(|it| it.recirculation_rate_pps = Some(1_000));
    let mut switch = walker().switch(config);
    switch.insert_clone_session(session(5, &[(7, 0)])).unwrap();
    let before = switch.begin_drain();
    assert!(switch.is_drained(before), "nothing was inside");
    exchange(&mut switch, 0, 0, &[0, 2, 0, 0]);
    let token = switch.begin_drain();
    assert!(!switch.is_drained(token));
    exchange(&mut switch, 0, 0, &[0, 9, 0, 0]);
    drain(&mut switch, 999_999);
    assert!(!switch.is_drained(token));
    drain(&mut switch, 1_000_000);
    assert!(switch.is_drained(token), "the older packet has ended");
    assert_eq!(switch.packets_inside(), 1, "the younger one has not");
    let token = switch.begin_drain();
    assert!(!switch.is_drained(token));
    while let Some(due) = switch.poll_timeout() {
        switch.handle_timeout(due);
        drain(&mut switch, due);
    }
    assert!(switch.is_drained(token));
    assert_accounted(&switch);
}

#[test]
fn a_new_program_clears_everything_and_counts_who_was_inside() {
    let config = config_with(|it| it.recirculation_rate_pps = Some(1));
    let mut switch = walker().switch(config);
    switch.insert_clone_session(session(5, &[(7, 0)])).unwrap();
    switch.insert_multicast_group(group(1, &[(1, 1)])).unwrap();
    exchange(&mut switch, 0, 0, &[0, 9, 0, 0]);
    let token = switch.begin_drain();
    switch.handle_frame(0, PortId(0), &[0; 4]);
    assert_eq!(switch.packets_inside(), 2);
    switch.set_program(replicator().program());
    assert_eq!(switch.counters().dropped(DropReason::PipelineChanged), 2);
    assert!(switch.is_drained(token));
    assert_eq!(switch.packets_inside(), 0);
    assert_eq!(switch.clone_sessions(), []);
    assert_eq!(switch.multicast_groups(), []);
    assert_accounted(&switch);
}

#[test]
fn frames_without_a_port_or_a_program_are_counted() {
    let mut switch = dataplane::Switch::new(SwitchConfig::default());
    switch.add_port(PortId(0));
    assert_eq!(exchange(&mut switch, 0, 0, &[0; 4]), []);
    assert_eq!(exchange(&mut switch, 0, 9, &[0; 4]), []);
    assert_eq!(switch.counters().dropped(DropReason::NoPipeline), 1);
    assert_eq!(switch.counters().dropped(DropReason::PortUnknown), 1);
    assert_accounted(&switch);
    let mut b = Builder::default();
    b.run(INGRESS, "in", &[output_to(300)]);
    let mut switch = b.switch(SwitchConfig::default());
    assert_eq!(exchange(&mut switch, 0, 0, &[0; 4]), []);
    assert_eq!(switch.counters().dropped(DropReason::EgressPortUnknown), 1);
    assert_accounted(&switch);
}

#[test]
fn the_cpu_port_takes_packet_outs_and_gives_packet_ins() {
    let mut b = Builder::default();
    b.run(
        INGRESS,
        "in",
        &[assign("standard_metadata.egress_spec", field("pkt.value"))],
    );
    let mut switch = b.switch(SwitchConfig::default());
    let sent = brief(&exchange(&mut switch, 0, 510, &[1, 1, 0, 2]));
    assert_eq!(sent, [(2, vec![1, 1, 0, 2])]);
    assert_eq!(exchange(&mut switch, 0, 3, &[1, 1, 1, 0xfe]), []);
    assert_eq!(switch.poll_packet_in(), Some(vec![1, 1, 1, 0xfe]));
    assert_eq!(switch.poll_packet_in(), None);
    assert_eq!(switch.counters().to_cpu, 1);
    assert_accounted(&switch);
}

#[test]
fn timestamps_depths_and_lengths_are_filled_in() {
    let mut b = Builder::default();
    b.run(
        INGRESS,
        "in",
        &[
            assign(
                "m.kept",
                field("standard_metadata.ingress_global_timestamp"),
            ),
            output_to(1),
        ],
    );
    b.run(
        EGRESS,
        "out",
        &[
            assign("pkt.kind", field("m.kept")),
            assign("pkt.left", field("standard_metadata.deq_timedelta")),
            assign(
                "pkt.value",
                op(
                    "|",
                    op("<<", field("standard_metadata.packet_length"), hex(8)),
                    field("standard_metadata.enq_qdepth"),
                ),
            ),
        ],
    );
    let config = config_with(|it| it.egress_rate_pps = Some(100_000));
    let mut switch = b.switch(config);
    for _ in 0..3 {
        switch.handle_frame(5_000, PortId(0), &[0, 0, 0, 0, 0xee]);
    }
    let mut out = drain(&mut switch, 6_000);
    out.extend(drain(&mut switch, 16_000));
    out.extend(drain(&mut switch, 26_000));
    assert_eq!(
        brief(&out),
        [
            (1, vec![5, 0, 5, 0, 0xee]),
            (1, vec![5, 10, 5, 0, 0xee]),
            (1, vec![5, 20, 5, 1, 0xee]),
        ]
    );
}

/// A program that reads how long a packet has been inside the switch: each egress pass writes the low 16 bits of this
/// time to `pkt.value`. `left` is the number of remaining recirculations; with each recirculation a clone leaves by
/// port 7.
fn stamper() -> Builder {
    let mut b = Builder::default();
    let fields = b.json["header_types"][2]["fields"].as_array_mut();
    fields
        .unwrap()
        .push(json!(["nanoseconds_inside", 48, false]));
    b.field_list(1, &[]);
    b.run(INGRESS, "in", &[output_to(1)]);
    let inside = field("standard_metadata.nanoseconds_inside");
    b.call(
        EGRESS,
        "stamp",
        Some("is_clone"),
        &[assign("pkt.value", inside)],
    );
    let is_clone = op("==", field("standard_metadata.instance_type"), hex(2));
    b.condition(EGRESS, "is_clone", is_clone, None, Some("is_last"));
    let is_last = op("==", field("pkt.left"), hex(0));
    b.condition(EGRESS, "is_last", is_last, None, Some("again"));
    let again = [
        assign("pkt.left", op("-", field("pkt.left"), hex(1))),
        prim("clone_egress_pkt_to_egress", &[hex(5), hex(1)]),
        prim("recirculate", &[hex(1)]),
    ];
    b.call(EGRESS, "again", None, &again);
    b.start(EGRESS, "stamp");
    b
}

#[test]
fn the_time_inside_is_counted_from_the_root_frames_arrival_through_all_passes() {
    let mut switch = stamper().switch(SwitchConfig::default());
    switch.insert_clone_session(session(5, &[(7, 0)])).unwrap();
    assert!(switch.is_timed());
    switch.handle_frame(1_000, PortId(0), &[0, 2, 0, 0]);
    // The clock is read before each step: ingress, egress, the clone's egress, ingress again, ...
    let (mut now, mut left) = (1_000, Vec::new());
    loop {
        now += 7;
        let mut send = |transmit: dataplane::Transmit<'_>| left.push(transmit.to_owned());
        if switch.transmit_step(now, &mut send).is_idle {
            break;
        }
    }
    assert_eq!(
        brief(&left),
        [
            (7, vec![0, 1, 0, 21]),
            (7, vec![0, 0, 0, 42]),
            (1, vec![0, 0, 0, 56]),
        ]
    );
    assert_accounted(&switch);
}

#[test]
fn the_time_inside_is_that_of_a_rate_too_and_other_programs_have_none() {
    let config = config_with(|it| it.egress_rate_pps = Some(1_000_000));
    let mut switch = stamper().switch(config);
    for _ in 0..2 {
        switch.handle_frame(500, PortId(0), &[0, 0, 0, 0]);
    }
    let mut out = drain(&mut switch, 600);
    out.extend(drain(&mut switch, 1_600));
    let sent = brief(&out);
    assert_eq!(sent, [(1, vec![0, 0, 0, 100]), (1, vec![0, 0, 0x04, 0x4c])]);
    assert!(!walker().switch(SwitchConfig::default()).is_timed());
}

#[test]
fn digests_carry_canonical_values() {
    let mut b = Builder::default();
    b.push(
        "learn_lists",
        json!({"id": 1, "name": "seen_t",
        "elements": [field("pkt.kind"), field("pkt.value")]}),
    );
    b.run(
        INGRESS,
        "in",
        &[
            prim("generate_digest", &[hex(0), hex(1)]),
            assign("pkt.kind", hex(0)),
            output_to(1),
        ],
    );
    let mut switch = b.switch(SwitchConfig::default());
    exchange(&mut switch, 0, 0, &[7, 0, 0x12, 0x34]);
    let digest = switch.poll_digest().unwrap();
    assert_eq!(digest.name, "seen_t");
    // BMv2 reads the values at the end of ingress, not where the digest was called.
    assert_eq!(digest.members, [vec![0], vec![0x12, 0x34]]);
    assert_eq!(switch.poll_digest(), None);
}
