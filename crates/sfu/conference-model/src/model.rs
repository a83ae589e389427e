//! Keeps all records in memory, and finds which of them belong together. In this module, a leg is a participant's
//! connection to the conference service by one UDP socket.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use conference_api::{Name, TrackKind, TrackPath, Transport};

use crate::entries::{media_group, report_group};
use crate::record::QualityRecord;
use crate::{
    BindingRecord, Change, ConferenceRecord, Key, LegEntries, LegRecord, ParticipantRecord,
    Receiver, Record, Refusal, Socket, TrackRecord, limits,
};

/// The rate, in kbit/s, at which a leg may send if it publishes nothing. Such a leg sends only receiver reports and
/// requests for pictures.
const REPORTS_KBPS: u32 = 256;

/// Where frames of a socket come from: the switch's port, the socket's address and UDP port, and the station's MAC
/// address. As the MAC address is part of the key, a station that uses another station's IP address cannot take over
/// the other station's entry.
type SocketKey = (u16, IpAddr, u16, [u8; 6]);

/// Conferences in memory.
#[derive(Clone, Debug, Default)]
pub struct Model {
    conferences: BTreeMap<Name, Conference>,
    legs: BTreeMap<u16, LegPlace>,
    bindings: BTreeMap<u16, BindingRecord>,
    /// The leg to which each socket is signed in; a socket is signed in to one leg only.
    by_socket: HashMap<SocketKey, u16>,
    /// The number of the leg that was made last. The number of a leg that has ended is used again as late as possible.
    last_leg: u16,
}

#[derive(Clone, Debug)]
struct Conference {
    record: ConferenceRecord,
    participants: BTreeMap<Name, ParticipantRecord>,
    /// Who has subscribed to each track; also to tracks that do not exist at present.
    subscribers: BTreeMap<TrackPath, BTreeSet<Name>>,
}

/// The conference and the participant to which a leg belongs, and the leg's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LegPlace {
    pub conference: Name,
    pub participant: Name,
    pub leg: Name,
}

/// Methods that read the model.
impl Model {
    /// Returns all conferences, sorted by name.
    pub fn conferences(&self) -> impl Iterator<Item = (&Name, &ConferenceRecord)> {
        let all = self.conferences.iter();
        all.map(|(name, conference)| (name, &conference.record))
    }

    /// Returns a conference's record.
    ///
    /// # Errors
    /// There is no such conference.
    pub fn conference(&self, name: &Name) -> Result<&ConferenceRecord, Refusal> {
        Ok(&self.inside(name)?.record)
    }

    /// Returns a conference's participants, sorted by name.
    ///
    /// # Errors
    /// There is no such conference.
    pub fn participants(
        &self,
        conference: &Name,
    ) -> Result<&BTreeMap<Name, ParticipantRecord>, Refusal> {
        Ok(&self.inside(conference)?.participants)
    }

    /// Returns a participant's record.
    ///
    /// # Errors
    /// There is no such participant or conference.
    pub fn participant(
        &self,
        conference: &Name,
        participant: &Name,
    ) -> Result<&ParticipantRecord, Refusal> {
        let all = self.participants(conference)?;
        all.get(participant).ok_or_else(|| Refusal::NoParticipant {
            conference: conference.clone(),
            participant: participant.clone(),
        })
    }

    /// Returns a track's record.
    ///
    /// # Errors
    /// There is no such track, participant or conference.
    pub fn track(&self, conference: &Name, path: &TrackPath) -> Result<&TrackRecord, Refusal> {
        let publisher = self.participant(conference, &path.participant)?;
        let track = publisher.tracks.get(&path.track);
        track.ok_or_else(|| Refusal::NoTrack(path.clone()))
    }

    /// Returns the names of the participants that have subscribed to a track.
    pub fn subscribers(&self, conference: &Name, path: &TrackPath) -> impl Iterator<Item = &Name> {
        let conference = self.conferences.get(conference);
        let subscribers = conference.and_then(|it| it.subscribers.get(path));
        subscribers.into_iter().flatten()
    }

    /// Returns the conference and the participant to which a leg belongs; `None` if no leg has this number.
    #[must_use]
    pub fn leg(&self, number: u16) -> Option<&LegPlace> {
        self.legs.get(&number)
    }

