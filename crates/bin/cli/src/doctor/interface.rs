//! Checks one interface: whether it can be a port, which kind of port, and what would make it
//! faster.

use packet_io::probe::{InterfaceReport, Permissions};

use super::Finding;

/// Largest MTU whose frames fit one AF_XDP buffer: a page minus the headroom, the Ethernet header and two VLAN tags.
const XDP_MTU_MAX: usize =
    packet_io::limits::XDP_LARGE_CHUNK_BYTES - packet_io::limits::XDP_CHUNK_HEADROOM_BYTES - 22;

pub(super) fn findings(report: &InterfaceReport, permissions: &Permissions) -> Vec<Finding> {
    let mut findings = vec![link(report), driver(report)];
    if !report.is_ethernet {
        return findings;
    }
    findings.push(packet_port(report, permissions));
    findings.push(xdp_port(report, permissions));
    findings.push(kernel_engine(report, permissions));
    findings.push(queues(report));
    findings.extend(report.ring_slots.map(|slots| rings(report, slots)));
    findings.push(mtu(report));
    findings.push(offloads(report));
    if report.is_in_use {
        findings.push(Finding::ok("in use", "by a reprise-switch"));
    }
    findings
}

fn link(report: &InterfaceReport) -> Finding {
    let name = &report.name;
    match (report.is_ethernet, report.is_up) {
        (false, _) => Finding::unusable(
            "link",
            "carries no Ethernet frames",
            "choose an Ethernet interface",
        ),
        (_, false) => Finding::unusable("link", "down", format!("ip link set dev {name} up")),
        _ => Finding::ok("link", "up, Ethernet"),
    }
}

fn driver(report: &InterfaceReport) -> Finding {
    let driver = report.driver.as_deref().unwrap_or("unknown");
    let kind = if report.is_virtual {
        "software: senders may be on the same machine"
    } else {
        "a device"
    };
    Finding::ok("driver", format!("{driver}, {kind}"))
}

fn packet_port(report: &InterfaceReport, permissions: &Permissions) -> Finding {
    let name = &report.name;
    if let Err(error) = &permissions.packet_socket {
        return Finding::unusable(
            "AF_PACKET",
            error.to_string(),
            "CAP_NET_RAW is needed: root, or a network namespace of your own (\"unshare -Urn\")",
        );
    }
    if report.has_address {
        return Finding::advice(
            "AF_PACKET",
            "works, and the interface has an IP address",
            format!(
                "the host would answer in addition to the switch: ip addr flush dev {name}, or share it by destinations (PORT@afxdp:{name},ADDRESS)"
            ),
        );
    }
    Finding::ok("AF_PACKET", format!("works: PORT@{name}"))
}

fn xdp_port(report: &InterfaceReport, permissions: &Permissions) -> Finding {
    let name = &report.name;
    if let Err(error) = permissions
        .xdp_socket
        .as_ref()
        .and(permissions.xdp_program.as_ref())
    {
        return Finding::advice(
            "AF_XDP",
            error.to_string(),
            "run as root outside any user namespace to have it; AF_PACKET works without it",
        );
    }
    let Some(features) = report.xdp else {
        return Finding::ok(
            "AF_XDP",
            format!("works, this kernel does not say how (before 6.3): PORT@afxdp:{name}"),
        );
    };
    if !features.is_native {
        return Finding::advice(
            "AF_XDP",
            "generic: the driver runs no XDP programs",
            format!(
                "hardly faster than AF_PACKET; senders' super-frames are lost: ethtool -K {name} gro off lro off, and on a peer tso off gso off"
            ),
        );
    }
    if features.has_zero_copy {
        return Finding::ok("AF_XDP", format!("native, zero copy: PORT@afxdp:{name}"));
    }
    Finding::ok("AF_XDP", format!("native, copy: PORT@afxdp:{name}"))
}

