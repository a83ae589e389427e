//! The parts of the model that a caller may see, in the types of the HTTP interface.

use std::collections::BTreeMap;

use conference_api::{
    Conference, Leg, Media, Name, Participant, Quality, Subscription, Track, TrackPath,
};
use conference_model::{Model, ParticipantRecord, Refusal};

use crate::activity::Activity;
use crate::counts;
use crate::tokens::Caller;

/// Where hosts send media, and what the switch has counted. Views show both in addition to the model.
pub(super) type Shown<'s> = (&'s Media, &'s Activity);

/// What a caller sees of legs. A leg is a participant's connection by one UDP socket, which signs in with datagrams
/// called hellos.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Legs {
    Hidden,
    Shown,
    /// The legs are shown with the keys of their hellos.
    WithKeys,
}

pub(super) fn conference(
    model: &Model,
    shown: Shown<'_>,
    name: &Name,
    caller: &Caller,
) -> Result<Conference, Refusal> {
    let record = model.conference(name)?;
    let participants = model
        .participants(name)?
        .iter()
        .map(|(participant, record)| {
            let is_own = caller.participant() == Some(participant);
            let legs = if is_own || caller.administers(name) {
                Legs::Shown
            } else {
                Legs::Hidden
            };
            (
                participant.clone(),
                participant_of(model, shown, record, legs),
            )
        });
    Ok(Conference {
        name: name.clone(),
        title: record.title.clone(),
        created_ms: record.created_ms,
        participants: participants.collect(),
    })
}

pub(super) fn participant_of(
    model: &Model,
    shown: Shown<'_>,
    record: &ParticipantRecord,
    legs: Legs,
) -> Participant {
    let (_, activity) = shown;
    let number = |leg: &Name| record.legs.get(leg).map(|leg| leg.number);
    let is_signed_in = |leg| number(leg).is_some_and(|leg| model.binding(leg).is_some());
    let counted = |leg| {
        let counted = number(leg).and_then(|leg| activity.legs.get(&leg));
        counted.copied().unwrap_or_default()
    };
    let tracks = record.tracks.iter().map(|(name, track)| {
        let qualities = track.qualities.iter().map(|quality| Quality {
            name: quality.name.clone(),
            max_kbps: quality.max_kbps,
            signed_in: is_signed_in(&quality.leg),
            packets_per_s: counted(&quality.leg).sent.packets_per_s,
            kbps: counted(&quality.leg).sent.bits_per_s / 1_000,
            policed_packets: counted(&quality.leg).policed.count.packets,
        });
        let track = Track {
            kind: track.kind,
            transport: track.transport,
            muted_by: track.muted_by,
            qualities: qualities.collect(),
            sdp: track.sdp.clone(),
        };
        (name.clone(), track)
    });
    let subscriptions = record.subscriptions.iter().map(|(path, it)| Subscription {
        path: TrackPath::clone(path),
        quality: it.quality.clone(),
        leg: it.leg.clone(),
    });
    Participant {
        display_name: record.display_name.clone(),
        joined_ms: record.joined_ms,
        tracks: tracks.collect(),
        subscriptions: subscriptions.collect(),
        legs: (legs != Legs::Hidden).then(|| legs_of(model, shown, record, legs)),
    }
}

fn legs_of(
    model: &Model,
    (media, activity): Shown<'_>,
    record: &ParticipantRecord,
    legs: Legs,
) -> BTreeMap<Name, Leg> {
    let all = record.legs.iter().map(|(name, leg)| {
        let leg = Leg {
            number: leg.number,
            key: (legs == Legs::WithKeys).then(|| leg.key_in_hexadecimal()),
            media: media.clone(),
            signed_in_from: model.binding(leg.number).map(|it| it.route()),
            counted: counts::of_leg(model, activity, leg.number),
        };
        (name.clone(), leg)
    });
    all.collect()
}