    #[must_use]
    pub fn leg_record(&self, number: u16) -> Option<&LegRecord> {
        let place = self.legs.get(&number)?;
        let participant = self.participant(&place.conference, &place.participant);
        participant.ok()?.legs.get(&place.leg)
    }

    /// Returns the numbers of all legs.
    pub fn legs(&self) -> impl Iterator<Item = u16> {
        self.legs.keys().copied()
    }

    /// The socket that is signed in to a leg.
    #[must_use]
    pub fn binding(&self, leg: u16) -> Option<&BindingRecord> {
        self.bindings.get(&leg)
    }

    /// The leg to which a socket is signed in.
    #[must_use]
    pub fn leg_of_socket(&self, binding: &BindingRecord) -> Option<u16> {
        self.by_socket.get(&socket_of(binding)).copied()
    }

    /// The two legs between which a track goes to a participant: the publisher's leg, which sends the quality that the
    /// participant gets or would get, and the receiver's leg. The first is `None` if the track does not exist, the
    /// second if the participant has no subscription to it.
    #[must_use]
    pub fn path_legs(
        &self,
        (conference, participant): (&Name, &Name),
        path: &TrackPath,
    ) -> (Option<u16>, Option<u16>) {
        let receiver = self.participant(conference, participant).ok();
        let subscription = receiver.and_then(|it| it.subscriptions.get(path));
        let publisher = self.participant(conference, &path.participant).ok();
        let sends = || {
            let track = publisher?.tracks.get(&path.track)?;
            let quality = chosen(track, subscription.and_then(|it| it.quality.as_ref()))?;
            Some(publisher?.legs.get(&quality.leg)?.number)
        };
        let receives = || Some(receiver?.legs.get(&subscription?.leg)?.number);
        (sends(), receives())
    }

    /// Returns all records, in an order in which [`Model::load`] takes them.
    pub fn records(&self) -> impl Iterator<Item = (Key, Record)> {
        let conferences = self.conferences.iter().flat_map(|(name, conference)| {
            let own = Record::Conference(conference.record.clone());
            let participants = conference.participants.iter();
            let participants = participants.map(|(participant, record)| {
                let key = Key::Participant(name.clone(), participant.clone());
                (key, Record::Participant(record.clone()))
            });
            std::iter::once((Key::Conference(name.clone()), own)).chain(participants)
        });
        let bindings = self.bindings.iter();
        conferences.chain(bindings.map(|(leg, it)| (Key::Binding(*leg), Record::Binding(*it))))
    }

    fn inside(&self, conference: &Name) -> Result<&Conference, Refusal> {
        let found = self.conferences.get(conference);
        found.ok_or_else(|| Refusal::NoConference(conference.clone()))
    }
}

/// Methods that make or change a model.
impl Model {
    /// Makes a model of a store's records. Also returns the keys of the records that belong to nothing. A service
    /// leaves such records if it is stopped in the middle of ending a conference. They are not in the model, and can be
    /// deleted.
    #[must_use]
    pub fn load(records: impl IntoIterator<Item = (Key, Record)>) -> (Model, Vec<Key>) {
        let mut model = Model::default();
        let mut records: Vec<_> = records.into_iter().collect();
        // By this order conferences come first, then participants, then bindings. So each record comes after the record
        // that it belongs to.
        records.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut orphans = Vec::new();
        for (key, record) in records {
            let belongs = match &key {
                Key::Conference(_) => true,
                Key::Participant(conference, _) => model.conferences.contains_key(conference),
                Key::Binding(leg) => model.legs.contains_key(leg),
            };
            if belongs {
                model.set(&key, Some(record));
            } else {
                orphans.push(key);
            }
        }
        (model, orphans)
    }

    /// Applies a change. Returns the legs for which the switch may need other entries now.
    pub fn apply(&mut self, change: &Change) -> BTreeSet<u16> {
        let mut legs = BTreeSet::new();
        for (key, record) in &change.writes {
            self.touched(key, record.as_ref(), &mut legs);
            self.set(key, record.clone());
        }
        legs
    }

