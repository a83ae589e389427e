//! Conferences, participants, tracks and subscriptions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{LegCounts, Name};

/// The kind of content that a track carries. It decides whose packets leave first where packets wait.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum TrackKind {
    /// Sound; its packets leave before those of all other tracks.
    Audio,
    /// Pictures of a camera; their packets leave after those of all other tracks.
    Video,
    /// Pictures of a shared screen; their packets leave before those of cameras.
    Screen,
    /// Any other content, text messages for example; its packets leave after sound and before pictures.
    Data,
}

/// What a track's datagrams contain.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// RTP with RTCP on the same port (RFC 3550, RFC 5761); anything else is dropped.
    #[default]
    Rtp,
    /// Datagrams of any kind, JackTrip's for example. All go to the receivers.
    Datagram,
}

/// Who muted a track. What an administrator muted only an administrator can unmute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MutedBy {
    /// The participant who publishes the track.
    Publisher,
    /// An administrator of the conference.
    Administrator,
}

/// The path of a track in its conference: who publishes it, and its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrackPath {
    /// The participant who publishes the track.
    pub participant: Name,
    /// The track's name; its publisher has no other track of this name.
    pub track: Name,
}

/// What a conference is to be like: the body of the request that makes it or changes its title.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConferenceSpec {
    /// The conference's title, a text for people of at most 200 characters.
    pub title: String,
}

/// The most subscriptions that one join may contain. The participant can make more afterwards.
pub const JOIN_SUBSCRIPTIONS_MAX: usize = 256;

/// A participant to add, with its tracks and subscriptions. The service does all of it, or refuses the request and does
/// none.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParticipantSpec {
    /// The name that people see, of at most 200 characters. Without it, a participant who is in the conference keeps
    /// its display name, and a new participant gets its own name.
    pub display_name: String,
    /// Tracks to publish, by name, in the order in which the service makes them. Other tracks of the participant stay
    /// as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tracks: BTreeMap<Name, TrackSpec>,
    /// Tracks to receive, by publisher and name, at most 256. Other subscriptions of the participant stay as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subscriptions: BTreeMap<Name, BTreeMap<Name, SubscriptionSpec>>,
}

/// What a track is to be like: the body of the request that publishes it or changes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrackSpec {
    /// The kind of content that the track carries.
    pub kind: TrackKind,
    /// What the track's datagrams contain; `rtp` by default.
    #[serde(default)]
    pub transport: Transport,
    /// One to four qualities, the best one first.
    pub qualities: Vec<QualitySpec>,
    /// The session description (RFC 8866) that receivers get, of at most 8,192 bytes.
    #[serde(default)]
    pub sdp: String,
}

/// One quality of a track to publish: its name, its greatest rate, and the leg that sends it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QualitySpec {
    /// The quality's name; the track has no other quality of this name.
    pub name: Name,
    /// The most that the quality sends, in kbit/s of whole frames. The switch drops packets that exceed this rate.
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_kbps: u32,
    /// The leg that sends the quality; by default a leg of its own, named `TRACK.QUALITY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leg: Option<Name>,
}

/// How a participant is to receive a track: in which quality, and by which of its legs.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubscriptionSpec {
    /// The quality; by default the best one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<Name>,
    /// The leg that receives the track. By default it is the leg that receives the track now; if there is none, a new
    /// leg named `PARTICIPANT.TRACK`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leg: Option<Name>,
}

/// Whether a track is to be muted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteSpec {
    /// True mutes the track, so that nobody receives it; false unmutes it.
    pub muted: bool,
}

/// A conference with everybody in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Conference {
    /// The conference's name; the service has no other conference of this name.
    pub name: Name,
    /// The conference's title, a text for people of at most 200 characters.
    pub title: String,
    /// When the conference was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// The conference's participants by name, at most 4,096.
    pub participants: BTreeMap<Name, Participant>,
}

/// A participant of a conference. Only the participant itself and administrators see its legs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Participant {
    /// The name that people see, of at most 200 characters.
    pub display_name: String,
    /// When it joined, in milliseconds since 1970.
    pub joined_ms: u64,
    /// The tracks that it publishes by name, at most 16.
    pub tracks: BTreeMap<Name, Track>,
    /// The tracks that it has subscribed to, at most 4,096.
    pub subscriptions: Vec<Subscription>,
    /// The participant's legs, by name; absent for other callers than the participant and administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legs: Option<BTreeMap<Name, Leg>>,
}

/// A track that a participant publishes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Track {
    /// The kind of content that the track carries.
    pub kind: TrackKind,
    /// What the track's datagrams contain.
    pub transport: Transport,
    /// Who has muted the track; absent if it is not muted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted_by: Option<MutedBy>,
    /// Its qualities, the best one first.
    pub qualities: Vec<Quality>,
    /// The session description that receivers get.
    pub sdp: String,
}

/// A quality of a published track.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Quality {
    /// The quality's name; the track has no other quality of this name.
    pub name: Name,
    /// The most that the quality may send, in kbit/s.
    pub max_kbps: u32,
    /// Whether the socket that sends the quality is signed in.
    pub signed_in: bool,
    /// Packets that the switch received from the socket in the last second, including hellos.
    #[serde(default)]
    pub packets_per_s: u64,
    /// Kilobits of these packets, counted as whole frames.
    #[serde(default)]
    pub kbps: u64,
    /// Packets that the switch dropped because the socket sent more than `max_kbps`.
    #[serde(default)]
    pub policed_packets: u64,
}

/// A participant's subscription to a track.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// The track. It may be absent now; the participant receives it when it is published again.
    pub path: TrackPath,
    /// The quality that the participant asked for; absent if it asked for the best one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<Name>,
    /// The participant's leg that receives the track.
    pub leg: Name,
}

/// A leg: a participant's connection by one UDP socket. The socket signs in to the leg by hellos.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Leg {
    /// The leg's number, 1 to 32,767; the leg's hellos contain it (docs/join.md).
    pub number: u16,
    /// The key that signs the leg's hellos, 32 bytes in hexadecimal digits. Only the leg's participant gets it, in the
    /// answer to a request that writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The switch to which the socket sends its hellos and media.
    pub media: Media,
    /// The socket that is signed in to the leg; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_in_from: Option<Route>,
    /// The switch's counters of the leg; absent while no socket is signed in, and until the service has read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<LegCounts>,
}

/// The switch, and its addresses to which hosts send hellos and media.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Media {
    /// The switch's name, as the service's configuration has it.
    pub switch: Name,
    /// The switch's addresses; a host uses one to which it has a route.
    pub addresses: Vec<MediaAddress>,
}

/// An address of a switch for media.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct MediaAddress {
    /// The IPv4 or IPv6 address.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// The UDP port, 5004 if the service's configuration has no other.
    pub port: u16,
}

/// How packets of a signed-in socket reach the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Route {
    /// The source address of the socket's packets when they reach the switch (behind NAT, the translator's).
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// The source UDP port of the socket's packets when they reach the switch.
    pub udp_port: u16,
    /// The port of the switch by which the socket's packets arrive, 1 to 509.
    pub switch_port: u16,
}
