//! Commands for addresses, groups and viewers.

use std::net::Ipv4Addr;

use conference::address::Mac;
use serde_json::{Value, json};
use testkit::text::{assert_ends, assert_has, assert_starts};

use crate::bench::{ADDRESS, recirculation, replication, text};

fn order(value: &Value) -> Vec<&str> {
    let viewers = value["groups"][0]["viewers"].as_array().expect("viewers");
    viewers
        .iter()
        .map(|viewer| viewer["ip"].as_str().expect("an IP"))
        .collect()
}

#[test]
fn a_conference_is_built_changed_and_taken_down() {
    for bench in [replication(), recirculation()] {
        bench.ok(ADDRESS);
        let printed = bench.ok("address show");
        assert_eq!(printed, "10.0.1.100 02:00:00:00:01:64 on port 1\n");
        bench.ok("group add --group 4 --ip 10.0.1.4 --mac 02:00:00:00:00:04");
        for host in 5..8 {
            bench.ok(&format!(
                "viewer add --group 4 --ip 10.0.1.{host} --mac 02:00:00:00:00:0{host}"
            ));
        }
        let removed = bench.ok("viewer remove --group 4 --ip 10.0.1.6");
        assert_starts(&removed, "- group 4: viewer 10.0.1.6");
        let shown = bench.json("show");
        assert_eq!(order(&shown), ["10.0.1.5", "10.0.1.7"]);
        assert_eq!(shown["groups"][0]["mac"], "02:00:00:00:00:04");
        assert_eq!(bench.server.switch().violations, [""; 0]);

        bench.ok("group delete --group 4");
        assert_eq!(bench.json("show")["groups"], json!([]));
        assert_eq!(bench.server.switch().n_entries("viewers"), 0);
        let refused = bench.fails("viewer add --group 4 --ip 10.0.1.5 --mac 02:00:00:00:00:05");
        assert_eq!(refused, "there is no group 4");
    }
}

#[test]
fn the_own_address_also_makes_the_clone_session_of_the_recirculation_program() {
    let bench = recirculation();
    bench.ok(ADDRESS);
    let switch = bench.server.switch();
    assert_eq!(switch.sessions.keys().collect::<Vec<_>>(), [&100]);
    let found = p4runtime_client::entities::replica_port(&switch.sessions[&100].replicas[0]);
    assert_eq!(found, Some(1));
}

#[test]
fn refusals_name_what_and_leave_the_switch_as_it_was() {
    let bench = recirculation();
    let viewer = "viewer add --group 4 --ip 10.0.1.5 --mac 02:00:00:00:00:05";
    bench.ok("group add --group 4 --ip 10.0.1.4");
    let error = bench.fails(viewer);
    assert_has(&error, "no own address yet");
    assert_has(&error, "reprise address set");
    let error = bench.fails("viewer add --group 4 --ip 10.0.1.5");
    assert_has(&error, "no own address yet to ask from: give --mac");
    bench.ok(ADDRESS);
    bench.ok(viewer);
    let n = bench.server.switch().log.len();
    for (words, message) in [
        (viewer, "10.0.1.5 is a viewer of group 4 already"),
        (
            "group add --group 4 --ip 10.0.1.9",
            "group 4 exists already, its presenter is 10.0.1.4",
        ),
        (
            "group add --group 5 --ip 10.0.1.4",
            "10.0.1.4 is the presenter of group 4 already",
        ),
        ("group delete --group 5", "there is no group 5"),
        (
            "viewer remove --group 4 --ip 10.0.1.9",
            "group 4 has no viewer 10.0.1.9",
        ),
        (
            "address set --port 0 --ip 10.0.1.1 --mac 02:00:00:00:00:01",
            "port 0 is out of range, expected 1 to 509",
        ),
        (
            "viewer add --group 4 --ip 10.0.1.100 --mac 02:00:00:00:00:01",
            "10.0.1.100 is the SFU's own address",
        ),
    ] {
        assert_eq!(bench.fails(words), message);
    }
    let error =
        bench.fails("viewer add --group 4 --ip 10.0.1.6 --mac 02:00:00:00:00:06 --udp-port 6000");
    assert_starts(&error, "this program does not distinguish UDP ports");
    assert_eq!(bench.server.switch().log.len(), n, "nothing was written");
}

