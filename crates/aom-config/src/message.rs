//! What is said: a member joins, the service tells it each membership, the member says when it has it installed.

use std::net::Ipv4Addr;

use aom::membership::MembershipError;
use serde::{Deserialize, Serialize};

use crate::keys::{PublicKey, TagKey};
use crate::limits::{NAME_BYTES_MAX, VERSION};

/// What a member says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToService {
    /// The first message of a connection, and no later one.
    Join(Join),
    /// Its receiver has advanced to that epoch.
    Installed {
        /// The epoch.
        epoch: u64,
    },
}

/// What the service says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToMember {
    /// The membership that holds from now on, after a join and whenever it changes.
    Membership(Membership),
    /// The last message: why the service ends the connection.
    Refused {
        /// In words, with the next step.
        reason: String,
    },
    /// The service is there.
    Alive,
}

/// Who joins. The certificate says the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Of the protocol.
    pub version: u32,
    /// The group's name.
    pub group: String,
    /// The member's name in it.
    pub member: String,
    /// What the others check its confirms with; a Byzantine group's member has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_key: Option<PublicKey>,
}

impl Join {
    /// A join of this version of the protocol.
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

/// A group in one epoch, as one of its members is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The group's name.
    pub group: String,
    /// Its number, which packets have.
    pub number: u16,
    /// The epoch; its low 8 bits are in packets.
    pub epoch: u64,
    /// Where requests are sent; not there where they are sent to the sequencer's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// Whether messages of it may be there already. Who joins then hears from the first that it can prove.
    pub has_begun: bool,
    /// This member's place in `receivers`.
    pub receiver: u8,
    /// Who receives, by their numbers.
    pub receivers: Vec<Peer>,
    /// What proves the sequencer's stamp.
    pub sequencer: Sequencer,
    /// Whether a message is delivered only when others have confirmed it.
    pub byzantine: bool,
    /// How far the epoch before went: a receiver may wait for what is still on its way before it advances. Not
    /// there where nobody knows, because the switch was restarted, or where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// A receiver as the others know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Where it receives, and where confirms for it go.
    pub ip: Ipv4Addr,
    /// With this port.
    pub udp_port: u16,
    /// What its confirms are checked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_key: Option<PublicKey>,
}

/// What a member knows of the sequencer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "variant", rename_all = "snake_case")]
pub enum Sequencer {
    /// AOM-HM: the key that only the sequencer and this member have.
    Tagged {
        /// Of this epoch.
        key: TagKey,
    },
    /// AOM-PK: the coprocessor's key.
    Signed {
        /// What signatures are checked with.
        public_key: PublicKey,
    },
}

/// An epoch that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The epoch.
    pub epoch: u64,
    /// The last sequence number that was given; 0: none.
    pub sequence: u32,
}

impl Membership {
    /// The same as the receiver's library takes it.
    ///
    /// # Errors
    ///
    /// If its parts contradict each other.
    pub fn to_receiver(&self) -> Result<aom::membership::Membership, MembershipError> {
        let confirm_keys = match self.byzantine {
            true => self
                .receivers
                .iter()
                .filter_map(|peer| peer.confirm_key)
                .collect(),
            false => Vec::new(),
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

/// Whether this may be a group's or a member's name: it becomes a label of a host name in a certificate.
///
/// # Errors
///
/// What was expected.
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
        let told = membership();
        let taken = told.to_receiver().expect("whole");
        assert_eq!((taken.group, taken.epoch), (7, 300));
        assert_eq!((taken.n_receivers, taken.receiver), (2, 1));
        assert!(taken.confirm_keys.is_empty());
        let other = Membership {
            receiver: 2,
            ..told.clone()
        };
        assert!(
            other.to_receiver().is_err(),
            "a number that no receiver has"
        );
        let keyless = Membership {
            byzantine: true,
            ..told
        };
        assert!(keyless.to_receiver().is_err(), "confirms, and nobody's key");
    }

    #[test]
    fn messages_are_this_json() {
        let join = ToService::Join(Join::new("g", "b", None));
        let json = r#"{"type":"join","version":1,"group":"g","member":"b"}"#;
        assert_eq!(serde_json::to_string(&join).expect("JSON"), json);
        let told = ToMember::Membership(membership());
        let json = concat!(
            r#"{"type":"membership","group":"g","number":7,"epoch":300,"address":"239.1.0.7","has_begun":true,"receiver":1,"receivers":["#,
            r#"{"name":"a","ip":"10.0.0.1","udp_port":60005},{"name":"b","ip":"10.0.0.1","udp_port":60005}],"#,
            r#""sequencer":{"variant":"tagged","key":"0011223344556677"},"byzantine":false,"#,
            r#""ended":{"epoch":299,"sequence":12}}"#
        );
        assert_eq!(serde_json::to_string(&told).expect("JSON"), json);
        assert_eq!(
            serde_json::from_str::<ToMember>(json).expect("a message"),
            told
        );
    }
}
