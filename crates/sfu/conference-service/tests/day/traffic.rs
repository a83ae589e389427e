//! Sends packets, and checks what happens to them. A leg is a participant's connection by one UDP socket.

use std::time::Duration;

use conference_model::BindingRecord;
use hello::{Hello, Kind, Received};

use crate::book::{Book, Fate};
use crate::day::{AtSwitch, Day};
use crate::frames::{self, MEDIA_PORT};
use crate::service::DAWN_MS;
use crate::switch::Left;

/// The most hellos that a host sends within a simulated second: the first hello, one with the challenge's nonce, and
/// two more if the answers demand them.
const HELLOS_MAX: usize = 4;
/// How many sockets are drawn to find one whose packets somebody receives.
const TRIES: usize = 4;
/// This many packets of 1,400 bytes are more than any leg may send at once.
const FLOOD: usize = 60;

fn is_hello(payload: &[u8]) -> bool {
    payload.len() == hello::LEN && payload.starts_with(b"RH")
}

/// Returns the frames that must leave the switch.
fn expected(
    book: &Book,
    fate: &Fate,
    from: &BindingRecord,
    payload: &[u8],
    sum: bool,
) -> Vec<Left> {
    if fate.verdict == "answer_hello" {
        let mut alive = payload.to_vec();
        alive[3] = Kind::Alive as u8;
        return vec![(from.port, frames::answer(from, &alive))];
    }
    let places = fate.copies.iter().map(|leg| &book.bound[leg].place);
    // IPv6 has no datagrams without a checksum.
    let reached = places.filter(|to| sum || to.address.is_ipv4());
    let mut left: Vec<Left> = reached
        .map(|to| (to.port, frames::copy(to, payload, sum)))
        .collect();
    left.sort();
    left
}

impl Day {
    /// Sends a datagram, and checks that it goes where the book demands. Returns the frames that left, and whether the
    /// datagram came to the controller. Returns `None` if the switch has no program or only a part of the last writes.
    /// Returns `None` also if the datagram was not sent, because the oracle does not know how much of the leg's rate is
    /// left.
    pub fn send(
        &mut self,
        from: &BindingRecord,
        to_port: u16,
        payload: &[u8],
        with_checksum: bool,
    ) -> Option<(Vec<Left>, bool)> {
        let frame = frames::sent(from, to_port, payload, with_checksum);
        let sum = with_checksum;
        let now_s = self.now_s;
        let book = match &self.at_switch {
            AtSwitch::Live => &self.book,
            AtSwitch::Old(book) => book,
            AtSwitch::Nothing => {
                let left = self.switch.receive(from.port, &frame);
                assert_eq!(
                    (left, self.switch.packet_ins()),
                    (vec![], vec![]),
                    "without a program"
                );
                return None;
            }
            AtSwitch::Between(_) => {
                self.send_between(from, to_port, payload, sum);
                return None;
            }
        };
        let hit = book.hit(from, to_port);
        let is_green = match hit {
            None => true,
            Some(leg) => {
                let bucket = self.buckets.get_mut(&leg).expect("a bucket of each leg");
                let is_green = bucket.take(frame.len() as u64, now_s)?;
                self.heard_s.insert(leg, now_s);
                is_green
            }
        };
        let fate = match (sum, from.address.is_ipv4()) {
            (false, false) => panic!("no host sends IPv6 without a checksum"),
            _ => book.fate(from, to_port, payload, is_green),
        };
        assert_eq!(fate.of, hit);
        self.counts.add(&fate, frame.len() as u64, is_green);
        self.statistics.add(fate.verdict);
        let mut left = self.switch.receive(from.port, &frame);
        left.sort();
        let due = expected(book, &fate, from, payload, sum);
        self.statistics.add_many("copies", due.len());
        assert!(
            left == due,
            "{} from {from:?} with {payload:02x?}: expected {due:02x?}, found {left:02x?}",
            fate.verdict
        );
        let is_for_controller = fate.verdict == "to_controller";
        let due = if is_for_controller {
            vec![(from.port, frame)]
        } else {
            vec![]
        };
        assert_eq!(self.switch.packet_ins(), due, "frames for the controller");
        Some((left, is_for_controller))
    }

    /// Sends a packet while the switch has done only some of the last writes. A receiver that must get no copy before
    /// these writes, and none after them, must get none now.
    fn send_between(&mut self, from: &BindingRecord, to_port: u16, payload: &[u8], sum: bool) {
        let AtSwitch::Between(books) = &self.at_switch else {
            return;
        };
        if is_hello(payload) {
            return;
        }
        let frame = frames::sent(from, to_port, payload, sum);
        let mut left = self.switch.receive(from.port, &frame);
        left.sort();
        assert!(
            left.windows(2).all(|it| it[0] != it[1]),
            "a copy came twice"
        );
        let due = books.each_ref().map(|book| {
            let fate = book.fate(from, to_port, payload, true);
            expected(book, &fate, from, payload, sum)
        });
        for one in &left {
            let is_due = due.iter().any(|it| it.contains(one));
            assert!(
                is_due,
                "{one:02x?} is due neither before a write that was cut off nor after it"
            );
        }
        for book in books.as_ref() {
            if let Some(leg) = book.hit(from, to_port) {
                self.heard_s.insert(leg, self.now_s);
            }
        }
        self.statistics.add("packets between two states");
    }

