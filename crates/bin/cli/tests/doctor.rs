//! `reprise doctor` in network namespaces, with interfaces that are up, down or missing.

use std::process::{Command, Output};

use serde_json::Value;
use testkit::namespace::{ethtool, in_namespace, in_root_namespace, ip, veth_pair};

fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command.arg("doctor").args(arguments);
    command.output().expect("reprise starts")
}

/// Runs `reprise doctor`, which must succeed, and returns its JSON output.
fn report(arguments: &[&str]) -> Value {
    let output = doctor(&[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn finding<'a>(findings: &'a Value, what: &str) -> &'a Value {
    let mut findings = findings.as_array().expect("a list").iter();
    let finding = findings.find(|finding| finding["what"] == what);
    finding.expect("it was looked at")
}

#[test]
fn an_interface_that_can_be_a_port_is_told_from_one_that_cannot() {
    in_namespace(|| {
        veth_pair("v0", "v1");
        let all = report(&[]);
        let names: Vec<&str> = all["interfaces"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|interface| interface["interface"].as_str())
            .collect();
        assert_eq!(names, ["v1", "v0"]);
        let machine = &all["machine"];
        assert_eq!(finding(machine, "AF_PACKET")["level"], "ok");
        // A user namespace may not load XDP programs.
        assert_eq!(finding(machine, "AF_XDP")["level"], "advice");
        let one = report(&["v0"]);
        let findings = &one["interfaces"][0]["findings"];
        assert_eq!(finding(findings, "link")["level"], "ok");
        assert_eq!(
            finding(findings, "driver")["found"],
            "veth, software: senders may be on the same machine"
        );
        assert_eq!(finding(findings, "AF_PACKET")["found"], "works: PORT@v0");

        ip("addr add 10.0.0.1/24 dev v0");
        let one = report(&["v0"]);
        let packet = finding(&one["interfaces"][0]["findings"], "AF_PACKET");
        assert_eq!(packet["level"], "advice");
        let advice = packet["advice"].as_str().expect("advice");
        assert!(advice.contains("ip addr flush dev v0"), "{advice}");

        ip("link set v0 down");
        // `doctor` reports every interface that is down, but fails only if the command line names the interface.
        assert!(doctor(&[]).status.success());
        let output = doctor(&["v1", "v0"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        let expected =
            "reprise: interface \"v0\" cannot be a port: link: down: ip link set dev v0 up\n";
        assert_eq!(said, expected);
        let table = String::from_utf8_lossy(&output.stdout);
        assert!(table.contains("interface v1\n  ok        link "), "{table}");
        assert!(table.contains("  unusable  link "), "{table}");
        let output = doctor(&["v1", "v0", "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let one: Value = serde_json::from_slice(&output.stdout).expect("one document");
        let link = finding(&one["interfaces"][1]["findings"], "link");
        assert_eq!(link["level"], "unusable");
        assert_eq!(one["error"], expected["reprise: ".len()..].trim_end());

        let output = doctor(&["v9"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("interface \"v9\" does not exist"), "{said}");
    });
}

#[test]
fn xdp_is_native_on_a_veth_and_generic_on_the_loopback() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        ip("link set lo up");
        let all = report(&["v1", "lo"]);
        let xdp = |place: usize| finding(&all["interfaces"][place]["findings"], "AF_XDP").clone();
        assert_eq!(xdp(0)["found"], "native, copy: PORT@afxdp:v1");
        assert_eq!(xdp(1)["found"], "generic: the driver runs no XDP programs");
        assert_eq!(xdp(1)["level"], "advice");
        let kernel = |name: &str| {
            let one = report(&[name]);
            finding(&one["interfaces"][0]["findings"], "kernel engine").clone()
        };
        // The other end of the veth pair does not accept redirected frames yet.
        let alone = kernel("v1");
        let advice = alone["advice"].as_str().expect("advice");
        assert!(advice.contains("ethtool -K PEER gro on"), "{alone}");
        ethtool("-K v0 gro on");
        let runs = "runs: --engine kernel -i PORT@afxdp:v1";
        assert_eq!(kernel("v1")["found"], runs);
        assert_eq!(kernel("lo")["level"], "advice");
    });
}
