//! `reprise show`: shows the traffic through the SFU.

use std::time::Duration;

use conference::backend::Snapshot;
use conference::model::{Group, GroupId, OwnAddress};
use conference::reading::{self, Rate, Reading};
use p4runtime_client::objects::Count;
use serde_json::{Value, json};

use crate::args::Global;
use crate::commands::watch::{interface, link, link_cell, name};
use crate::failure::Failure;
use crate::output::{self, bytes, grouped};
use crate::session::Session;

/// Time between the two readings from which a rate is computed.
const INTERVAL: Duration = Duration::from_secs(1);

pub async fn run(global: &Global, watch: bool) -> Result<(), Failure> {
    let (_, mut before) = read(global).await?;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = match read(global).await {
            // Read once more: the program may have been replaced during the reading.
            Err(_) => read(global).await,
            now => now,
        };
        let (session, now) = now?;
        if global.json {
            output::json(&as_json(&session, &before, &now));
        } else {
            if watch {
                output::clear();
            }
            print(&session, &before, &now);
        }
        if !watch {
            return Ok(());
        }
        before = now;
    }
}

/// Reads all counters over a new connection, because the program may have changed since the last reading.
async fn read(global: &Global) -> Result<(Session, Reading), Failure> {
    let mut session = Session::open(global).await?;
    let reading = reading::read(&mut session.client, &session.p4info, &session.program).await?;
    Ok((session, reading))
}

