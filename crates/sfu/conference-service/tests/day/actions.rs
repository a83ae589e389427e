//! What people do in the simulated day. Actions are drawn like cards from a deck, which says how often each is done.

use std::collections::BTreeMap;

use conference_api::{
    ConferenceSpec, LeftReason, MutedBy, Name, ParticipantSpec, QualitySpec, SubscriptionSpec,
    TrackKind, TrackPath, TrackSpec, Transport,
};
use conference_model::{Refusal, Request};

use crate::book::{Participant, Path, Quality, Subscription, Track};
use crate::day::Day;
use crate::hosts::Host;
use crate::service::DAWN_MS;

const CONFERENCES_MAX: usize = 4;
const PARTICIPANTS_MAX: usize = 12;
const TRACKS_MAX: usize = 2;
const SUBSCRIPTIONS_MAX: usize = 4;

pub type Who = (Name, Name);

#[derive(Clone, Copy, Debug)]
pub enum Action {
    MakeConference,
    EndConference,
    Join,
    Renew,
    Leave,
    Publish,
    ChangeTrack,
    EndTrack,
    Subscribe,
    ChangeQuality,
    Unsubscribe,
    Mute,
    Vanish,
    ComeBack,
    Move,
    UseForAnotherLeg,
    Flood,
    AskForWhatCannotBe,
}

/// How many cards of each action are in a deck.
const DECK: [(Action, usize); 18] = [
    (Action::MakeConference, 2),
    (Action::EndConference, 1),
    (Action::Join, 14),
    (Action::Renew, 2),
    (Action::Leave, 4),
    (Action::Publish, 14),
    (Action::ChangeTrack, 4),
    (Action::EndTrack, 5),
    (Action::Subscribe, 26),
    (Action::ChangeQuality, 8),
    (Action::Unsubscribe, 6),
    (Action::Mute, 10),
    (Action::Vanish, 8),
    (Action::ComeBack, 3),
    (Action::Move, 5),
    (Action::UseForAnotherLeg, 3),
    (Action::Flood, 2),
    (Action::AskForWhatCannotBe, 2),
];

fn name(text: impl Into<String>) -> Name {
    Name::new(text).expect("a name")
}

fn path_of((participant, track): &Path) -> TrackPath {
    TrackPath {
        participant: participant.clone(),
        track: track.clone(),
    }
}

fn spec_of(track: &Name, record: &Track) -> TrackSpec {
    let qualities = record.qualities.iter().map(|it| QualitySpec {
        name: it.name.clone(),
        max_kbps: it.max_kbps,
        leg: (it.leg != name(format!("{track}.{}", it.name))).then(|| it.leg.clone()),
    });
    TrackSpec {
        kind: record.kind,
        transport: if record.is_rtp {
            Transport::Rtp
        } else {
            Transport::Datagram
        },
        qualities: qualities.collect(),
        sdp: String::new(),
    }
}

impl Day {
    /// Draws the next action from the deck and does it, if that is possible.
    pub fn act(&mut self) {
        if self.deck.is_empty() {
            let cards = DECK.iter();
            self.deck = cards
                .flat_map(|(action, n)| std::iter::repeat_n(*action, *n))
                .collect();
            self.rng.shuffle(&mut self.deck);
        }
        let Some(action) = self.deck.pop() else {
            return;
        };
        // If no participant can do the action now, nothing happens; the next second draws another action.
        let _ = match action {
            Action::MakeConference => self.make_conference(),
            Action::EndConference => self.end_conference(),
            Action::Join => self.join(),
            Action::Renew => self.renew(),
            Action::Leave => self.leave(),
            Action::Publish => self.publish(),
            Action::ChangeTrack => self.change_track(),
            Action::EndTrack => self.end_track(),
            Action::Subscribe => self.subscribe(),
            Action::ChangeQuality => self.change_quality(),
            Action::Unsubscribe => self.unsubscribe(),
            Action::Mute => self.mute(),
            Action::Vanish => self.vanish(),
            Action::ComeBack => self.come_back_elsewhere(),
            Action::Move => self.move_host(),
            Action::UseForAnotherLeg => self.use_for_another_leg(),
            Action::Flood => {
                if self.flood() {
                    self.statistics.add("floods");
                }
                Some(())
            }
            Action::AskForWhatCannotBe => self.ask_for_what_cannot_be(),
        };
    }

