//! Why a request is refused. A request that is refused has changed nothing.

use conference_api::{Name, TrackPath};

/// Why a request is refused. The text says what was expected, what came, and what to do next.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no conference {0}: an administrator makes it with PUT /v1/conferences/{0}")]
    NoConference(Name),
    #[error(
        "conference {conference} has no participant {participant}: it joins with PUT /v1/conferences/{conference}/participants/{participant}"
    )]
    NoParticipant { conference: Name, participant: Name },
    #[error("participant {} has no track {}", .0.participant, .0.track)]
    NoTrack(TrackPath),
    #[error("there is no leg {0}")]
    NoLeg(u16),
    /// A participant asks to receive its own track.
    #[error("a participant does not receive its own tracks")]
    OwnTrack,
    #[error("track {} of participant {} has no quality {quality}, it has {there}", path.track, path.participant)]
    NoQuality {
        path: TrackPath,
        /// The quality that was asked for.
        quality: Name,
        /// The qualities that the track has, with commas between.
        there: String,
    },
    /// One leg would have to send two qualities.
    #[error(
        "leg {leg} sends quality {quality} of track {track}: a leg sends one quality, so give the other one another leg"
    )]
    LegSends {
        leg: Name,
        /// The track that the leg sends already.
        track: Name,
        quality: Name,
    },
    /// An administrator has muted the track.
    #[error("an administrator has muted track {}: only an administrator unmutes it", .0.track)]
    MutedByAdministrator(TrackPath),
    /// A value out of its bounds.
    #[error("{what}: expected {expected}, found {found}")]
    Bounds {
        what: &'static str,
        expected: String,
        found: String,
    },
    #[error("there are {max} {what} already, which is the most that {of} has")]
    Full {
        /// What there are too many of.
        what: &'static str,
        max: usize,
        /// What the limit is of, for example "a conference".
        of: &'static str,
    },
}

impl Refusal {
    /// The kind of refusal, for programs.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        match self {
            Refusal::NoConference(_)
            | Refusal::NoParticipant { .. }
            | Refusal::NoTrack(_)
            | Refusal::NoLeg(_) => RefusalKind::NotFound,
            Refusal::OwnTrack
            | Refusal::NoQuality { .. }
            | Refusal::LegSends { .. }
            | Refusal::Bounds { .. } => RefusalKind::Invalid,
            Refusal::MutedByAdministrator(_) => RefusalKind::Forbidden,
            Refusal::Full { .. } => RefusalKind::Full,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalKind {
    /// What the request names does not exist.
    NotFound,
    /// The request asks for something that is not possible.
    Invalid,
    /// Whoever makes the request may not do so, but somebody else may.
    Forbidden,
    /// A limit is reached.
    Full,
}