    /// Sends a hello, lets the service answer it, and returns what came back to the sender; `None`
    /// if [`Day::send`] returns `None`.
    pub fn say(&mut self, from: &BindingRecord, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (left, is_for_controller) = self.send(from, MEDIA_PORT, bytes, true)?;
        let mut came: Vec<Vec<u8>> = Vec::new();
        came.extend(
            left.iter()
                .map(|(_, frame)| frames::payload(frame).to_vec()),
        );
        if !is_for_controller || !self.is_connected() {
            return Some(came);
        }
        let frame = frames::sent(from, MEDIA_PORT, bytes, true);
        let answer = self.service.packet_in(from.port, &frame, self.now_s);
        self.hear_events();
        let welcomes = self.flush();
        for (port, frame) in answer.into_iter().chain(welcomes) {
            let payload = frames::payload(&frame).to_vec();
            assert_eq!((port, &frame), (from.port, &frames::answer(from, &payload)));
            assert_eq!(self.switch.packet_out(port, &frame), [(port, frame)]);
            came.push(payload);
        }
        Some(came)
    }

    /// Makes a host send its hello, and further hellos if the answers demand them.
    pub fn say_hello(&mut self, leg: u16) {
        let wall_ms = DAWN_MS + self.now_s * 1_000;
        let now = Duration::from_secs(self.now_s);
        for _ in 0..HELLOS_MAX {
            let Some(socket) = self.sockets.get_mut(&leg) else {
                return;
            };
            let place = socket.place;
            let Some(bytes) = socket.signing.hello(now, wall_ms) else {
                return;
            };
            socket.is_answered = false;
            let Some(came) = self.say(&place, &bytes) else {
                return;
            };
            self.remember_hello(place, bytes);
            for payload in came {
                let socket = self.sockets.get_mut(&leg).expect("it is still there");
                match socket.signing.receive(&payload, now) {
                    Received::Other => panic!("leg {leg} cannot use the answer {payload:02x?}"),
                    Received::Challenged => self.statistics.add("challenges"),
                    Received::SignedIn => {
                        socket.is_answered = true;
                        self.statistics.add("welcomes");
                        self.expect_signed_in(leg);
                    }
                    Received::Alive => {
                        socket.is_answered = true;
                        self.expect_signed_in(leg);
                    }
                }
            }
        }
    }

    /// Demands that a socket that got an answer is signed in.
    fn expect_signed_in(&self, leg: u16) {
        let book = match &self.at_switch {
            AtSwitch::Old(book) => book,
            _ => &self.book,
        };
        let there = book.bound.get(&leg).map(|it| it.place);
        assert_eq!(
            there,
            Some(self.sockets[&leg].place),
            "leg {leg} was welcomed"
        );
    }

    /// Sends a forged hello, or a hello of another host, and checks that it signs no socket in. The only answers may be
    /// `Alive` and, if the hello is signed with a right key, a challenge.
    fn say_what_must_not_sign_in(&mut self, from: &BindingRecord, bytes: &[u8], is_signed: bool) {
        let before = self.book.bound.clone();
        let Some(came) = self.say(from, bytes) else {
            return;
        };
        assert!(
            self.book.bound == before,
            "a forged hello has signed a socket in"
        );
        for payload in came {
            let kind = Hello::decode(&payload).expect("a hello").kind;
            let is_due = kind == Kind::Alive || is_signed && kind == Kind::Challenge;
            assert!(is_due, "a forged hello was answered with {kind:?}");
        }
    }

    fn rtp(&mut self) -> Vec<u8> {
        let mut payload = self.bytes(12, 200);
        payload[0] = 0x80 | payload[0] & 0x3f;
        payload[1] = 0x60 | payload[1] & 0x9f;
        payload
    }

    fn rtcp(&mut self) -> Vec<u8> {
        let mut payload = self.bytes(8, 100);
        payload[0] = 0x80 | payload[0] & 0x3f;
        payload[1] = self.rng.u8(192..=223);
        payload
    }

    fn no_rtp(&mut self) -> Vec<u8> {
        let mut payload = self.bytes(0, 60);
        if let [first, _, ..] = &mut payload[..] {
            *first = (*first & 0x3f) | [0x00, 0x40, 0xc0][self.rng.usize(..3)];
        }
        payload
    }

