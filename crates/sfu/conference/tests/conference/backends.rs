//! Tests both backends with a strict switch in memory that has packets under way. A packet must see one version of its
//! presenter's group, whatever changes, in whatever order the switch executes a batch, and wherever the batch stops.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use conference::address::Mac;
use conference::backend::{PlanError, SfuProgram, Snapshot};
use conference::model::{Conference, GroupId, OwnAddress, Presenter, Viewer};
use conference::plan::{self, Target};
use p4runtime_client::limits::WRITE_BATCH_UPDATES;
use p4runtime_proto::p4::config::v1::P4Info;
use testkit::sfu::fake::{FakeSwitch, Fault};
use testkit::sfu::{Random, programs};
use testkit::text::assert_has;

fn ip(group: u16, host: u16) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + u32::from(group) * 65_536 + u32::from(host))
}

fn mac(host: u16) -> Mac {
    Mac::from_u64(0x0200_0000_0000 + u64::from(host))
}

fn viewer(host: u16) -> Viewer {
    Viewer {
        ip: ip(200, host),
        mac: mac(host),
        udp_port: None,
        looked_up: false,
        port: None,
    }
}

fn presenter(group: u16) -> Presenter {
    Presenter {
        ip: ip(group, 1),
        mac: None,
        udp_port: None,
    }
}

/// Adds a group with its presenter and viewers.
fn add(conference: &mut Conference, group: u16, hosts: impl IntoIterator<Item = u16>) {
    let id = GroupId(group);
    conference.add_group(id, presenter(group)).unwrap();
    for host in hosts {
        conference.add_viewer(id, viewer(host)).unwrap();
    }
}

const OWN: OwnAddress = OwnAddress {
    port: 1,
    ip: Ipv4Addr::new(10, 250, 0, 1),
    mac: Mac([2, 0, 0, 0, 1, 0]),
};

fn both() -> [P4Info; 2] {
    [
        programs::recirculation(256, 128),
        programs::replication(256),
    ]
}

struct Bench {
    switch: FakeSwitch,
    program: SfuProgram,
}

impl Bench {
    fn new(p4info: P4Info, seed: u64) -> Bench {
        let program = SfuProgram::detect(&p4info).expect("allowed here");
        let mut switch = FakeSwitch::new(Some(p4info));
        switch.traffic = Some(Random(seed));
        Bench { switch, program }
    }

    fn empty(&self) -> Conference {
        let mut conference = Conference::new(self.program.capabilities());
        conference.set_address(OWN).expect("allowed here");
        conference
    }

    async fn read(&mut self) -> Snapshot {
        self.program
            .read(&mut self.switch)
            .await
            .expect("allowed here")
    }

    /// Returns how many packets were sent to each viewer of group 1.
    async fn packets(&mut self) -> Vec<u64> {
        let snapshot = self.read().await;
        let totals = self.program.totals(&mut self.switch, &snapshot).await;
        let totals = totals.unwrap();
        let viewers = totals[&GroupId(1)].viewers.iter();
        viewers.map(|count| count.packets).collect()
    }

    /// Plans and executes a change. Checks that the switch is then as desired, and that a second run changes nothing.
    async fn bring(&mut self, desired: &Conference) {
        let before = self.program.settle(&mut self.switch).await;
        let before = before.expect("allowed here");
        let plan = self.program.plan(&before, desired).expect("allowed here");
        plan::run(plan, &mut self.switch, |_| {})
            .await
            .expect("allowed here");
        self.switch.drain();
        let after = self.read().await;
        assert_eq!(after.conference, *desired);
        let again = self.program.plan(&after, desired).expect("allowed here");
        assert!(again.is_empty(), "{again:?}");
        assert_eq!(self.switch.violations, [""; 0]);
        self.check_seen(&before.conference, desired);
    }

