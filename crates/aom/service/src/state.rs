//! The service's state: groups, members, keys and epochs. It is saved before a change is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use aom::limits::RECEIVERS_MAX;
use aom::wire::LANES;
use aom_config::keys::{PublicKey, TagKey};
use aom_config::message::{Ended, Membership, Peer, Sequencer};
use p4runtime_client::bytestring;
use serde::{Deserialize, Serialize};

use crate::members::Fingerprint;
use crate::operator::Variant;

/// The version of the state file.
pub(crate) const VERSION: u32 = 1;
/// The number of cells in the sequencer's registers.
pub(crate) const GROUPS_MAX: u32 = 1024;
/// The least number of members that a Byzantine group needs so that one of them may lie.
pub(crate) const BYZANTINE_MEMBERS_MIN: usize = 4;

/// The whole state, as in the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) version: u32,
    /// The cookie of the switch's pipeline. A pipeline with another cookie has lost the service's writes.
    pub(crate) cookie: u64,
    /// Identifies the switch's process. Another process has lost the last sequence numbers, whatever its state file
    /// restored.
    #[serde(default)]
    pub(crate) instance: u64,
    pub(crate) groups: BTreeMap<String, Group>,
    /// Removed groups, by number.
    pub(crate) retired: BTreeMap<u16, Past>,
}

/// What is kept of a removed group, so that no epoch repeats if the group's number is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Past {
    /// The highest epoch for which keys or sequence numbers were assigned.
    pub(crate) last_epoch: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) number: u16,
    /// The group's cell in the registers.
    pub(crate) slot: u32,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) variant: Variant,
    pub(crate) byzantine: bool,
    pub(crate) members: Vec<Member>,
    pub(crate) past: Past,
    /// The epoch whose entries the switch has.
    pub(crate) current: Option<Epoch>,
    /// The next epoch, in preparation.
    pub(crate) next: Option<Epoch>,
    /// The previous epoch's last sequence number, if it is known.
    pub(crate) ended: Option<Ended>,
    pub(crate) phase: Phase,
}

/// The step of an epoch change at which a group is. A step is saved before its work begins, and the work may be done
/// twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The group has no epoch, for this reason, and the switch does not stamp the group's requests (gives them no
    /// sequence numbers).
    Resting(String),
    /// Deactivate the group in the switch, wait until no stamped request is inside the switch (drain), and read the
    /// last sequence number.
    Stop,
    /// Send the new membership to the members, and wait for their acknowledgements.
    Hand,
    /// Write the new epoch's entries and registers, and delete the old epoch's secret keys.
    Write,
    /// Activate the group in the switch.
    Start,
    /// The switch stamps the group's requests.
    Active,
    /// Deactivate the group, drain, and delete its entries. The group then rests for this reason.
    Halt(String),
    /// Deactivate the group, drain, and delete its entries. The group is then removed.
    Remove,
}

/// A member, whether or not it receives in the current epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) mac: Mac,
    pub(crate) ip: Ipv4Addr,
    pub(crate) udp_port: u16,
    pub(crate) switch_port: u16,
    #[serde(with = "hex")]
    pub(crate) fingerprint: Fingerprint,
    /// In a Byzantine group, the public key that verifies this member's confirm messages. The key belongs to the
    /// member's process that was connected when the newest epoch began. If no process was connected then, the key
    /// belongs to an earlier process. A member without a key does not receive yet.
    pub(crate) confirm_key: Option<PublicKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Mac(pub(crate) [u8; 6]);

/// The receivers and keys of an epoch, which never change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Epoch {
    pub(crate) number: u64,
    /// The members that receive in the epoch, by receiver number.
    pub(crate) receivers: Vec<Member>,
    /// AOM-HM: a key for each receiver and for each unused tag of the last shard. AOM-PK: empty.
    pub(crate) keys: Vec<TagKey>,
}

impl State {
    pub(crate) fn new(cookie: u64) -> State {
        State {
            version: VERSION,
            cookie,
            instance: 0,
            groups: BTreeMap::new(),
            retired: BTreeMap::new(),
        }
    }

    /// The lowest register cell that no group has.
    pub(crate) fn free_slot(&self) -> Option<u32> {
        let taken: BTreeSet<u32> = self.groups.values().map(|group| group.slot).collect();
        (0..GROUPS_MAX).find(|slot| !taken.contains(slot))
    }

    /// The lowest number that no group has or had.
    pub(crate) fn free_number(&self) -> Option<u16> {
        let taken: BTreeSet<u16> = self.groups.values().map(|group| group.number).collect();
        (1..=u16::MAX).find(|it| !taken.contains(it) && !self.retired.contains_key(it))
    }

    /// Removes a group, and keeps the group's last epoch so that no epoch repeats.
    pub(crate) fn retire(&mut self, name: &str) {
        if let Some(group) = self.groups.remove(name) {
            self.retired.insert(group.number, group.past);
        }
    }
}