    fn ask(&mut self, request: &Request, by: Option<&Who>) -> Result<(), Refusal> {
        if let Some((conference, participant)) = by {
            self.service.seen(conference, participant, self.now_s);
            self.asked.insert((conference.clone(), participant.clone()));
        }
        self.service.ask(request, self.now_s)
    }

    fn done(&mut self, request: &Request, by: Option<&Who>) {
        let asked = self.ask(request, by);
        asked.unwrap_or_else(|why| panic!("expected {request:?} to be done: {why}"));
    }

    fn refused(&mut self, request: &Request, by: Option<&Who>) {
        let asked = self.ask(request, by);
        assert!(asked.is_err(), "expected {request:?} to be refused");
        self.statistics.add("refused requests");
    }

    pub fn one<T>(&mut self, all: Vec<T>) -> Option<T> {
        self.rng.choice(all)
    }

    /// Chooses a participant whose host is on and for whom `is` is true.
    pub fn somebody(&mut self, is: impl Fn(&Participant) -> bool) -> Option<Who> {
        let all = self.book.participants();
        let is_on = |who: &Who| self.hosts.get(who).is_some_and(|it| it.is_on);
        let some = all.filter(|(who, it)| is_on(who) && is(it));
        let some = some.map(|(who, _)| who).collect();
        self.one(some)
    }

    fn make_conference(&mut self) -> Option<()> {
        if self.book.conferences.len() >= CONFERENCES_MAX {
            return None;
        }
        self.n_names += 1;
        let conference = name(format!("c{}", self.n_names));
        let request = Request::PutConference {
            conference: conference.clone(),
            spec: ConferenceSpec::default(),
        };
        self.done(&request, None);
        self.book.conferences.insert(conference, BTreeMap::new());
        self.statistics.add("conferences made");
        Some(())
    }

    fn end_conference(&mut self) -> Option<()> {
        if self.book.conferences.len() < 2 {
            return None;
        }
        let conference = self.one(self.book.conferences.keys().cloned().collect())?;
        let request = Request::DeleteConference {
            conference: conference.clone(),
        };
        self.done(&request, None);
        let inside: Vec<Name> = self.book.conferences[&conference].keys().cloned().collect();
        for participant in inside {
            self.remove_participant(&(conference.clone(), participant));
        }
        self.book.conferences.remove(&conference);
        self.statistics.add("conferences ended");
        Some(())
    }

    fn token_end_s(&mut self) -> u64 {
        let most_s = if self.rng.u8(..3) == 0 { 240 } else { 7_200 };
        self.now_s + self.rng.u64(30..most_s)
    }

    fn put_participant(&mut self, who: &Who, spec: ParticipantSpec, expires_s: u64) {
        let request = Request::PutParticipant {
            conference: who.0.clone(),
            participant: who.1.clone(),
            spec,
            expires_ms: DAWN_MS + expires_s * 1_000,
        };
        self.done(&request, Some(who));
    }

    fn join(&mut self) -> Option<()> {
        let n_there = self.book.participants().count();
        if n_there >= PARTICIPANTS_MAX {
            return None;
        }
        let conference = self.one(self.book.conferences.keys().cloned().collect())?;
        self.n_names += 1;
        // Some names come again, so that subscriptions to somebody who was there before work again.
        let number = if self.rng.bool() {
            self.n_names
        } else {
            self.rng.u64(..12)
        };
        let who = (conference.clone(), name(format!("p{number}")));
        if self.book.participant(&who).is_some() {
            return None;
        }
        let mut participant = Participant {
            expires_s: self.token_end_s(),
            ..Participant::default()
        };
        let mut spec = ParticipantSpec::default();
        if self.rng.bool()
            && let Some((track, record)) = self.new_track(&participant)
        {
            spec.tracks.insert(track.clone(), spec_of(&track, &record));
            participant.tracks.insert(track, record);
            self.statistics.add("joins with a track");
        }
        let others = self.tracks_of_others(&who);
        if self.rng.bool()
            && let Some(path) = self.one(others)
        {
            let (wanted, subscription) = self.new_subscription(&who, &path);
            let of_publisher = spec.subscriptions.entry(path.0.clone()).or_default();
            of_publisher.insert(path.1.clone(), subscription);
            participant.subscriptions.insert(path, wanted);
            self.statistics.add("joins with a subscription");
        }
        self.put_participant(&who, spec, participant.expires_s);
        let inside = self
            .book
            .conferences
            .get_mut(&conference)
            .expect("it is there");
        inside.insert(who.1.clone(), participant);
        self.joined(&who);
        let base = self.places.host(&mut self.rng);
        if base.address.is_ipv6() {
            self.statistics.add("joins over IPv6");
        }
        self.hosts.insert(who.clone(), Host { base, is_on: true });
        self.meet_legs(&who);
        if self.rng.u8(..3) == 0 {
            let stream = self.service.presence.stream(&who.0, Some(&who.1));
            self.streams.insert(who, stream);
        }
        self.statistics.add("joins");
        Some(())
    }

