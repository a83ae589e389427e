//! The oracle's book: who is there, who publishes what, who has subscribed, what is muted and which sockets are signed
//! in. The test updates the book from its own requests and from the service's events, not from the service's model. The
//! book determines where a packet must go, and what the switch must have. A leg is a participant's connection by one
//! UDP socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use conference_api::{MutedBy, Name, TrackKind};
use conference_model::{BindingRecord, LegEntries, Receiver, Socket};
use conference_service::rows::{OwnAddress, Rows};

use crate::frames::MEDIA_PORT;

/// The highest rate at which a leg that publishes nothing may send, in kbit/s.
pub const REPORTS_KBPS: u32 = 256;
const HELLO_LEN: usize = 66;

pub type SocketKey = (u16, IpAddr, u16, [u8; 6]);
/// A track by its publisher and its name.
pub type Path = (Name, Name);

#[derive(Clone, Default)]
pub struct Book {
    pub own_addresses: Vec<OwnAddress>,
    pub conferences: BTreeMap<Name, Conference>,
    pub bound: BTreeMap<u16, Bound>,
    by_socket: BTreeMap<SocketKey, u16>,
}

pub type Conference = BTreeMap<Name, Participant>;

#[derive(Clone, Default)]
pub struct Participant {
    pub expires_s: u64,
    pub tracks: BTreeMap<Name, Track>,
    pub subscriptions: BTreeMap<Path, Subscription>,
    /// The legs' numbers, as the service gave them.
    pub legs: BTreeMap<Name, u16>,
}

#[derive(Clone)]
pub struct Track {
    pub kind: TrackKind,
    pub is_rtp: bool,
    pub muted_by: Option<MutedBy>,
    /// The qualities, the best one first.
    pub qualities: Vec<Quality>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quality {
    pub name: Name,
    pub max_kbps: u32,
    pub leg: Name,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    pub quality: Option<Name>,
    pub leg: Name,
}

/// A leg that is signed in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    pub place: BindingRecord,
    pub conference: Name,
    pub participant: Name,
    pub leg: Name,
}

/// What must happen to a packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Fate {
    /// The name of the program's action.
    pub verdict: &'static str,
    /// The leg whose entry the packet hits, and to whose counters the packet is added.
    pub of: Option<u16>,
    /// Legs that get a copy.
    pub copies: BTreeSet<u16>,
}

pub fn key_of(place: &BindingRecord) -> SocketKey {
    (place.port, place.address, place.udp_port, place.mac)
}

impl Track {
    /// Returns the quality with this name or, if there is none, the best quality.
    fn chosen(&self, name: Option<&Name>) -> &Quality {
        let named = self.qualities.iter().find(|it| Some(&it.name) == name);
        named.unwrap_or(&self.qualities[0])
    }
}

impl Participant {
    /// Returns the names of the legs that the participant's tracks and subscriptions need.
    pub fn leg_names(&self) -> BTreeSet<Name> {
        let qualities = self.tracks.values().flat_map(|it| &it.qualities);
        let sending = qualities.map(|it| it.leg.clone());
        let receiving = self.subscriptions.values().map(|it| it.leg.clone());
        sending.chain(receiving).collect()
    }

    /// Returns what a leg sends: a track's name, the track and its quality.
    pub fn sends(&self, leg: &Name) -> Option<(&Name, &Track, &Quality)> {
        self.tracks.iter().find_map(|(name, track)| {
            let quality = track.qualities.iter().find(|it| it.leg == *leg)?;
            Some((name, track, quality))
        })
    }
}

/// The methods about participants and legs.
impl Book {
    pub fn new(own_addresses: Vec<OwnAddress>) -> Book {
        Book {
            own_addresses,
            ..Book::default()
        }
    }

    pub fn participant(&self, (conference, name): &(Name, Name)) -> Option<&Participant> {
        self.conferences.get(conference)?.get(name)
    }

    pub fn participant_mut(&mut self, (conference, name): &(Name, Name)) -> &mut Participant {
        let found = self
            .conferences
            .get_mut(conference)
            .and_then(|it| it.get_mut(name));
        found.expect("the participant is in the book")
    }