impl Group {
    /// Begins the change to epoch `number` with new keys, at [`Phase::Stop`]. An unfinished change restarts with this
    /// epoch, which the service has not sent to any member yet. With `is_switch_lost`, the previous epoch's last
    /// sequence number is unknown.
    ///
    /// # Errors
    /// If the group has no receivers, or there are no random numbers. The error says why, and what the operator should
    /// do next.
    pub(crate) fn begin_advance(
        &mut self,
        number: u64,
        is_switch_lost: bool,
    ) -> Result<(), String> {
        let receivers: Vec<Member> = self.receivers().cloned().collect();
        if receivers.is_empty() {
            return Err(self.nobody());
        }
        let n_lanes = match self.variant {
            Variant::Tagged => receivers.len().next_multiple_of(LANES),
            Variant::Signed { .. } => 0,
        };
        let keys = (0..n_lanes).map(|_| random_key()).collect::<Result<_, _>>();
        let keys = keys.map_err(|error| format!("the system gives no random numbers: {error}"))?;
        self.past.last_epoch = number;
        self.next = Some(Epoch {
            number,
            receivers,
            keys,
        });
        if is_switch_lost {
            self.current = None;
            self.ended = None;
        }
        self.phase = Phase::Stop;
        Ok(())
    }

    fn receivers(&self) -> impl Iterator<Item = &Member> {
        let is_there = |member: &&Member| !self.byzantine || member.confirm_key.is_some();
        self.members.iter().filter(is_there)
    }

    fn nobody(&self) -> String {
        if self.members.is_empty() {
            "it has no members: add one with `reprise aom member add`".to_owned()
        } else {
            "no member has joined yet, and a Byzantine group needs its members' confirm keys: start the members".to_owned()
        }
    }

    /// Whether this is a Byzantine group without an epoch. Its first epoch begins without an operator's request when
    /// all members have joined and there are enough members that one of them may lie.
    pub(crate) fn waits_for_members(&self) -> bool {
        self.byzantine && matches!(self.phase, Phase::Resting(_))
    }

    pub(crate) fn is_advancing(&self) -> bool {
        matches!(
            self.phase,
            Phase::Stop | Phase::Hand | Phase::Write | Phase::Start
        )
    }

    /// Returns the epoch of the membership that the service sends to members. This is the next epoch as soon as the
    /// switch has stopped the current epoch.
    pub(crate) fn announced(&self) -> Option<&Epoch> {
        match self.phase {
            Phase::Hand | Phase::Write => self.next.as_ref(),
            _ => self.current.as_ref(),
        }
    }

    /// Returns the membership for one member, or `None` if the member does not receive in the epoch.
    pub(crate) fn membership(&self, name: &str, member: &str) -> Option<Membership> {
        let epoch = self.announced()?;
        let place = epoch.receivers.iter().position(|it| it.name == member)?;
        let sequencer = match self.variant {
            Variant::Tagged => Sequencer::Tagged {
                key: *epoch.keys.get(place)?,
            },
            Variant::Signed { public_key, .. } => Sequencer::Signed { public_key },
        };
        Some(Membership {
            group: name.to_owned(),
            number: self.number,
            epoch: epoch.number,
            address: self.address,
            has_begun: matches!(self.phase, Phase::Start | Phase::Active | Phase::Stop),
            receiver: u8::try_from(place).ok()?,
            receivers: epoch.receivers.iter().map(Member::peer).collect(),
            sequencer,
            byzantine: self.byzantine,
            ended: self.ended.filter(|ended| ended.epoch < epoch.number),
        })
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.members.len() >= usize::from(RECEIVERS_MAX)
    }
}

impl Member {
    fn peer(&self) -> Peer {
        Peer {
            name: self.name.clone(),
            ip: self.ip,
            udp_port: self.udp_port,
            confirm_key: self.confirm_key,
        }
    }
}

impl Epoch {
    /// The epoch as packets carry it. No epoch is above [`EPOCH_LAST`](aom::limits::EPOCH_LAST), so no bits are lost.
    pub(crate) fn on_the_wire(&self) -> u32 {
        self.number as u32
    }

    pub(crate) fn confirm_key(&self, member: &str) -> Option<PublicKey> {
        let receiver = self.receivers.iter().find(|it| it.name == member);
        receiver.and_then(|it| it.confirm_key)
    }

    /// How many receivers of a Byzantine group may lie while the others still deliver the same messages.
    pub(crate) fn liars_max(&self) -> usize {
        self.receivers.len().saturating_sub(1) / 3
    }
}

fn random_key() -> Result<TagKey, getrandom::Error> {
    Ok(TagKey(aom::half_siphash::Key {
        k0: getrandom::u32()?,
        k1: getrandom::u32()?,
    }))
}

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Mac, String> {
        text.parse()
    }
}

impl std::str::FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Mac, String> {
        let is_of_a_host = |octets: &[u8; 6]| octets[0] & 1 == 0 && *octets != [0; 6];
        let octets = bytestring::mac(text).filter(is_of_a_host);
        octets.map(Mac).ok_or_else(|| {
            format!(
                "expected a MAC as 02:00:00:00:00:01, of one host and not zero, found \"{text}\""
            )
        })
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&bytestring::mac_text(self.0))
    }
}

impl Mac {
    pub(crate) fn to_u64(self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

/// Serializes a fingerprint as 64 hexadecimal digits.
mod hex {
    use aom_config::keys::bytes_of;
    use data_encoding::HEXLOWER;
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::members::Fingerprint;

    pub(super) fn serialize<S: Serializer>(it: &Fingerprint, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&HEXLOWER.encode(it))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fingerprint, D::Error> {
        bytes_of(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}
