use super::*;

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, last)
}

fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

fn presenter(last: u8) -> Presenter {
    Presenter {
        ip: ip(last),
        mac: None,
        udp_port: None,
    }
}

fn viewer(last: u8) -> Viewer {
    Viewer {
        ip: ip(last),
        mac: mac(last),
        udp_port: None,
        looked_up: false,
        port: None,
    }
}

fn small(udp_ports: bool) -> Conference {
    Conference::new(Capabilities {
        udp_ports,
        several_ports: udp_ports,
        group_ids: 1..=9,
        groups_max: 3,
        group_viewers_max: 4,
        viewers_max: 6,
    })
}

/// Makes a conference with group 4, the presenter with number 4, and viewers with numbers 5, 6 and 7.
fn conference(udp_ports: bool) -> Conference {
    let mut conference = small(udp_ports);
    conference
        .set_address(OwnAddress {
            port: 1,
            ip: ip(100),
            mac: mac(100),
        })
        .unwrap();
    conference.add_group(GroupId(4), presenter(4)).unwrap();
    for last in 5..8 {
        conference.add_viewer(GroupId(4), viewer(last)).unwrap();
    }
    conference
}

fn order(conference: &Conference, group: u16) -> Vec<u8> {
    let group = conference.group(GroupId(group)).unwrap();
    group
        .viewers
        .iter()
        .map(|viewer| viewer.ip.octets()[3])
        .collect()
}

/// Checks that the operation is refused with this message and changes nothing.
fn refused<T: std::fmt::Debug>(
    conference: &mut Conference,
    message: &str,
    operation: impl FnOnce(&mut Conference) -> Result<T, ModelError>,
) {
    let before = conference.clone();
    let error = operation(conference).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(*conference, before, "{message}");
}

#[test]
fn removing_a_viewer_leaves_no_hole_and_keeps_the_order() {
    let mut conference = conference(false);
    conference.remove_viewer(GroupId(4), ip(5), None).unwrap();
    assert_eq!(order(&conference, 4), [6, 7]);
    conference.add_viewer(GroupId(4), viewer(5)).unwrap();
    assert_eq!(order(&conference, 4), [6, 7, 5]);
    conference.remove_viewer(GroupId(4), ip(7), None).unwrap();
    assert_eq!(order(&conference, 4), [6, 5]);
    assert_eq!(conference.n_viewers(), 2);
}

#[test]
fn a_deleted_group_frees_its_number_presenter_and_room() {
    let mut conference = conference(false);
    conference.delete_group(GroupId(4)).unwrap();
    assert_eq!(conference.n_viewers(), 0);
    conference.add_group(GroupId(4), presenter(4)).unwrap();
    assert_eq!(order(&conference, 4), [0; 0]);
}

#[test]
fn unknown_and_double_things_are_refused() {
    let c = &mut conference(false);
    refused(c, "there is no group 5", |c| {
        c.add_viewer(GroupId(5), viewer(8))
    });
    refused(c, "there is no group 5", |c| c.delete_group(GroupId(5)));
    refused(c, "there is no group 5", |c| {
        c.remove_viewer(GroupId(5), ip(5), None)
    });
    refused(c, "group 4 has no viewer 10.0.1.8", |c| {
        c.remove_viewer(GroupId(4), ip(8), None)
    });
    refused(
        c,
        "group 4 exists already, its presenter is 10.0.1.4",
        |c| c.add_group(GroupId(4), presenter(9)),
    );
    refused(c, "10.0.1.4 is the presenter of group 4 already", |c| {
        c.add_group(GroupId(5), presenter(4))
    });
    refused(c, "10.0.1.5 is a viewer of group 4 already", |c| {
        c.add_viewer(GroupId(4), viewer(5))
    });
}

#[test]
fn a_full_group_a_full_pool_and_too_many_groups_are_refused() {
    let c = &mut conference(false);
    c.add_viewer(GroupId(4), viewer(8)).unwrap();
    refused(c, "group 4 is full: a group has 4 viewers at most", |c| {
        c.add_viewer(GroupId(4), viewer(9))
    });
    c.add_group(GroupId(5), presenter(5)).unwrap();
    c.add_viewer(GroupId(5), viewer(8)).unwrap();
    c.add_viewer(GroupId(5), viewer(9)).unwrap();
    let full = "the viewer pool is full: 6 viewers in all groups together at most";
    refused(c, full, |c| c.add_viewer(GroupId(5), viewer(10)));
    c.add_group(GroupId(6), presenter(6)).unwrap();
    refused(c, "no more groups: the program has room for 3", |c| {
        c.add_group(GroupId(7), presenter(7))
    });
}