#[test]
fn every_changing_command_takes_the_next_election_id_and_reading_ones_none() {
    let bench = replication();
    bench.ok("address show");
    assert_eq!(bench.server.highest_election_id(), None);
    bench.ok(ADDRESS);
    assert_eq!(bench.server.highest_election_id(), Some(1));
    bench.server.take_over(41);
    bench.ok("group add --group 4 --ip 10.0.1.4 --takeover");
    assert_eq!(bench.server.highest_election_id(), Some(42));
}

#[test]
fn a_mac_left_out_is_looked_up_by_arp() {
    let bench = replication();
    bench
        .server
        .switch()
        .hosts
        .insert(Ipv4Addr::new(10, 0, 1, 5), Mac([2, 0, 0, 0, 0, 5]));
    bench.ok(ADDRESS);
    bench.ok("group add --group 4 --ip 10.0.1.4 --udp-port 6000");
    let line = bench.ok("viewer add --group 4 --ip 10.0.1.5");
    assert_eq!(line, "+ group 4: viewer 10.0.1.5:6000 02:00:00:00:00:05\n");
    let error = bench.fails("viewer add --group 4 --ip 10.0.1.6");
    assert_starts(&error, "no host answers to ARP for 10.0.1.6 on port 1");
    assert_has(&error, "--mac");
}

const SECOND: &str = "address set --port 2 --ip 10.0.2.100 --mac 02:00:00:00:02:64";

#[test]
fn an_address_is_set_shown_and_deleted_port_by_port() {
    let bench = replication();
    bench.server.switch().ports = vec![1, 2];
    bench.ok(ADDRESS);
    bench.ok(SECOND);
    let shown = "10.0.1.100 02:00:00:00:01:64 on port 1\n10.0.2.100 02:00:00:00:02:64 on port 2\n";
    assert_eq!(bench.ok("address show"), shown);
    let line = bench.ok("address set --port 2 --ip 10.0.2.200 --mac 02:00:00:00:02:64");
    assert_eq!(
        line,
        "~ own address 10.0.2.100 02:00:00:00:02:64 on port 2 -> 10.0.2.200 02:00:00:00:02:64 on port 2\n"
    );
    bench.ok("group add --group 4 --ip 10.0.1.4");
    let added = bench.ok("viewer add --group 4 --ip 10.0.2.5 --mac 02:00:00:00:00:05 --port 2");
    let expected = "+ group 4: viewer 10.0.2.5:5004 02:00:00:00:00:05 on port 2\n";
    assert_eq!(added, expected);
    let refused = bench.fails("viewer add --group 4 --ip 10.0.2.6 --mac 02:00:00:00:00:06");
    assert_has(&refused, "several ports (1, 2): say which");
    let refused =
        bench.fails("viewer add --group 4 --ip 10.0.3.6 --mac 02:00:00:00:00:06 --port 3");
    assert_starts(&refused, "1 viewer is on port 3");
    let refused = bench.fails("address delete --port 2");
    assert_starts(&refused, "1 viewer is on port 2");
    bench.ok("viewer remove --group 4 --ip 10.0.2.5");
    let gone = bench.ok("address delete --port 2");
    let expected = "- own address 10.0.2.200 02:00:00:00:02:64 on port 2\n";
    assert_eq!(gone, expected);
    let refused = bench.fails("address delete --port 2");
    assert_eq!(refused, "the SFU has no own address on port 2");
}

#[test]
fn the_recirculation_program_serves_one_port_and_says_so() {
    let bench = recirculation();
    bench.server.switch().ports = vec![1, 2];
    bench.ok(ADDRESS);
    bench.ok("group add --group 4 --ip 10.0.1.4");
    let refused =
        bench.fails("viewer add --group 4 --ip 10.0.2.5 --mac 02:00:00:00:00:05 --port 2");
    assert_starts(&refused, "this program serves one port, 1,");
    assert_has(&refused, "p4/sfu.p4");
    bench.ok("viewer add --group 4 --ip 10.0.1.5 --mac 02:00:00:00:00:05 --port 1");
    bench.ok(SECOND);
    let printed = bench.ok("address show");
    assert_eq!(printed, "10.0.2.100 02:00:00:00:02:64 on port 2\n");
}

