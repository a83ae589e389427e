//! Runs AOM-HM's two programs, each on every engine. All engines must send the same frames. The tests write the
//! switches' state directly, without the configuration service (`aom/service`).
//!
//! AOM-HM is ordered multicast in which the switch authenticates each request with a keyed hash, a *tag*, for each
//! receiver. The switch sends a request as one or more packets, called *shards*. Each shard has the tags of four
//! receivers, and each receiver gets all shards.

use std::net::Ipv4Addr;

use aom::half_siphash::Key;
use aom::wire::{LANES, UDP_PORT};
use dataplane::{MatchField, MulticastGroup, OwnedTransmit, PortId, Replica, SwitchConfig};
use etherparse::PacketBuilder;
use fastrand::Rng;

use crate::beside::Beside;
use crate::packet::udp_copy;

pub const SENDER_PORT: PortId = PortId(1);
pub const RECEIVERS_PORT: PortId = PortId(2);
/// The two programs. The first computes all rounds of a tag's hash in one pass through the pipeline, the second
/// computes one round in each pass.
pub const FORMS: [&str; 2] = ["p4/aom_hm.p4", "p4/aom_hm_rounds.p4"];

const SENDER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SWITCH_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xff];
const SENDER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 9);
const RECEIVER_UDP_PORT: u16 = 7000;

#[derive(Debug, Clone)]
pub struct Group {
    /// The group's number in the packets.
    pub number: u16,
    /// Index in the program's registers.
    pub slot: u16,
    pub keys: Vec<Key>,
    pub epoch: u32,
}

impl Group {
    /// Makes a group of `n_receivers` receivers with random keys.
    pub fn random(rng: &mut Rng, number: u16, slot: u16, n_receivers: u8) -> Self {
        let key = |_| Key {
            k0: rng.u32(..),
            k1: rng.u32(..),
        };
        Self {
            number,
            slot,
            keys: (0..n_receivers).map(key).collect(),
            epoch: 1,
        }
    }

    pub fn address(&self) -> Ipv4Addr {
        let [high, low] = self.slot.to_be_bytes();
        Ipv4Addr::new(239, 1, high, low)
    }

    /// Returns the ids of two multicast groups of the switch: the first makes a copy of a request for each shard, the
    /// second sends a shard to every receiver.
    fn multicast_ids(&self) -> [u16; 2] {
        [1000, 2000].map(|base| base + self.slot)
    }

    pub fn receivers_group(&self) -> u16 {
        let [_, receivers] = self.multicast_ids();
        receivers
    }

    /// Returns the number of packets that a receiver gets for each request.
    pub fn n_shards(&self) -> u16 {
        self.keys.len().div_ceil(LANES) as u16
    }
}

/// Both programs, each on every engine.
pub struct Sequencers {
    /// In the order of [`FORMS`].
    pub forms: [Beside; 2],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    pub receiver: u8,
    pub datagram: Vec<u8>,
}

impl Sequencers {
    pub fn new() -> Self {
        let forms = FORMS.map(|path| {
            let mut switches = Beside::all_engines(SwitchConfig::default());
            switches.add_port(SENDER_PORT);
            switches.add_port(RECEIVERS_PORT);
            switches.set_program(&crate::compile::program_at(path));
            switches
        });
        Self { forms }
    }

    /// Adds a group and activates it. Each shard has `LANES` tags. A tag without a receiver gets a random key.
    pub fn add(&mut self, rng: &mut Rng, group: &Group) {
        let [shards, receivers] = group.multicast_ids();
        self.know(group, Some(group.address()), None);
        self.all(|switches| {
            switches.insert_group(&multicast(shards, SENDER_PORT, group.n_shards()));
            let n_receivers = group.keys.len() as u16;
            switches.insert_group(&multicast(receivers, RECEIVERS_PORT, n_receivers));
            for receiver in 0..n_receivers {
                add_receiver(switches, group, receiver);
            }
        });
        self.add_keys(rng, group);
        self.set(group, "epochs", &group.epoch.to_be_bytes());
        self.set(group, "active", &[1]);
        self.set(group, "sequences", &1_u32.to_be_bytes());
    }

    /// Assigns requests with this destination address and this group number to the group. `None` matches every value.
    pub fn know(&mut self, group: &Group, address: Option<Ipv4Addr>, number: Option<u16>) {
        let [shards, receivers] = group.multicast_ids();
        let args = [
            group.number.to_be_bytes().to_vec(),
            u32::from(group.slot).to_be_bytes().to_vec(),
            shards.to_be_bytes().to_vec(),
            receivers.to_be_bytes().to_vec(),
        ];
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let key = vec![
            MatchField::Optional(address.map(|it| it.octets().to_vec())),
            MatchField::Optional(number.map(|it| it.to_be_bytes().to_vec())),
        ];
        self.all(|switches| switches.insert("groups", "set_group", (key.clone(), 1), &args));
    }