fn kernel_engine(report: &InterfaceReport, permissions: &Permissions) -> Finding {
    let what = "kernel engine";
    let InterfaceReport { name, driver, .. } = report;
    // The crate `dataplane-xdp`, which has the kernel engine, checks the same condition.
    if !cfg!(target_arch = "x86_64") {
        let found = "cannot run here: it is for x86-64";
        return Finding::advice(what, found, "the native engine forwards in its place");
    }
    if permissions.xdp_program.is_err() {
        let advice =
            "run as root outside any user namespace to have it; the native engine works without it";
        return Finding::advice(what, "no permission for XDP programs", advice);
    }
    let runs = format!("--engine kernel -i PORT@afxdp:{name}");
    let Some(features) = report.xdp else {
        let found = format!("this kernel does not say whether it can (before 6.3): {runs}");
        return Finding::ok(what, found);
    };
    if !features.is_native {
        let found = "cannot run here: the driver runs no XDP programs (generic mode)";
        return Finding::advice(what, found, "the native engine forwards in its place");
    }
    if report.mtu_bytes > XDP_MTU_MAX {
        let found = "cannot run here: frames take several buffers";
        return Finding::advice(what, found, format!("ip link set dev {name} mtu 3000"));
    }
    if !features.takes_redirected {
        let found = "cannot run here: what the program sends would be lost";
        let advice = match driver.as_deref() {
            Some("veth") => {
                "at the other end: ethtool -K PEER gro on, or an XDP program".to_owned()
            }
            _ => format!("the driver of {name} does not send what is redirected to it"),
        };
        return Finding::advice(what, found, advice);
    }
    Finding::ok(what, format!("runs: {runs}"))
}

fn queues(report: &InterfaceReport) -> Finding {
    let n_queues = report.n_rx_queues;
    if n_queues == 1 {
        return Finding::ok("queues", "1");
    }
    let name = &report.name;
    Finding::advice(
        "queues",
        n_queues.to_string(),
        format!(
            "an AF_XDP port has a socket for each queue; one queue is cheaper: ethtool -L {name} combined 1"
        ),
    )
}

fn rings(report: &InterfaceReport, [rx, rx_max, tx, tx_max]: [u32; 4]) -> Finding {
    let found = format!("{rx} of {rx_max} to receive, {tx} of {tx_max} to send");
    if rx >= rx_max && tx >= tx_max {
        return Finding::ok("rings", found);
    }
    let name = &report.name;
    let advice = format!("for bursts: ethtool -G {name} rx {rx_max} tx {tx_max}");
    Finding::advice("rings", found, advice)
}

fn mtu(report: &InterfaceReport) -> Finding {
    let found = report.mtu_bytes.to_string();
    if report.mtu_bytes <= XDP_MTU_MAX {
        return Finding::ok("MTU", found);
    }
    let advice = match report.xdp {
        Some(features) if !features.has_fragments => "too large for AF_XDP with this driver",
        _ => "frames above a page take several buffers of AF_XDP, and twice the time",
    };
    Finding::advice("MTU", found, advice)
}

fn offloads(report: &InterfaceReport) -> Finding {
    let on = |name: &str| {
        let mut offloads = report.offloads.iter();
        offloads.any(|offload| offload.name == name && offload.is_on)
    };
    let names: Vec<&str> = report
        .offloads
        .iter()
        .filter(|offload| offload.is_on)
        .map(|offload| offload.name)
        .collect();
    let found = if names.is_empty() {
        "none on".to_owned()
    } else {
        format!("on: {}", names.join(" "))
    };
    let name = &report.name;
    // XDP does not see VLAN tags that a card strips from the frame; packet sockets see them.
    if !report.is_virtual && on("rxvlan") {
        let advice = format!("for tagged frames through AF_XDP: ethtool -K {name} rxvlan off");
        return Finding::advice("offloads", found, advice);
    }
    if on("lro") {
        let advice = format!(
            "LRO joins frames, and the switch must cut them apart again: ethtool -K {name} lro off"
        );
        return Finding::advice("offloads", found, advice);
    }
    Finding::ok("offloads", found)
}

#[cfg(test)]
mod tests {
    use std::io;

    use packet_io::probe::{Offload, XdpFeatures};

    use super::*;
    use command_line::findings::Level;

    fn allowed() -> Permissions {
        Permissions {
            packet_socket: Ok(()),
            xdp_socket: Ok(()),
            xdp_program: Ok(()),
        }
    }

    fn card() -> InterfaceReport {
        InterfaceReport {
            name: "eth1".to_owned(),
            is_up: true,
            is_ethernet: true,
            mtu_bytes: 1500,
            driver: Some("ice".to_owned()),
            is_virtual: false,
            n_rx_queues: 1,
            ring_slots: Some([512, 512, 512, 512]),
            xdp: Some(XdpFeatures {
                is_native: true,
                has_zero_copy: true,
                has_fragments: true,
                takes_redirected: true,
            }),
            offloads: Vec::new(),
            has_address: false,
            is_in_use: false,
        }
    }

