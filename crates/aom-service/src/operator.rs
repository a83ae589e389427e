//! An operator's requests and the service's answers: one request and one answer for each connection to its
//! Unix socket, each a line of JSON.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// An operator's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// A new group, without members and inactive.
    GroupAdd(GroupAdd),
    /// A group goes, with its members.
    GroupRemove {
        /// Its name.
        group: String,
    },
    /// One group, or all.
    GroupShow {
        /// Its name.
        group: Option<String>,
    },
    /// A new member; an epoch advance.
    MemberAdd(MemberAdd),
    /// A member goes; an epoch advance.
    MemberRemove {
        /// Of which group.
        group: String,
        /// Its name.
        member: String,
    },
    /// A new certificate for a member. Its old one is refused from now on; no epoch advance.
    MemberFile {
        /// Of which group.
        group: String,
        /// Its name.
        member: String,
    },
    /// New epoch, new keys.
    EpochAdvance {
        /// Of which group.
        group: String,
    },
}

/// A new group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAdd {
    /// Its name.
    pub group: String,
    /// Its number on the wire, from 1 on; the service chooses where none is given.
    pub number: Option<u16>,
    /// The IPv4 address that senders use; where there is none, requests name the number.
    pub address: Option<Ipv4Addr>,
    /// The authenticator of its packets.
    pub variant: Variant,
    /// Whether members confirm to each other before they deliver.
    pub byzantine: bool,
}

/// The authenticator of a group's packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "variant", rename_all = "snake_case")]
pub enum Variant {
    /// AOM-HM.
    Tagged,
    /// AOM-PK, by a signer at that port of the switch with that public key (33 bytes in hexadecimal digits).
    Signed {
        /// The switch's port where the signer is.
        signer_port: u16,
        /// Its key.
        public_key: aom_config::keys::PublicKey,
    },
}

/// A new member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberAdd {
    /// Of which group.
    pub group: String,
    /// Its name.
    pub member: String,
    /// Where its packets go.
    pub mac: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// And UDP port.
    pub udp_port: u16,
    /// The switch's port that leads there.
    pub switch_port: u16,
}

/// The service's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// It is done, and written down.
    Done {
        /// The result, in words.
        message: String,
        /// The group after it; none if it is removed.
        group: Option<Box<GroupView>>,
        /// The text of a member's new file, a secret.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member_file: Option<String>,
    },
    /// The groups that were asked for.
    Groups {
        /// By their names.
        groups: Vec<GroupView>,
    },
    /// It is not done, and nothing has changed.
    Failed {
        /// Why, with the next step.
        error: String,
    },
}

/// A group as an operator sees it: no keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// Its name.
    pub group: String,
    /// Its number on the wire.
    pub number: u16,
    /// The address that senders use.
    pub address: Option<Ipv4Addr>,
    /// The authenticator of its packets.
    pub variant: Variant,
    /// Whether members confirm to each other.
    pub byzantine: bool,
    /// The epoch, from 1 on; 0: none yet.
    pub epoch: u64,
    /// Of a Byzantine group's receivers in this epoch: how many may lie and the others still deliver the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liars_max: Option<usize>,
    /// Whether its requests are stamped; if not, why not.
    pub state: GroupState,
    /// The number that was given last, read from the switch; none if the switch does not answer.
    pub sequence: Option<u32>,
    /// How long nothing was stamped at the last advance, in milliseconds, rounded up.
    pub last_gap_ms: Option<u64>,
    /// By their numbers.
    pub members: Vec<MemberView>,
}

/// Whether a group's requests are stamped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum GroupState {
    /// They are.
    Active,
    /// An epoch is being advanced.
    Advancing,
    /// They are not.
    Inactive {
        /// In words, with the next step.
        because: String,
    },
}

/// A member as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// Its name.
    pub member: String,
    /// Its number; none until it has joined, where that is needed (a Byzantine group).
    pub receiver: Option<u8>,
    /// Where its packets go.
    pub mac: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// And UDP port.
    pub udp_port: u16,
    /// The switch's port that leads there.
    pub switch_port: u16,
    /// Whether it is connected.
    pub is_connected: bool,
    /// The epoch that its receiver has said to have.
    pub installed: Option<u64>,
    /// Why it is connected and does not receive: in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}