    /// Checks that every packet saw its presenter's group as before or as after the change. If the counters did not
    /// suffice for old and new viewers together, a packet may also have seen the group without the new viewers.
    fn check_seen(&mut self, before: &Conference, after: &Conference) {
        let viewers = |conference: &Conference, presenter: Ipv4Addr| -> Vec<(Ipv4Addr, Mac)> {
            let group = conference
                .groups()
                .values()
                .find(|g| g.presenter.ip == presenter);
            group
                .map(|g| g.viewers.iter().map(|v| (v.ip, v.mac)).collect())
                .unwrap_or_default()
        };
        for (presenter, seen) in self.switch.seen.drain(..) {
            let (old, new) = (viewers(before, presenter), viewers(after, presenter));
            let stay: BTreeSet<Ipv4Addr> = new.iter().map(|v| v.0).collect();
            let kept: Vec<_> = old
                .iter()
                .filter(|v| stay.contains(&v.0))
                .copied()
                .collect();
            assert!(
                seen == old || seen == new || seen == kept,
                "{presenter}: {seen:?} is neither {old:?} nor {new:?}"
            );
        }
    }
}

/// Applies a random operation, which the model may refuse.
fn mutate(conference: &mut Conference, random: &mut Random) {
    let id = GroupId(1 + random.below(8) as u16);
    let host = 1 + random.below(24) as u16;
    match random.below(12) {
        0..2 => drop(conference.add_group(id, presenter(1 + random.below(8) as u16))),
        2..8 => drop(conference.add_viewer(id, viewer(host))),
        8..10 => drop(conference.remove_viewer(id, ip(200, host), None)),
        10 => drop(conference.delete_group(id)),
        _ => {
            // Some viewers get another MAC; all keep their places in the group.
            let Some(group) = conference.groups().get(&id).cloned() else {
                return;
            };
            for old in &group.viewers {
                conference
                    .remove_viewer(id, old.ip, None)
                    .expect("allowed here");
            }
            for old in group.viewers {
                let changed = Viewer {
                    mac: mac(random.below(60_000) as u16),
                    udp_port: None,
                    ..old
                };
                let new = if random.below(3) == 0 {
                    changed
                } else {
                    Viewer {
                        udp_port: None,
                        ..old
                    }
                };
                conference.add_viewer(id, new).expect("allowed here");
            }
        }
    }
}

#[tokio::test]
async fn random_changes_one_at_a_time_keep_one_version_per_packet() {
    for (seed, p4info) in (1..).zip(both().into_iter().chain([programs::recirculation(64, 32)])) {
        let mut bench = Bench::new(p4info, seed);
        let mut random = Random(seed * 1000);
        let mut desired = bench.empty();
        for _ in 0..250 {
            mutate(&mut desired, &mut random);
            bench.bring(&desired).await;
        }
        println!("seed {seed}: {} updates", bench.switch.log.len());
        assert!(bench.switch.log.len() > 500, "the sequence did something");
    }
}

#[tokio::test]
async fn random_changes_many_at_a_time_keep_one_version_per_packet() {
    for (seed, p4info) in (11..).zip(both().into_iter().chain([programs::recirculation(64, 32)])) {
        let mut bench = Bench::new(p4info, seed);
        let mut random = Random(seed * 1000);
        let mut desired = bench.empty();
        for _ in 0..60 {
            for _ in 0..random.below(60) {
                mutate(&mut desired, &mut random);
            }
            bench.bring(&desired).await;
        }
        assert!(bench.switch.log.len() > 500, "the sequence did something");
    }
}

#[tokio::test]
async fn the_switch_may_be_full_and_every_viewer_be_replaced_at_once() {
    for p4info in [programs::recirculation(64, 32), programs::replication(64)] {
        let mut bench = Bench::new(p4info, 3);
        let mut first = bench.empty();
        let mut second = bench.empty();
        for group in 1..=4 {
            for (conference, offset) in [(&mut first, 0), (&mut second, 100)] {
                add(conference, group, offset + 1..=offset + 8);
            }
        }
        assert_eq!(first.n_viewers(), first.capabilities().viewers_max);
        bench.bring(&first).await;
        bench.bring(&second).await;
        bench.bring(&first).await;
    }
}

