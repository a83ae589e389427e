//! The messages of the protocol. A member joins. The service then sends it the membership, first the current one and
//! later each changed one, and the member acknowledges each membership that it has installed.

use std::net::Ipv4Addr;

use aom::membership::MembershipError;
use serde::{Deserialize, Serialize};

use crate::keys::{PublicKey, TagKey};
use crate::limits::{NAME_BYTES_MAX, VERSION};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToService {
    /// Must be the first message of a connection, and must not come later.
    Join(Join),
    /// The member's receiver has advanced to this epoch.
    Installed { epoch: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToMember {
    /// The current membership; sent after a join and at every change.
    Membership(Membership),
    /// The last message of a connection.
    Refused {
        /// Why the service ends the connection, and the operator's next step.
        reason: String,
    },
    /// Keeps the connection alive.
    Alive,
}

/// Names the member that joins. The TLS connection must use that member's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    pub version: u32,
    pub group: String,
    pub member: String,
    /// The key that verifies the member's confirm messages; given only if the group is Byzantine
    /// (`Membership::byzantine`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_key: Option<PublicKey>,
}

impl Join {
    #[must_use]
    pub fn new(group: &str, member: &str, confirm_key: Option<PublicKey>) -> Join {
        Join {
            version: VERSION,
            group: group.to_owned(),
            member: member.to_owned(),
            confirm_key,
        }
    }
}

/// A group in one epoch, as one member sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    pub group: String,
    /// The group number in packets.
    pub number: u16,
    /// The epoch; packets carry it with 32 bits.
    pub epoch: u64,
    /// The destination of requests; absent if requests go to the sequencer's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// Whether the sequencer may already have assigned sequence numbers in this epoch. If so, a member that joins
    /// starts with the first sequence number that it can authenticate.
    pub has_begun: bool,
    /// This member's index in `receivers`.
    pub receiver: u8,
    pub receivers: Vec<Peer>,
    pub sequencer: Sequencer,
    /// Whether a message is delivered only when a quorum of members has confirmed it.
    pub byzantine: bool,
    /// The previous epoch and its last sequence number. A receiver may wait for the packets up to this number before it
    /// advances to the new epoch. Absent if the switch was restarted, because the restart loses the number, or if there
    /// was no previous epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// What other members must know of a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub name: String,
    /// The address at which the member receives packets and confirm messages.
    pub ip: Ipv4Addr,
    /// The UDP port at which the member receives packets and confirm messages.
    pub udp_port: u16,
    /// The key that verifies the receiver's confirm messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_key: Option<PublicKey>,
}

/// The key with which a member verifies what the sequencer stamps on a packet: epoch and sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "variant", rename_all = "snake_case")]
pub enum Sequencer {
    /// For AOM-HM, in which the sequencer computes a tag for each receiver. `key` is the key of this epoch that only
    /// the sequencer and this member have.
    Tagged { key: TagKey },
    /// For AOM-PK, in which a coprocessor signs packets. `public_key` is the coprocessor's public key.
    Signed { public_key: PublicKey },
}

/// An epoch that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub epoch: u64,
    /// The last sequence number that the sequencer assigned; 0 if it assigned none.
    pub sequence: u32,
}

impl Membership {
    /// Converts the membership to the form of crate `aom`.
    ///
    /// # Errors
    ///
    /// If crate `aom` refuses the membership as invalid, or if a Byzantine group has no confirm keys.
    pub fn to_receiver(&self) -> Result<aom::membership::Membership, MembershipError> {
        let confirm_keys = if self.byzantine {
            self.receivers
                .iter()
                .filter_map(|peer| peer.confirm_key)
                .collect()
        } else {
            Vec::new()
        };
        let n_receivers = u8::try_from(self.receivers.len()).unwrap_or(u8::MAX);
        if self.byzantine && confirm_keys.is_empty() {
            return Err(MembershipError::ConfirmKeys {
                n_receivers,
                found: 0,
            });
        }
        let membership = aom::membership::Membership {
            group: self.number,
            epoch: self.epoch,
            n_receivers,
            receiver: self.receiver,
            sequencer: match self.sequencer {
                Sequencer::Tagged { key } => aom::membership::Sequencer::Tagging(key.0),
                Sequencer::Signed { public_key } => {
                    aom::membership::Sequencer::Signing(public_key.verifying_key())
                }
            },
            confirm_keys: confirm_keys.iter().map(PublicKey::verifying_key).collect(),
        };
        membership.check()?;
        Ok(membership)
    }
}