    fn renew(&mut self) -> Option<()> {
        let who = self.somebody(|_| true)?;
        let expires_s = self.token_end_s();
        self.put_participant(&who, ParticipantSpec::default(), expires_s);
        self.book.participant_mut(&who).expires_s = expires_s;
        self.statistics.add("tokens renewed");
        Some(())
    }

    fn leave(&mut self) -> Option<()> {
        let who = self.somebody(|_| true)?;
        let is_removed = self.rng.u8(..3) == 0;
        let (reason, what, by) = if is_removed {
            (LeftReason::Removed, "removals", None)
        } else {
            (LeftReason::Left, "leaves", Some(&who))
        };
        let request = Request::DeleteParticipant {
            conference: who.0.clone(),
            participant: who.1.clone(),
            reason,
        };
        self.done(&request, by);
        self.remove_participant(&who);
        self.statistics.add(what);
        Some(())
    }

    /// Removes from the book a participant that has left its conference. The book is the test's own record of who is
    /// there and what must be true of the switch.
    pub fn remove_participant(&mut self, who: &Who) {
        let inside = self.book.conferences.get_mut(&who.0).expect("it is there");
        let participant = inside.remove(&who.1).expect("it was there");
        for leg in participant.legs.values() {
            self.end_leg(*leg);
        }
        self.hosts.remove(who);
        self.forget_participant(who);
    }

    fn qualities(&mut self, track: &Name) -> Vec<Quality> {
        let names = ["hi", "mid", "lo"];
        let n = self.rng.usize(1..=3);
        let mut qualities = Vec::new();
        for quality in &names[..n] {
            let leg = name(format!("{track}.{quality}"));
            let max_kbps = self.rng.choice([64, 500, 1_500, 9_000]).expect("one");
            let name = name(*quality);
            qualities.push(Quality {
                name,
                max_kbps,
                leg,
            });
        }
        qualities
    }

    fn put_track(&mut self, who: &Who, track: &Name, record: &Track) {
        let request = Request::PutTrack {
            conference: who.0.clone(),
            path: path_of(&(who.1.clone(), track.clone())),
            spec: spec_of(track, record),
        };
        self.done(&request, Some(who));
    }

    /// Draws the name of a track and makes the track; `None` if the participant already has a track of this name.
    fn new_track(&mut self, participant: &Participant) -> Option<(Name, Track)> {
        let kinds = [
            ("mic", TrackKind::Audio),
            ("cam", TrackKind::Video),
            ("screen", TrackKind::Screen),
            ("data", TrackKind::Data),
        ];
        let (track, kind) = self.rng.choice(kinds)?;
        let track = name(track);
        if participant.tracks.contains_key(&track) {
            return None;
        }
        let shared = name("one");
        let is_free = participant.sends(&shared).is_none();
        let mut qualities = self.qualities(&track);
        if is_free && self.rng.u8(..3) == 0 {
            qualities[0].leg = shared;
        }
        let record = Track {
            kind,
            is_rtp: kind != TrackKind::Data && self.rng.u8(..8) > 0,
            muted_by: None,
            qualities,
        };
        if record.qualities.len() > 1 {
            self.statistics.add("tracks of several qualities");
        }
        if !record.is_rtp {
            self.statistics.add("tracks of datagrams");
        }
        self.statistics.add("tracks published");
        Some((track, record))
    }