#[tokio::test]
async fn a_fragmented_pool_is_compacted_by_moving_groups() {
    let mut bench = Bench::new(programs::recirculation(64, 32), 5);
    let mut desired = bench.empty();
    for group in 1..=32 {
        add(&mut desired, group, [group]);
    }
    bench.bring(&desired).await;
    // The next change frees every second slot of the lower half. The free upper half is longer than the reserve.
    for group in (1..=32).step_by(2) {
        desired.delete_group(GroupId(group)).unwrap();
    }
    bench.bring(&desired).await;
    for group in (1..=15).step_by(2) {
        add(&mut desired, group, [group, group + 100]);
    }
    bench.bring(&desired).await;
    let mut blocks: Vec<(u64, u64)> = desired
        .groups()
        .keys()
        .map(|id| bench.switch.register("groups", id.0.into()))
        .map(|value| (value >> 32, value & 0xffff_ffff))
        .collect();
    blocks.sort_unstable();
    assert!(
        blocks
            .windows(2)
            .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0),
        "{blocks:?}"
    );
}

#[tokio::test]
async fn a_pool_that_somebody_else_scattered_is_compacted_too() {
    let p4info = programs::recirculation(64, 32);
    let mut bench = Bench::new(p4info, 6);
    let mut desired = bench.empty();
    for group in 1..=16 {
        add(&mut desired, group, [group]);
    }
    bench.bring(&desired).await;
    bench.switch.scatter(4);
    bench.read().await;
    add(&mut desired, 40, 1..=16);
    bench.bring(&desired).await;
    let stays =
        |group: &u32| bench.switch.register("groups", *group) >> 32 == u64::from(group - 1) * 4;
    assert!(
        (1..=16).filter(|group| !stays(group)).count() > 3,
        "room was made by moving groups"
    );
}

#[tokio::test]
async fn a_refused_write_of_new_viewers_leaves_every_group_as_it_was() {
    for p4info in both() {
        let mut bench = Bench::new(p4info, 8);
        let mut desired = bench.empty();
        add(&mut desired, 1, [1]);
        bench.bring(&desired).await;
        let old = desired.clone();
        desired.add_viewer(GroupId(1), viewer(2)).unwrap();
        let snapshot = bench.read().await;
        let plan = bench.program.plan(&snapshot, &desired).unwrap();
        bench.switch.fault = Some(Fault {
            calls_left: 1,
            answer_lost: false,
        });
        let error = plan::run(plan, &mut bench.switch, |_| {})
            .await
            .unwrap_err();
        let expected = "cannot write the new viewers: cut off (Internal); everything is as it was";
        assert_eq!(error.to_string(), expected);
        bench.switch.fault = None;
        assert_eq!(bench.read().await.conference, old);
    }
}

#[tokio::test]
async fn a_change_begins_with_a_drain_and_flips_with_one_update_a_group() {
    for p4info in both() {
        let mut bench = Bench::new(p4info, 9);
        let mut desired = bench.empty();
        add(&mut desired, 1, [1]);
        bench.bring(&desired).await;
        desired.add_viewer(GroupId(1), viewer(2)).unwrap();
        let snapshot = bench.read().await;
        let plan = bench.program.plan(&snapshot, &desired).unwrap();
        assert_eq!(plan.steps.first(), Some(&plan::Step::Drain));
        let flips: Vec<_> = plan
            .steps
            .iter()
            .filter_map(|step| match step {
                plan::Step::Write(plan::Stage::Flip, updates) => Some(updates.len()),
                _ => None,
            })
            .collect();
        assert_eq!(flips, [1]);
    }
}

