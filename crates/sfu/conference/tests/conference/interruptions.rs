//! Stops every kind of change after every step. Packets must see each group in its old or its new state, the state must
//! be readable, and the next command must be able to continue from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use conference::address::Mac;
use conference::backend::{SfuProgram, Snapshot};
use conference::model::{Conference, Group, GroupId, OwnAddress, Presenter, Viewer};
use conference::plan::{self, Target};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{Entity, Update};
use testkit::sfu::fake::{FakeSwitch, Fault, Refusal};
use testkit::sfu::{Random, programs};

const OWN: OwnAddress = OwnAddress {
    port: 1,
    ip: Ipv4Addr::new(10, 250, 0, 1),
    mac: Mac([2, 0, 0, 0, 1, 0]),
};

/// An own address on a second port, if the program supports several ports.
const OWN3: OwnAddress = OwnAddress {
    port: 3,
    ip: Ipv4Addr::new(10, 250, 3, 1),
    mac: Mac([2, 0, 0, 0, 3, 0]),
};

/// A group as a line of a table: number, presenter's host, viewers' hosts.
type Spec = (u16, u16, &'static [u16]);

/// The groups before every change.
const BEFORE: &[Spec] = &[
    (1, 1, &[11, 12, 13]),
    (2, 2, &[21, 22]),
    (3, 3, &[31, 32, 33]),
    (4, 4, &[]),
];

/// A kind of change and the state that it leads to.
struct Kind {
    name: &'static str,
    address: OwnAddress,
    /// More own addresses on other ports, if the program supports several ports.
    more: &'static [OwnAddress],
    /// Hosts of viewers on port 3, if the program supports several ports.
    far: &'static [u16],
    groups: &'static [Spec],
    /// Hosts whose MAC changes.
    macs: &'static [u16],
}

const fn kind(name: &'static str, groups: &'static [Spec]) -> Kind {
    Kind {
        name,
        address: OWN,
        more: &[OWN3],
        far: &[12, 33],
        groups,
        macs: &[],
    }
}

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind("viewer add", &[(1, 1, &[11, 12, 13, 14]), (2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("viewer remove", &[(1, 1, &[11, 13]), (2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("first viewer", &[(1, 1, &[11, 12, 13]), (2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[41])]),
    kind("group add", &[(1, 1, &[11, 12, 13]), (2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[]), (5, 5, &[51, 52])]),
    kind("group delete", &[(1, 1, &[11, 12, 13]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("another presenter", &[(1, 8, &[11, 12, 13]), (2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("another presenter and other viewers", &[(1, 8, &[14, 15]), (2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("another presenter and no viewers", &[(1, 8, &[]), (2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("two swap presenters", &[(1, 2, &[11, 12, 13]), (2, 1, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("two swap numbers", &[(1, 2, &[21, 22]), (2, 1, &[11, 12, 13]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("three go round", &[(1, 2, &[21, 22]), (2, 3, &[31, 32, 33]), (3, 1, &[11, 12, 13]), (4, 4, &[])]),
    kind("a chain of presenters, viewers stay", &[(1, 2, &[11, 12, 13]), (2, 3, &[21, 22]), (3, 8, &[31, 32, 33]), (4, 4, &[])]),
    kind("a chain of presenters, viewers change", &[(1, 2, &[11]), (2, 3, &[21, 23]), (3, 8, &[34]), (4, 4, &[41])]),
    kind("a chain, viewers change here and there", &[(1, 2, &[11]), (2, 3, &[21, 22]), (3, 8, &[34]), (4, 4, &[])]),
    kind("another number", &[(2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[]), (7, 1, &[11, 12, 13])]),
    kind("a presenter goes to a group that loses its own", &[(2, 1, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("the same, and viewers change", &[(2, 1, &[21, 24]), (3, 3, &[31, 32, 33]), (4, 4, &[])]),
    kind("a presenter moves, another takes its place", &[(1, 9, &[11, 14]), (2, 2, &[21, 22]), (3, 3, &[31, 32, 33]), (4, 4, &[]), (6, 1, &[61])]),
    kind("everything at once", &[(1, 3, &[11, 14]), (3, 8, &[35]), (4, 4, &[41]), (5, 1, &[21, 22]), (6, 2, &[61])]),
    kind("all groups go", &[]),
    Kind { address: OwnAddress { ip: Ipv4Addr::new(10, 250, 0, 2), ..OWN }, ..kind("address set, another IP", BEFORE) },
    Kind { address: OwnAddress { port: 5, ..OWN }, ..kind("address set, another port", BEFORE) },
    Kind { address: OwnAddress { mac: Mac([2, 0, 0, 0, 1, 9]), ..OWN }, ..kind("address set, another MAC", BEFORE) },
    Kind {
        address: OwnAddress { port: 5, ip: Ipv4Addr::new(10, 250, 0, 2), mac: Mac([2, 0, 0, 0, 1, 9]) },
        ..kind("another SFU", &[(1, 2, &[11]), (9, 1, &[12])])
    },
    Kind { far: &[11, 33], ..kind("viewers change their ports", BEFORE) },
    Kind { more: &[], far: &[], ..kind("the second address goes, and viewers from its port", BEFORE) },
    Kind { more: &[OwnAddress { ip: Ipv4Addr::new(10, 250, 3, 2), ..OWN3 }], ..kind("another second address", BEFORE) },
    Kind {
        address: OWN3,
        more: &[OwnAddress { port: 4, ..OWN }],
        far: &[11, 12, 13, 21, 22, 31, 32, 33],
        ..kind("other ports", BEFORE)
    },
    Kind { macs: &[12], ..kind("a viewer's MAC", BEFORE) },
    Kind { macs: &[1], ..kind("a presenter's MAC", BEFORE) },
    Kind { macs: &[1, 11], ..kind("a presenter's MAC and a viewer's", BEFORE) },
];

fn ip(host: u16) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + u32::from(host))
}

fn mac(host: u16, changed: &[u16]) -> Mac {
    let changed = u64::from(changed.contains(&host)) << 16;
    Mac::from_u64(0x0200_0000_0000 + changed + u64::from(host))
}

impl Kind {
    fn conference(&self, program: &SfuProgram) -> Conference {
        let mut conference = Conference::new(program.capabilities());
        let several_ports = program.capabilities().several_ports;
        let more = self.more.iter().filter(|_| several_ports);
        for own in more.chain([&self.address]) {
            conference.set_address(*own).expect("an address");
        }
        for (id, host, viewers) in self.groups {
            let presenter = Presenter {
                ip: ip(*host),
                mac: Some(mac(*host, self.macs)),
                udp_port: None,
            };
            conference.add_group(GroupId(*id), presenter).expect("new");
            for host in *viewers {
                let viewer = Viewer {
                    ip: ip(*host),
                    mac: mac(*host, self.macs),
                    looked_up: host % 2 == 1,
                    udp_port: None,
                    port: several_ports.then(|| self.port(*host)),
                };
                conference.add_viewer(GroupId(*id), viewer).expect("new");
            }
        }
        conference
    }

    fn port(&self, host: u16) -> u16 {
        if self.far.contains(&host) {
            OWN3.port
        } else {
            self.address.port
        }
    }
}

struct Bench {
    switch: FakeSwitch,
    program: SfuProgram,
}

impl Bench {
    async fn new(p4info: &P4Info, seed: u64) -> Bench {
        let program = SfuProgram::detect(p4info).expect("a program");
        let mut switch = FakeSwitch::new(Some(p4info.clone()));
        switch.traffic = Some(Random(seed));
        let mut bench = Bench { switch, program };
        let before = kind("before", BEFORE).conference(&bench.program);
        assert!(bench.command(&before).await.is_ok());
        bench.switch.drain();
        bench.switch.seen.clear();
        bench
    }

    /// Does what a command does: settles, plans and writes.
    async fn command(&mut self, desired: &Conference) -> Result<(), String> {
        let settled = self.program.settle(&mut self.switch).await;
        let settled = settled.map_err(|error| error.to_string())?;
        let plan = self.program.plan(&settled, desired).expect("has room");
        let done = plan::run(plan, &mut self.switch, |_| {}).await;
        done.map_err(|error| error.to_string())
    }

    async fn read(&mut self) -> Snapshot {
        self.program.read(&mut self.switch).await.expect("readable")
    }

    /// Runs a command and cuts it off. Returns `false` if the command finished before.
    async fn cut_off(&mut self, desired: &Conference, fault: Fault) -> bool {
        self.switch.fault = Some(fault);
        let done = self.command(desired).await;
        self.switch.fault = None;
        if let Err(error) = &done {
            assert!(error.starts_with("cannot "), "{error}");
        }
        done.is_err()
    }

    /// Checks that packets saw only allowed states, and that every group can be read.
    async fn check(&mut self, allowed: &[&Conference], at: &str) -> Conference {
        assert_eq!(self.switch.violations, [""; 0], "{at}");
        self.check_seen(allowed, at);
        self.switch.see_everything();
        self.check_seen(allowed, at);
        let addresses: Vec<(u64, Ipv4Addr, Mac)> = allowed
            .iter()
            .flat_map(|conference| conference.addresses().values())
            .map(|own| (u64::from(own.port), own.ip, own.mac))
            .collect();
        let own = self.switch.own_addresses();
        assert!(!own.is_empty(), "{at}: no own address");
        assert!(
            own.iter().all(|own| addresses.contains(own)),
            "{at}: {own:?}"
        );

        let between = self.read().await;
        assert_eq!(between.foreign, [""; 0], "{at}");
        let is_allowed = |id: &GroupId, group: Option<&Group>| {
            allowed.iter().any(|c| c.groups().get(id) == group)
        };
        let ids: BTreeSet<&GroupId> = allowed.iter().flat_map(|c| c.groups().keys()).collect();
        for id in ids {
            let group = between.conference.groups().get(id);
            assert!(is_allowed(id, group), "{at}: group {id} is {group:?}");
        }
        assert!(
            between
                .conference
                .groups()
                .keys()
                .all(|id| allowed.iter().any(|c| c.groups().contains_key(id))),
            "{at}"
        );
        for (port, own) in between.conference.addresses() {
            let is_allowed = |c: &&Conference| c.addresses().get(port) == Some(own);
            assert!(allowed.iter().any(is_allowed), "{at}: {own:?}");
        }
        between.conference
    }

    fn check_seen(&mut self, allowed: &[&Conference], at: &str) {
        let viewers = |conference: &Conference, presenter: Ipv4Addr| -> Vec<(Ipv4Addr, Mac)> {
            let groups = conference.groups().values();
            let group = groups.filter(|g| g.presenter.ip == presenter);
            let viewers = group.flat_map(|g| g.viewers.iter().map(|v| (v.ip, v.mac)));
            viewers.collect()
        };
        for (presenter, seen) in std::mem::take(&mut self.switch.seen) {
            let fits = allowed.iter().any(|c| seen == viewers(c, presenter));
            assert!(fits, "{at}: a packet of {presenter} went to {seen:?}");
        }
    }

    /// Checks that the switch holds exactly this conference.
    async fn check_clean(&mut self, desired: &Conference, at: &str) {
        self.switch.drain();
        assert_eq!(self.switch.violations, [""; 0], "{at}");
        let after = self.read().await;
        assert_eq!(after.conference, *desired, "{at}");
        assert_eq!(after.left_over, [""; 0], "{at}");
        let again = self.program.plan(&after, desired).expect("has room");
        assert!(again.is_empty(), "{at}: {again:?}");
        let n_groups = desired.groups().len();
        let table = if self.is_replication() {
            "streams"
        } else {
            "presenters"
        };
        assert_eq!(self.switch.n_entries(table), n_groups, "{at}");
        let n_addresses = desired.addresses().len();
        assert_eq!(self.switch.n_entries("own_addresses"), n_addresses, "{at}");
        if self.is_replication() {
            let found = self.switch.n_entries("viewers");
            assert_eq!(found, desired.n_viewers(), "{at}");
            assert_eq!(self.switch.groups.len(), n_groups, "{at}");
            assert_eq!(self.switch.n_entries("port_addresses"), n_addresses, "{at}");
        }
    }

    fn is_replication(&self) -> bool {
        self.program.name() == "replication"
    }
}

/// Returns a conference that a command other than the interrupted one may want: it has one more viewer in the first
/// group.
fn something_else(conference: &Conference) -> Conference {
    let mut conference = conference.clone();
    let several_ports = conference.capabilities().several_ports;
    let port = conference.address().expect("an address").port;
    let first = conference.groups().keys().next().copied();
    if let Some(id) = first {
        let viewer = Viewer {
            ip: ip(99),
            mac: mac(99, &[]),
            udp_port: None,
            looked_up: false,
            port: several_ports.then_some(port),
        };
        conference.add_viewer(id, viewer).expect("new");
    }
    conference
}

fn both() -> [P4Info; 2] {
    [
        programs::recirculation(256, 128),
        programs::replication(256),
    ]
}

#[tokio::test]
async fn every_kind_of_change_stopped_anywhere_leaves_what_the_next_command_goes_on_from() {
    let mut n_stops = 0;
    for (seed, p4info) in (1..).zip(both()) {
        for kind in KINDS {
            for stop in 0.. {
                let fault = Fault {
                    calls_left: stop / 2,
                    answer_lost: stop % 2 == 1,
                };
                let mut bench = Bench::new(&p4info, seed * 1000 + stop as u64).await;
                let old = bench.read().await.conference;
                let new = kind.conference(&bench.program);
                let at = format!("{}, {}, {fault:?}", bench.program.name(), kind.name);
                let stopped = bench.cut_off(&new, fault).await;
                n_stops += usize::from(stopped);
                let between = bench.check(&[&old, &new], &at).await;
                let next = match stop % 3 {
                    0 => new.clone(),
                    1 => old.clone(),
                    _ => something_else(&between),
                };
                bench.command(&next).await.expect("the next command works");
                bench.check(&[&old, &new, &between, &next], &at).await;
                bench.check_clean(&next, &at).await;
                if !stopped {
                    assert!(stop > 3 || old == new, "{at}: the change did something");
                    break;
                }
            }
        }
    }
    println!("{n_stops} stops");
}

#[tokio::test]
async fn what_finishes_or_takes_back_may_be_stopped_as_well_and_does_not_change_its_mind() {
    for (seed, p4info) in (1..).zip(both()) {
        for kind in KINDS {
            for first in 0.. {
                let mut stopped = true;
                for second in 0.. {
                    let fault = |calls_left| Fault {
                        calls_left,
                        answer_lost: second % 2 == 1,
                    };
                    let mut bench = Bench::new(&p4info, seed * 1000 + second as u64).await;
                    let old = bench.read().await.conference;
                    let new = kind.conference(&bench.program);
                    let at = format!(
                        "{}, {}, {first} and {second}",
                        bench.program.name(),
                        kind.name
                    );
                    stopped = bench.cut_off(&new, fault(first)).await;
                    let between = bench.check(&[&old, &new], &at).await;
                    let again = bench.cut_off(&between, fault(second)).await;
                    let after = bench.check(&[&old, &new], &at).await;
                    assert_eq!(after, between, "{at}");
                    bench
                        .command(&between)
                        .await
                        .expect("the next command works");
                    bench.check(&[&old, &new], &at).await;
                    bench.check_clean(&between, &at).await;
                    if !again || !stopped {
                        break;
                    }
                }
                if !stopped {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn random_changes_cut_off_at_random_never_lose_a_group() {
    for (seed, p4info) in (1..).zip(both()) {
        let mut random = Random(seed);
        let mut bench = Bench::new(&p4info, seed).await;
        let mut allowed = vec![bench.read().await.conference];
        for round in 0..300 {
            let kind = &KINDS[random.below(KINDS.len() as u64) as usize];
            let new = kind.conference(&bench.program);
            let fault = Fault {
                calls_left: random.below(60) as usize,
                answer_lost: random.below(2) == 1,
            };
            allowed.push(new.clone());
            let stopped = bench.cut_off(&new, fault).await;
            let at = format!("{}, round {round}, {}", bench.program.name(), kind.name);
            // Until a command completes, the switch may still hold what the first interrupted command left.
            let allowed_now: Vec<&Conference> = allowed.iter().collect();
            let between = bench.check(&allowed_now, &at).await;
            if !stopped {
                allowed = vec![between];
            }
        }
    }
}

#[tokio::test]
async fn an_address_to_ask_from_stands_beside_the_one_in_force_and_goes_with_the_next_command() {
    for p4info in both() {
        let mut bench = Bench::new(&p4info, 7).await;
        let old = bench.read().await;
        let asked = OwnAddress {
            port: 3,
            ip: Ipv4Addr::new(10, 250, 0, 3),
            mac: Mac([2, 0, 0, 0, 1, 3]),
        };
        let ask = bench.program.ask_from(&old, &asked);
        assert_eq!(ask.n_updates(), 1);
        plan::run(ask.clone(), &mut bench.switch, |_| {})
            .await
            .expect("written");
        let asking = bench.read().await;
        assert_eq!(asking.conference, old.conference, "what is in force stays");
        let expected = ["own address 10.250.0.3 02:00:00:00:01:03 on port 3"];
        assert_eq!(asking.left_over, expected);
        assert!(bench.program.ask_from(&asking, &asked).is_empty());
        bench.switch.see_everything();
        bench.check_seen(&[&old.conference], "while it asks");

        // In this case no host answered, or the controller was killed: the next command deletes the address.
        bench.command(&old.conference).await.expect("done");
        bench.check_clean(&old.conference, "not found").await;

        // In this case the host was found: the next change replaces the own address by the new address.
        plan::run(ask, &mut bench.switch, |_| {})
            .await
            .expect("written");
        let asking = bench.read().await;
        let mut new = old.conference.clone();
        new.set_address(asked).expect("an address");
        let plan = bench.program.plan(&asking, &new).expect("has room");
        plan::run(plan, &mut bench.switch, |_| {})
            .await
            .expect("written");
        bench.check_clean(&new, "found").await;
    }
}

/// A switch to which another controller writes before every read.
struct Busy {
    switch: FakeSwitch,
    writes: VecDeque<Update>,
    n_at_a_time: usize,
}

impl Target for Busy {
    type Error = Refusal;

    async fn read(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, Refusal> {
        let n = self.n_at_a_time.min(self.writes.len());
        for update in self.writes.drain(..n) {
            self.switch.update(&update)?;
        }
        Target::read(&mut self.switch, entities).await
    }

    async fn write(&mut self, updates: Vec<Update>) -> Result<(), Refusal> {
        self.switch.write(updates).await
    }

    async fn drain(&mut self) -> Result<(), Refusal> {
        Target::drain(&mut self.switch).await
    }
}

#[tokio::test]
async fn a_steady_reading_is_no_half_of_what_somebody_else_writes_meanwhile() {
    let (mut n_torn, mut n_steady) = (0, 0);
    for p4info in both() {
        // This makes every kind of change, one after the other, to get the list of their writes.
        let mut bench = Bench::new(&p4info, 6).await;
        let before = bench.switch.log.len();
        let mut allowed = vec![bench.read().await.conference];
        for kind in KINDS {
            let new = kind.conference(&bench.program);
            bench.command(&new).await.expect("done");
            allowed.push(new);
        }
        let is_whole = |read: &Snapshot| {
            let mut groups = read.conference.groups().iter();
            let is_one = |(id, group)| allowed.iter().any(|c| c.groups().get(id) == Some(group));
            read.foreign.is_empty() && groups.all(is_one)
        };
        let writes: Vec<Update> = bench.switch.log.drain(before..).flatten().collect();
        for n_at_a_time in 1..20 {
            let Bench {
                mut switch,
                program,
            } = Bench::new(&p4info, 6).await;
            switch.traffic = None;
            let writes = writes.iter().cloned().collect();
            let mut busy = Busy {
                switch,
                writes,
                n_at_a_time,
            };
            while !busy.writes.is_empty() {
                let once = program.read(&mut busy).await.expect("readable");
                n_torn += usize::from(!is_whole(&once));
                let steady = program.read_steady(&mut busy).await.expect("readable");
                n_steady += usize::from(steady.is_some());
                let whole = steady.as_ref().is_none_or(is_whole);
                assert!(whole, "{n_at_a_time} at a time: {steady:?}");
            }
            let last = program.read_steady(&mut busy).await.expect("readable");
            let last = last.expect("nobody writes any more").conference;
            assert_eq!(Some(&last), allowed.last());
        }
    }
    println!("{n_torn} readings were torn, {n_steady} steady ones were whole");
    assert!(n_torn > 0, "reading once is not enough");
    assert!(n_steady > 10, "{n_steady}");
}

/// Checks the table `KINDS`: without a fault, each kind of change leads to its state.
#[tokio::test]
async fn without_a_fault_every_kind_of_change_is_done_at_once() {
    for p4info in both() {
        for kind in KINDS {
            let mut bench = Bench::new(&p4info, 5).await;
            let old = bench.read().await.conference;
            let new = kind.conference(&bench.program);
            let groups: BTreeMap<_, _> = new.groups().clone();
            assert_eq!(groups.len(), kind.groups.len(), "{}", kind.name);
            bench.command(&new).await.expect("done");
            bench.check(&[&old, &new], kind.name).await;
            bench.check_clean(&new, kind.name).await;
        }
    }
}
