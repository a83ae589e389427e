//! What can be asked of the model.

use conference_api::{
    ConferenceSpec, LeftReason, MutedBy, Name, ParticipantSpec, SubscriptionSpec, TrackPath,
    TrackSpec,
};

use crate::BindingRecord;

/// A request. Whether somebody may make it is decided before. A request leaves alone whatever is already as it asks, so
/// it can be made again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Makes a conference, or changes its text.
    PutConference {
        /// Which.
        conference: Name,
        /// What the conference is to be like.
        spec: ConferenceSpec,
    },
    /// Ends a conference, with everybody in it.
    DeleteConference {
        /// Which.
        conference: Name,
    },
    /// Adds a participant, or changes its texts and the time at which its token ends.
    PutParticipant {
        /// The conference.
        conference: Name,
        /// Who.
        participant: Name,
        /// What the participant is to be like.
        spec: ParticipantSpec,
        /// When the participant's token ends, in milliseconds since 1970.
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
        /// What the track is to be like.
        spec: TrackSpec,
    },
    /// Ends a track.
    DeleteTrack {
        /// The conference.
        conference: Name,
        /// Which.
        path: TrackPath,
    },
    /// Mutes a track, or unmutes it.
    Mute {
        /// The conference.
        conference: Name,
        /// Which.
        path: TrackPath,
        /// Whether the track is to be muted, so that nobody receives it.
        muted: bool,
        /// Who asks.
        by: MutedBy,
    },
    /// Subscribes a participant to a track, or changes the quality that it receives.
    PutSubscription {
        /// The conference.
        conference: Name,
        /// Who receives.
        participant: Name,
        /// The track.
        path: TrackPath,
        /// How.
        spec: SubscriptionSpec,
    },
    /// Ends a participant's subscription to a track.
    DeleteSubscription {
        /// The conference.
        conference: Name,
        /// Who received.
        participant: Name,
        /// The track.
        path: TrackPath,
    },
    /// A socket has proved that it belongs to a leg.
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
        /// Signs the leg out only if this is its socket; `None`: whichever socket it has. Another socket may sign in
        /// while the request waits.
        socket: Option<BindingRecord>,
    },
}
