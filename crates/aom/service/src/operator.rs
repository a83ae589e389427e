//! Requests of operators and the service's answers. A connection to the service's Unix socket carries one request and
//! one answer, each a line of JSON.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Adds a group. It has no members, and is inactive.
    GroupAdd(GroupAdd),
    /// Removes a group and its members.
    GroupRemove { group: String },
    /// Shows one group, or all.
    GroupShow { group: Option<String> },
    /// Adds a member and begins a new epoch.
    MemberAdd(MemberAdd),
    /// Removes a member and begins a new epoch.
    MemberRemove { group: String, member: String },
    /// Makes a new certificate for a member. The service refuses the old certificate from now on; the epoch does not
    /// change.
    MemberFile { group: String, member: String },
    /// Begins a new epoch with new keys.
    EpochAdvance { group: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAdd {
    pub group: String,
    /// The group number in packets, from 1 on; if absent, the service chooses it.
    pub number: Option<u16>,
    /// The IPv4 destination of the group's requests; if absent, requests are sent to the sequencer and contain the
    /// group's number.
    pub address: Option<Ipv4Addr>,
    pub variant: Variant,
    /// Whether members confirm a message to each other before they deliver it.
    pub byzantine: bool,
}

/// How a group's packets are authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "variant", rename_all = "snake_case")]
pub enum Variant {
    /// AOM-HM: a tag for each receiver.
    Tagged,
    /// AOM-PK: signatures by a signer at a port of the switch.
    Signed {
        /// The switch's port where the signer is.
        signer_port: u16,
        /// The signer's public key.
        public_key: aom_config::keys::PublicKey,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberAdd {
    pub group: String,
    pub member: String,
    pub mac: String,
    pub ip: Ipv4Addr,
    pub udp_port: u16,
    /// The switch's port to the member.
    pub switch_port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The change is done, and saved.
    Done {
        /// The result, in words.
        message: String,
        /// The group after the change; absent if it was removed.
        group: Option<Box<GroupView>>,
        /// The text of a member's new file. It is a secret.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member_file: Option<String>,
    },
    Groups {
        /// The groups in the order of their names.
        groups: Vec<GroupView>,
    },
    /// The request failed, and nothing has changed.
    Failed {
        /// The reason, and what the operator should do next.
        error: String,
    },
}

/// A group as an operator sees it, without keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    pub group: String,
    pub number: u16,
    pub address: Option<Ipv4Addr>,
    pub variant: Variant,
    pub byzantine: bool,
    /// The current epoch; 0 before the first.
    pub epoch: u64,
    /// In a Byzantine group: how many receivers of this epoch may lie while the others still deliver the same messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liars_max: Option<usize>,
    pub state: GroupState,
    /// The last sequence number that the switch assigned; absent if the switch does not answer.
    pub sequence: Option<u32>,
    /// For how many milliseconds (rounded up) the switch gave no sequence numbers to requests during the last epoch
    /// change.
    pub last_gap_ms: Option<u64>,
    /// The members in the order in which they were added.
    pub members: Vec<MemberView>,
}

/// Whether the switch stamps a group's requests, that is, gives them sequence numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum GroupState {
    Active,
    /// An epoch change is in progress; the switch stamps no requests.
    Advancing,
    Inactive {
        /// The reason, and what the operator should do next.
        because: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    pub member: String,
    /// The receiver number in the current epoch; absent if the member does not receive in it.
    pub receiver: Option<u8>,
    pub mac: String,
    pub ip: Ipv4Addr,
    pub udp_port: u16,
    /// The switch's port to the member.
    pub switch_port: u16,
    pub is_connected: bool,
    /// The last epoch that the member has acknowledged on this connection.
    pub installed: Option<u64>,
    /// Why a connected member does not receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}
