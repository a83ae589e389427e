//! Tests the command `reprise-signer` on a port of a switch that runs `p4/aom_pk.p4`: the tests send requests, and
//! receivers verify the results. The switch is in this process, with every engine that can execute the program. The
//! signer is a real process, and real interfaces connect the signer and the switch.

use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use aom::event::{DropNotification, Event};
use aom::membership::{Membership, Sequencer};
use aom::receiver::Receiver;
use aom::refused::Refused;
use aom::wire::{Variant, request};
use conformance::aom::frame_to;
use conformance::beside::Beside;
use conformance::compile::program_at;
use conformance::packet::udp_copy;
use dataplane::{MatchField, MulticastGroup, OwnedTransmit, PortId, Replica, SwitchConfig};
use packet_io::{AfPacketConfig, AfPacketPort, Port};
use reprise_signer::key::{Key, VARIABLE};
use testkit::namespace::{in_namespace, veth_pair};

const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const GROUP: u16 = 7;
const EPOCH: u32 = 0x6540_0001;
const N_RECEIVERS: u8 = 3;
const ADDRESS: Ipv4Addr = Ipv4Addr::new(239, 1, 0, 7);
const SENDER: PortId = PortId(1);
const RECEIVERS: PortId = PortId(2);
const SIGNER: PortId = PortId(7);
/// How long a test waits for anything.
const TIMEOUT: Duration = Duration::from_secs(120);

/// `reprise-signer run` at the far end of the switch's port.
struct Coprocessor {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Coprocessor {
    fn start(interface: &str, options: &[&str]) -> Coprocessor {
        let mut child = Command::new(env!("CARGO_BIN_EXE_reprise-signer"))
            .args(["run", "--json", "-i", interface])
            .args(options)
            .env(VARIABLE, SECRET)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut ready = String::new();
        output.read_line(&mut ready).expect("text");
        assert_eq!(ready, format!("ready: {interface}\n"));
        Coprocessor { child, output }
    }