    /// Sets a record or deletes it.
    fn set(&mut self, key: &Key, record: Option<Record>) {
        match (key, record) {
            (Key::Conference(name), Some(Record::Conference(record))) => {
                match self.conferences.entry(name.clone()) {
                    Entry::Occupied(mut there) => there.get_mut().record = record,
                    Entry::Vacant(place) => {
                        place.insert(Conference {
                            record,
                            participants: BTreeMap::new(),
                            subscribers: BTreeMap::new(),
                        });
                    }
                }
            }
            (Key::Conference(name), _) => {
                self.conferences.remove(name);
            }
            (Key::Participant(conference, participant), record) => {
                let record = match record {
                    Some(Record::Participant(record)) => Some(record),
                    _ => None,
                };
                self.set_participant(conference, participant, record);
            }
            (Key::Binding(leg), record) => {
                let record = match record {
                    Some(Record::Binding(record)) => Some(record),
                    _ => None,
                };
                self.set_binding(*leg, record);
            }
        }
    }

    fn set_participant(
        &mut self,
        conference: &Name,
        participant: &Name,
        record: Option<ParticipantRecord>,
    ) {
        let Some(inside) = self.conferences.get_mut(conference) else {
            return;
        };
        let old = inside.participants.remove(participant);
        let mut old_legs = BTreeSet::new();
        if let Some(old) = &old {
            for leg in old.legs.values() {
                self.legs.remove(&leg.number);
                old_legs.insert(leg.number);
            }
            for path in old.subscriptions.keys() {
                if let Some(subscribers) = inside.subscribers.get_mut(path) {
                    subscribers.remove(participant);
                    if subscribers.is_empty() {
                        inside.subscribers.remove(path);
                    }
                }
            }
        }
        if let Some(record) = record {
            for (name, leg) in &record.legs {
                let place = LegPlace {
                    conference: conference.clone(),
                    participant: participant.clone(),
                    leg: name.clone(),
                };
                self.legs.insert(leg.number, place);
                if !old_legs.contains(&leg.number) {
                    self.last_leg = leg.number;
                }
            }
            for path in record.subscriptions.keys() {
                let subscribers = inside.subscribers.entry(path.clone()).or_default();
                subscribers.insert(participant.clone());
            }
            inside.participants.insert(participant.clone(), record);
        }
    }

    fn set_binding(&mut self, leg: u16, record: Option<BindingRecord>) {
        let old = match record {
            Some(record) => self.bindings.insert(leg, record),
            None => self.bindings.remove(&leg),
        };
        if let Some(old) = &old {
            let socket = socket_of(old);
            if self.by_socket.get(&socket) == Some(&leg) {
                self.by_socket.remove(&socket);
            }
        }
        if let Some(record) = &record {
            self.by_socket.insert(socket_of(record), leg);
        }
    }

    /// Adds to `legs` the legs whose entries in the switch may change when this record is written.
    fn touched(&self, key: &Key, record: Option<&Record>, legs: &mut BTreeSet<u16>) {
        match key {
            Key::Conference(_) => {}
            Key::Binding(leg) => {
                legs.insert(*leg);
                self.neighbours(*leg, legs);
            }
            Key::Participant(conference, participant) => {
                let old = self.participant(conference, participant).ok();
                let new = match record {
                    Some(Record::Participant(record)) => Some(record),
                    _ => None,
                };
                self.touched_by_participant((conference, participant), old, new, legs);
            }
        }
    }

    fn touched_by_participant(
        &self,
        (conference, participant): (&Name, &Name),
        old: Option<&ParticipantRecord>,
        new: Option<&ParticipantRecord>,
        legs: &mut BTreeSet<u16>,
    ) {
        let number =
            |record: Option<&ParticipantRecord>, name: &Name| Some(record?.legs.get(name)?.number);
        let names = |record: Option<&ParticipantRecord>| -> BTreeSet<Name> {
            record
                .into_iter()
                .flat_map(|it| it.legs.keys().cloned())
                .collect()
        };
        for name in names(old).union(&names(new)) {
            let (before, after) = (number(old, name), number(new, name));
            if before != after {
                legs.extend(before.into_iter().chain(after));
            }
        }
        let paths = |record: Option<&ParticipantRecord>| -> BTreeSet<TrackPath> {
            record
                .into_iter()
                .flat_map(|it| it.subscriptions.keys().cloned())
                .collect()
        };
        for path in paths(old).union(&paths(new)) {
            let of = |record: Option<&ParticipantRecord>| {
                record.and_then(|it| it.subscriptions.get(path).cloned())
            };
            let (before, after) = (of(old), of(new));
            if before != after {
                let before = before.and_then(|it| number(old, &it.leg));
                let after = after.and_then(|it| number(new, &it.leg));
                let receiving = before.into_iter().chain(after);
                // A leg that is not signed in receives nothing.
                let receiving = receiving.filter(|it| self.bindings.contains_key(it));
                let receiving: Vec<u16> = receiving.collect();
                if !receiving.is_empty() {
                    legs.extend(receiving);
                    self.sending(conference, path, legs);
                }
            }
        }
        let tracks = |record: Option<&ParticipantRecord>| -> BTreeSet<Name> {
            record
                .into_iter()
                .flat_map(|it| it.tracks.keys().cloned())
                .collect()
        };
        for track in tracks(old).union(&tracks(new)) {
            let of = |record: Option<&ParticipantRecord>| {
                record.and_then(|it| it.tracks.get(track).cloned())
            };
            let (before, after) = (of(old), of(new));
            if before != after {
                let sends = |record, track: Option<TrackRecord>| {
                    let qualities = track.into_iter().flat_map(|it| it.qualities);
                    qualities.filter_map(move |it| number(record, &it.leg))
                };
                legs.extend(sends(old, before));
                legs.extend(sends(new, after));
                let path = TrackPath {
                    participant: participant.clone(),
                    track: track.clone(),
                };
                self.receiving(conference, &path, legs);
            }
        }
    }

