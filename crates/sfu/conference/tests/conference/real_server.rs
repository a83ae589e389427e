//! Tests the controller with the real P4Runtime server and data plane: after every change, the controller reads back
//! what it wrote. The programs are skeletons with the objects of the SFU programs and no packet processing; other tests
//! check what packets see.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use conference::address::Mac;
use conference::backend::SfuProgram;
use conference::model::{Conference, GroupId, OwnAddress, Presenter, Viewer};
use conference::plan;
use p4runtime_client::{Client, ClientError, SwitchAddress};
use p4runtime_proto::p4::config::v1::{P4Info, Preamble, Table};
use serde_json::{Value, json};
use testkit::p4runtime::{self, DEVICE_ID};
use testkit::sfu::{Random, programs};
use testkit::text::assert_has;

/// Returns a program's skeleton in BMv2 JSON. It has every table, register and counter of the P4Info.
fn skeleton(p4info: &P4Info) -> String {
    let bridge = include_str!("../../../../control/p4runtime-server/tests/fixture/bridge.json");
    let mut program: Value = serde_json::from_str(bridge).expect("JSON");
    let widths = [8, 9, 16, 32, 48];
    let fields: Vec<Value> = widths
        .iter()
        .map(|w| json!([format!("k{w}"), w, false]))
        .collect();
    program["header_types"][0]["fields"] = json!(fields);
    let name = |preamble: &Option<Preamble>| preamble.clone().expect("a preamble").name;
    let id = |preamble: &Option<Preamble>| preamble.clone().expect("a preamble").id;

    let actions = p4info.actions.iter().enumerate().map(|(idx, action)| {
        let data = action.params.iter().map(|p| json!({"name": p.name, "bitwidth": p.bitwidth}));
        json!({"name": name(&action.preamble), "id": idx, "primitives": [], "runtime_data": data.collect::<Vec<_>>()})
    });
    program["actions"] = json!(actions.collect::<Vec<_>>());
    let registers = p4info.registers.iter().enumerate().map(|(idx, register)| {
        let width = if register.size == 65_536 { 64 } else { 48 };
        json!({"name": name(&register.preamble), "id": idx, "size": register.size, "bitwidth": bitwidth(register).unwrap_or(width)})
    });
    program["register_arrays"] = json!(registers.collect::<Vec<_>>());
    let direct = p4info
        .direct_counters
        .iter()
        .enumerate()
        .map(|(idx, counter)| {
            let table = p4info
                .tables
                .iter()
                .find(|t| id(&t.preamble) == counter.direct_table_id);
            let table = name(&table.expect("its table").preamble);
            json!({"name": name(&counter.preamble), "id": idx, "is_direct": true, "binding": table})
        });
    let indirect = p4info.counters.iter().enumerate().map(|(idx, counter)| {
        let idx = p4info.direct_counters.len() + idx;
        json!({"name": name(&counter.preamble), "id": idx, "is_direct": false, "size": counter.size})
    });
    program["counter_arrays"] = json!(direct.chain(indirect).collect::<Vec<_>>());
    let tables = p4info
        .tables
        .iter()
        .enumerate()
        .map(|(idx, table)| table_json(p4info, idx, table));
    program["pipelines"][0]["tables"] = json!(tables.collect::<Vec<_>>());
    program["pipelines"][0]["conditionals"] = json!([]);
    program["pipelines"][0]["init_table"] = json!(name(&p4info.tables[0].preamble));
    program.to_string()
}

fn bitwidth(register: &p4runtime_proto::p4::config::v1::Register) -> Option<i32> {
    use p4runtime_proto::p4::config::v1::{p4_bitstring_like_type_spec, p4_data_type_spec};
    let Some(p4_data_type_spec::TypeSpec::Bitstring(spec)) =
        register.type_spec.as_ref()?.type_spec.as_ref()
    else {
        return None;
    };
    match spec.type_spec.as_ref()? {
        p4_bitstring_like_type_spec::TypeSpec::Bit(bit) => Some(bit.bitwidth),
        _ => None,
    }
}