fn print(session: &Session, before: &Reading, now: &Reading) {
    let conference = &now.snapshot.conference;
    let program = session.program.name();
    if conference.addresses().is_empty() {
        output::text(format!(
            "{program} program, no own address yet (`reprise address set`)"
        ));
    }
    for OwnAddress { port, ip, mac } in conference.addresses().values() {
        output::text(format!(
            "{program} program, own address {ip} {mac} on port {port}"
        ));
    }
    output::text("");
    if conference.groups().is_empty() {
        output::text("no groups (`reprise group add`)");
    } else {
        let titles = [
            "group and host",
            "mac",
            "packets",
            "bytes",
            "packets/s",
            "Mbit/s",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for (id, group) in conference.groups() {
            rows.extend(group_rows(*id, group, before, now));
        }
        output::table(&rows, 2);
    }
    print_notes(now);
    print_verdicts(before, now);
    print_ports(before, now);
    print_drops(now);
}

/// Prints state outside the conference: what an unfinished change left, and what another controller wrote.
fn print_notes(now: &Reading) {
    let Snapshot {
        left_over, foreign, ..
    } = &now.snapshot;
    if !left_over.is_empty() {
        output::text("");
        output::text("a change is unfinished; the next change completes or removes:");
        left_over
            .iter()
            .for_each(|text| output::text(format!("  {text}")));
    }
    if !foreign.is_empty() {
        output::text("");
        output::text("the switch also holds state that this controller did not write:");
        foreign
            .iter()
            .for_each(|text| output::text(format!("  {text}")));
    }
}

fn group_rows(id: GroupId, group: &Group, before: &Reading, now: &Reading) -> Vec<Vec<String>> {
    let Some(totals) = now.totals.get(&id) else {
        return Vec::new();
    };
    let several_ports = now.snapshot.conference.addresses().len() > 1;
    let presenter = &group.presenter;
    let mac = presenter
        .mac
        .map_or_else(|| "any".to_owned(), |mac| mac.to_string());
    let from = host(presenter.ip, presenter.udp_port);
    let mut first = vec![format!("{id} from {from}"), mac];
    first.extend(count_cells(totals.received, now.presenter_rate(before, id)));
    let mut rows = vec![first];
    for (idx, (viewer, count)) in group.viewers.iter().zip(&totals.viewers).enumerate() {
        let port = viewer.port.filter(|_| several_ports);
        let port = port.map_or_else(String::new, |port| format!(" on {port}"));
        let name = format!("  to {}{port}", host(viewer.ip, viewer.udp_port));
        let mut row = vec![name, viewer.mac.to_string()];
        row.extend(count_cells(*count, now.viewer_rate(before, id, idx)));
        rows.push(row);
    }
    rows
}

fn host(ip: std::net::Ipv4Addr, udp_port: Option<u16>) -> String {
    udp_port.map_or_else(|| ip.to_string(), |udp_port| format!("{ip}:{udp_port}"))
}

fn count_cells(count: Count, rate: Option<Rate>) -> Vec<String> {
    let (packets, megabits) = rate.map_or_else(
        || ("-".to_owned(), "-".to_owned()),
        |r| {
            (
                format!("{:.1}", r.packets_per_s),
                format!("{:.2}", r.bits_per_s / 1e6),
            )
        },
    );
    vec![
        grouped(count.packets),
        bytes(count.bytes),
        packets,
        megabits,
    ]
}

fn print_verdicts(before: &Reading, now: &Reading) {
    let mut rows = vec![
        ["verdict", "packets", "bytes", "packets/s"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for verdict in now.verdicts.iter().filter(|v| v.count.packets > 0) {
        let earlier = before
            .verdicts
            .iter()
            .find(|v| v.verdict == verdict.verdict);
        let packets = earlier.map_or(0, |e| e.count.packets);
        let rate = per_second(packets, verdict.count.packets, now.seconds_since(before));
        rows.push(vec![
            verdict.verdict.clone(),
            grouped(verdict.count.packets),
            bytes(verdict.count.bytes),
            rate,
        ]);
    }
    output::text("");
    if rows.len() > 1 {
        output::table(&rows, 1);
    } else {
        output::text("no packet has arrived yet");
    }
}

fn per_second(before: u64, now: u64, seconds: f64) -> String {
    match now.checked_sub(before) {
        Some(n) if seconds > 0.0 => format!("{:.1}", n as f64 / seconds),
        _ => "-".to_owned(),
    }
}

fn print_ports(before: &Reading, now: &Reading) {
    let titles = [
        "port",
        "name",
        "link",
        "rx",
        "rx/s",
        "tx",
        "tx/s",
        "rx dropped",
        "tx dropped",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let seconds = now.seconds_since(before);
    for port in &now.switch.ports {
        let earlier = before.switch.ports.iter().find(|p| p.port == port.port);
        let (rx, tx) = earlier.map_or((0, 0), |p| (p.rx_packets, p.tx_packets));
        rows.push(vec![
            port.port.to_string(),
            name(port),
            link_cell(port),
            grouped(port.rx_packets),
            per_second(rx, port.rx_packets, seconds),
            grouped(port.tx_packets),
            per_second(tx, port.tx_packets, seconds),
            grouped(port.rx_dropped),
            grouped(port.tx_dropped),
        ]);
    }
    output::text("");
    output::table(&rows, 3);
}

fn print_drops(now: &Reading) {
    let dropped = || now.switch.drops.iter().filter(|drop| drop.packets > 0);
    output::text("");
    if dropped().next().is_none() {
        output::text("no packet dropped by the switch");
        return;
    }
    let mut rows = vec![vec![
        "dropped by the switch".to_owned(),
        "packets".to_owned(),
    ]];
    rows.extend(dropped().map(|drop| vec![drop.reason.clone(), grouped(drop.packets)]));
    output::table(&rows, 1);
}

fn as_json(session: &Session, before: &Reading, now: &Reading) -> Value {
    let groups = now.snapshot.conference.groups().iter();
    let groups: Vec<Value> = groups
        .map(|(id, group)| group_json(*id, group, before, now))
        .collect();
    let ports = now.switch.ports.iter().map(|port| {
        json!({
            "port": port.port, "name": port.name, "link": link(port),
            "link_down_events": port.link_down_events, "link_up_events": port.link_up_events,
            "lost_events": port.lost_events, "unserved_queues": port.unserved_queues,
            "interface": interface(port),
            "rx_packets": port.rx_packets, "rx_bytes": port.rx_bytes,
            "tx_packets": port.tx_packets, "tx_bytes": port.tx_bytes,
            "rx_dropped": port.rx_dropped, "tx_dropped": port.tx_dropped,
        })
    });
    let drops = now.switch.drops.iter();
    let drops: Vec<Value> = drops
        .map(|d| json!({ "reason": d.reason, "packets": d.packets }))
        .collect();
    json!({
        "program": session.program.name(),
        "timestamp_ns": now.switch.timestamp_ns,
        "interval_s": now.seconds_since(before),
        "addresses": now.snapshot.conference.addresses().values().collect::<Vec<_>>(),
        "groups": groups,
        "left_over": now.snapshot.left_over,
        "foreign": now.snapshot.foreign,
        "verdicts": now.verdicts,
        "ports": ports.collect::<Vec<_>>(),
        "drops": drops,
    })
}

fn group_json(id: GroupId, group: &Group, before: &Reading, now: &Reading) -> Value {
    let totals = now.totals.get(&id).cloned().unwrap_or_default();
    let viewers =
        group
            .viewers
            .iter()
            .zip(&totals.viewers)
            .enumerate()
            .map(|(idx, (viewer, count))| {
                json!({
                    "ip": viewer.ip, "mac": viewer.mac, "looked_up": viewer.looked_up,
                    "udp_port": viewer.udp_port, "port": viewer.port,
                    "packets": count.packets, "bytes": count.bytes,
                    "rate": now.viewer_rate(before, id, idx),
                })
            });
    json!({
        "group": id,
        "ip": group.presenter.ip, "mac": group.presenter.mac, "udp_port": group.presenter.udp_port,
        "packets": totals.received.packets, "bytes": totals.received.bytes,
        "rate": now.presenter_rate(before, id),
        "viewers": viewers.collect::<Vec<_>>(),
    })
}
