//! Conferences, participants, tracks and subscriptions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{LegCounts, Name};

/// What a track carries.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum TrackKind {
    /// Sound; it goes before everything else where packets wait.
    Audio,
    /// A camera's picture.
    Video,
    /// A screen's picture.
    Screen,
    /// Anything else.
    Data,
}

/// What a track's datagrams are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// RTP with RTCP on the same port (RFC 3550, RFC 5761); anything else is dropped.
    #[default]
    Rtp,
    /// Datagrams of any kind, JackTrip's for example. All go to the receivers.
    Datagram,
}

/// Who has muted a track.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MutedBy {
    /// The participant who publishes it.
    Publisher,
    /// An administrator; only one unmutes it.
    Administrator,
}

/// A track of a participant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrackPath {
    /// The participant who publishes it.
    pub participant: Name,
    /// Its name.
    pub track: Name,
}

/// A conference to make.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConferenceSpec {
    /// A text for people, of at most 200 characters.
    pub title: String,
}

/// The most subscriptions that come with a join. More can be made afterwards.
pub const JOIN_SUBSCRIPTIONS_MAX: usize = 256;

/// A participant to add. If anything of it cannot be, nothing of it is done.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParticipantSpec {
    /// The name that people see, of at most 200 characters. By default it stays, and is the participant's name at
    /// first.
    pub display_name: String,
    /// Tracks to publish, by name: they are set in this order. Other tracks of the participant stay as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tracks: BTreeMap<Name, TrackSpec>,
    /// Tracks to receive, by publisher and name, at most 256. Other subscriptions of the participant stay as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subscriptions: BTreeMap<Name, BTreeMap<Name, SubscriptionSpec>>,
}

/// A track to publish.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrackSpec {
    /// What it carries.
    pub kind: TrackKind,
    /// What its datagrams are.
    #[serde(default)]
    pub transport: Transport,
    /// One to four qualities, the best one first.
    pub qualities: Vec<QualitySpec>,
    /// The session description (RFC 8866) that receivers get, of at most 8,192 bytes.
    #[serde(default)]
    pub sdp: String,
}

/// A quality of a track.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QualitySpec {
    /// Its name in the track.
    pub name: Name,
    /// The most that it sends, in kbit/s of whole frames; the switch drops what is more.
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_kbps: u32,
    /// The leg that sends it; by default one of its own, named `TRACK.QUALITY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leg: Option<Name>,
}

/// A track to receive.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubscriptionSpec {
    /// The quality; by default the best one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<Name>,
    /// The leg that receives it; by default one of its own, named `PARTICIPANT.TRACK`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leg: Option<Name>,
}

/// Whether a track is muted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteSpec {
    /// Nobody receives a muted track.
    pub muted: bool,
}

/// A conference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Conference {
    /// Its name.
    pub name: Name,
    /// A text for people.
    pub title: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Its participants, by name.
    pub participants: BTreeMap<Name, Participant>,
}

/// A participant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Participant {
    /// The name that people see.
    pub display_name: String,
    /// When it joined, in milliseconds since 1970.
    pub joined_ms: u64,
    /// Its tracks, by name.
    pub tracks: BTreeMap<Name, Track>,
    /// What it receives.
    pub subscriptions: Vec<Subscription>,
    /// Its legs, by name; only it and administrators get to see them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legs: Option<BTreeMap<Name, Leg>>,
}

/// A track.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Track {
    /// What it carries.
    pub kind: TrackKind,
    /// What its datagrams are.
    pub transport: Transport,
    /// Who has muted it, if it is muted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted_by: Option<MutedBy>,
    /// Its qualities, the best one first.
    pub qualities: Vec<Quality>,
    /// The session description that receivers get.
    pub sdp: String,
}

/// A quality of a track.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Quality {
    /// Its name in the track.
    pub name: Name,
    /// The most that it sends, in kbit/s.
    pub max_kbps: u32,
    /// Whether its socket is signed in.
    pub signed_in: bool,
    /// Packets in the last second that the switch has got from its socket, hellos among them.
    #[serde(default)]
    pub packets_per_s: u64,
    /// Kilobits in the last second.
    #[serde(default)]
    pub kbps: u64,
    /// Packets that were dropped, since its socket sent more than `max_kbps`.
    #[serde(default)]
    pub policed_packets: u64,
}

/// A participant's subscription to a track.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// The track. It need not be there now: it is received when it comes back.
    pub path: TrackPath,
    /// The quality that is asked for; by default the best one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<Name>,
    /// The leg that receives it.
    pub leg: Name,
}

/// One socket of a participant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Leg {
    /// Its number in hellos (docs/join.md).
    pub number: u16,
    /// The key of its hellos, 32 bytes in hexadecimal digits; only its participant gets it, and only from a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where its hellos and media go.
    pub media: Media,
    /// From where it is signed in, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_in_from: Option<Route>,
    /// What the switch has counted of it; absent until its counters were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<LegCounts>,
}

/// The switch's addresses for media.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Media {
    /// The switch.
    pub switch: Name,
    /// Its addresses; a host takes one that it reaches.
    pub addresses: Vec<MediaAddress>,
}

/// An address of a switch for media.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct MediaAddress {
    /// The IP address.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// The UDP port.
    pub port: u16,
}

/// How packets of a signed-in socket reach the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Route {
    /// The socket's address, as the switch sees it.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// Its UDP port.
    pub udp_port: u16,
    /// The switch's port.
    pub switch_port: u16,
}