#[test]
fn numbers_and_addresses_that_cannot_be_are_refused() {
    let c = &mut conference(true);
    refused(
        c,
        "group number 0 is out of range, expected 1 to 9 in this program",
        |c| c.add_group(GroupId(0), presenter(9)),
    );
    refused(
        c,
        "group number 10 is out of range, expected 1 to 9 in this program",
        |c| c.add_group(GroupId(10), presenter(9)),
    );
    let with = |ip: Ipv4Addr| Viewer { ip, ..viewer(9) };
    refused(
        c,
        "239.1.1.1 is a multicast address, expected the address of a host",
        |c| c.add_viewer(GroupId(4), with(Ipv4Addr::new(239, 1, 1, 1))),
    );
    refused(
        c,
        "0.0.0.0 is the unspecified address, expected the address of a host",
        |c| c.add_viewer(GroupId(4), with(Ipv4Addr::UNSPECIFIED)),
    );
    refused(c, "10.0.1.100 is the SFU's own address", |c| {
        c.add_viewer(GroupId(4), with(ip(100)))
    });
    refused(c, "10.0.1.100 is the SFU's own address", |c| {
        c.add_group(GroupId(5), presenter(100))
    });
}

#[test]
fn macs_ports_and_own_addresses_that_cannot_be_are_refused() {
    let c = &mut conference(true);
    let zero = Viewer {
        mac: Mac([0; 6]),
        ..viewer(9)
    };
    refused(
        c,
        "00:00:00:00:00:00 is all zero, expected the Ethernet address of a host",
        |c| c.add_viewer(GroupId(4), zero),
    );
    let broadcast = Presenter {
        mac: Some(Mac([0xff; 6])),
        ..presenter(9)
    };
    refused(
        c,
        "ff:ff:ff:ff:ff:ff is a multicast address, expected the Ethernet address of a host",
        |c| c.add_group(GroupId(5), broadcast),
    );
    let port_zero = Viewer {
        udp_port: Some(0),
        ..viewer(9)
    };
    refused(
        c,
        "UDP port 0 of 10.0.1.9 is no port, expected 1 to 65535",
        |c| c.add_viewer(GroupId(4), port_zero),
    );
    let own = |port, last| OwnAddress {
        port,
        ip: ip(last),
        mac: mac(100),
    };
    refused(c, "port 0 is out of range, expected 1 to 509", |c| {
        c.set_address(own(0, 100))
    });
    refused(c, "port 510 is out of range, expected 1 to 509", |c| {
        c.set_address(own(510, 100))
    });
    refused(
        c,
        "10.0.1.5 cannot be the SFU's own address: it is in group 4",
        |c| c.set_address(own(1, 5)),
    );
    refused(
        c,
        "10.0.1.4 cannot be the SFU's own address: it is in group 4",
        |c| c.set_address(own(1, 4)),
    );
}

#[test]
fn udp_ports_are_refused_where_the_program_has_no_place_for_them() {
    let c = &mut conference(false);
    let message = "this program does not distinguish UDP ports (copies keep the presenter's): leave UDP port 6000 of 10.0.1.9 out, or load the replication program";
    refused(c, message, |c| {
        c.add_viewer(
            GroupId(4),
            Viewer {
                udp_port: Some(6000),
                ..viewer(9)
            },
        )
    });
    refused(c, message, |c| {
        c.add_group(
            GroupId(5),
            Presenter {
                udp_port: Some(6000),
                ..presenter(9)
            },
        )
    });
    refused(c, message, |c| {
        c.remove_viewer(GroupId(4), ip(9), Some(6000))
    });
    assert_eq!(c.group(GroupId(4)).unwrap().presenter.udp_port, None);
}

#[test]
fn udp_ports_left_out_are_rtps_and_the_streams_own() {
    let mut c = small(true);
    c.add_group(GroupId(1), presenter(4)).unwrap();
    c.add_group(
        GroupId(2),
        Presenter {
            udp_port: Some(6000),
            ..presenter(4)
        },
    )
    .unwrap();
    c.add_viewer(GroupId(1), viewer(5)).unwrap();
    c.add_viewer(GroupId(2), viewer(5)).unwrap();
    let ports = |id| {
        let group = c.group(GroupId(id)).unwrap();
        (group.presenter.udp_port, group.viewers[0].udp_port)
    };
    assert_eq!(ports(1), (Some(5004), Some(5004)));
    assert_eq!(ports(2), (Some(6000), Some(6000)));
    let double = Presenter {
        udp_port: Some(6000),
        ..presenter(4)
    };
    refused(
        &mut c,
        "the stream from 10.0.1.4 to UDP port 6000 is group 2 already",
        |c| c.add_group(GroupId(3), double),
    );
}

#[test]
fn one_host_may_view_on_several_ports_and_must_then_be_named_with_one() {
    let mut c = conference(true);
    c.add_viewer(
        GroupId(4),
        Viewer {
            udp_port: Some(7000),
            ..viewer(5)
        },
    )
    .unwrap();
    let ambiguous = "group 4 has 10.0.1.5 as a viewer on several UDP ports (5004, 7000): say which";
    refused(&mut c, ambiguous, |c| {
        c.remove_viewer(GroupId(4), ip(5), None)
    });
    refused(&mut c, "group 4 has no viewer 10.0.1.5:1", |c| {
        c.remove_viewer(GroupId(4), ip(5), Some(1))
    });
    c.remove_viewer(GroupId(4), ip(5), Some(5004)).unwrap();
    assert_eq!(order(&c, 4), [6, 7, 5]);
    c.remove_viewer(GroupId(4), ip(5), None).unwrap();
    assert_eq!(order(&c, 4), [6, 7]);
}