fn table_json(p4info: &P4Info, idx: usize, table: &Table) -> Value {
    let name = |preamble: &Option<Preamble>| preamble.clone().expect("a preamble").name;
    let id = |preamble: &Option<Preamble>| preamble.clone().expect("a preamble").id;
    let keys = table.match_fields.iter().map(|field| {
        json!({"match_type": "exact", "name": field.name, "target": ["scalars", format!("k{}", field.bitwidth)], "mask": null})
    });
    let action_ids: Vec<usize> = table
        .action_refs
        .iter()
        .filter_map(|r| p4info.actions.iter().position(|a| id(&a.preamble) == r.id))
        .collect();
    let actions: Vec<String> = action_ids
        .iter()
        .map(|idx| name(&p4info.actions[*idx].preamble))
        .collect();
    let next = p4info.tables.get(idx + 1).map(|next| name(&next.preamble));
    let nexts: serde_json::Map<String, Value> = actions
        .iter()
        .map(|action| (action.clone(), json!(next)))
        .collect();
    let mut value = json!({
        "name": name(&table.preamble), "id": idx, "key": keys.collect::<Vec<_>>(),
        "match_type": "exact", "type": "simple", "max_size": table.size,
        "with_counters": !table.direct_resource_ids.is_empty(), "support_timeout": false,
        "direct_meters": null, "action_ids": action_ids, "actions": actions,
        "base_default_next": next, "next_tables": nexts,
    });
    if table.is_const_table {
        let entries = [(0, "0x00"), (1, "0x0f")].map(|(action, key)| {
            json!({"match_key": [{"match_type": "exact", "key": key}],
                   "action_entry": {"action_id": action_ids[action], "action_data": []}, "priority": action + 1})
        });
        value["entries"] = json!(entries);
    }
    value
}

/// Starts the real server in this process. The server ends with the test's runtime.
async fn serve() -> String {
    let (_, server) = p4runtime::server(4);
    p4runtime::serve(server).await
}