#[tokio::test]
async fn totals_stay_with_a_viewer_and_begin_at_zero_for_a_new_one() {
    for p4info in both() {
        let mut bench = Bench::new(p4info, 10);
        let mut desired = bench.empty();
        add(&mut desired, 1, 1..=3);
        bench.bring(&desired).await;
        bench.switch.count_in_table("viewers", 7);
        bench.switch.count_everywhere(7);
        desired.remove_viewer(GroupId(1), ip(200, 2), None).unwrap();
        bench.bring(&desired).await;
        desired.add_viewer(GroupId(1), viewer(4)).unwrap();
        bench.bring(&desired).await;
        assert_eq!(bench.packets().await, [7, 7, 0], "{}", bench.program.name());

        // A viewer with a new MAC is still the same viewer.
        for host in [1, 3, 4] {
            desired
                .remove_viewer(GroupId(1), ip(200, host), None)
                .unwrap();
        }
        for host in [1, 3, 4] {
            desired
                .add_viewer(
                    GroupId(1),
                    Viewer {
                        mac: mac(host + 50),
                        ..viewer(host)
                    },
                )
                .unwrap();
        }
        bench.bring(&desired).await;
        assert_eq!(bench.packets().await, [7, 7, 0], "{}", bench.program.name());
    }
}

#[tokio::test]
async fn a_full_group_is_written_in_batches_of_bounded_size() {
    for p4info in [
        programs::recirculation(131_072, 65_536),
        programs::replication(131_072),
    ] {
        let mut bench = Bench::new(p4info, 12);
        bench.switch.traffic = None;
        let mut desired = bench.empty();
        add(&mut desired, 1, 1..=4096);
        assert!(desired.add_viewer(GroupId(1), viewer(5000)).is_err());
        bench.bring(&desired).await;
        assert_eq!(bench.switch.largest_batch, WRITE_BATCH_UPDATES);
    }
}

#[tokio::test]
async fn the_updates_for_an_empty_switch_bring_it_to_the_same_state() {
    for p4info in both() {
        let mut bench = Bench::new(p4info, 13);
        let mut desired = bench.empty();
        add(&mut desired, 1, 1..=3);
        let plan = bench
            .program
            .plan(&bench.program.empty(), &desired)
            .unwrap();
        for update in plan.into_updates_for_empty_switch() {
            bench.switch.update(&update).unwrap();
        }
        bench.switch.drain();
        assert_eq!(bench.read().await.conference, desired);
        assert_eq!(bench.switch.violations, [""; 0]);
        bench.switch.seen.clear();
        bench.bring(&desired).await;
    }
}

#[tokio::test]
async fn another_port_moves_the_copies_there() {
    for p4info in both() {
        let mut bench = Bench::new(p4info, 14);
        let mut desired = bench.empty();
        add(&mut desired, 1, [1]);
        bench.bring(&desired).await;
        // The conference is now described with another port for the SFU's address.
        let mut desired = Conference::new(bench.program.capabilities());
        desired.set_address(OwnAddress { port: 3, ..OWN }).unwrap();
        add(&mut desired, 1, [1]);
        bench.bring(&desired).await;
        let replica = match bench.program.name() {
            "recirculation" => &bench.switch.sessions[&100].replicas[0],
            _ => &bench.switch.groups[&1].replicas[0],
        };
        assert_eq!(p4runtime_client::entities::replica_port(replica), Some(3));
        assert_eq!(bench.switch.n_entries("own_addresses"), 1);
    }
}

