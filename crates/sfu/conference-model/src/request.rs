//! What can be asked of the model.

use conference_api::{
    ConferenceSpec, LeftReason, MutedBy, Name, ParticipantSpec, SubscriptionSpec, TrackPath,
    TrackSpec,
};

use crate::BindingRecord;

/// A request. Whether somebody may make it is decided before. What is already as a request wants it stays as it is, so a
/// request can be made again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Makes a conference, or changes its text.
    PutConference {
        /// Which.
        conference: Name,
        /// As which.
        spec: ConferenceSpec,
    },
    /// Ends a conference, with everybody in it.
    DeleteConference {
        /// Which.
        conference: Name,
    },
    /// Adds a participant, or changes its texts and its end.
    PutParticipant {
        /// The conference.
        conference: Name,
        /// Who.
        participant: Name,
        /// As whom.
        spec: ParticipantSpec,
        /// When it ends, in milliseconds since 1970.
        expires_ms: u64,
    },
    /// Removes a participant, with its tracks and subscriptions.
    DeleteParticipant {
        /// The conference.
        conference: Name,
        /// Who.
        participant: Name,
        /// Why.
        reason: LeftReason,
    },
    /// Publishes a track, or changes it.
    PutTrack {
        /// The conference.
        conference: Name,
        /// Which.
        path: TrackPath,
        /// As which.
        spec: TrackSpec,
    },
    /// Ends a track.
    DeleteTrack {
        /// The conference.
        conference: Name,
        /// Which.
        path: TrackPath,
    },
    /// Mutes a track, or ends that.
    Mute {
        /// The conference.
        conference: Name,
        /// Which.
        path: TrackPath,
        /// Whether nobody receives it.
        muted: bool,
        /// Who asks.
        by: MutedBy,
    },
    /// Receives a track, or changes its quality.
    PutSubscription {
        /// The conference.
        conference: Name,
        /// Who receives.
        participant: Name,
        /// What.
        path: TrackPath,
        /// How.
        spec: SubscriptionSpec,
    },
    /// Receives a track no longer.
    DeleteSubscription {
        /// The conference.
        conference: Name,
        /// Who received.
        participant: Name,
        /// What.
        path: TrackPath,
    },
    /// A socket has proved to be a leg's.
    SignIn {
        /// The leg.
        leg: u16,
        /// The socket.
        binding: BindingRecord,
    },
    /// A leg has no socket any more.
    SignOut {
        /// The leg.
        leg: u16,
        /// Only if this is its socket; `None`: whichever is. Another one may sign in while the request waits.
        socket: Option<BindingRecord>,
    },
}