    fn publish(&mut self) -> Option<()> {
        let who = self.somebody(|it| it.tracks.len() < TRACKS_MAX)?;
        let participant = self.book.participant(&who)?.clone();
        let (track, record) = self.new_track(&participant)?;
        self.put_track(&who, &track, &record);
        self.book.participant_mut(&who).tracks.insert(track, record);
        self.meet_legs(&who);
        Some(())
    }

    /// Gives a track other qualities, other rates or another transport.
    fn change_track(&mut self) -> Option<()> {
        let who = self.somebody(|it| !it.tracks.is_empty())?;
        let tracks = self.book.participant(&who)?.tracks.clone();
        let (track, old) = self.one(tracks.into_iter().collect())?;
        let mut qualities = self.qualities(&track);
        if self.rng.bool() {
            qualities[0].leg = old.qualities[0].leg.clone();
        }
        let record = Track {
            is_rtp: if self.rng.u8(..4) == 0 {
                !old.is_rtp
            } else {
                old.is_rtp
            },
            qualities,
            ..old
        };
        self.put_track(&who, &track, &record);
        self.book.participant_mut(&who).tracks.insert(track, record);
        self.meet_legs(&who);
        self.statistics.add("tracks changed");
        Some(())
    }

    fn end_track(&mut self) -> Option<()> {
        let who = self.somebody(|it| !it.tracks.is_empty())?;
        let tracks = &self.book.participant(&who)?.tracks;
        let track = self
            .rng
            .choice(tracks.keys().cloned().collect::<Vec<_>>())?;
        let request = Request::DeleteTrack {
            conference: who.0.clone(),
            path: path_of(&(who.1.clone(), track.clone())),
        };
        self.done(&request, Some(&who));
        self.book.participant_mut(&who).tracks.remove(&track);
        self.meet_legs(&who);
        self.statistics.add("tracks ended");
        Some(())
    }

    /// Returns the tracks in a participant's conference that other participants publish.
    fn tracks_of_others(&self, who: &Who) -> Vec<Path> {
        let others = self.book.conferences[&who.0].iter();
        let others = others.filter(|(other, _)| **other != who.1);
        let paths = others.flat_map(|(other, it)| {
            let tracks = it.tracks.keys();
            tracks.map(|track| (other.clone(), track.clone()))
        });
        paths.collect()
    }

    fn put_subscription(&mut self, who: &Who, path: &Path, spec: SubscriptionSpec) {
        let request = Request::PutSubscription {
            conference: who.0.clone(),
            participant: who.1.clone(),
            path: path_of(path),
            spec,
        };
        self.done(&request, Some(who));
    }

    fn any_quality(&mut self, who: &Who, path: &Path) -> Option<Name> {
        let publisher = self.book.participant(&(who.0.clone(), path.0.clone()));
        let track = publisher.and_then(|it| it.tracks.get(&path.1));
        let names = track.map(|it| it.qualities.iter().map(|it| it.name.clone()).collect());
        let names: Vec<Name> = names.unwrap_or_default();
        if self.rng.bool() {
            self.rng.choice(names)
        } else {
            None
        }
    }

    /// Makes a subscription to a track, both as the book records it and as the request specifies it.
    fn new_subscription(&mut self, who: &Who, path: &Path) -> (Subscription, SubscriptionSpec) {
        let quality = self.any_quality(who, path);
        let leg = match self.rng.u8(..4) {
            0 => Some(name("one")),
            1 => Some(name("rx")),
            _ => None,
        };
        if leg.is_some() {
            self.statistics.add("legs shared");
        }
        self.statistics.add("subscriptions");
        let spec = SubscriptionSpec {
            quality: quality.clone(),
            leg: leg.clone(),
        };
        let leg = leg.unwrap_or_else(|| name(format!("{}.{}", path.0, path.1)));
        (Subscription { quality, leg }, spec)
    }

    fn subscribe(&mut self) -> Option<()> {
        let who = self.somebody(|it| it.subscriptions.len() < SUBSCRIPTIONS_MAX)?;
        let there = self.book.participant(&who)?.subscriptions.clone();
        let new = self.tracks_of_others(&who).into_iter();
        let new = new.filter(|it| !there.contains_key(it)).collect();
        let path: Path = self.one(new)?;
        let (wanted, spec) = self.new_subscription(&who, &path);
        self.put_subscription(&who, &path, spec);
        let participant = self.book.participant_mut(&who);
        participant.subscriptions.insert(path, wanted);
        self.meet_legs(&who);
        Some(())
    }

