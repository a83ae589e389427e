//! Runs the packet tests of the programs `sfu_multicast_*.p4`. Every packet gets a verdict, and each drop a reason.

use std::collections::BTreeMap;

use dataplane::{DropReason, Switch};
use testkit::repository::root;

fn verdicts(switch: &Switch) -> BTreeMap<String, u64> {
    let program = switch.program().expect("a program is set");
    let table = program.table("SfuIngress.verdict_count.verdicts");
    let entries = switch.entries(table.expect("the table exists")).into_iter();
    let named = entries.map(|entry| {
        let call = entry.action.call().expect("an action");
        let action = program.action_info(call.action).expect("it exists");
        let name = action.name.rsplit('.').next().unwrap_or_default();
        (name.to_owned(), entry.counter.packets)
    });
    named.filter(|(_, packets)| *packets > 0).collect()
}

#[test]
fn every_packet_gets_one_verdict_and_each_drop_is_counted_with_its_reason() {
    // The served packets are packets of streams and two routed packets. Egress drops the routed packet that would
    // return to its port, and every copy that would go to the sender of its packet.
    for (program, n_served, n_copies_to_senders) in [
        ("sfu_multicast_one_stream", 6 + 2, 6),
        ("sfu_multicast_two_streams", 8 + 2, 7),
    ] {
        let path = root().join(format!("testdata/stf/{program}.stf"));
        let text = std::fs::read_to_string(&path).expect("it is there");
        let commands = stf::parse(&text).expect("a test");
        let loaded = stf::program_beside(&path).expect("a program");
        let (outcome, switch) = stf::run_and_keep(loaded, &commands, None);
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);

        let expected = [
            ("serve", n_served),
            ("drop_arp", 1),
            ("drop_fragment", 1),
            ("drop_ipv4_checksum", 1),
            ("drop_ipv4_options", 1),
            ("drop_malformed_ipv4", 1),
            ("drop_not_for_us", 2),
            ("drop_not_ipv4", 1),
            ("drop_truncated", 1),
            ("drop_ttl_expired", 1),
            ("drop_udp_length", 1),
            ("drop_vlan", 1),
        ];
        let expected = expected.map(|(name, packets)| (name.to_owned(), packets));
        let verdicts = verdicts(&switch);
        assert_eq!(verdicts, BTreeMap::from(expected), "{program}");
        assert_eq!(verdicts.values().sum::<u64>(), outcome.n_packets as u64);
        let counters = switch.counters();
        let n_dropped = verdicts.values().sum::<u64>() - verdicts["serve"];
        assert_eq!(counters.dropped(DropReason::IngressDrop), n_dropped);
        let n_egress = counters.dropped(DropReason::EgressDrop);
        assert_eq!(n_egress, n_copies_to_senders + 1, "{program}");
        assert_eq!(counters.dropped_total(), n_dropped + n_egress);
    }
}
