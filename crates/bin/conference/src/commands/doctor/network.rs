//! Checks this machine's network towards the service: route and MTU, the reverse path filter, connection tracking, and
//! the rules of this machine's firewall as far as this user may read them.

use std::fs;
use std::net::IpAddr;
use std::process::Command;

use command_line::findings::Finding;
use serde_json::Value;

/// An MTU that every program's usual packets fit: ffmpeg sends RTP in 1,472 bytes, GStreamer in 1,400.
const MTU_USUAL_BYTES: u64 = 1_500;
/// How full the table of connection tracking may be, in percent. A fuller table will soon drop new connections.
const CONNECTIONS_PERCENT_MAX: u64 = 90;

/// Checks the network towards these addresses. `has_answered` says whether an answer over UDP came back, or is `None`
/// if nothing was sent. If an answer came back, a filter or firewall that could drop packets is no reason for advice.
pub(super) fn look(to: &[IpAddr], has_answered: Option<bool>, findings: &mut Vec<Finding>) {
    let mut devices: Vec<String> = Vec::new();
    for address in to {
        let route = route_to(*address);
        findings.push(mtu(*address, &route));
        if let Ok(route) = route
            && !devices.contains(&route.device)
        {
            devices.push(route.device);
        }
    }
    let has_answered = has_answered == Some(true);
    let setting = |name: &str| number(&format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
    findings.extend(
        devices
            .iter()
            .filter_map(|device| reverse_path(device, setting, has_answered)),
    );
    let table = |name: &str| number(&format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
    findings.push(connections(table("count"), table("max")));
    findings.push(firewall(&rules(), has_answered));
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[derive(Debug, PartialEq, Eq)]
struct Route {
    device: String,
    /// The MTU of the path, if the kernel has learned it; else the device's MTU, if it is known.
    mtu_bytes: Option<u64>,
}

/// Finds the route that packets to this address take now. If that fails, returns why.
fn route_to(address: IpAddr) -> Result<Route, String> {
    let asked = run("ip", &["-json", "route", "get", &address.to_string()])?;
    let mut route = read_route(&asked).ok_or("`ip route get` says nothing that is understood")?;
    if route.mtu_bytes.is_none() {
        route.mtu_bytes = number(&format!("/sys/class/net/{}/mtu", route.device));
    }
    Ok(route)
}

fn read_route(json: &str) -> Option<Route> {
    let routes: Value = serde_json::from_str(json).ok()?;
    let route = routes.get(0)?;
    Some(Route {
        device: route["dev"].as_str()?.to_owned(),
        mtu_bytes: route["metrics"][0]["mtu"].as_u64(),
    })
}

/// Runs a program. Returns what it has printed or, if it fails, the last line of its error message.
fn run(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(words)
        // On Debian, the PATH of a user who is not root lacks the folders /usr/sbin and /sbin, which have such
        // programs.
        .env("PATH", path_with_sbin())
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.trim().lines().last().unwrap_or("it says nothing");
    Err(format!("{program}: {line}"))
}

fn path_with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}

fn mtu(to: IpAddr, route: &Result<Route, String>) -> Finding {
    let what = "MTU";
    let route = match route {
        Ok(route) => route,
        Err(error) => {
            let advice = "keep packets below the smallest MTU on the way";
            return Finding::advice(what, format!("unknown towards {to}: {error}"), advice);
        }
    };
    let device = &route.device;
    match route.mtu_bytes {
        Some(bytes) if bytes >= MTU_USUAL_BYTES => {
            Finding::ok(what, format!("{bytes} towards {to}, by {device}"))
        }
        Some(bytes) => {
            let packet = bytes.saturating_sub(28);
            Finding::advice(
                what,
                format!("{bytes} towards {to}, by {device}"),
                format!(
                    "longer packets are lost: have programs send at most {packet} bytes (ffmpeg: rtp://HOST:PORT?pkt_size={packet})"
                ),
            )
        }
        None => Finding::ok(what, format!("unknown towards {to}, by {device}")),
    }
}

/// Checks the reverse path filter. If it is strict, it drops a packet that comes in by another interface than the one
/// by which an answer would leave.
fn reverse_path(
    device: &str,
    setting: impl Fn(&str) -> Option<u64>,
    has_answered: bool,
) -> Option<Finding> {
    const STRICT: u64 = 1;
    let what = "rp_filter";
    // The kernel uses the larger of the two values (ip-sysctl, "rp_filter").
    let value = setting("all")?.max(setting(device)?);
    let found = match value {
        0 => format!("off on {device}"),
        STRICT => format!("strict on {device}"),
        _ => format!("loose on {device}"),
    };
    if value != STRICT || has_answered {
        return Some(Finding::ok(what, found));
    }
    Some(Finding::advice(
        what,
        found,
        format!(
            "with several interfaces, packets that come in by another one are dropped: sysctl -w net.ipv4.conf.{device}.rp_filter=2"
        ),
    ))
}

fn connections(count: Option<u64>, max: Option<u64>) -> Finding {
    let what = "conntrack";
    let (Some(count), Some(max)) = (count, max) else {
        return Finding::ok(what, "not in use, or not to be read here");
    };
    let found = format!("{count} of {max} connections");
    if count.saturating_mul(100) < max.saturating_mul(CONNECTIONS_PERCENT_MAX) {
        return Finding::ok(what, found);
    }
    let twice = max.saturating_mul(2);
    let advice = format!(
        "packets of new connections are dropped when it is full: sysctl -w net.netfilter.nf_conntrack_max={twice}"
    );
    Finding::advice(what, found, advice)
}

/// Lists the parts of the firewall that may drop packets, one a line. If the rules cannot be read, returns why.
fn rules() -> Result<Vec<String>, String> {
    match run("nft", &["-json", "list", "ruleset"]) {
        Ok(json) => {
            dropping_of_nft(&json).ok_or_else(|| "nft prints nothing that is understood".to_owned())
        }
        // A machine without nft may have the older program, iptables.
        Err(of_nft) => match run("iptables-save", &[]) {
            Ok(text) => Ok(dropping_of_iptables(&text)),
            Err(_) => Err(of_nft),
        },
    }
}

/// The hooks that a host's own packets pass.
const HOOKS: [&str; 4] = ["prerouting", "input", "output", "postrouting"];

/// Describes each base chain that may drop packets: whether it drops what no rule accepts, and how many of its rules
/// drop or refuse packets.
fn dropping_of_nft(json: &str) -> Option<Vec<String>> {
    let ruleset: Value = serde_json::from_str(json).ok()?;
    let objects = ruleset["nftables"].as_array()?;
    let chains = objects.iter().map(|object| &object["chain"]);
    let chains = chains.filter(|chain| {
        let hook = chain["hook"].as_str();
        hook.is_some_and(|hook| HOOKS.contains(&hook))
    });
    let lines = chains.filter_map(|chain| {
        let is_of_it = |rule: &&Value| {
            ["family", "table"]
                .iter()
                .all(|key| rule[key] == chain[key])
                && rule["chain"] == chain["name"]
        };
        let rules = objects.iter().map(|object| &object["rule"]);
        let n_drops = rules.filter(is_of_it).filter(|rule| drops(rule)).count();
        let name = ["family", "table", "name"].map(|key| chain[key].as_str().unwrap_or("?"));
        line_of(&name.join(" "), chain["policy"] == "drop", n_drops)
    });
    Some(lines.collect())
}

fn drops(rule: &Value) -> bool {
    let verdicts = rule["expr"].as_array();
    verdicts.is_some_and(|all| {
        all.iter()
            .any(|it| it.get("drop").is_some() || it.get("reject").is_some())
    })
}

/// Does the same as `dropping_of_nft`, for the output of `iptables-save`.
fn dropping_of_iptables(text: &str) -> Vec<String> {
    let lines = ["INPUT", "OUTPUT"].into_iter().filter_map(|chain| {
        let policy = format!(":{chain} DROP");
        let rule = format!("-A {chain} ");
        let has_policy = text.lines().any(|line| line.starts_with(&policy));
        let rules = text.lines().filter(|line| line.starts_with(&rule));
        let n_drops = rules
            .filter(|line| line.contains("-j DROP") || line.contains("-j REJECT"))
            .count();
        line_of(&format!("iptables {chain}"), has_policy, n_drops)
    });
    lines.collect()
}

fn line_of(chain: &str, has_policy: bool, n_drops: usize) -> Option<String> {
    let policy = has_policy.then(|| "drops what no rule accepts".to_owned());
    let rules = match n_drops {
        0 => None,
        1 => Some("has 1 rule that drops or refuses".to_owned()),
        n => Some(format!("has {n} rules that drop or refuse")),
    };
    let both: Vec<String> = policy.into_iter().chain(rules).collect();
    (!both.is_empty()).then(|| format!("{chain} {}", both.join(" and ")))
}

fn firewall(rules: &Result<Vec<String>, String>, has_answered: bool) -> Finding {
    let what = "firewall";
    match rules {
        Ok(lines) if lines.is_empty() => Finding::ok(what, "no rule of this machine drops"),
        Ok(lines) if has_answered => {
            Finding::ok(what, format!("lets UDP pass; {}", lines.join("; ")))
        }
        Ok(lines) => Finding::advice(
            what,
            lines.join("; "),
            "let UDP to and from the service's media address pass: `nft list ruleset` shows the rules",
        ),
        Err(error) if has_answered => Finding::ok(
            what,
            format!("lets UDP pass; its rules are unknown ({error})"),
        ),
        Err(error) => Finding::advice(
            what,
            format!("unknown: {error}"),
            "root can read the rules: run this with sudo",
        ),
    }
}

#[cfg(test)]
mod tests {
    use command_line::findings::Level;

    use super::*;

    #[test]
    fn a_route_has_its_device_and_what_is_known_of_its_path() {
        let learned = r#"[{"dst":"10.0.0.9","gateway":"10.1.0.1","dev":"eth0","prefsrc":"10.1.0.2","flags":[],"uid":0,"cache":[],"metrics":[{"mtu":1400}]}]"#;
        let route = read_route(learned).expect("a route");
        assert_eq!(
            (route.device.as_str(), route.mtu_bytes),
            ("eth0", Some(1_400))
        );
        let plain = r#"[{"dst":"10.0.0.9","dev":"lo","prefsrc":"10.1.0.2","flags":[],"cache":[]}]"#;
        assert_eq!(read_route(plain).expect("a route").mtu_bytes, None);
        assert_eq!(read_route("[]"), None);
        let to = IpAddr::from([10, 0, 0, 9]);
        let narrow = mtu(to, &Ok(route));
        let advice = narrow.advice.expect("advice");
        assert!(advice.contains("pkt_size=1372"), "{advice}");
    }

    #[test]
    fn the_stricter_of_two_filters_counts_and_only_where_nothing_came_back() {
        let found = |all, own, has_answered| {
            let setting = move |name: &str| Some(if name == "all" { all } else { own });
            reverse_path("eth0", setting, has_answered).expect("a finding")
        };
        assert_eq!(found(1, 0, false).level, Level::Advice);
        assert_eq!(found(1, 0, true).level, Level::Ok);
        assert_eq!(found(1, 2, false).found, "loose on eth0");
        assert_eq!(found(0, 0, false).found, "off on eth0");
        assert_eq!(reverse_path("eth0", |_| None, false), None);
    }

    #[test]
    fn a_full_table_of_connections_is_advised_against() {
        assert_eq!(connections(None, None).level, Level::Ok);
        assert_eq!(connections(Some(89), Some(100)).level, Level::Ok);
        let full = connections(Some(90), Some(100));
        assert!(
            full.advice
                .expect("advice")
                .ends_with("nf_conntrack_max=200")
        );
    }

    /// Rules as `nft -json list ruleset` of nftables 1.0.6 prints them.
    const RULESET: &str = r#"{"nftables":[{"metainfo":{"version":"1.0.6","json_schema_version":1}},
        {"table":{"family":"inet","name":"filter","handle":1}},
        {"chain":{"family":"inet","table":"filter","name":"input","handle":1,"type":"filter","hook":"input","prio":0,"policy":"drop"}},
        {"chain":{"family":"inet","table":"filter","name":"output","handle":2,"type":"filter","hook":"output","prio":0,"policy":"accept"}},
        {"chain":{"family":"inet","table":"filter","name":"forward","handle":3,"type":"filter","hook":"forward","prio":0,"policy":"drop"}},
        {"chain":{"family":"inet","table":"filter","name":"other","handle":4}},
        {"rule":{"family":"inet","table":"filter","chain":"output","handle":5,"expr":[{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":5004}},{"drop":null}]}},
        {"rule":{"family":"inet","table":"filter","chain":"input","handle":6,"expr":[{"accept":null}]}},
        {"rule":{"family":"ip","table":"filter","chain":"input","handle":7,"expr":[{"drop":null}]}},
        {"rule":{"family":"inet","table":"filter","chain":"other","handle":8,"expr":[{"drop":null}]}}]}"#;

    #[test]
    fn chains_that_drop_a_hosts_packets_are_found() {
        assert_eq!(
            dropping_of_nft(RULESET).expect("rules"),
            [
                "inet filter input drops what no rule accepts",
                "inet filter output has 1 rule that drops or refuses",
            ]
        );
        assert_eq!(dropping_of_nft("{}"), None);
        let saved = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n-A INPUT -i lo -j ACCEPT\n-A OUTPUT -p udp -j REJECT --reject-with icmp-port-unreachable\n-A OUTPUT -d 10.0.0.1/32 -j DROP\nCOMMIT\n";
        assert_eq!(
            dropping_of_iptables(saved),
            [
                "iptables INPUT drops what no rule accepts",
                "iptables OUTPUT has 2 rules that drop or refuse",
            ]
        );
    }

    #[test]
    fn rules_matter_where_nothing_came_back() {
        let lines = || {
            Ok(vec![
                "inet filter input drops what no rule accepts".to_owned(),
            ])
        };
        assert_eq!(firewall(&lines(), false).level, Level::Advice);
        assert_eq!(firewall(&lines(), true).level, Level::Ok);
        assert_eq!(firewall(&Ok(Vec::new()), false).level, Level::Ok);
        let unknown = firewall(&Err("nft: not permitted".to_owned()), false);
        assert!(unknown.advice.expect("advice").contains("sudo"));
    }
}
