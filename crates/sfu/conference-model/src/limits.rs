//! Every limit of the model, with its reason.

/// The most legs of a switch. A leg is a participant's connection by one UDP socket. Legs are numbered from 1 on, and
/// the switch uses the numbers as instances of replicas and as ids of multicast groups. The upper half of the group ids
/// is for reports.
pub const LEGS_MAX: u16 = 0x7fff;

/// The most conferences of a service.
pub const CONFERENCES_MAX: usize = 10_000;

/// The most participants of a conference. All of them may receive the same track, and a multicast group can have at
/// most this many replicas.
pub const PARTICIPANTS_MAX: usize = 4_096;

/// The most tracks of a participant.
pub const TRACKS_MAX: usize = 16;

/// The most qualities of a track.
pub const QUALITIES_MAX: usize = 4;

/// The most subscriptions of a participant. The participant's record, with some 150 bytes for each subscription, stays
/// below the 1.5 MiB that etcd allows for a request.
pub const SUBSCRIPTIONS_MAX: usize = 4_096;

/// The most characters of a text that people read.
pub const TEXT_MAX: usize = 200;

/// The most bytes of a track's session description.
pub const SDP_MAX: usize = 8_192;

/// The greatest rate of a quality, in kbit/s.
pub const KBPS_MAX: u32 = 10_000_000;