    pub fn add_keys(&mut self, rng: &mut Rng, group: &Group) {
        for (shard, keys) in (0u8..).zip(group.keys.chunks(LANES)) {
            let lane = |lane: usize| match keys.get(lane) {
                Some(key) => [key.k0, key.k1],
                None => [rng.u32(..), rng.u32(..)],
            };
            let words: Vec<[u8; 4]> = (0..LANES).flat_map(lane).map(u32::to_be_bytes).collect();
            let args: Vec<&[u8]> = words.iter().map(<[u8; 4]>::as_slice).collect();
            let number = group.number.to_be_bytes();
            let epoch = group.epoch.to_be_bytes();
            let key: [&[u8]; 3] = [&number, &epoch, &[shard]];
            self.all(|switches| switches.insert_exact("lane_keys", "set_keys", &key, &args));
        }
    }

    /// Writes a group's cell of one of the sequencer's registers.
    pub fn set(&mut self, group: &Group, register: &str, value: &[u8]) {
        let register = format!("AomIngress.sequencer.{register}");
        let slot = u64::from(group.slot);
        self.all(|switches| switches.write_register(&register, slot, value));
    }

    /// Sends a request to a group and returns the copies, ordered by shard.
    pub fn request(&mut self, group: &Group, datagram: &[u8]) -> Vec<Copy> {
        self.request_at(group.address(), group, datagram)
    }

    /// Sends a group's request to this address, which may be another one than the group's.
    pub fn request_at(&mut self, address: Ipv4Addr, group: &Group, datagram: &[u8]) -> Vec<Copy> {
        let left = self.send(SENDER_PORT, &frame_to(address, datagram));
        let copies = left.iter().map(|sent| {
            assert_eq!(sent.port, RECEIVERS_PORT);
            let copy = udp_copy(&sent.frame);
            assert_eq!(copy.udp_checksum, 0, "expected no UDP checksum");
            assert_eq!(copy.macs.1, SWITCH_MAC);
            assert_eq!(copy.ports.1, RECEIVER_UDP_PORT);
            let [_, _, slot, receiver] = copy.ips.1.octets();
            assert_eq!(slot, group.slot as u8);
            assert_eq!(copy.macs.0[5], receiver);
            Copy {
                receiver,
                datagram: copy.payload,
            }
        });
        copies.collect()
    }

    /// Sends a frame to all switches and returns their output, which must be the same.
    ///
    /// # Panics
    /// The outputs of two programs or of two engines differ.
    pub fn send(&mut self, port: PortId, frame: &[u8]) -> Vec<OwnedTransmit> {
        let [unrolled, rounds] = &mut self.forms;
        let left = unrolled.send(port, frame);
        let mut of_rounds = rounds.send(port, frame);
        // In the second program each shard passes through the pipeline twelve times, so the shards may leave in another
        // order.
        let by_shard = |sent: &OwnedTransmit| (sent.port, sent.frame.get(47).copied());
        of_rounds.sort_by_key(by_shard);
        let mut expected = left.clone();
        expected.sort_by_key(by_shard);
        assert!(
            of_rounds == expected,
            "the outputs of the two programs differ for the frame {frame:02x?}"
        );
        left
    }

    /// Returns the number of packets with each verdict (the program's decision to forward or to drop, with the reason),
    /// in the order of the verdicts' numbers.
    pub fn verdicts(&self) -> Vec<u64> {
        let [unrolled, rounds] = [0, 1].map(|form| {
            let switch = &self.forms[form].reference;
            let program = switch.program().expect("a program is set");
            let counter = program.counter("AomIngress.sequencer.verdicts");
            let counter = counter.expect("the program counts verdicts");
            let cells = 0..switch.counter_size(counter);
            let packets = cells.map(|at| switch.counter_cell(counter, at));
            packets
                .map(|cell| cell.expect("in range").packets)
                .collect()
        });
        let unrolled: Vec<u64> = unrolled;
        assert_eq!(unrolled, rounds);
        unrolled
    }

    fn all(&mut self, to_do: impl FnMut(&mut Beside)) {
        self.forms.iter_mut().for_each(to_do);
    }
}

impl Default for Sequencers {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a UDP packet from the sender, with correct checksums.
pub fn frame_to(address: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let [_, b, c, d] = address.octets();
    let builder = PacketBuilder::ethernet2(SENDER_MAC, [1, 0, 0x5e, b & 0x7f, c, d])
        .ipv4(SENDER_IP.octets(), address.octets(), 64)
        .udp(40_000, UDP_PORT);
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder
        .write(&mut frame, payload)
        .expect("a Vec takes everything");
    frame
}

fn multicast(id: u16, port: PortId, n_replicas: u16) -> MulticastGroup {
    let replica = |instance| Replica { port, instance };
    MulticastGroup {
        id: u32::from(id),
        replicas: (0..n_replicas).map(replica).collect(),
        ..MulticastGroup::default()
    }
}

fn add_receiver(switches: &mut Beside, group: &Group, receiver: u16) {
    let [slot, number] = [group.slot as u8, receiver as u8];
    switches.insert_exact(
        "receivers",
        "set_receiver",
        &[&group.number.to_be_bytes(), &receiver.to_be_bytes()],
        &[
            &SWITCH_MAC,
            &[2, 0, 0, 1, slot, number],
            &[10, 0, slot, number],
            &RECEIVER_UDP_PORT.to_be_bytes(),
        ],
    );
}
