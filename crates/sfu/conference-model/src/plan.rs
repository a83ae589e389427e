//! Works out what a request changes.

use std::collections::{BTreeMap, BTreeSet};

use conference_api::{
    ConferenceSpec, EventKind, LeftReason, MutedBy, Name, ParticipantSpec, QualitySpec,
    SubscriptionSpec, TrackPath, TrackSpec,
};
use hello::KEY_LEN;

use crate::model::{chosen, sent_by};
use crate::{
    BindingRecord, Change, ConferenceRecord, Key, LegRecord, Model, ParticipantRecord,
    QualityRecord, Record, Refusal, Request, SubscriptionRecord, TrackRecord, limits,
};

/// What `Model::plan` needs from outside the model.
pub struct Outside<'o> {
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
    /// Makes a key that nobody can guess.
    pub new_key: &'o mut dyn FnMut() -> [u8; KEY_LEN],
}

impl std::fmt::Debug for Outside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {} ms", self.now_ms)
    }
}

impl Model {
    /// Works out what a request changes, and leaves the model as it is.
    ///
    /// # Errors
    /// The request asks for something that is not possible.
    pub fn plan(&self, request: &Request, outside: &mut Outside<'_>) -> Result<Change, Refusal> {
        match request {
            Request::PutConference { conference, spec } => {
                self.put_conference(conference, spec, outside.now_ms)
            }
            Request::DeleteConference { conference } => self.delete_conference(conference),
            Request::PutParticipant {
                conference,
                participant,
                spec,
                expires_ms,
            } => self.put_participant((conference, participant), spec, *expires_ms, outside),
            Request::DeleteParticipant {
                conference,
                participant,
                reason,
            } => self.delete_participant(conference, participant, *reason),
            Request::PutTrack {
                conference,
                path,
                spec,
            } => self.put_track(conference, path, spec, outside),
            Request::DeleteTrack { conference, path } => {
                self.delete_track(conference, path, outside)
            }
            Request::Mute {
                conference,
                path,
                muted,
                by,
            } => self.mute(conference, path, *muted, *by),
            Request::PutSubscription {
                conference,
                participant,
                path,
                spec,
            } => self.put_subscription((conference, participant), path, spec, outside),
            Request::DeleteSubscription {
                conference,
                participant,
                path,
            } => self.delete_subscription((conference, participant), path, outside),
            Request::SignIn { leg, binding } => self.sign_in(*leg, binding),
            Request::SignOut { leg, socket } => {
                let is_meant = socket.is_none() || self.binding(*leg) == socket.as_ref();
                Ok(if is_meant {
                    self.sign_out(*leg)
                } else {
                    Change::default()
                })
            }
        }
    }

    fn put_conference(
        &self,
        name: &Name,
        spec: &ConferenceSpec,
        now_ms: u64,
    ) -> Result<Change, Refusal> {
        check_text("title", &spec.title)?;
        let mut change = Change::default();
        let title = spec.title.clone();
        let there = self.conference(name).ok();
        if there.is_none() {
            check_room(
                "conferences",
                self.conferences().count(),
                limits::CONFERENCES_MAX,
                "a service",
            )?;
            change
                .events
                .push((name.clone(), EventKind::ConferenceCreated));
        }
        let created_ms = there.map_or(now_ms, |it| it.created_ms);
        let record = ConferenceRecord { title, created_ms };
        if there != Some(&record) {
            let key = Key::Conference(name.clone());
            change.writes.push((key, Some(Record::Conference(record))));
        }
        Ok(change)
    }

    fn delete_conference(&self, name: &Name) -> Result<Change, Refusal> {
        let mut change = Change::default();
        let Ok(participants) = self.participants(name) else {
            return Ok(change);
        };
        for participant in participants.keys() {
            let one = self.delete_participant(name, participant, LeftReason::ConferenceEnded)?;
            change.writes.extend(one.writes);
            change.events.extend(one.events);
        }
        change.writes.push((Key::Conference(name.clone()), None));
        change
            .events
            .push((name.clone(), EventKind::ConferenceEnded));
        Ok(change)
    }