    pub fn participants(&self) -> impl Iterator<Item = ((Name, Name), &Participant)> {
        self.conferences.iter().flat_map(|(conference, inside)| {
            let inside = inside.iter();
            inside.map(|(name, it)| ((conference.clone(), name.clone()), it))
        })
    }

    /// The participants of a conference; none if there is no such conference.
    fn inside(&self, conference: &Name) -> impl Iterator<Item = (&Name, &Participant)> {
        self.conferences.get(conference).into_iter().flatten()
    }

    pub fn of_socket(&self, key: &SocketKey) -> Option<u16> {
        self.by_socket.get(key).copied()
    }

    pub fn bind(&mut self, leg: u16, bound: Bound) {
        self.unbind(leg);
        let before = self.by_socket.insert(key_of(&bound.place), leg);
        assert_eq!(before, None, "a socket is signed in to two legs");
        self.bound.insert(leg, bound);
    }

    pub fn unbind(&mut self, leg: u16) -> Option<Bound> {
        let bound = self.bound.remove(&leg)?;
        self.by_socket.remove(&key_of(&bound.place));
        Some(bound)
    }

    /// Returns how many records a store must have.
    pub fn n_records(&self) -> usize {
        let participants = self.conferences.values().map(BTreeMap::len);
        self.conferences.len() + participants.sum::<usize>() + self.bound.len()
    }

    fn owner(&self, leg: u16) -> Option<(&Bound, &Participant)> {
        let bound = self.bound.get(&leg)?;
        let inside = self.conferences.get(&bound.conference)?;
        Some((bound, inside.get(&bound.participant)?))
    }

    /// Adds the number of a participant's leg to `legs`, if the leg is signed in.
    fn add(&self, legs: &mut BTreeSet<u16>, participant: &Participant, leg: &Name) {
        let number = participant.legs.get(leg);
        legs.extend(number.filter(|it| self.bound.contains_key(it)));
    }

    /// Returns whether the switch takes only RTP and RTCP from a leg, and at which rate at most, in kbit/s.
    pub fn bounds_of(&self, leg: u16) -> (bool, u32) {
        let sent = self.owner(leg).and_then(|(bound, of)| of.sends(&bound.leg));
        sent.map_or((true, REPORTS_KBPS), |(_, track, quality)| {
            (track.is_rtp, quality.max_kbps)
        })
    }

    /// Returns the legs that get the media that a leg sends.
    pub fn receivers(&self, leg: u16) -> BTreeSet<u16> {
        let mut legs = BTreeSet::new();
        let Some((bound, publisher)) = self.owner(leg) else {
            return legs;
        };
        let Some((name, track, quality)) = publisher.sends(&bound.leg) else {
            return legs;
        };
        if track.muted_by.is_some() {
            return legs;
        }
        let path = (bound.participant.clone(), name.clone());
        for (_, participant) in self.inside(&bound.conference) {
            if let Some(wanted) = participant.subscriptions.get(&path)
                && track.chosen(wanted.quality.as_ref()) == quality
            {
                self.add(&mut legs, participant, &wanted.leg);
            }
        }
        legs
    }

    /// Returns the legs that get the reports on what a leg receives.
    pub fn publishers(&self, leg: u16) -> BTreeSet<u16> {
        let mut legs = BTreeSet::new();
        let Some((bound, receiver)) = self.owner(leg) else {
            return legs;
        };
        for ((who, name), wanted) in &receiver.subscriptions {
            if wanted.leg == bound.leg
                && let Some(publisher) = self.conferences[&bound.conference].get(who)
                && let Some(track) = publisher.tracks.get(name)
                && track.is_rtp
                && track.muted_by.is_none()
            {
                let quality = track.chosen(wanted.quality.as_ref());
                self.add(&mut legs, publisher, &quality.leg);
            }
        }
        legs
    }
}

/// The methods that determine what must happen to a packet, and what the switch must have.
impl Book {
    /// Returns the leg whose entry a packet hits.
    pub fn hit(&self, from: &BindingRecord, to_port: u16) -> Option<u16> {
        let is_own = |own: &OwnAddress| {
            (own.port, own.address, own.mac) == (from.port, from.own_address, from.own_mac)
        };
        if to_port != MEDIA_PORT || !self.own_addresses.iter().any(is_own) {
            return None;
        }
        self.of_socket(&key_of(from))
    }