/// Checks the name of a group or member. A name is a label of a host name in a certificate.
///
/// # Errors
///
/// Returns what was expected, in words.
pub fn check_name(what: &str, name: &str) -> Result<(), String> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_good = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.chars().all(is_letter)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_good {
        return Ok(());
    }
    Err(format!(
        "\"{name}\" is no name of a {what}: expected 1 to {NAME_BYTES_MAX} lower-case letters, digits and hyphens, no hyphen first or last"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_of_host_names() {
        for name in ["a", "counter", "replica-1", "0", &"x".repeat(63)] {
            assert_eq!(check_name("group", name), Ok(()), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "ä", "a b", &"x".repeat(64)] {
            let error = check_name("group", name).expect_err(name);
            assert!(error.contains("is no name of a group"), "{error}");
        }
    }

    fn membership() -> Membership {
        let peer = |name: &str| Peer {
            name: name.to_owned(),
            ip: Ipv4Addr::new(10, 0, 0, 1),
            udp_port: 60_005,
            confirm_key: None,
        };
        Membership {
            group: "g".to_owned(),
            number: 7,
            epoch: 300,
            address: Some(Ipv4Addr::new(239, 1, 0, 7)),
            has_begun: true,
            receiver: 1,
            receivers: vec![peer("a"), peer("b")],
            sequencer: Sequencer::Tagged {
                key: "0011223344556677".parse().expect("a key"),
            },
            byzantine: false,
            ended: Some(Ended {
                epoch: 299,
                sequence: 12,
            }),
        }
    }

    #[test]
    fn a_membership_is_what_the_receiver_takes() {
        let sent = membership();
        let taken = sent.to_receiver().expect("whole");
        assert_eq!((taken.group, taken.epoch), (7, 300));
        assert_eq!((taken.n_receivers, taken.receiver), (2, 1));
        assert!(taken.confirm_keys.is_empty());
        let other = Membership {
            receiver: 2,
            ..sent.clone()
        };
        assert!(
            other.to_receiver().is_err(),
            "a number that no receiver has"
        );
        let keyless = Membership {
            byzantine: true,
            ..sent
        };
        assert!(
            keyless.to_receiver().is_err(),
            "a Byzantine group without confirm keys"
        );
    }

    #[test]
    fn messages_are_this_json() {
        let join = ToService::Join(Join::new("g", "b", None));
        let json = r#"{"type":"join","version":1,"group":"g","member":"b"}"#;
        assert_eq!(serde_json::to_string(&join).expect("JSON"), json);
        let sent = ToMember::Membership(membership());
        let json = concat!(
            r#"{"type":"membership","group":"g","number":7,"epoch":300,"address":"239.1.0.7","has_begun":true,"receiver":1,"receivers":["#,
            r#"{"name":"a","ip":"10.0.0.1","udp_port":60005},{"name":"b","ip":"10.0.0.1","udp_port":60005}],"#,
            r#""sequencer":{"variant":"tagged","key":"0011223344556677"},"byzantine":false,"#,
            r#""ended":{"epoch":299,"sequence":12}}"#
        );
        assert_eq!(serde_json::to_string(&sent).expect("JSON"), json);
        assert_eq!(
            serde_json::from_str::<ToMember>(json).expect("a message"),
            sent
        );
    }
}
