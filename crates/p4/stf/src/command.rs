//! The commands of a test.

use data_encoding::HEXLOWER;

/// A value with the name of its key field or parameter.
pub type Named<T> = (String, T);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `add TABLE [PRIORITY] KEY:MATCH ... ACTION(PARAM:VALUE, ...) [= ID]`: adds a table entry.
    Add {
        table: String,
        /// The highest priority wins; `None` for a table without priorities.
        priority: Option<i32>,
        /// A missing field matches everything, except that a missing exact field counts as zero.
        key: Vec<Named<Match>>,
        action: String,
        args: Vec<Named<Vec<u8>>>,
        /// The entry's name in later commands.
        id: Option<String>,
    },
    /// `setdefault TABLE ACTION(PARAM:VALUE, ...)`: sets a table's default action.
    SetDefault {
        table: String,
        action: String,
        args: Vec<Named<Vec<u8>>>,
    },
    /// `remove all`: deletes all entries except const entries.
    RemoveAll,
    /// `packet PORT HEX`: sends a frame to the switch.
    Packet(u16, Vec<u8>),
    /// `expect PORT [HEX]`: expects that the switch sends this frame from this port, before or after this line; without
    /// HEX, expects any frame. The port's frames must come in the order of its `expect` lines.
    Expect(u16, Option<Expected>),
    /// `no_packet`: expects that every frame that has left the switch so far matched an earlier `expect`.
    NoPacket,
    /// `wait [MILLISECONDS]`: advances virtual time, by default by a second.
    Wait(u64),
    /// `mc_group GROUP PORT:RID ...`: creates a multicast group with these replicas (port and instance), in this order.
    Group(u32, Vec<(u16, u16)>),
    /// `mc_mgrp_create GROUP`: creates an empty multicast group.
    GroupCreate(u32),
    /// `mc_node_create RID PORT ...`: creates a node, which consists of an instance and its ports. Nodes are numbered
    /// from 0, in the order of their creation.
    NodeCreate(u16, Vec<u16>),
    /// `mc_node_update NODE PORT ...`: replaces a node's ports.
    NodeUpdate(usize, Vec<u16>),
    /// `mc_node_associate GROUP NODE`: adds a node's replicas to a group.
    NodeAssociate(u32, usize),
    /// `mirroring_add SESSION PORT`: creates a clone session to a port.
    Mirror(u32, u16),
    /// `mirroring_add_mc SESSION GROUP`: creates a clone session to the replicas of a group.
    MirrorGroup(u32, u32),
    /// `mirroring_delete SESSION`: deletes a clone session.
    MirrorDelete(u32),
    /// `mirroring_get SESSION`: fails if the session does not exist.
    MirrorGet(u32),
    /// `register_write NAME INDEX VALUE`: writes a register's cell.
    RegisterWrite(String, u64, Vec<u8>),
    /// `register_reset NAME`: sets every cell to zero.
    RegisterReset(String),
    /// `register_read NAME INDEX`: fails if the cell does not exist.
    RegisterRead(String, u64),
    /// `register_check NAME INDEX VALUE`: fails if the cell has another value.
    RegisterCheck(String, u64, Vec<u8>),
    /// `counter_write NAME INDEX PACKETS BYTES`: writes a counter's cell.
    CounterWrite(String, u64, u64, u64),
    /// `counter_read NAME INDEX`: fails if the cell does not exist.
    CounterRead(String, u64),
    /// `meter_write NAME INDEX RATE BURST PEAK_RATE PEAK_BURST`: sets a meter's rates, per second. Without rates the
    /// meter is unconfigured and every packet is green.
    MeterWrite(String, u64, Option<[u64; 4]>),
    /// `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`: sets the committed and the peak rate, in units per
    /// microsecond. The array in this variant is `[RATE, BURST, PEAK_RATE, PEAK_BURST]`, with rates per second. An
    /// entry's ID in place of the index stands for the entry's direct meter.
    MeterSetRates(String, String, [u64; 4]),
    /// `meter_array_set_rates NAME RATE:BURST RATE:BURST`: sets the rates of every cell.
    MeterArraySetRates(String, [u64; 4]),
    /// `meter_get_rates NAME INDEX`: fails if the cell, or the direct meter of the entry with this ID, does not exist.
    MeterGetRates(String, String),
    /// `expect_digest NAME [VALUE ...]`: expects the program's next digest, with these values of its members.
    ExpectDigest(String, Option<Vec<Vec<u8>>>),
    /// `no_digest`: expects that every digest so far matched an earlier `expect_digest`.
    NoDigest,
    /// `value_set_add NAME MATCH ...`: adds a member to a parser value set, with a match for each part of a key.
    ValueSetAdd(String, Vec<Match>),
    /// `member_add TABLE MEMBER ACTION(PARAM:VALUE, ...)`: adds a member to the table's action profile. An entry of
    /// such a table names a member as `member(id:MEMBER)`, a group as `group(id:GROUP)`; an entry that names an action
    /// gets a group of its own with that action (P4Runtime's one-shot programming).
    MemberAdd {
        /// Any table of the profile.
        table: String,
        /// The member's number in entries and groups.
        member: u32,
        action: String,
        args: Vec<Named<Vec<u8>>>,
    },
    /// `group_add TABLE GROUP MEMBER ...`: adds a group to the table's action selector.
    GroupAdd(String, u32, Vec<u32>),
    /// `check_counter NAME(INDEX) [packets|bytes == NUMBER]`: compares a count. The index may be a separate word; an
    /// entry's ID in place of the index stands for the entry's direct counter. `==` stands for any comparison; if none
    /// is given, both counts must be zero.
    CheckCounter {
        counter: String,
        /// Index of the cell, or the ID of an entry.
        index: String,
        /// The count to compare; `None` if both the packets and the bytes are compared.
        counted: Option<Counted>,
        comparison: Comparison,
        value: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    Value(Vec<u8>),
    /// `VALUE/BITS`: a prefix.
    Prefix(Vec<u8>, u32),
    /// `VALUE&&&MASK`, or `0x12**`: a value under a mask.
    Mask(Vec<u8>, Vec<u8>),
    /// `LOW..HIGH`: a closed interval.
    Range(Vec<u8>, Vec<u8>),
}

impl std::fmt::Display for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = |bytes: &[u8]| format!("0x{}", HEXLOWER.encode(bytes));
        match self {
            Self::Value(value) => f.write_str(&hex(value)),
            Self::Prefix(value, bits) => write!(f, "{}/{bits}", hex(value)),
            Self::Mask(value, mask) => write!(f, "{}&&&{}", hex(value), hex(mask)),
            Self::Range(low, high) => write!(f, "{}..{}", hex(low), hex(high)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Packets,
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(crate) fn of(text: &str) -> Option<Self> {
        Some(match text {
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    pub(crate) fn holds(self, found: u64, wanted: u64) -> bool {
        match self {
            Self::Equal => found == wanted,
            Self::NotEqual => found != wanted,
            Self::Less => found < wanted,
            Self::LessOrEqual => found <= wanted,
            Self::Greater => found > wanted,
            Self::GreaterOrEqual => found >= wanted,
        }
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Hexadecimal digits; `None` (`*`) matches any.
    pub(crate) digits: Vec<Option<u8>>,
    /// Whether the digits end with `$`, which says that the frame must not be longer.
    pub(crate) is_whole: bool,
}