#[test]
fn a_viewer_is_looked_for_on_every_port_and_served_where_it_answers() {
    let bench = replication();
    bench.server.switch().ports = vec![1, 2];
    bench.server.switch().other_hosts = vec![
        (2, Ipv4Addr::new(10, 0, 2, 5), Mac([2, 0, 0, 0, 0, 5])),
        (1, Ipv4Addr::new(10, 0, 1, 6), Mac([2, 0, 0, 0, 0, 6])),
        (1, Ipv4Addr::new(10, 0, 1, 6), Mac([2, 0, 0, 0, 0, 66])),
    ];
    bench.ok(ADDRESS);
    bench.ok(SECOND);
    bench.ok("group add --group 4 --ip 10.0.1.4");
    bench.ok("viewer add --group 4 --ip 10.0.2.5");
    let viewer = &bench.json("show")["groups"][0]["viewers"][0];
    assert_eq!(viewer["port"], 2);
    assert_eq!(viewer["looked_up"], json!(true));
    let refused = bench.fails("viewer add --group 4 --ip 10.0.1.6");
    assert_starts(&refused, "several hosts answer to ARP for 10.0.1.6");
    assert_eq!(
        bench.json("show")["groups"][0]["viewers"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_viewer_whose_mac_was_looked_up_is_followed_and_one_given_by_hand_is_not() {
    for bench in [replication(), recirculation()] {
        let host = |n| Ipv4Addr::new(10, 0, 1, n);
        let mac = |n| Mac([2, 0, 0, 0, 0, n]);
        let answer = |hosts: &[(u8, u8)]| {
            let hosts = hosts.iter().map(|(ip, n)| (1, host(*ip), mac(*n)));
            bench.server.switch().other_hosts = hosts.collect();
        };
        answer(&[(5, 5), (6, 6), (7, 7)]);
        bench.ok(ADDRESS);
        bench.ok("group add --group 4 --ip 10.0.1.4");
        bench.ok("viewer add --group 4 --ip 10.0.1.5");
        bench.ok("viewer add --group 4 --ip 10.0.1.6 --mac 02:00:00:00:00:06");
        bench.ok("viewer add --group 4 --ip 10.0.1.7");
        assert_eq!(bench.ok("viewer refresh"), "no change\n");

        answer(&[(5, 55), (6, 66), (7, 7)]);
        let line = bench.ok("viewer refresh");
        assert_starts(&line, "~ group 4: viewer 10.0.1.5");
        assert_ends(&line, "02:00:00:00:00:37, mac was 02:00:00:00:00:05\n");
        assert_eq!(line.lines().count(), 1, "{line}");

        // If a second host answers for the viewer's IP address, the viewer's copies of packets are not sent to this
        // host. A viewer that does not answer keeps its copies.
        answer(&[(5, 55), (5, 56)]);
        let output = bench.run("viewer refresh");
        assert!(output.status.success());
        assert_eq!(text(&output.stdout), "no change\n");
        let said = text(&output.stderr);
        assert_has(&said, "10.0.1.7 on port 1 does not answer to ARP");
        let found = said.lines().count();
        assert_eq!(found, 1, "the one that is there answers alone: {said}");
        answer(&[(5, 56), (5, 57), (7, 7)]);
        let output = bench.run("viewer refresh");
        assert_eq!(text(&output.stdout), "no change\n");
        let said = text(&output.stderr);
        assert_has(&said, "several hosts answer to ARP for viewer 10.0.1.5");
        let viewers = &bench.json("show")["groups"][0]["viewers"];
        let macs = [0, 1, 2].map(|n| viewers[n]["mac"].clone());
        assert_eq!(
            macs,
            [
                "02:00:00:00:00:37",
                "02:00:00:00:00:06",
                "02:00:00:00:00:07"
            ]
        );
        assert_eq!(bench.server.switch().violations, [""; 0]);
    }
}