    /// Adds to `legs` the legs that send a track.
    fn sending(&self, conference: &Name, path: &TrackPath, legs: &mut BTreeSet<u16>) {
        let Ok(publisher) = self.participant(conference, &path.participant) else {
            return;
        };
        let Some(track) = publisher.tracks.get(&path.track) else {
            return;
        };
        let sending = track
            .qualities
            .iter()
            .filter_map(|it| publisher.legs.get(&it.leg));
        legs.extend(sending.map(|leg| leg.number));
    }

    /// Adds to `legs` the legs that receive a track, in any quality.
    fn receiving(&self, conference: &Name, path: &TrackPath, legs: &mut BTreeSet<u16>) {
        for subscriber in self.subscribers(conference, path) {
            let Ok(record) = self.participant(conference, subscriber) else {
                continue;
            };
            let subscription = record.subscriptions.get(path);
            legs.extend(subscription.and_then(|it| Some(record.legs.get(&it.leg)?.number)));
        }
    }

    /// Adds to `legs` the legs from which `leg` receives, and the legs to which `leg` sends.
    fn neighbours(&self, leg: u16, legs: &mut BTreeSet<u16>) {
        let Some(place) = self.legs.get(&leg) else {
            return;
        };
        let Ok(record) = self.participant(&place.conference, &place.participant) else {
            return;
        };
        for (path, subscription) in &record.subscriptions {
            if subscription.leg == place.leg {
                self.sending(&place.conference, path, legs);
            }
        }
        if let Some((track, ..)) = sent_by(record, &place.leg) {
            let path = TrackPath {
                participant: place.participant.clone(),
                track: track.clone(),
            };
            self.receiving(&place.conference, &path, legs);
        }
    }
}

/// Methods that derive what the switch must have.
impl Model {
    /// Returns the entries that the switch must have for a leg. A leg that does not exist or is not signed in has none.
    #[must_use]
    pub fn entries(&self, leg: u16) -> LegEntries {
        let found = self.bindings.get(&leg).zip(self.legs.get(&leg));
        let Some((binding, place)) = found else {
            return LegEntries::default();
        };
        let Ok(record) = self.participant(&place.conference, &place.participant) else {
            return LegEntries::default();
        };
        let sent = sent_by(record, &place.leg);
        let mut media = Vec::new();
        if let Some((name, track, quality)) = sent
            && track.muted_by.is_none()
        {
            let path = TrackPath {
                participant: place.participant.clone(),
                track: name.clone(),
            };
            media = self.receivers(&place.conference, &path, track, quality);
        }
        let publishers = self.publishers(place, record);
        let (reports, reports_to) = match (media.is_empty(), publishers.is_empty()) {
            (true, true) => (Vec::new(), 0),
            // The leg receives no track, so its reports go to the receivers of its media.
            (false, true) => (Vec::new(), media_group(leg)),
            (_, false) => {
                let both: BTreeSet<_> = media.iter().chain(&publishers).copied().collect();
                (both.into_iter().collect(), report_group(leg))
            }
        };
        let socket = Socket {
            port: binding.port,
            address: binding.address,
            udp_port: binding.udp_port,
            mac: binding.mac,
            media_group: if media.is_empty() {
                0
            } else {
                media_group(leg)
            },
            report_group: reports_to,
            priority: sent.map_or(0, |(_, track, _)| priority(track.kind)),
            is_rtp: sent.is_none_or(|(_, track, _)| track.transport == Transport::Rtp),
            max_kbps: sent.map_or(REPORTS_KBPS, |(_, _, quality)| quality.max_kbps),
        };
        let receiver = Receiver {
            own_mac: binding.own_mac,
            mac: binding.mac,
            own_address: binding.own_address,
            address: binding.address,
            udp_port: binding.udp_port,
        };
        LegEntries {
            socket: Some(socket),
            receiver: Some(receiver),
            media,
            reports,
        }
    }