    fn of(report: &InterfaceReport, permissions: &Permissions, what: &str) -> Finding {
        let findings = findings(report, permissions);
        let finding = findings.into_iter().find(|finding| finding.what == what);
        finding.expect("it was looked at")
    }

    #[test]
    fn a_good_card_needs_no_advice() {
        let findings = findings(&card(), &allowed());
        assert!(
            findings.iter().all(|finding| finding.level == Level::Ok),
            "{findings:?}"
        );
        let xdp = of(&card(), &allowed(), "AF_XDP");
        assert_eq!(xdp.found, "native, zero copy: PORT@afxdp:eth1");
    }

    #[test]
    fn what_is_unusable_is_told_from_what_is_slow() {
        let down = InterfaceReport {
            is_up: false,
            ..card()
        };
        assert_eq!(of(&down, &allowed(), "link").level, Level::Unusable);
        let tunnel = InterfaceReport {
            is_ethernet: false,
            ..card()
        };
        assert_eq!(of(&tunnel, &allowed(), "link").level, Level::Unusable);
        let nothing = Permissions {
            packet_socket: Err(io::ErrorKind::PermissionDenied.into()),
            xdp_socket: Err(io::ErrorKind::PermissionDenied.into()),
            xdp_program: Err(io::ErrorKind::PermissionDenied.into()),
        };
        assert_eq!(of(&card(), &nothing, "AF_PACKET").level, Level::Unusable);
        let packets_only = Permissions {
            packet_socket: Ok(()),
            ..nothing
        };
        assert_eq!(of(&card(), &packets_only, "AF_PACKET").level, Level::Ok);
        assert_eq!(of(&card(), &packets_only, "AF_XDP").level, Level::Advice);
    }

    #[test]
    fn the_kernel_engine_runs_where_the_driver_takes_what_is_redirected() {
        let found = |report: &InterfaceReport| of(report, &allowed(), "kernel engine");
        let runs = "runs: --engine kernel -i PORT@afxdp:eth1";
        assert_eq!(found(&card()).found, runs);
        let with = |change: fn(&mut XdpFeatures)| {
            let mut report = card();
            report.xdp.iter_mut().for_each(change);
            report.driver = Some("veth".to_owned());
            report
        };
        let generic = found(&with(|features| features.is_native = false));
        let alone = found(&with(|features| features.takes_redirected = false));
        let long = found(&InterfaceReport {
            mtu_bytes: 9000,
            ..card()
        });
        for (finding, words) in [
            (generic, "native engine forwards"),
            (alone, "ethtool -K PEER gro on"),
            (long, "ip link set dev eth1 mtu 3000"),
        ] {
            let advice = finding.advice.expect(words);
            assert!(
                finding.level == Level::Advice && advice.contains(words),
                "{advice}"
            );
        }
        let refused = Permissions {
            xdp_program: Err(io::ErrorKind::PermissionDenied.into()),
            ..allowed()
        };
        assert_eq!(of(&card(), &refused, "kernel engine").level, Level::Advice);
    }

    #[test]
    fn advice_names_the_command_for_this_interface() {
        let slow = InterfaceReport {
            mtu_bytes: 9000,
            n_rx_queues: 4,
            ring_slots: Some([512, 4096, 512, 4096]),
            xdp: Some(XdpFeatures {
                is_native: false,
                has_zero_copy: false,
                has_fragments: false,
                takes_redirected: false,
            }),
            offloads: vec![Offload {
                name: "rxvlan",
                is_on: true,
            }],
            has_address: true,
            ..card()
        };
        for (what, words) in [
            ("AF_PACKET", "ip addr flush dev eth1"),
            ("AF_XDP", "ethtool -K eth1 gro off"),
            ("queues", "ethtool -L eth1 combined 1"),
            ("rings", "ethtool -G eth1 rx 4096 tx 4096"),
            ("MTU", "too large for AF_XDP"),
            ("offloads", "ethtool -K eth1 rxvlan off"),
        ] {
            let finding = of(&slow, &allowed(), what);
            let advice = finding.advice.expect(what);
            assert!(
                finding.level == Level::Advice && advice.contains(words),
                "{advice}"
            );
        }
    }
}