    fn change_quality(&mut self) -> Option<()> {
        let who = self.somebody(|it| !it.subscriptions.is_empty())?;
        let there = self.book.participant(&who)?.subscriptions.clone();
        let (path, mut wanted) = self.one(there.into_iter().collect())?;
        let quality = self.any_quality(&who, &path);
        let leg = (self.rng.u8(..4) == 0).then(|| name("rx"));
        let spec = SubscriptionSpec {
            quality: quality.clone(),
            leg: leg.clone(),
        };
        self.put_subscription(&who, &path, spec);
        wanted.quality = quality;
        wanted.leg = leg.unwrap_or(wanted.leg);
        self.book
            .participant_mut(&who)
            .subscriptions
            .insert(path, wanted);
        self.meet_legs(&who);
        self.statistics.add("qualities changed");
        Some(())
    }

    fn unsubscribe(&mut self) -> Option<()> {
        let who = self.somebody(|it| !it.subscriptions.is_empty())?;
        let there = &self.book.participant(&who)?.subscriptions;
        let path = self.rng.choice(there.keys().cloned().collect::<Vec<_>>())?;
        let request = Request::DeleteSubscription {
            conference: who.0.clone(),
            participant: who.1.clone(),
            path: path_of(&path),
        };
        self.done(&request, Some(&who));
        self.book.participant_mut(&who).subscriptions.remove(&path);
        self.meet_legs(&who);
        self.statistics.add("subscriptions ended");
        Some(())
    }

    fn mute(&mut self) -> Option<()> {
        let who = self.somebody(|it| !it.tracks.is_empty())?;
        let tracks = self.book.participant(&who)?.tracks.clone();
        let (track, record) = self.one(tracks.into_iter().collect())?;
        let by = self
            .rng
            .choice([MutedBy::Publisher, MutedBy::Administrator])?;
        // A muted track is soon unmuted, so that most tracks are received.
        let muted = record.muted_by.is_none() && self.rng.u8(..4) > 0;
        let request = Request::Mute {
            conference: who.0.clone(),
            path: path_of(&(who.1.clone(), track.clone())),
            muted,
            by,
        };
        let asks = (by == MutedBy::Publisher).then_some(&who);
        if !muted && by == MutedBy::Publisher && record.muted_by == Some(MutedBy::Administrator) {
            self.refused(&request, asks);
            return Some(());
        }
        self.done(&request, asks);
        let tracks = &mut self.book.participant_mut(&who).tracks;
        tracks.get_mut(&track)?.muted_by = muted.then_some(by);
        self.statistics.add(match (muted, by) {
            (true, MutedBy::Publisher) => "mutes by publishers",
            (true, MutedBy::Administrator) => "mutes by administrators",
            (false, _) => "unmutes",
        });
        Some(())
    }

    fn ask_for_what_cannot_be(&mut self) -> Option<()> {
        let who = self.somebody(|_| true)?;
        let (conference, participant) = who.clone();
        let subscribe = |path: Path, quality: Option<Name>| Request::PutSubscription {
            conference: conference.clone(),
            participant: participant.clone(),
            path: path_of(&path),
            spec: SubscriptionSpec { quality, leg: None },
        };
        let own = subscribe((participant.clone(), name("mic")), None);
        let nobody = subscribe((name("nobody"), name("mic")), None);
        self.refused(&own, Some(&who));
        self.refused(&nobody, Some(&who));
        if let Some(path) = self.tracks_of_others(&who).into_iter().next() {
            self.refused(&subscribe(path, Some(name("best"))), Some(&who));
        }
        let conference = name("nowhere");
        let nowhere = Request::PutParticipant {
            conference,
            participant: who.1.clone(),
            spec: ParticipantSpec::default(),
            expires_ms: u64::MAX,
        };
        self.refused(&nowhere, None);
        // The refused requests have changed nothing.
        self.meet_legs(&who);
        Some(())
    }
}
