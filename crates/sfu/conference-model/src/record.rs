//! The records that the store has, as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use conference_api::{MutedBy, Name, Route, TrackKind, TrackPath, Transport};
use hello::{KEY_LEN, Origin};
use serde::{Deserialize, Serialize};

/// The key under which the store has a record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// `conference/CONFERENCE`
    Conference(Name),
    /// `participant/CONFERENCE/PARTICIPANT`
    Participant(Name, Name),
    /// `binding/LEG`, the number in five digits
    Binding(u16),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Conference(conference) => write!(f, "conference/{conference}"),
            Key::Participant(conference, participant) => {
                write!(f, "participant/{conference}/{participant}")
            }
            Key::Binding(leg) => write!(f, "binding/{leg:05}"),
        }
    }
}

impl std::str::FromStr for Key {
    type Err = BadRecord;

    fn from_str(text: &str) -> Result<Key, BadRecord> {
        let bad = || BadRecord::Key(text.to_owned());
        let name = |text: &str| Name::new(text).map_err(|_| bad());
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            ["conference", conference] => Ok(Key::Conference(name(conference)?)),
            ["participant", conference, participant] => {
                Ok(Key::Participant(name(conference)?, name(participant)?))
            }
            ["binding", leg] => leg.parse().map(Key::Binding).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }
}

/// Why something in the store is not a record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRecord {
    /// A key that no version of the service writes.
    #[error("the store has an unknown key {0:?}")]
    Key(String),
    /// A value that this version of the service cannot read.
    #[error(
        "the store's record {key} cannot be read ({why}): it may be from a later version of the service"
    )]
    Value {
        key: String,
        /// What the JSON parser expected, and at which place of the value.
        why: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    Conference(ConferenceRecord),
    /// The record of a participant, with its tracks, subscriptions and legs.
    Participant(ParticipantRecord),
    /// The record of the socket that is signed in to a leg.
    Binding(BindingRecord),
}

impl Record {
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = match self {
            Record::Conference(record) => serde_json::to_string(record),
            Record::Participant(record) => serde_json::to_string(record),
            Record::Binding(record) => serde_json::to_string(record),
        };
        // Every record is a map with text as keys, which JSON can express.
        json.unwrap_or_else(|_| unreachable!())
    }

    /// Reads a record from JSON. The record's kind follows from its key.
    ///
    /// # Errors
    /// The value is not of the key's kind.
    pub fn from_json(key: &Key, json: &str) -> Result<Record, BadRecord> {
        let record = match key {
            Key::Conference(_) => serde_json::from_str(json).map(Record::Conference),
            Key::Participant(..) => serde_json::from_str(json).map(Record::Participant),
            Key::Binding(_) => serde_json::from_str(json).map(Record::Binding),
        };
        record.map_err(|error| BadRecord::Value {
            key: key.to_string(),
            why: error.to_string(),
        })
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConferenceRecord {
    /// The conference's title, a text for people.
    pub title: String,
    /// When the conference was made, in milliseconds since 1970.
    pub created_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantRecord {
    pub display_name: String,
    /// When the participant joined, in milliseconds since 1970.
    pub joined_ms: u64,
    /// When the participant's token ends, in milliseconds since 1970.
    pub expires_ms: u64,
    /// The participant's legs, one for each of its UDP sockets.
    pub legs: BTreeMap<Name, LegRecord>,
    /// The tracks that the participant publishes.
    pub tracks: BTreeMap<Name, TrackRecord>,
    #[serde(with = "by_path")]
    pub subscriptions: BTreeMap<TrackPath, SubscriptionRecord>,
}

/// A leg: a participant's connection by one UDP socket.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegRecord {
    /// The leg's number, in the switch and in hellos. Hellos are the datagrams with which the leg's socket signs in.
    pub number: u16,
    /// The key of the leg's hellos.
    #[serde(with = "hexadecimal")]
    pub key: [u8; KEY_LEN],
}

impl LegRecord {
    /// Returns the key of the leg's hellos as the participant gets it: in hexadecimal digits.
    #[must_use]
    pub fn key_in_hexadecimal(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.key)
    }
}

impl fmt::Debug for LegRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leg {}", self.number)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrackRecord {
    pub kind: TrackKind,
    /// What the track's datagrams are, for example RTP.
    pub transport: Transport,
    pub muted_by: Option<MutedBy>,
    /// The track's qualities, the best one first.
    pub qualities: Vec<QualityRecord>,
    /// The session description that receivers get.
    pub sdp: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QualityRecord {
    /// The quality's name; the track has no other quality of this name.
    pub name: Name,
    /// The highest rate of this quality, in kbit/s.
    pub max_kbps: u32,
    /// The leg that sends this quality.
    pub leg: Name,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionRecord {
    /// The name of the quality that the participant receives, or `None` for the best one.
    pub quality: Option<Name>,
    /// The leg that receives the track.
    pub leg: Name,
}

/// A socket that is signed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BindingRecord {
    /// The switch's port.
    pub port: u16,
    /// The station that sends the socket's frames: the host or a router.
    pub mac: [u8; 6],
    pub address: IpAddr,
    pub udp_port: u16,
    /// The switch's MAC on that port.
    pub own_mac: [u8; 6],
    /// The switch's address to which the socket sends.
    pub own_address: IpAddr,
}

impl BindingRecord {
    /// Where the socket's frames come from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            port: self.port,
            mac: self.mac,
            address: self.address,
            udp_port: self.udp_port,
            own_address: self.own_address,
        }
    }

    /// Whether this is the same socket as `other`: both have the same port of the switch, address and UDP port.
    #[must_use]
    pub fn is_same_socket(&self, other: &BindingRecord) -> bool {
        let socket = |it: &BindingRecord| (it.port, it.address, it.udp_port);
        socket(self) == socket(other)
    }

    /// Returns the part of the record that the service shows to clients.
    #[must_use]
    pub fn route(&self) -> Route {
        Route {
            address: self.address,
            udp_port: self.udp_port,
            switch_port: self.port,
        }
    }
}

/// Serializes bytes as hexadecimal digits.
mod hexadecimal {
    use data_encoding::HEXLOWER;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::KEY_LEN;

    pub fn serialize<S: Serializer>(bytes: &[u8; KEY_LEN], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&HEXLOWER.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; KEY_LEN], D::Error> {
        let text = String::deserialize(from)?;
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(D::Error::custom)?;
        let expected = || D::Error::custom("expected 64 hexadecimal digits");
        bytes.try_into().map_err(|_| expected())
    }
}

/// Serializes subscriptions as a map whose keys are `PARTICIPANT/TRACK`.
mod by_path {
    use std::collections::BTreeMap;

    use conference_api::{Name, TrackPath};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use super::SubscriptionRecord;

    pub fn serialize<S: Serializer>(
        subscriptions: &BTreeMap<TrackPath, SubscriptionRecord>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let by_text: BTreeMap<String, &SubscriptionRecord> = subscriptions
            .iter()
            .map(|(path, one)| (format!("{}/{}", path.participant, path.track), one))
            .collect();
        by_text.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<TrackPath, SubscriptionRecord>, D::Error> {
        let by_text = BTreeMap::<String, SubscriptionRecord>::deserialize(from)?;
        by_text
            .into_iter()
            .map(|(text, one)| {
                let (participant, track) = text
                    .split_once('/')
                    .ok_or_else(|| D::Error::custom("expected PARTICIPANT/TRACK"))?;
                let participant = Name::new(participant).map_err(D::Error::custom)?;
                let track = Name::new(track).map_err(D::Error::custom)?;
                Ok((TrackPath { participant, track }, one))
            })
            .collect()
    }
}