    /// Returns what must happen to a datagram. `is_green` tells whether the leg whose entry the datagram hits is within
    /// its rate.
    pub fn fate(&self, from: &BindingRecord, to_port: u16, payload: &[u8], is_green: bool) -> Fate {
        let dropped = |verdict| Fate {
            verdict,
            of: None,
            copies: BTreeSet::new(),
        };
        let is_own = |own: &OwnAddress| {
            (own.port, own.address, own.mac) == (from.port, from.own_address, from.own_mac)
        };
        if !self.own_addresses.iter().any(is_own) {
            return dropped("drop_not_for_us");
        }
        if to_port != MEDIA_PORT {
            return dropped("drop_other_udp_port");
        }
        let of = self.of_socket(&key_of(from));
        let dropped = |verdict| Fate {
            of,
            ..dropped(verdict)
        };
        let known = of.map(|leg| (leg, &self.bound[&leg]));
        if payload.len() == HELLO_LEN && payload.starts_with(b"RH") {
            let said = known.map(|(leg, _)| u32::from(leg).to_be_bytes());
            let is_its_own = payload[2..4] == [1, 1] && said.is_some_and(|it| payload[6..10] == it);
            return dropped(if is_its_own && is_green {
                "answer_hello"
            } else {
                "to_controller"
            });
        }
        let Some((leg, _)) = known else {
            return dropped("drop_not_signed_in");
        };
        if !is_green {
            return dropped("drop_policed");
        }
        let (only_rtp, _) = self.bounds_of(leg);
        let is_rtp = payload.len() >= 2 && payload[0] >> 6 == 2;
        if only_rtp && !is_rtp {
            return dropped("drop_not_rtp");
        }
        let mut copies = self.receivers(leg);
        if only_rtp && is_rtp && (192..=223).contains(&payload[1]) {
            copies.extend(self.publishers(leg));
        }
        if copies.is_empty() {
            return dropped("drop_no_receiver");
        }
        Fate {
            verdict: "serve",
            of,
            copies,
        }
    }

    /// Returns exactly the entries and groups that the switch must have.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        for own in &self.own_addresses {
            rows.add_own_address(own);
        }
        for leg in self.bound.keys() {
            rows.add_leg(*leg, &self.entries(*leg));
        }
        rows
    }

    fn entries(&self, leg: u16) -> LegEntries {
        let place = &self.bound[&leg].place;
        let members = |legs: &BTreeSet<u16>| -> Vec<(u16, u16)> {
            let members = legs.iter().map(|it| (self.bound[it].place.port, *it));
            members.collect()
        };
        let (media, publishers) = (self.receivers(leg), self.publishers(leg));
        let (is_rtp, max_kbps) = self.bounds_of(leg);
        let sent = self.owner(leg).and_then(|(bound, of)| of.sends(&bound.leg));
        let media_group = if media.is_empty() { 0 } else { leg };
        let has_own_reports = !publishers.is_empty();
        let socket = Socket {
            port: place.port,
            address: place.address,
            udp_port: place.udp_port,
            mac: place.mac,
            media_group,
            report_group: if has_own_reports {
                0x8000 | leg
            } else {
                media_group
            },
            priority: sent.map_or(0, |(_, track, _)| match track.kind {
                TrackKind::Audio => 6,
                TrackKind::Data => 4,
                TrackKind::Screen => 2,
                TrackKind::Video => 1,
            }),
            is_rtp,
            max_kbps,
        };
        let receiver = Receiver {
            own_mac: place.own_mac,
            mac: place.mac,
            own_address: place.own_address,
            address: place.address,
            udp_port: place.udp_port,
        };
        LegEntries {
            socket: Some(socket),
            receiver: Some(receiver),
            media: members(&media),
            reports: if has_own_reports {
                members(&media.union(&publishers).copied().collect())
            } else {
                Vec::new()
            },
        }
    }
}
