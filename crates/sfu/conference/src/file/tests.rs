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

fn question(last: u8, port: Option<u16>) -> Question {
    let ip = Ipv4Addr::new(10, 0, 1, last);
    Question { ip, port }
}

fn place(port: u16, last: u8) -> Place {
    let mac = Mac([2, 0, 0, 0, 0, last]);
    Place { port, mac }
}

fn error(text: &str) -> String {
    File::parse(text).unwrap_err().to_string()
}

#[test]
fn a_file_becomes_a_conference_with_macs_from_switch_and_lookup() {
    let file = File::parse(FILE).unwrap();
    let empty = Conference::new(Capabilities::of_model(true));
    let five = question(5, None);
    assert_eq!(file.unknown_macs(&empty), BTreeSet::from([five]));
    let without = file.conference(Capabilities::of_model(true), &empty, &BTreeMap::new());
    let message = "viewer 10.0.1.5 of group 4 has no `mac:`, and only a switch can look it up";
    assert_eq!(without.unwrap_err().to_string(), message);

    let looked_up = BTreeMap::from([(five, place(1, 5))]);
    let conference = file
        .conference(Capabilities::of_model(true), &empty, &looked_up)
        .unwrap();
    let group = conference.group(GroupId(4)).unwrap();
    assert_eq!(group.presenter.udp_port, Some(6000));
    assert_eq!(group.viewers[0].mac, Mac([2, 0, 0, 0, 0, 5]));
    assert_eq!(group.viewers[0].udp_port, Some(6000));
    assert_eq!(group.viewers[0].port, Some(1));
    let looked_up = group.viewers.iter().map(|viewer| viewer.looked_up);
    assert_eq!(looked_up.collect::<Vec<_>>(), [true, false]);
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
        (
            "10.0.1.4",
            "10.0.1.400",
            "expected an IPv4 address like 10.0.1.5, got \"10.0.1.400\"",
            4,
        ),
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
            "duplicate mapping key `viewers`",
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
fn what_was_expected_and_what_came_is_said_in_words_of_the_file() {
    let number = "expected a number from 0 to 65535, got";
    let list = "a list, keys with values, or a tag";
    for (from, to, what, line) in [
        (
            "udp_port: 6000",
            "udp_port:",
            format!("{number} nothing"),
            5,
        ),
        ("port: 1,", "port: ,", format!("{number} nothing"), 1),
        ("group: 4", "group: [4]", format!("{number} {list}"), 3),
        ("group: 4", "group: {a: 4}", format!("{number} {list}"), 3),
        (
            "group: 4",
            "group: 010",
            format!("{number} \"010\": a leading zero"),
            3,
        ),
        ("group: 4", "group: +4", format!("{number} \"+4\""), 3),
        (
            "ip: 10.0.1.4",
            "ip:",
            "expected an IPv4 address like 10.0.1.5, got nothing".to_owned(),
            4,
        ),
        (
            "mac: '02:00:00:00:00:06'",
            "mac: ",
            "expected an Ethernet address like 02:00:00:00:00:05, got nothing".to_owned(),
            8,
        ),
        (
            "{ip: 10.0.1.5}",
            "{ip: 10.0.1.5, looked_up: }",
            "expected true or false, got nothing".to_owned(),
            7,
        ),
        (
            "{port: 1, ip: 10.0.1.100, mac: 02:00:00:00:01:64}",
            "",
            "expected an own address (port, ip, mac), or a list of them, one a port, got nothing"
                .to_owned(),
            1,
        ),
        (
            "{ip: 10.0.1.5}",
            "10.0.1.5",
            "expected keys with values (`key: value`), got something else".to_owned(),
            7,
        ),
    ] {
        let message = error(&FILE.replacen(from, to, 1));
        assert!(message.starts_with(&what), "{to}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(
            message.contains(&format!("line {line},")),
            "{to}: {message}"
        );
    }
}

#[test]
fn a_file_of_another_form_is_reported() {
    let second = error(&format!("{FILE}---\n{FILE}"));
    let expected = "expected one document, got a second one after `---`";
    assert!(second.starts_with(expected), "{second}");
    let sfu = FILE.lines().next().unwrap();
    for (groups, came) in [("5", "integer `5`"), ("{group: 4}", "keys with values")] {
        let message = error(&format!("{sfu}\ngroups: {groups}\n"));
        let expected = format!("expected a list (a line beginning with `-` for each), got {came}");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("line 2,"), "{message}");
    }
    let expected = "expected more, at least `sfu:` with its keys, got the end of the file";
    assert!(error("").starts_with(expected), "{}", error(""));
}

#[test]
fn lists_with_nothing_in_them_are_empty() {
    let sfu = FILE.lines().next().unwrap();
    let without = File::parse(&format!("{sfu}\n")).unwrap();
    assert_eq!(File::parse(&format!("{sfu}\ngroups:\n")).unwrap(), without);
    let group = format!("{sfu}\ngroups:\n  - group: 4\n    ip: 10.0.1.4\n");
    let without = File::parse(&group).unwrap();
    let found = File::parse(&format!("{group}    viewers:\n")).unwrap();
    assert_eq!(found, without);
}