#[tokio::test]
async fn viewers_are_served_on_every_port_with_an_own_address_and_on_no_other() {
    let mut bench = Bench::new(programs::replication(256), 16);
    let on = |port, n| Viewer {
        port: Some(port),
        ..viewer(n)
    };
    let own = |port: u16| OwnAddress {
        port,
        ip: Ipv4Addr::new(10, 0, port as u8, 100),
        mac: Mac([2, 0, 0, 0, port as u8, 100]),
    };
    let mut desired = Conference::new(bench.program.capabilities());
    desired.set_address(own(1)).unwrap();
    desired.set_address(own(2)).unwrap();
    desired.add_group(GroupId(1), presenter(1)).unwrap();
    for (port, n) in [(1, 1), (2, 2), (1, 3), (2, 4)] {
        desired.add_viewer(GroupId(1), on(port, n)).unwrap();
    }
    let without_port = desired.clone().add_viewer(GroupId(1), viewer(5));
    let error = without_port.unwrap_err().to_string();
    assert!(error.contains("several ports (1, 2): say which"), "{error}");
    bench.bring(&desired).await;
    let replicas = bench.switch.groups[&1].replicas.iter();
    let ports: Vec<Option<u16>> = replicas
        .map(p4runtime_client::entities::replica_port)
        .collect();
    assert_eq!(ports, [Some(1), Some(2), Some(1), Some(2)]);
    assert_eq!(bench.switch.n_entries("port_addresses"), 2);

    // The plan refuses viewers on a port without an address, and the removal of an address with
    // viewers.
    let now = bench.read().await;
    let mut elsewhere = desired.clone();
    elsewhere.add_viewer(GroupId(1), on(3, 6)).unwrap();
    let refused = PlanError::NoAddressOnPort {
        port: 3,
        n_viewers: 1,
    };
    assert_eq!(bench.program.plan(&now, &elsewhere).unwrap_err(), refused);
    let mut without = desired.clone();
    without.delete_address(2).unwrap();
    let refused = PlanError::NoAddressOnPort {
        port: 2,
        n_viewers: 2,
    };
    assert_eq!(bench.program.plan(&now, &without).unwrap_err(), refused);

    // Even if the switch has lost the own address of a port with two viewers, commands that remove one of them at a
    // time succeed.
    bench.switch.traffic = None;
    bench.switch.drain();
    let p4info = programs::replication(256);
    for table in ["own_addresses", "port_addresses"] {
        let info = p4runtime_client::objects::table_info(&p4info, table).unwrap();
        let id = info.preamble.as_ref().unwrap().id;
        let wildcard = vec![p4runtime_client::entities::wildcard_table(id)];
        let mut entries = bench.switch.read(wildcard).await.unwrap();
        let lost = p4runtime_client::entities::delete(entries.remove(1));
        bench.switch.write(vec![lost]).await.unwrap();
    }
    for ip in [2, 4] {
        let mut fewer = bench.read().await.conference;
        let gone = viewer(ip).ip;
        fewer.remove_viewer(GroupId(1), gone, None).unwrap();
        bench.bring(&fewer).await;
    }
}

#[tokio::test]
async fn viewers_without_an_own_address_are_refused() {
    for p4info in both() {
        let bench = Bench::new(p4info, 15);
        let mut desired = Conference::new(bench.program.capabilities());
        desired.add_group(GroupId(1), presenter(1)).unwrap();
        assert!(bench.program.plan(&bench.program.empty(), &desired).is_ok());
        desired.add_viewer(GroupId(1), viewer(1)).unwrap();
        let refused = bench.program.plan(&bench.program.empty(), &desired);
        assert_eq!(refused.unwrap_err(), PlanError::NoAddress);
    }
}

#[test]
fn a_program_that_is_no_sfu_is_reported() {
    let error = SfuProgram::detect(&programs::other())
        .unwrap_err()
        .to_string();
    assert_has(&error, "is no SFU that this controller knows");
    let mut p4info = programs::recirculation(64, 32);
    p4info
        .registers
        .retain(|r| r.preamble.as_ref().is_some_and(|p| p.alias != "viewer_ids"));
    let error = SfuProgram::detect(&p4info).unwrap_err().to_string();
    let expected = "the program in the switch has no register \"viewer_ids\"";
    assert_eq!(error, expected);
}
