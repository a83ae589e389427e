//! What a conference's event stream (a WebSocket) and webhooks say.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{MutedBy, Name, Route, TrackPath, Why};

/// Something that has happened in a conference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The event's number: the time in microseconds since 1970, or a greater number if an earlier event has that one; 0
    /// for `lost`. Later events have greater numbers. After another service has taken over, this holds if the clocks of
    /// both services agree.
    pub number: u64,
    /// When it happened, in milliseconds since 1970.
    pub time_ms: u64,
    /// The conference in which it happened.
    pub conference: Name,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What has happened: the field `event` has the name, and other fields the particulars.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The conference was made; nobody is in it yet.
    ConferenceCreated,
    /// The conference has ended, with everybody in it.
    ConferenceEnded,
    /// A participant has joined the conference.
    Joined {
        /// The participant who joined.
        participant: Name,
    },
    /// A participant is in the conference no longer; `reason` says why.
    Left {
        /// The participant who left or was removed.
        participant: Name,
        /// Why the participant is in the conference no longer.
        reason: LeftReason,
    },
    /// A track was published, or a published track was changed.
    TrackAdded {
        /// The track that was published or changed.
        path: TrackPath,
    },
    /// A track is no longer published: its publisher has ended it, or has left the conference.
    TrackRemoved {
        /// The track that has ended.
        path: TrackPath,
    },
    /// A track was muted, or was unmuted (`muted_by` is null).
    Muted {
        /// The track that was muted or unmuted.
        path: TrackPath,
        /// Who muted the track; null if it was unmuted.
        muted_by: Option<MutedBy>,
    },
    /// A participant has subscribed to a track, or has changed its subscription.
    Subscribed {
        /// The participant who receives the track.
        participant: Name,
        /// The track that it receives.
        path: TrackPath,
        /// The quality of the track that it receives.
        quality: Name,
    },
    /// A participant no longer receives a track.
    Unsubscribed {
        /// The participant who received the track.
        participant: Name,
        /// The track that it receives no longer.
        path: TrackPath,
    },
    /// A socket was signed in. On an event stream, only its participant and administrators get this event.
    SignedIn {
        /// The participant whose socket it is.
        participant: Name,
        /// The participant's leg to which the socket was signed in.
        leg: Name,
        /// How the socket's packets reach the switch.
        route: Route,
    },
    /// A socket is no longer signed in: it was silent, or signed in to another leg. On an event stream, only its
    /// participant and administrators get this event.
    SignedOut {
        /// The participant whose socket it is.
        participant: Name,
        /// The participant's leg to which the socket was signed in.
        leg: Name,
    },
    /// The reasons why a participant does not receive a track have changed. Without reasons it receives the track now.
    /// On an event stream, only this participant and administrators get this event.
    WhyNot {
        /// The participant who should receive the track.
        participant: Name,
        /// The track that it should receive.
        path: TrackPath,
        /// What stands between the publisher and the receiver.
        why: Why,
    },
    /// Earlier events are missing from this stream, because the client did not read fast enough. It should read the
    /// conference again.
    Lost,
}

/// Why a participant is in its conference no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeftReason {
    /// It left by its own request.
    Left,
    /// An administrator removed it from the conference.
    Removed,
    /// The token with which it last joined has expired.
    Expired,
    /// The service has removed it: for a configured time it had no signed-in socket and no event stream, and made no
    /// request.
    Gone,
    /// The conference has ended.
    ConferenceEnded,
}

impl EventKind {
    /// All names of events, as they are in JSON.
    pub const NAMES: &[&str] = &[
        "conference_created",
        "conference_ended",
        "joined",
        "left",
        "track_added",
        "track_removed",
        "muted",
        "subscribed",
        "unsubscribed",
        "signed_in",
        "signed_out",
        "why_not",
        "lost",
    ];

    /// Returns the event's name, as it is in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::ConferenceCreated => "conference_created",
            EventKind::ConferenceEnded => "conference_ended",
            EventKind::Joined { .. } => "joined",
            EventKind::Left { .. } => "left",
            EventKind::TrackAdded { .. } => "track_added",
            EventKind::TrackRemoved { .. } => "track_removed",
            EventKind::Muted { .. } => "muted",
            EventKind::Subscribed { .. } => "subscribed",
            EventKind::Unsubscribed { .. } => "unsubscribed",
            EventKind::SignedIn { .. } => "signed_in",
            EventKind::SignedOut { .. } => "signed_out",
            EventKind::WhyNot { .. } => "why_not",
            EventKind::Lost => "lost",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LegTraffic;

    #[test]
    fn the_names_of_events_are_those_of_their_json() {
        let name = |text| Name::new(text).expect("a name");
        let (participant, path) = (
            name("ann"),
            TrackPath {
                participant: name("ann"),
                track: name("cam"),
            },
        );
        let kinds = [
            EventKind::ConferenceCreated,
            EventKind::ConferenceEnded,
            EventKind::Joined {
                participant: participant.clone(),
            },
            EventKind::Left {
                participant: participant.clone(),
                reason: LeftReason::Left,
            },
            EventKind::TrackAdded { path: path.clone() },
            EventKind::TrackRemoved { path: path.clone() },
            EventKind::Muted {
                path: path.clone(),
                muted_by: None,
            },
            EventKind::Subscribed {
                participant: participant.clone(),
                path: path.clone(),
                quality: name("one"),
            },
            EventKind::Unsubscribed {
                participant: participant.clone(),
                path: path.clone(),
            },
            EventKind::SignedIn {
                participant: participant.clone(),
                leg: name("cam"),
                route: Route {
                    address: std::net::Ipv4Addr::LOCALHOST.into(),
                    udp_port: 1,
                    switch_port: 1,
                },
            },
            EventKind::SignedOut {
                participant: participant.clone(),
                leg: name("cam"),
            },
            EventKind::WhyNot {
                participant: participant.clone(),
                path: path.clone(),
                why: Why {
                    participant,
                    path,
                    causes: Vec::new(),
                    next: String::new(),
                    publisher: LegTraffic::default(),
                    receiver: LegTraffic::default(),
                },
            },
            EventKind::Lost,
        ];
        let in_json = kinds.iter().map(|kind| {
            let json = serde_json::to_value(kind).expect("JSON");
            json["event"].as_str().expect("a name").to_owned()
        });
        assert_eq!(in_json.collect::<Vec<_>>(), EventKind::NAMES);
        let names: Vec<_> = kinds.iter().map(EventKind::name).collect();
        assert_eq!(names, EventKind::NAMES);
    }
}

/// A request of a client over its event stream.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// A number that the client chooses; the answer has the same number.
    pub request: u64,
    /// The request's method, as over HTTP.
    pub method: StreamMethod,
    /// What follows `/v1/conferences/CONFERENCE/` in the request's address; empty for the conference itself.
    pub path: String,
    /// The request's body, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<Box<RawValue>>,
}

/// The method of a request over the event stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum StreamMethod {
    /// Returns what the path names.
    Get,
    /// Makes what the path names, or changes it.
    Put,
    /// Removes what the path names.
    Delete,
}

/// The answer to a request over the event stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StreamAnswer {
    /// The request's number; null if the message was no request.
    pub answer: Option<u64>,
    /// The status, as over HTTP: 200 if the request was done, 400 or more if the body is a problem.
    pub status: u16,
    /// The body, as over HTTP; null if there is none.
    #[schema(value_type = Option<Object>)]
    pub body: Option<Value>,
}
