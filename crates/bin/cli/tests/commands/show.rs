//! `reprise show` and `watch`: the switch's counters.

use serde_json::json;

use crate::bench::{Bench, CONFERENCE, recirculation, replication};

#[test]
fn show_has_totals_rates_verdicts_ports_and_drops() {
    for bench in [replication(), recirculation()] {
        bench.file("c.yaml", CONFERENCE);
        bench.ok("apply c.yaml");
        {
            let mut switch = bench.server.switch();
            switch.count_in_table("viewers", 1500);
            switch.count_everywhere(1500);
        }
        let shown = bench.json("show");
        assert_eq!(shown["interval_s"], 1.0);
        let viewer = &shown["groups"][0]["viewers"][0];
        assert_eq!(viewer["packets"], 1500);
        assert_eq!(viewer["bytes"], 150_000);
        assert_eq!(viewer["rate"]["packets_per_s"], 0.0);
        assert_eq!(
            shown["verdicts"][0],
            json!({"verdict": "serve", "packets": 5, "bytes": 500})
        );
        assert_eq!(shown["verdicts"][1]["verdict"], "drop_unknown_sender");
        // The ports were read three times: by `address set`, and twice by `show`, because a rate needs two readings.
        assert_eq!(shown["ports"][0]["rx_packets"], 30);
        let expected = json!([{"reason": "egress_queue_full", "packets": 3}]);
        assert_eq!(shown["drops"], expected);

        let table = bench.ok("show");
        println!("{table}");
        for part in [
            "own address 10.0.1.100",
            "from 10.0.1.4",
            "to 10.0.1.6",
            "1,500",
            "serve",
            "veth1",
            "10.0",
            "egress_queue_full",
        ] {
            assert!(table.contains(part), "{part} is missing in\n{table}");
        }
    }
}

#[test]
fn watch_shows_rates_and_drops_whatever_the_program() {
    let bench = Bench::new(None);
    let shown = bench.ok("watch --times 1");
    assert!(shown.contains("veth1"), "{shown}");
    assert!(shown.contains("egress_queue_full"), "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    let watched = bench.json("watch --times 1");
    assert_eq!(watched["interval_s"], 1.0);
    assert_eq!(watched["ports"][0]["rx_packets_per_s"], 10.0);
    let drop = json!({
        "at": "switch", "reason": "egress_queue_full", "packets": 3, "packets_per_s": 0.0,
    });
    assert_eq!(watched["drops"], json!([drop]));
}