fn mutate(conference: &mut Conference, random: &mut Random) {
    let id = GroupId(1 + random.below(6) as u16);
    let last = 1 + random.below(30) as u8;
    let ip = Ipv4Addr::new(10, 0, 1, last);
    let mac = Mac([2, 0, 0, 0, random.below(2) as u8, last]);
    match random.below(10) {
        0..2 => drop(conference.add_group(
            id,
            Presenter {
                ip,
                mac: Some(mac),
                udp_port: None,
            },
        )),
        2..7 => drop(conference.add_viewer(
            id,
            Viewer {
                ip,
                mac,
                udp_port: None,
                looked_up: false,
                port: None,
            },
        )),
        7..9 => drop(conference.remove_viewer(id, ip, None)),
        _ => drop(conference.delete_group(id)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_read_back_by_another_connection() {
    for p4info in [
        programs::recirculation(131_072, 65_536),
        programs::replication(131_072),
    ] {
        let address = serve().await;
        let mut first = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
            .await
            .unwrap();
        assert!(matches!(first.p4info().await, Err(ClientError::NoPipeline)));
        first.become_primary().await.unwrap();
        first
            .set_pipeline(p4info.clone(), skeleton(&p4info).into_bytes())
            .await
            .unwrap();
        assert_eq!(first.p4info().await.unwrap(), p4info);
        let program = SfuProgram::detect(&p4info).unwrap();
        let mut desired = Conference::new(program.capabilities());
        let mac = Mac([2, 0, 0, 0, 1, 0]);
        desired
            .set_address(OwnAddress {
                port: 1,
                ip: Ipv4Addr::new(10, 0, 1, 100),
                mac,
            })
            .unwrap();
        let mut random = Random(7);
        for election_id in 2..40 {
            (0..random.below(20)).for_each(|_| mutate(&mut desired, &mut random));
            let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
                .await
                .unwrap();
            client.become_primary().await.unwrap();
            assert_eq!(client.election_id(), Some(election_id));
            let before = program.read(&mut client).await.unwrap();
            let plan = program.plan(&before, &desired).unwrap();
            plan::run(plan, &mut client, |_| {}).await.unwrap();
            let after = program.read(&mut client).await.unwrap();
            assert_eq!(after.conference, desired);
            assert!(program.plan(&after, &desired).unwrap().is_empty());
            program.totals(&mut client, &after).await.unwrap();
        }
        let lost = first
            .set_pipeline(p4info.clone(), skeleton(&p4info).into_bytes())
            .await;
        assert!(
            matches!(lost, Err(ClientError::NotPrimary { .. })),
            "{lost:?}"
        );
        let reading = conference::reading::read(&mut first, &p4info, &program)
            .await
            .unwrap();
        let verdicts: Vec<&str> = reading
            .verdicts
            .iter()
            .map(|v| v.verdict.as_str())
            .collect();
        assert_eq!(verdicts, ["serve", "drop_unknown_sender"]);
        assert_eq!(reading.switch.ports.len(), 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_group_fits_and_the_wrong_device_is_reported() {
    for p4info in [
        programs::recirculation(131_072, 65_536),
        programs::replication(131_072),
    ] {
        let address = serve().await;
        let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
            .await
            .unwrap();
        client.become_primary().await.unwrap();
        client
            .set_pipeline(p4info.clone(), skeleton(&p4info).into_bytes())
            .await
            .unwrap();
        let program = SfuProgram::detect(&p4info).unwrap();
        let mut desired = Conference::new(program.capabilities());
        let mac = Mac([2, 0, 0, 0, 1, 0]);
        desired
            .set_address(OwnAddress {
                port: 1,
                ip: Ipv4Addr::new(10, 0, 1, 100),
                mac,
            })
            .unwrap();
        let presenter = Presenter {
            ip: Ipv4Addr::new(10, 0, 1, 4),
            mac: None,
            udp_port: None,
        };
        desired.add_group(GroupId(4), presenter).unwrap();
        for host in 0..4096u32 {
            let ip = Ipv4Addr::from(0x0a01_0000 + host);
            desired
                .add_viewer(
                    GroupId(4),
                    Viewer {
                        ip,
                        mac,
                        udp_port: None,
                        looked_up: false,
                        port: None,
                    },
                )
                .unwrap();
        }
        let plan = program
            .plan(&program.read(&mut client).await.unwrap(), &desired)
            .unwrap();
        plan::run(plan, &mut client, |_| {}).await.unwrap();
        assert_eq!(program.read(&mut client).await.unwrap().conference, desired);

        let mut other = Client::connect(&SwitchAddress::plain(&address), 77)
            .await
            .unwrap();
        for error in [other.p4info().await.map(drop), other.become_primary().await] {
            let error = error.unwrap_err();
            assert!(
                matches!(error, ClientError::WrongDevice { device_id: 77, .. }),
                "{error}"
            );
        }
    }
}

/// Starts a switch and writes a conference that has one group without viewers.
async fn with_one_group(p4info: &P4Info) -> (String, SfuProgram) {
    let address = serve().await;
    let program = SfuProgram::detect(p4info).expect("allowed here");
    let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
        .await
        .expect("allowed here");
    client.become_primary().await.expect("allowed here");
    let json = skeleton(p4info).into_bytes();
    client
        .set_pipeline(p4info.clone(), json)
        .await
        .expect("allowed here");
    let mut desired = Conference::new(program.capabilities());
    let own = OwnAddress {
        port: 1,
        ip: Ipv4Addr::new(10, 0, 1, 100),
        mac: Mac([2, 0, 0, 0, 1, 0]),
    };
    desired.set_address(own).expect("allowed here");
    let presenter = Presenter {
        ip: Ipv4Addr::new(10, 0, 1, 4),
        mac: None,
        udp_port: None,
    };
    desired
        .add_group(GroupId(4), presenter)
        .expect("allowed here");
    let plan = program
        .plan(&program.empty(), &desired)
        .expect("allowed here");
    plan::run(plan, &mut client, |_| {})
        .await
        .expect("allowed here");
    (address, program)
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_controllers_at_once_become_primary_in_turn_and_none_loses_what_another_wrote() {
    for p4info in [
        programs::recirculation(512, 256),
        programs::replication(512),
    ] {
        let (address, program) = with_one_group(&p4info).await;
        let add = |host: u8, address: String, program: SfuProgram| async move {
            let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
                .await
                .unwrap();
            let wait = Duration::from_secs(120);
            client.await_primary(wait, |_| {}).await.unwrap();
            let snapshot = program.settle(&mut client).await.unwrap();
            assert!(snapshot.left_over.is_empty(), "{:?}", snapshot.left_over);
            let mut desired = snapshot.conference.clone();
            let viewer = Viewer {
                ip: Ipv4Addr::new(10, 0, 2, host),
                mac: Mac([2, 0, 0, 0, 2, host]),
                udp_port: None,
                looked_up: false,
                port: None,
            };
            desired.add_viewer(GroupId(4), viewer).unwrap();
            let plan = program.plan(&snapshot, &desired).unwrap();
            plan::run(plan, &mut client, |_| {}).await.unwrap();
        };
        let tasks: Vec<_> = (1..=50)
            .map(|host| tokio::spawn(add(host, address.clone(), program.clone())))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
            .await
            .unwrap();
        let conference = program.read(&mut client).await.unwrap().conference;
        let group = &conference.groups()[&GroupId(4)];
        let ips: BTreeSet<Ipv4Addr> = group.viewers.iter().map(|v| v.ip).collect();
        assert_eq!((group.viewers.len(), ips.len()), (50, 50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_every_stream_is_taken_the_message_says_so_and_a_free_one_is_waited_for() {
    let p4info = programs::replication(64);
    let (address, _) = with_one_group(&p4info).await;
    let mut streams = Vec::new();
    let refused = loop {
        let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
            .await
            .unwrap();
        match client.become_primary().await {
            Ok(()) => streams.push(client),
            Err(error) => break error,
        }
        assert!(streams.len() <= 1000, "the switch has a bound");
    };
    let message = refused.to_string();
    assert_has(&message, "serves no further controller");
    assert_has(&message, "end some");
    let mut waiting = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
        .await
        .unwrap();
    let error = waiting
        .await_primary(Duration::ZERO, |_| {})
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClientError::TooManyControllers { .. }),
        "{error}"
    );
    let waiting = tokio::spawn(async move {
        let wait = Duration::from_secs(120);
        waiting
            .await_primary(wait, |_| {})
            .await
            .map(|()| waiting.election_id())
    });
    streams.clear();
    let election_id = waiting.await.unwrap().unwrap();
    assert!(election_id.is_some_and(|id| id > 1));
}