    fn put_participant(
        &self,
        (conference, name): (&Name, &Name),
        spec: &ParticipantSpec,
        expires_ms: u64,
        outside: &mut Outside<'_>,
    ) -> Result<Change, Refusal> {
        check_participant(spec)?;
        let others = self.participants(conference)?;
        let there = others.get(name);
        let mut events = Vec::new();
        if there.is_none() {
            check_room(
                "participants",
                others.len(),
                limits::PARTICIPANTS_MAX,
                "a conference",
            )?;
            let participant = name.clone();
            events.push(EventKind::Joined { participant });
        }
        let mut record = there.cloned().unwrap_or_else(|| ParticipantRecord {
            display_name: name.to_string(),
            joined_ms: outside.now_ms,
            expires_ms,
            legs: BTreeMap::new(),
            tracks: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
        });
        record.expires_ms = expires_ms;
        if !spec.display_name.is_empty() {
            record.display_name.clone_from(&spec.display_name);
        }
        for (track, spec) in &spec.tracks {
            events.extend(set_track(&mut record, path_of(name, track), spec)?);
        }
        for (publisher, tracks) in &spec.subscriptions {
            for (track, spec) in tracks {
                let path = path_of(publisher, track);
                let whose = (conference, name);
                events.extend(self.set_subscription(whose, &mut record, path, spec)?);
            }
        }
        self.rewrite((conference, name), there, record, events, outside)
    }

    fn delete_participant(
        &self,
        conference: &Name,
        name: &Name,
        reason: LeftReason,
    ) -> Result<Change, Refusal> {
        let mut change = Change::default();
        let Some(record) = self.participants(conference)?.get(name) else {
            return Ok(change);
        };
        let is_bound = |leg: &LegRecord| self.binding(leg.number).is_some();
        if reason == LeftReason::Gone && record.legs.values().any(is_bound) {
            // The participant's socket signed in while the request waited, so the participant is not gone.
            return Ok(change);
        }
        for leg in record.legs.values() {
            if self.binding(leg.number).is_some() {
                change.writes.push((Key::Binding(leg.number), None));
            }
        }
        let key = Key::Participant(conference.clone(), name.clone());
        change.writes.push((key, None));
        let removed = record.tracks.keys().map(|track| EventKind::TrackRemoved {
            path: path_of(name, track),
        });
        let left = EventKind::Left {
            participant: name.clone(),
            reason,
        };
        let events = removed.chain([left]);
        change
            .events
            .extend(events.map(|event| (conference.clone(), event)));
        Ok(change)
    }

    fn put_track(
        &self,
        conference: &Name,
        path: &TrackPath,
        spec: &TrackSpec,
        outside: &mut Outside<'_>,
    ) -> Result<Change, Refusal> {
        let old = self.participant(conference, &path.participant)?;
        let mut record = old.clone();
        let event = set_track(&mut record, path.clone(), spec)?;
        let whose = (conference, &path.participant);
        self.rewrite(whose, Some(old), record, event, outside)
    }

    fn delete_track(
        &self,
        conference: &Name,
        path: &TrackPath,
        outside: &mut Outside<'_>,
    ) -> Result<Change, Refusal> {
        let old = self.participant(conference, &path.participant)?;
        let mut record = old.clone();
        let removed = record.tracks.remove(&path.track);
        let event = removed.map(|_| EventKind::TrackRemoved { path: path.clone() });
        let whose = (conference, &path.participant);
        self.rewrite(whose, Some(old), record, event, outside)
    }

