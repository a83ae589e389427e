use super::*;
use crate::address::Mac;
use crate::model::Capabilities;
use std::net::Ipv4Addr;

fn conference(viewers: &[(u8, u8)]) -> Conference {
    let mut conference = Conference::new(Capabilities::of_model(false));
    let mac = |last| Mac([2, 0, 0, 0, 0, last]);
    let ip = |last| Ipv4Addr::new(10, 0, 1, last);
    conference
        .set_address(OwnAddress {
            port: 1,
            ip: ip(100),
            mac: mac(100),
        })
        .unwrap();
    conference
        .add_group(
            GroupId(4),
            Presenter {
                ip: ip(4),
                mac: None,
                udp_port: None,
            },
        )
        .unwrap();
    for (last, mac_last) in viewers {
        let viewer = Viewer {
            ip: ip(*last),
            mac: mac(*mac_last),
            udp_port: None,
            looked_up: false,
            port: None,
        };
        conference.add_viewer(GroupId(4), viewer).unwrap();
    }
    conference
}

fn lines(before: &Conference, after: &Conference) -> Vec<String> {
    difference(before, after)
        .iter()
        .map(Line::to_string)
        .collect()
}

#[test]
fn equal_conferences_have_no_difference() {
    let c = conference(&[(5, 5), (6, 6)]);
    assert_eq!(lines(&c, &c.clone()), [""; 0]);
}

#[test]
fn added_at_the_end_and_removed_anywhere_is_no_new_order() {
    let before = conference(&[(5, 5), (6, 6), (7, 7)]);
    let after = conference(&[(5, 5), (7, 7), (8, 8)]);
    let expected = [
        "- group 4: viewer 10.0.1.6 02:00:00:00:00:06",
        "+ group 4: viewer 10.0.1.8 02:00:00:00:00:08",
    ];
    assert_eq!(lines(&before, &after), expected);
}

#[test]
fn a_new_mac_and_a_new_order_are_changes() {
    let before = conference(&[(5, 5), (6, 6)]);
    let after = conference(&[(6, 9), (5, 5)]);
    let expected = [
        "~ group 4: viewer 10.0.1.6 02:00:00:00:00:09, mac was 02:00:00:00:00:06",
        "~ group 4: order of viewers: 10.0.1.6, 10.0.1.5",
    ];
    assert_eq!(lines(&before, &after), expected);
}

#[test]
fn whole_groups_and_the_address_come_and_go() {
    let empty = Conference::new(Capabilities::of_model(false));
    let full = conference(&[(5, 5)]);
    let expected = [
        "+ own address 10.0.1.100 02:00:00:00:00:64 on port 1",
        "+ group 4: presenter 10.0.1.4 with any mac",
        "+ group 4: viewer 10.0.1.5 02:00:00:00:00:05",
    ];
    assert_eq!(lines(&empty, &full), expected);
    let expected = [
        "- own address 10.0.1.100 02:00:00:00:00:64 on port 1",
        "- group 4: presenter 10.0.1.4 with any mac with 1 viewers",
    ];
    assert_eq!(lines(&full, &empty), expected);
}
