//! The requests that can be made to the model.

use conference_api::{
    ConferenceSpec, LeftReason, MutedBy, Name, ParticipantSpec, SubscriptionSpec, TrackPath,
    TrackSpec,
};

use crate::plan::check_participant;
use crate::{BindingRecord, Refusal};

/// A request. The service must check first that the caller is allowed to make the request. A request does not change
/// anything that is already as requested, so it can be repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Makes a conference, or changes its title.
    PutConference {
        conference: Name,
        /// What the conference is to be like.
        spec: ConferenceSpec,
    },
    /// Ends a conference, with everybody in it.
    DeleteConference {
        conference: Name,
    },
    /// Adds a participant, or changes its display name and the time at which its token ends. Also publishes the tracks
    /// and makes the subscriptions of the spec.
    PutParticipant {
        conference: Name,
        participant: Name,
        /// What the participant is to be like.
        spec: ParticipantSpec,
        /// When the participant's token ends, in milliseconds since 1970.
        expires_ms: u64,
    },
    /// Removes a participant, with its tracks and subscriptions.
    DeleteParticipant {
        conference: Name,
        participant: Name,
        reason: LeftReason,
    },
    /// Publishes a track, or changes it.
    PutTrack {
        conference: Name,
        path: TrackPath,
        /// What the track is to be like.
        spec: TrackSpec,
    },
    DeleteTrack {
        conference: Name,
        path: TrackPath,
    },
    /// Mutes a track, or unmutes it.
    Mute {
        conference: Name,
        path: TrackPath,
        /// Whether the track is to be muted, so that nobody receives it.
        muted: bool,
        /// Who mutes or unmutes the track.
        by: MutedBy,
    },
    /// Subscribes a participant to a track, or changes the quality or the leg of its subscription.
    PutSubscription {
        conference: Name,
        /// The participant who receives the track.
        participant: Name,
        path: TrackPath,
        /// What the subscription is to be like.
        spec: SubscriptionSpec,
    },
    /// Ends a participant's subscription to a track.
    DeleteSubscription {
        conference: Name,
        /// The participant who received the track.
        participant: Name,
        path: TrackPath,
    },
    /// A socket has proved by a signed hello that it belongs to a leg (a connection of a participant).
    SignIn {
        leg: u16,
        /// The socket.
        binding: BindingRecord,
    },
    /// A leg has no socket any more.
    SignOut {
        leg: u16,
        /// The socket to sign out. If the leg has another socket by then, the leg stays signed in: that socket may have
        /// signed in while the request waited. If `None`, the leg is signed out whichever socket it has.
        socket: Option<BindingRecord>,
    },
}

impl Request {
    /// Checks what can be checked without a model, so that a request that is too large is refused before it waits.
    ///
    /// # Errors
    /// The request asks for something that is not possible.
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Request::PutParticipant { spec, .. } => check_participant(spec),
            _ => Ok(()),
        }
    }
}