    /// Returns the port and the number of each signed-in leg that receives a quality of a track.
    fn receivers(
        &self,
        conference: &Name,
        path: &TrackPath,
        track: &TrackRecord,
        quality: &QualityRecord,
    ) -> Vec<(u16, u16)> {
        let mut members = BTreeSet::new();
        for subscriber in self.subscribers(conference, path) {
            let Ok(record) = self.participant(conference, subscriber) else {
                continue;
            };
            let Some(subscription) = record.subscriptions.get(path) else {
                continue;
            };
            let chosen = chosen(track, subscription.quality.as_ref());
            if chosen.is_some_and(|it| it.name == quality.name) {
                members.extend(self.member(record, &subscription.leg));
            }
        }
        members.into_iter().collect()
    }

    /// Returns the port and the number of each signed-in leg that sends a track which the leg at `place` receives.
    fn publishers(&self, place: &LegPlace, record: &ParticipantRecord) -> Vec<(u16, u16)> {
        let mut members = BTreeSet::new();
        for (path, subscription) in &record.subscriptions {
            if subscription.leg != place.leg {
                continue;
            }
            let Ok(publisher) = self.participant(&place.conference, &path.participant) else {
                continue;
            };
            let Some(track) = publisher.tracks.get(&path.track) else {
                continue;
            };
            // Reports go to publishers of RTP only: JackTrip's clients, for example, would take reports for sound.
            if track.transport == Transport::Rtp
                && track.muted_by.is_none()
                && let Some(quality) = chosen(track, subscription.quality.as_ref())
            {
                members.extend(self.member(publisher, &quality.leg));
            }
        }
        members.into_iter().collect()
    }

    fn member(&self, record: &ParticipantRecord, leg: &Name) -> Option<(u16, u16)> {
        let number = record.legs.get(leg)?.number;
        Some((self.bindings.get(&number)?.port, number))
    }

    /// Returns numbers for new legs: first those that no leg has had yet, then the one that was given to a leg longest
    /// ago, and so on.
    pub(crate) fn free_legs(&self) -> impl Iterator<Item = u16> {
        let later = self.last_leg + 1..=limits::LEGS_MAX;
        let numbers = later.chain(1..=self.last_leg);
        numbers.filter(|it| !self.legs.contains_key(it))
    }
}

/// Returns the quality of a track that a subscription gets: the quality with this name or, if no name is given or the
/// track has no such quality, the best one.
pub(crate) fn chosen<'t>(
    track: &'t TrackRecord,
    quality: Option<&Name>,
) -> Option<&'t QualityRecord> {
    let named = quality.and_then(|name| track.qualities.iter().find(|it| it.name == *name));
    named.or_else(|| track.qualities.first())
}

/// Returns what a leg of this participant sends: a track's name, the track and its quality.
pub(crate) fn sent_by<'r>(
    record: &'r ParticipantRecord,
    leg: &Name,
) -> Option<(&'r Name, &'r TrackRecord, &'r QualityRecord)> {
    record.tracks.iter().find_map(|(name, track)| {
        let quality = track.qualities.iter().find(|it| it.leg == *leg)?;
        Some((name, track, quality))
    })
}

fn socket_of(binding: &BindingRecord) -> SocketKey {
    (binding.port, binding.address, binding.udp_port, binding.mac)
}

/// Sound has the highest priority: it needs little bandwidth, and people hear when something is missing.
fn priority(kind: TrackKind) -> u8 {
    match kind {
        TrackKind::Audio => 6,
        TrackKind::Data => 4,
        TrackKind::Screen => 2,
        TrackKind::Video => 1,
    }
}