    fn bytes(&mut self, least: usize, most: usize) -> Vec<u8> {
        let len = self.rng.usize(least..=most);
        (0..len).map(|_| self.rng.u8(..)).collect()
    }

    /// Makes some sockets send something.
    pub fn send_media(&mut self) {
        for _ in 0..self.rng.usize(..4) {
            let on = self.sockets.iter().filter(|(_, it)| it.is_on);
            let on: Vec<u16> = on.map(|(leg, _)| *leg).collect();
            // Prefers a leg whose media some participant receives.
            let some = (0..TRIES).filter_map(|_| self.rng.choice(on.iter().copied()));
            let some: Vec<u16> = some.collect();
            let received = some.iter().find(|it| !self.book.receivers(**it).is_empty());
            let Some(leg) = received.or(some.first()).copied() else {
                return;
            };
            let place = self.sockets[&leg].place;
            for _ in 0..self.rng.usize(1..4) {
                let payload = match self.rng.u8(..10) {
                    0..6 => self.rtp(),
                    6..9 => self.rtcp(),
                    _ => self.no_rtp(),
                };
                let sum = place.address.is_ipv6() || self.rng.u8(..20) > 0;
                self.send(&place, MEDIA_PORT, &payload, sum);
            }
        }
    }

    /// Makes a leg send more than its rate allows. Returns false if there is no suitable leg.
    pub fn flood(&mut self) -> bool {
        let now_s = self.now_s;
        let buckets = self.buckets.iter_mut();
        let full = buckets.filter_map(|(leg, it)| it.is_full(now_s).then_some(*leg));
        let on = full.filter(|leg| self.sockets.get(leg).is_some_and(|it| it.is_on));
        let Some(leg) = self.rng.choice(on.collect::<Vec<u16>>()) else {
            return false;
        };
        let place = self.sockets[&leg].place;
        let mut payload = self.rtp();
        payload.resize(1_400, 0x55);
        for _ in 0..FLOOD {
            self.send(&place, MEDIA_PORT, &payload, true);
        }
        true
    }

    /// Sends a forged packet. The oracle decides which participants must get it; nobody else may.
    pub fn attack(&mut self) {
        let bound: Vec<u16> = self.book.bound.keys().copied().collect();
        let Some(victim) = self.rng.choice(bound) else {
            return;
        };
        let victim_place = self.book.bound[&victim].place;
        let mut place = victim_place;
        let foreign_mac = [2, 0x66, 0, 0, 0, 1];
        match self.rng.u8(..6) {
            0 => place.mac = foreign_mac,
            1 => place = self.places.host(&mut self.rng),
            2 => place.udp_port ^= 1 << self.rng.u8(..14),
            3 => {
                let other = self
                    .rng
                    .choice(self.book.own_addresses.iter())
                    .expect("some");
                let is_v4 = other.address.is_ipv4() == place.address.is_ipv4();
                if is_v4 {
                    // The packet has the victim's address, but arrives at another port and is sent to that port's own
                    // address.
                    (place.port, place.own_mac, place.own_address) =
                        (other.port, other.mac, other.address);
                }
            }
            4 => place.own_mac[5] ^= 0x80,
            _ => {}
        }
        let to_port = if self.rng.u8(..8) == 0 {
            MEDIA_PORT + 1
        } else {
            MEDIA_PORT
        };
        if place == victim_place {
            // Nobody can tell these packets from the victim's, unless they are hellos, which are signed.
            let key = std::array::from_fn(|_| self.rng.u8(..));
            let bytes = self.forged(victim.into(), &key);
            self.say_what_must_not_sign_in(&place, &bytes, false);
            return;
        }
        match self.rng.u8(..4) {
            0 => {
                let payload = self.rtp();
                self.send(&place, to_port, &payload, true);
            }
            1 => {
                let payload = self.rtcp();
                self.send(&place, to_port, &payload, true);
            }
            2 => {
                let key = std::array::from_fn(|_| self.rng.u8(..));
                let leg = self
                    .rng
                    .choice([victim.into(), 0, 0x7fff, 0x8001, u32::MAX]);
                let bytes = self.forged(leg.expect("one"), &key);
                self.say_what_must_not_sign_in(&place, &bytes, false);
                self.statistics.add("hellos with a wrong key");
            }
            _ => {
                let seen = self.rng.choice(self.seen_hellos.iter().copied());
                if let Some((from, bytes)) = seen
                    && from != place
                {
                    self.say_what_must_not_sign_in(&place, &bytes, true);
                    self.statistics.add("replayed hellos");
                }
            }
        }
        self.statistics.add("forged packets");
    }

    fn forged(&mut self, leg: u32, key: &[u8; hello::KEY_LEN]) -> [u8; hello::LEN] {
        let hello = Hello {
            kind: Kind::Hello,
            leg,
            time_ms: self.rng.u64(..),
            nonce: std::array::from_fn(|_| self.rng.u8(..)),
        };
        hello.sign(key)
    }
}