    fn mute(
        &self,
        conference: &Name,
        path: &TrackPath,
        muted: bool,
        by: MutedBy,
    ) -> Result<Change, Refusal> {
        let there = self.track(conference, path)?.muted_by;
        let muted_by = match (muted, there) {
            // A track that an administrator has muted stays muted by the administrator, even if its publisher mutes it
            // too.
            (true, Some(MutedBy::Administrator)) => there,
            (true, _) => Some(by),
            (false, Some(MutedBy::Administrator)) if by == MutedBy::Publisher => {
                return Err(Refusal::MutedByAdministrator(path.clone()));
            }
            (false, _) => None,
        };
        let mut change = Change::default();
        let mut record = self.participant(conference, &path.participant)?.clone();
        let Some(track) = record.tracks.get_mut(&path.track) else {
            return Ok(change);
        };
        if muted_by != there {
            track.muted_by = muted_by;
            change
                .writes
                .push(participant_write(conference, &path.participant, record));
            let path = path.clone();
            change
                .events
                .push((conference.clone(), EventKind::Muted { path, muted_by }));
        }
        Ok(change)
    }

    fn put_subscription(
        &self,
        (conference, name): (&Name, &Name),
        path: &TrackPath,
        spec: &SubscriptionSpec,
        outside: &mut Outside<'_>,
    ) -> Result<Change, Refusal> {
        let old = self.participant(conference, name)?;
        let mut record = old.clone();
        let whose = (conference, name);
        let event = self.set_subscription(whose, &mut record, path.clone(), spec)?;
        self.rewrite(whose, Some(old), record, event, outside)
    }

    /// Puts a subscription into a participant's record. Returns the event to send, or `None` if the record is unchanged
    /// or the track does not exist.
    fn set_subscription(
        &self,
        (conference, name): (&Name, &Name),
        record: &mut ParticipantRecord,
        path: TrackPath,
        spec: &SubscriptionSpec,
    ) -> Result<Option<EventKind>, Refusal> {
        if path.participant == *name {
            return Err(Refusal::OwnTrack);
        }
        let there = record.subscriptions.get(&path);
        // A subscription to a track that does not exist any more stays, and can be written again.
        let track = match self.track(conference, &path) {
            Err(_) if there.is_some() => None,
            found => Some(found?),
        };
        if let (Some(track), Some(quality)) = (track, &spec.quality)
            && !track.qualities.iter().any(|it| it.name == *quality)
        {
            let names: Vec<&str> = track.qualities.iter().map(|it| it.name.as_str()).collect();
            return Err(Refusal::NoQuality {
                path,
                quality: quality.clone(),
                there: names.join(", "),
            });
        }
        if there.is_none() {
            check_room(
                "subscriptions",
                record.subscriptions.len(),
                limits::SUBSCRIPTIONS_MAX,
                "a participant",
            )?;
        }
        let leg = match (&spec.leg, there) {
            (Some(leg), _) => leg.clone(),
            (None, Some(there)) => there.leg.clone(),
            (None, None) => own_leg(&path.participant, &path.track),
        };
        let quality = spec.quality.clone();
        let subscription = SubscriptionRecord { quality, leg };
        if there == Some(&subscription) {
            return Ok(None);
        }
        record.subscriptions.insert(path.clone(), subscription);
        let received = track.and_then(|track| chosen(track, spec.quality.as_ref()));
        Ok(received.map(|quality| EventKind::Subscribed {
            participant: name.clone(),
            path,
            quality: quality.name.clone(),
        }))
    }

    fn delete_subscription(
        &self,
        (conference, name): (&Name, &Name),
        path: &TrackPath,
        outside: &mut Outside<'_>,
    ) -> Result<Change, Refusal> {
        let old = self.participant(conference, name)?;
        let mut record = old.clone();
        let removed = record.subscriptions.remove(path);
        let event = removed.map(|_| EventKind::Unsubscribed {
            participant: name.clone(),
            path: path.clone(),
        });
        self.rewrite((conference, name), Some(old), record, event, outside)
    }

