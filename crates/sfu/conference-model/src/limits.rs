//! Every limit of the model, with its reason.

/// Legs of a switch: their numbers, from 1 on, are instances of replicas and ids of multicast groups, whose upper half is
/// for reports.
pub const LEGS_MAX: u16 = 0x7fff;

/// Conferences of a service.
pub const CONFERENCES_MAX: usize = 10_000;

/// Participants of a conference: each may receive each track, and a multicast group has so many replicas at most.
pub const PARTICIPANTS_MAX: usize = 4_096;

/// Tracks of a participant.
pub const TRACKS_MAX: usize = 16;

/// Qualities of a track.
pub const QUALITIES_MAX: usize = 4;

/// Subscriptions of a participant. Its record, of some 150 bytes for each, stays below etcd's 1.5 MiB for a request.
pub const SUBSCRIPTIONS_MAX: usize = 4_096;

/// Characters of a text for people.
pub const TEXT_MAX: usize = 200;

/// Bytes of a track's session description.
pub const SDP_MAX: usize = 8_192;

/// The greatest rate of a quality, in kbit/s.
pub const KBPS_MAX: u32 = 10_000_000;
