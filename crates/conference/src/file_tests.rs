use super::*;

const FILE: &str = "\
sfu: {port: 1, ip: 10.0.1.100, mac: 02:00:00:00:01:64}
groups:
  - group: 4
    ip: 10.0.1.4
    udp_port: 6000
    viewers:
      - {ip: 10.0.1.5}
      - {ip: 10.0.1.6, mac: '02:00:00:00:00:06', udp_port: 7000}
";

fn error(text: &str) -> String {
    File::parse(text).unwrap_err().to_string()
}

#[test]
fn a_file_becomes_a_conference_with_macs_from_switch_and_lookup() {
    let file = File::parse(FILE).unwrap();
    let empty = Conference::new(Capabilities::of_model(true));
    let five = Ipv4Addr::new(10, 0, 1, 5);
    assert_eq!(file.unknown_macs(&empty), BTreeSet::from([five]));
    let without = file.conference(Capabilities::of_model(true), &empty, &BTreeMap::new());
    let message =
        "viewer 10.0.1.5 of group 4 has no `mac:`, and without a switch it cannot be looked up";
    assert_eq!(without.unwrap_err().to_string(), message);

    let looked_up = BTreeMap::from([(five, Mac([2, 0, 0, 0, 0, 5]))]);
    let conference = file
        .conference(Capabilities::of_model(true), &empty, &looked_up)
        .unwrap();
    let group = conference.group(GroupId(4)).unwrap();
    assert_eq!(group.presenter.udp_port, Some(6000));
    assert_eq!(group.viewers[0].mac, Mac([2, 0, 0, 0, 0, 5]));
    assert_eq!(group.viewers[0].udp_port, Some(6000));
    assert_eq!(group.viewers[1].udp_port, Some(7000));

    assert!(
        file.unknown_macs(&conference).is_empty(),
        "the switch knows it now"
    );
    let again = file
        .conference(Capabilities::of_model(true), &conference, &BTreeMap::new())
        .unwrap();
    assert_eq!(again, conference);
}

#[test]
fn unknown_keys_are_errors_with_key_and_line() {
    let text = FILE.replace("    udp_port: 6000", "    udp-port: 6000");
    let message = error(&text);
    assert!(message.contains("unknown field `udp-port`"), "{message}");
    assert!(message.contains("line 5"), "{message}");
    let message = error(&FILE.replace("{ip: 10.0.1.5}", "{ip: 10.0.1.5, name: x}"));
    assert!(
        message.contains("unknown field `name`") && message.contains("line 7"),
        "{message}"
    );
}

#[test]
fn wrong_values_and_missing_or_double_keys_are_errors_with_their_line() {
    for (from, to, what, line) in [
        ("10.0.1.4", "10.0.1.400", "invalid IPv4 address syntax", 4),
        (
            "group: 4",
            "group: 70000",
            "expected a number from 0 to 65535, got \"70000\"",
            3,
        ),
        (
            "02:00:00:00:00:06",
            "2:6",
            "expected an Ethernet address",
            8,
        ),
        (
            "ip: 10.0.1.4",
            "viewers: []",
            "duplicate mapping key: viewers",
            6,
        ),
        ("sfu:", "sfus:", "unknown field `sfus`", 1),
    ] {
        let message = error(&FILE.replacen(from, to, 1));
        assert!(message.contains(what), "{to}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.contains(&format!("line {line}")), "{to}: {message}");
    }
    assert!(error("groups: []").contains("missing field `sfu`"));
}

#[test]
fn rules_of_the_model_hold_for_files_too() {
    let file = File::parse(&FILE.replace("10.0.1.6", "10.0.1.100")).unwrap();
    let empty = Conference::new(Capabilities::of_model(true));
    let macs = BTreeMap::from([(Ipv4Addr::new(10, 0, 1, 5), Mac([2, 0, 0, 0, 0, 5]))]);
    let error = file
        .conference(Capabilities::of_model(true), &empty, &macs)
        .unwrap_err();
    assert_eq!(error.to_string(), "10.0.1.100 is the SFU's own address");
}