    fn sign_in(&self, leg: u16, binding: &BindingRecord) -> Result<Change, Refusal> {
        let place = self.leg(leg).ok_or(Refusal::NoLeg(leg))?;
        let mut change = Change::default();
        if self.binding(leg) == Some(binding) {
            return Ok(change);
        }
        // A socket that signs in to another leg is signed out from the leg that it had before.
        if let Some(other) = self.leg_of_socket(binding)
            && other != leg
        {
            change = self.sign_out(other);
        }
        let record = Record::Binding(*binding);
        change.writes.push((Key::Binding(leg), Some(record)));
        let event = EventKind::SignedIn {
            participant: place.participant.clone(),
            leg: place.leg.clone(),
            route: binding.route(),
        };
        change.events.push((place.conference.clone(), event));
        Ok(change)
    }

    fn sign_out(&self, leg: u16) -> Change {
        let mut change = Change::default();
        if let (Some(place), Some(_)) = (self.leg(leg), self.binding(leg)) {
            change.writes.push((Key::Binding(leg), None));
            let event = EventKind::SignedOut {
                participant: place.participant.clone(),
                leg: place.leg.clone(),
            };
            change.events.push((place.conference.clone(), event));
        }
        change
    }

    /// Writes a participant's record anew: makes the legs that its tracks and subscriptions name, and ends the
    /// participant's other legs.
    fn rewrite(
        &self,
        (conference, name): (&Name, &Name),
        old: Option<&ParticipantRecord>,
        mut record: ParticipantRecord,
        events: impl IntoIterator<Item = EventKind>,
        outside: &mut Outside<'_>,
    ) -> Result<Change, Refusal> {
        let qualities = record.tracks.values().flat_map(|track| &track.qualities);
        let sending = qualities.map(|quality| quality.leg.clone());
        let receiving = record.subscriptions.values().map(|it| it.leg.clone());
        let named: BTreeSet<Name> = sending.chain(receiving).collect();
        record.legs.retain(|leg, _| named.contains(leg));
        let mut free = self.free_legs();
        for leg in named {
            if record.legs.contains_key(&leg) {
                continue;
            }
            let number = free.next().ok_or(Refusal::Full {
                what: "legs",
                max: usize::from(limits::LEGS_MAX),
                of: "a switch",
            })?;
            let key = (outside.new_key)();
            record.legs.insert(leg, LegRecord { number, key });
        }
        let events = events.into_iter();
        let mut change = Change {
            writes: Vec::new(),
            events: events.map(|event| (conference.clone(), event)).collect(),
        };
        if old == Some(&record) {
            return Ok(change);
        }
        for (leg, ended) in old.iter().flat_map(|it| &it.legs) {
            if !record.legs.contains_key(leg) {
                change.writes.extend(self.sign_out(ended.number).writes);
            }
        }
        change
            .writes
            .push(participant_write(conference, name, record));
        Ok(change)
    }
}

/// Puts a track into its publisher's record. Returns the event to send, or `None` if the record is unchanged.
fn set_track(
    record: &mut ParticipantRecord,
    path: TrackPath,
    spec: &TrackSpec,
) -> Result<Option<EventKind>, Refusal> {
    check_track(spec)?;
    let there = record.tracks.remove(&path.track);
    if there.is_none() {
        check_room(
            "tracks",
            record.tracks.len(),
            limits::TRACKS_MAX,
            "a participant",
        )?;
    }
    let qualities = spec
        .qualities
        .iter()
        .map(|it| quality_record(&path.track, it));
    let qualities: Vec<QualityRecord> = qualities.collect();
    let mut legs = BTreeSet::new();
    for quality in &qualities {
        let sent = sent_by(record, &quality.leg).map(|(track, _, it)| (track, &it.name));
        let twice = (!legs.insert(&quality.leg)).then_some((&path.track, &quality.name));
        if let Some((track, quality_there)) = sent.or(twice) {
            return Err(Refusal::LegSends {
                leg: quality.leg.clone(),
                track: track.clone(),
                quality: quality_there.clone(),
            });
        }
    }
    let track = TrackRecord {
        kind: spec.kind,
        transport: spec.transport,
        muted_by: there.as_ref().and_then(|it| it.muted_by),
        qualities,
        sdp: spec.sdp.clone(),
    };
    let is_changed = there.as_ref() != Some(&track);
    record.tracks.insert(path.track.clone(), track);
    Ok(is_changed.then_some(EventKind::TrackAdded { path }))
}

