//! `reprise apply` with a conference's file.

use std::net::Ipv4Addr;

use conference::address::Mac;
use serde_json::{Value, json};
use testkit::text::{assert_has, assert_starts};

use crate::bench::{ADDRESS, CONFERENCE, recirculation, replication};

#[test]
fn apply_brings_the_switch_to_the_file_and_a_second_time_changes_nothing() {
    for bench in [replication(), recirculation()] {
        bench.file("c.yaml", CONFERENCE);
        let dry = bench.ok("apply c.yaml --dry-run");
        let found = bench.server.switch().log.len();
        assert_eq!(found, 0, "a dry run writes nothing");
        let lines = bench.ok("apply c.yaml");
        assert_eq!(lines, dry);
        let signs: Vec<&str> = lines.lines().map(|line| &line[..1]).collect();
        assert_eq!(signs, ["+"; 5], "{lines}");
        let n = bench.server.switch().log.len();
        assert_eq!(bench.ok("apply c.yaml"), "no change\n");
        assert_eq!(bench.json("apply c.yaml")["changed"], false);
        assert_eq!(bench.server.switch().log.len(), n, "nothing was written");

        let text = CONFERENCE.replace("      - {ip: 10.0.1.5, mac: '02:00:00:00:00:05'}\n", "");
        bench.file("c.yaml", &text.replace("00:06", "00:16"));
        let change = bench.json("apply c.yaml");
        assert_eq!(change["changed"], true);
        let signs: Vec<&Value> = change["changes"]
            .as_array()
            .expect("lines")
            .iter()
            .map(|line| &line["sign"])
            .collect();
        assert_eq!(signs, ["removed", "changed"]);
        assert_eq!(bench.server.switch().violations, [""; 0]);
    }
}

#[test]
fn an_apply_that_fails_leaves_the_own_address_as_it_was() {
    let bench = recirculation();
    let unanswered = CONFERENCE.replace("ip: 10.0.1.6, mac: '02:00:00:00:00:06'", "ip: 10.0.1.6");
    // Refused because of the file's content: nothing was written, not even temporarily.
    bench.file(
        "ports.yaml",
        &unanswered.replace("10.0.1.6}", "10.0.1.6, udp_port: 7000}"),
    );
    let error = bench.fails("apply ports.yaml");
    assert_has(&error, "does not distinguish UDP ports");
    assert_eq!(bench.server.switch().log.len(), 0);
    // No host answers: the address that was added for the ARP request is removed.
    bench.file("c.yaml", &unanswered);
    let error = bench.fails("apply c.yaml");
    assert_starts(&error, "c.yaml: no host answers to ARP for 10.0.1.6");
    assert_eq!(bench.json("address show")["addresses"], json!([]));
    // If the switch already has an address of the SFU, the ARP request comes from this address, and a live conference
    // is not disturbed.
    bench.ok(ADDRESS);
    bench.file("c.yaml", &unanswered.replace("10.0.1.100", "10.0.1.200"));
    let n = bench.server.switch().log.len();
    bench.fails("apply c.yaml");
    assert_eq!(bench.server.switch().log.len(), n, "nothing was written");
    assert_eq!(
        bench.json("address show")["addresses"][0]["ip"],
        "10.0.1.100"
    );
}

#[test]
fn an_own_address_on_a_port_that_the_switch_lacks_is_refused() {
    let bench = replication();
    let error = bench.fails("address set --port 7 --ip 10.0.1.100 --mac 02:00:00:00:01:64");
    assert_starts(&error, "the switch has no port 7, it has 1:");
    bench.file("c.yaml", &CONFERENCE.replace("port: 1", "port: 7"));
    for words in ["apply c.yaml", "apply c.yaml --dry-run"] {
        assert!(bench.fails(words).contains("no port 7"), "{words}");
    }
    assert_eq!(bench.server.switch().log.len(), 0);
}

#[test]
fn apply_looks_macs_up_and_takes_them_from_the_switch_the_next_time() {
    let bench = replication();
    bench.file(
        "c.yaml",
        &CONFERENCE.replace("ip: 10.0.1.6, mac: '02:00:00:00:00:06'", "ip: 10.0.1.6"),
    );
    let error = bench.fails("apply c.yaml --dry-run");
    assert_has(&error, "10.0.1.6");
    assert_has(&error, "a dry run sends no ARP request");
    bench
        .server
        .switch()
        .hosts
        .insert(Ipv4Addr::new(10, 0, 1, 6), Mac([2, 0, 0, 0, 0, 6]));
    let lines = bench.ok("apply c.yaml");
    assert_has(&lines, "+ own address 10.0.1.100");
    assert_has(&lines, "+ group 4: viewer 10.0.1.6:5004 02:00:00:00:00:06");
    bench.server.switch().hosts.clear();
    assert_eq!(bench.ok("apply c.yaml"), "no change\n");
    assert_eq!(bench.ok("apply c.yaml --dry-run"), "no change\n");
}

#[test]
fn a_file_with_a_mistake_is_refused_with_file_line_and_key() {
    let bench = replication();
    bench.file(
        "c.yaml",
        &CONFERENCE.replace("    ip: 10.0.1.4", "    ipv4: 10.0.1.4"),
    );
    let error = bench.fails("apply c.yaml");
    assert_starts(&error, "c.yaml: ");
    assert_has(&error, "ipv4");
    assert_has(&error, "line 4");
    bench.file("c.yaml", &CONFERENCE.replace("10.0.1.6", "10.0.1.5"));
    let found = bench.fails("apply c.yaml");
    assert_eq!(
        found,
        "c.yaml: 10.0.1.5:5004 is a viewer of group 4 already"
    );
    let error = bench.fails("apply d.yaml");
    assert_starts(&error, "d.yaml: there is no such file");
    assert_eq!(bench.server.switch().log.len(), 0);
}

#[test]
fn the_largest_file_is_planned_whole() {
    for bench in [replication(), recirculation()] {
        let mut file =
            "sfu: {port: 1, ip: 10.250.0.1, mac: '02:00:00:00:01:64'}\ngroups:\n".to_owned();
        let ip = |net: usize, host: usize| format!("10.{net}.{}.{}", host >> 8 & 255, host & 255);
        for group in 1..=65_535 {
            file.push_str(&format!("  - group: {group}\n    ip: {}\n", ip(1, group)));
            if group <= 16 {
                file.push_str("    viewers:\n");
                for host in 0..4096 {
                    let host = (group - 1) * 4096 + host;
                    let (high, low) = (host >> 8, host & 255);
                    let ip = ip(2, host);
                    file.push_str(&format!(
                        "      - {{ip: {ip}, mac: '02:00:00:00:{high:02x}:{low:02x}'}}\n"
                    ));
                }
            }
        }
        bench.file("largest.yaml", &file);
        let planned = bench.ok("apply largest.yaml --dry-run");
        assert_eq!(planned.lines().count(), 1 + 65_535 + 65_536);
    }
}