    /// Stops the signer, and returns the counters that it prints.
    fn end(mut self) -> serde_json::Value {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(asked.expect("kill(1)").success());
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        assert!(self.child.wait().expect("it ends").success());
        serde_json::from_str(&text).expect("counters")
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

/// The sequencer, the port to its signer, and the receivers.
struct Network {
    switches: Beside,
    port: AfPacketPort,
    receivers: Vec<Receiver>,
    delivered: Vec<Vec<Event>>,
    began: Instant,
}

impl Network {
    fn new() -> Network {
        veth_pair("switch7", "signer");
        let membership = |receiver| Membership {
            group: GROUP,
            epoch: u64::from(EPOCH),
            n_receivers: N_RECEIVERS,
            receiver,
            sequencer: Sequencer::Signing(Key::from_hex(SECRET, "a test").expect("a key").public()),
            confirm_keys: Vec::new(),
        };
        let receiver = |number| Receiver::new(membership(number), 1).expect("a membership");
        Network {
            switches: sequencer(),
            port: AfPacketPort::open("switch7", AfPacketConfig::default()).expect("a port"),
            receivers: (0..N_RECEIVERS).map(receiver).collect(),
            delivered: vec![Vec::new(); usize::from(N_RECEIVERS)],
            began: Instant::now(),
        }
    }

    fn request(&mut self, message: &[u8]) {
        let datagram = request(Variant::Signed, GROUP, message);
        for sent in self.switches.send(SENDER, &frame_to(ADDRESS, &datagram)) {
            assert_eq!(sent.port, SIGNER);
            let frame = sent.frame.as_slice().into();
            self.port.transmit(0, frame).expect("it is sent");
        }
        self.port.flush().expect("it is sent");
    }

    /// Passes the signer's packets through the switch to the receivers.
    fn take(&mut self) {
        let mut frames = Vec::new();
        let mut keep = |frame: &[u8]| frames.push(frame.to_vec());
        self.port.receive(0, 64, &mut keep).expect("a port");
        let now = self.began.elapsed();
        for frame in frames {
            for copy in self.switches.send(SIGNER, &frame) {
                self.give(now, &copy);
            }
        }
        for (receiver, events) in self.receivers.iter_mut().zip(&mut self.delivered) {
            receiver.handle_timeout(now);
            let delivered = std::iter::from_fn(|| receiver.poll_event());
            events.extend(delivered.flat_map(one_by_one));
        }
    }

    fn give(&mut self, now: Duration, sent: &OwnedTransmit) {
        assert_eq!(sent.port, RECEIVERS);
        let copy = udp_copy(&sent.frame);
        let receiver = usize::from(copy.ips.1.octets()[3]);
        self.receivers[receiver].handle_datagram(now, &copy.payload);
    }

    /// Waits until every receiver has reported this many sequence numbers.
    fn take_until(&mut self, n_events: usize) {
        let until = Instant::now() + TIMEOUT;
        while self.delivered.iter().any(|events| events.len() < n_events) {
            self.take();
            assert!(
                Instant::now() < until,
                "expected {n_events} events, found {:?} (refused: {:?})",
                self.delivered.iter().map(Vec::len).collect::<Vec<_>>(),
                self.receivers[0].refused()
            );
        }
    }

    /// Asserts that every receiver got the messages 1 to `n_messages` in order, from sequence number 1 on, and refused
    /// nothing.
    fn assert_delivered(&self, n_messages: usize) {
        for (receiver, events) in self.receivers.iter().zip(&self.delivered) {
            assert_eq!(events.len(), n_messages);
            for (number, event) in (1..).zip(events) {
                assert!(is_message(event, number), "number {number}: {event:?}");
            }
            assert_eq!(receiver.refused(), Refused::default());
        }
    }
}

/// Splits a drop into one event for each sequence number.
fn one_by_one(event: Event) -> Vec<Event> {
    let Event::Drop(drop) = event else {
        return vec![event];
    };
    let each = drop.numbers().map(|number| DropNotification {
        first: number,
        last: number,
        ..drop
    });
    each.map(Event::Drop).collect()
}

fn text(number: u32) -> Vec<u8> {
    format!("message {number}").into_bytes()
}

fn is_message(event: &Event, number: u32) -> bool {
    matches!(event, Event::Message(it) if it.sequence == number && it.payload == text(number))
}

fn sequencer() -> Beside {
    let mut switches = Beside::all_engines(SwitchConfig::default());
    for port in [SENDER, RECEIVERS, SIGNER] {
        switches.add_port(port);
    }
    switches.set_program(&program_at("p4/aom_pk.p4"));
    let group = GROUP.to_be_bytes();
    let (slot, [to_signer, to_receivers]) = ([0; 4], [1_u16, 2].map(u16::to_be_bytes));
    let key = vec![
        MatchField::Optional(Some(ADDRESS.octets().to_vec())),
        MatchField::Optional(None),
    ];
    let arguments: [&[u8]; 4] = [&group, &slot, &to_signer, &to_receivers];
    switches.insert("groups", "set_group", (key, 1), &arguments);
    let key: [&[u8]; 2] = [&SIGNER.0.to_be_bytes(), &group];
    switches.insert_exact("signers", "deliver", &key, &[&to_receivers]);
    switches.insert_group(&multicast(1, SIGNER, 1));
    switches.insert_group(&multicast(2, RECEIVERS, N_RECEIVERS));
    for receiver in 0..N_RECEIVERS {
        let key: [&[u8]; 2] = [&group, &u16::from(receiver).to_be_bytes()];
        let arguments: [&[u8]; 4] = [
            &[2, 0, 0, 0, 0, 0xff],
            &[2, 0, 0, 0, 1, receiver],
            &[10, 0, 0, receiver],
            &7000_u16.to_be_bytes(),
        ];
        switches.insert_exact("receivers", "set_receiver", &key, &arguments);
    }
    switches.write_register("AomIngress.sequencer.epochs", 0, &EPOCH.to_be_bytes());
    switches.write_register("AomIngress.sequencer.active", 0, &[1]);
    switches.write_register("AomIngress.sequencer.sequences", 0, &1_u32.to_be_bytes());
    switches
}

fn multicast(id: u32, port: PortId, n_replicas: u8) -> MulticastGroup {
    let replica = |instance| Replica { port, instance };
    MulticastGroup {
        id,
        replicas: (0..u16::from(n_replicas)).map(replica).collect(),
        backups: Vec::new(),
    }
}

#[test]
fn a_signer_with_nonces_signs_every_packet() {
    in_namespace(|| {
        let mut network = Network::new();
        let signer = Coprocessor::start("signer", &["--pool", "1000", "--fill", "1000"]);
        for number in 1..=300 {
            network.request(&text(number));
            network.take_until(number as usize);
        }
        network.assert_delivered(300);
        let counters = signer.end();
        assert_eq!(counters["signer"]["linked"], 300);
        assert_eq!(counters["signer"]["signed"], 300);
        assert_eq!(counters["signer"]["signed late"], 0);
    });
}

#[test]
fn a_starved_signer_leaves_packets_unsigned_and_its_next_signature_releases_them() {
    in_namespace(|| {
        let mut network = Network::new();
        let signer = Coprocessor::start("signer", &["--fill", "0"]);
        // The test sends more packets than there are nonces, and then pauses, so that the signer sends the last packet
        // again, signed.
        for number in 1..=500 {
            network.request(&text(number));
        }
        network.take_until(500);
        network.assert_delivered(500);
        let counters = signer.end();
        assert_eq!(counters["signer"]["linked"], 500);
        let of = |name: &str| counters["signer"][name].as_u64().expect("a counter");
        assert!(
            (1..500).contains(&(of("signed") + of("signed late"))),
            "{counters}"
        );
    });
}

#[test]
fn a_signer_that_has_none_delivers_nothing_and_one_that_begins_again_goes_on() {
    in_namespace(|| {
        let mut network = Network::new();
        let starved = Coprocessor::start("signer", &["--threads", "0", "--fill", "0"]);
        for number in 1..=10 {
            network.request(&text(number));
        }
        let until = Instant::now() + TIMEOUT;
        let mut n_taken = 0;
        while n_taken < 10 {
            assert!(Instant::now() < until, "{n_taken} of 10 came back");
            let mut count = |frame: &[u8]| {
                n_taken += 1;
                for copy in network.switches.send(SIGNER, frame) {
                    let copy = udp_copy(&copy.frame);
                    let receiver = usize::from(copy.ips.1.octets()[3]);
                    network.receivers[receiver].handle_datagram(Duration::ZERO, &copy.payload);
                }
            };
            network.port.receive(0, 64, &mut count).expect("a port");
        }
        for receiver in &mut network.receivers {
            assert_eq!(receiver.poll_event(), None, "unsigned is not delivered");
        }
        starved.kill();
        let signer = Coprocessor::start("signer", &[]);
        for number in 11..=20 {
            network.request(&text(number));
        }
        network.take_until(20);
        for events in &network.delivered {
            for (number, event) in (1..).zip(&events[..10]) {
                let is_drop =
                    matches!(event, Event::Drop(drop) if drop.numbers() == (number..=number));
                assert!(is_drop, "number {number}: {event:?}");
            }
            for (number, event) in (11..).zip(&events[10..]) {
                assert!(is_message(event, number), "number {number}: {event:?}");
            }
        }
        assert_eq!(signer.end()["signer"]["gaps"], 1);
    });
}

#[test]
fn what_the_pool_has_no_room_for_is_refused_and_names_stay_on_their_line() {
    let said = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise-signer"));
        let output = command.args(arguments).env_remove(VARIABLE).output();
        let output = output.expect("it runs");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let run = ["run", "-i", "none"];
    let with = |more: &[&str]| said(&[&run[..], more].concat());
    for (fill, pool) in [("100000000", "65536"), ("11", "10")] {
        let refused = with(&["--pool", pool, "--fill", fill]);
        let expected = format!(
            "reprise-signer: --fill {fill}: expected as many nonces as the pool has room for at most, {pool} (--pool)\n"
        );
        assert_eq!(refused, expected);
    }
    assert!(with(&["--threads", "10000"]).contains("10000 is not in 0..=256"));
    // With a pool below the default of --fill, only the missing key is reported.
    assert!(!with(&["--pool", "10"]).contains("--fill"));
    let shown = said(&["key", "public", "no\x1b[31m\n\u{202e}all is well"]);
    assert!(
        shown.contains("no\\u001b[31m\\n\\u202eall is well"),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 1, "{shown}");
}