fn participant_write(
    conference: &Name,
    name: &Name,
    record: ParticipantRecord,
) -> (Key, Option<Record>) {
    let key = Key::Participant(conference.clone(), name.clone());
    (key, Some(Record::Participant(record)))
}

fn path_of(participant: &Name, track: &Name) -> TrackPath {
    TrackPath {
        participant: participant.clone(),
        track: track.clone(),
    }
}

fn quality_record(track: &Name, spec: &QualitySpec) -> QualityRecord {
    QualityRecord {
        name: spec.name.clone(),
        max_kbps: spec.max_kbps,
        leg: spec
            .leg
            .clone()
            .unwrap_or_else(|| own_leg(track, &spec.name)),
    }
}

/// Makes the name of a leg from two names, with a dot between; the result is cut to the greatest length of a name.
fn own_leg(first: &Name, second: &Name) -> Name {
    let mut text = format!("{first}.{second}");
    text.truncate(conference_api::NAME_LEN_MAX);
    Name::new(text).unwrap_or_else(|_| first.clone())
}

/// Checks the bounds that do not depend on the model.
pub(crate) fn check_participant(spec: &ParticipantSpec) -> Result<(), Refusal> {
    check_text("display_name", &spec.display_name)?;
    check_bounds("tracks", spec.tracks.len(), 0, limits::TRACKS_MAX)?;
    let n_subscriptions = spec.subscriptions.values().map(BTreeMap::len).sum();
    let max = conference_api::JOIN_SUBSCRIPTIONS_MAX;
    check_bounds("publishers", spec.subscriptions.len(), 0, max)?;
    check_bounds("subscriptions", n_subscriptions, 0, max)
}

fn check_track(spec: &TrackSpec) -> Result<(), Refusal> {
    check_bounds("qualities", spec.qualities.len(), 1, limits::QUALITIES_MAX)?;
    check_bounds("bytes of sdp", spec.sdp.len(), 0, limits::SDP_MAX)?;
    let mut names = BTreeSet::new();
    for quality in &spec.qualities {
        let kbps_max = limits::KBPS_MAX as usize;
        check_bounds("max_kbps", quality.max_kbps as usize, 1, kbps_max)?;
        if !names.insert(&quality.name) {
            return Err(Refusal::Bounds {
                what: "qualities",
                expected: "names that differ".to_owned(),
                found: format!("{} twice", quality.name),
            });
        }
    }
    Ok(())
}

fn check_text(what: &'static str, text: &str) -> Result<(), Refusal> {
    if !text.chars().all(printable::is_harmless) {
        return Err(Refusal::Bounds {
            what,
            expected: "a text without characters that control a terminal or the direction of text"
                .to_owned(),
            found: format!("{text:?}"),
        });
    }
    check_bounds(what, text.chars().count(), 0, limits::TEXT_MAX)
}

fn check_bounds(what: &'static str, found: usize, min: usize, max: usize) -> Result<(), Refusal> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(Refusal::Bounds {
        what,
        expected: format!("{min} to {max}"),
        found: found.to_string(),
    })
}

fn check_room(
    what: &'static str,
    there: usize,
    max: usize,
    of: &'static str,
) -> Result<(), Refusal> {
    if there < max {
        return Ok(());
    }
    Err(Refusal::Full { what, max, of })
}