#[test]
fn rules_of_the_model_hold_for_files_too() {
    let file = File::parse(&FILE.replace("10.0.1.6", "10.0.1.100")).unwrap();
    let empty = Conference::new(Capabilities::of_model(true));
    let macs = BTreeMap::from([(question(5, None), place(1, 5))]);
    let error = file
        .conference(Capabilities::of_model(true), &empty, &macs)
        .unwrap_err();
    assert_eq!(error.to_string(), "10.0.1.100 is the SFU's own address");
}

const PORTS: &str = "\
sfu:
  - {port: 1, ip: 10.0.1.100, mac: 02:00:00:00:01:64}
  - {port: 2, ip: 10.0.2.100, mac: 02:00:00:00:02:64}
groups:
  - group: 4
    ip: 10.0.1.4
    viewers:
      - {ip: 10.0.1.5}
      - {ip: 10.0.2.6, port: 2, mac: '02:00:00:00:00:06', looked_up: true}
      - {ip: 10.0.2.7, port: 2}
";

#[test]
fn several_own_addresses_are_a_list_and_viewers_are_on_their_ports() {
    let file = File::parse(PORTS).unwrap();
    let empty = Conference::new(Capabilities::of_model(true));
    let (five, seven) = (question(5, None), {
        let ip = Ipv4Addr::new(10, 0, 2, 7);
        Question { ip, port: Some(2) }
    });
    assert_eq!(file.unknown_macs(&empty), BTreeSet::from([five, seven]));
    let found = BTreeMap::from([(five, place(2, 5)), (seven, place(2, 7))]);
    let read =
        |current: &Conference, found| file.conference(Capabilities::of_model(true), current, found);
    let conference = read(&empty, &found).unwrap();
    assert_eq!(conference.addresses().len(), 2);
    let viewers = &conference.group(GroupId(4)).unwrap().viewers;
    let ports: Vec<Option<u16>> = viewers.iter().map(|viewer| viewer.port).collect();
    assert_eq!(
        ports,
        [Some(2); 3],
        "where it answered, and where the file says"
    );
    assert!(viewers.iter().all(|viewer| viewer.looked_up));
    // The second time, the switch has the MACs of all viewers.
    assert!(file.unknown_macs(&conference).is_empty());
    assert_eq!(read(&conference, &BTreeMap::new()).unwrap(), conference);
}

#[test]
fn lists_of_own_addresses_that_cannot_be_are_refused() {
    let twice = PORTS.replace("port: 2, ip: 10.0.2.100", "port: 1, ip: 10.0.2.100");
    let error = File::parse(&twice).unwrap().addresses().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("port 1 has two own addresses"),
        "{error}"
    );

    let file = File::parse(PORTS).unwrap();
    let one_port = Capabilities::of_model(false);
    let empty = Conference::new(one_port.clone());
    let error = file
        .conference(one_port, &empty, &BTreeMap::new())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("this program serves one port"),
        "{error}"
    );

    for (text, what) in [
        ("sfu: []\n", "expected an own address at least"),
        (
            "sfu: 5\n",
            "an own address (port, ip, mac), or a list of them",
        ),
        (
            &PORTS.replace("{port: 2, ip", "{prt: 2, ip"),
            "unknown field `prt`",
        ),
    ] {
        let message = super::tests::error(text);
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn a_mac_left_out_is_the_viewers_own_or_was_looked_up_for_its_host() {
    let text = "\
sfu: {port: 1, ip: 10.0.1.100, mac: 02:00:00:00:01:64}
groups:
  - group: 1
    ip: 10.0.1.1
    viewers: [{ip: 10.0.1.5, mac: '02:00:00:00:00:51'}, {ip: 10.0.1.6, mac: '02:00:00:00:00:61'}]
  - group: 2
    ip: 10.0.1.2
    viewers: [{ip: 10.0.1.5, mac: '02:00:00:00:00:52', looked_up: true}]
";
    let capabilities = || Capabilities::of_model(true);
    let empty = Conference::new(capabilities());
    let file = File::parse(text).unwrap();
    let current = file.conference(capabilities(), &empty, &BTreeMap::new());
    let current = current.unwrap();
    // The file now gives no MACs. The hosts are the same; some are viewers of other groups, or of other ports.
    let text = "\
sfu: {port: 1, ip: 10.0.1.100, mac: 02:00:00:00:01:64}
groups:
  - {group: 1, ip: 10.0.1.1, viewers: [{ip: 10.0.1.5}]}
  - {group: 2, ip: 10.0.1.2, viewers: [{ip: 10.0.1.5}, {ip: 10.0.1.5, udp_port: 7000}]}
  - {group: 3, ip: 10.0.1.3, viewers: [{ip: 10.0.1.5}, {ip: 10.0.1.6}]}
";
    let file = File::parse(text).unwrap();
    let six = question(6, None);
    assert_eq!(file.unknown_macs(&current), BTreeSet::from([six]));
    let found = BTreeMap::from([(six, place(1, 0x66))]);
    let desired = file.conference(capabilities(), &current, &found).unwrap();
    let viewers = desired.groups().values().flat_map(|group| &group.viewers);
    let macs: Vec<(u8, bool)> = viewers.map(|v| (v.mac.0[5], v.looked_up)).collect();
    let looked_up = [(0x52, true), (0x52, true), (0x52, true), (0x66, true)];
    assert_eq!(macs[0], (0x51, false), "given by hand, and stays so");
    assert_eq!(macs[1..], looked_up);
}
