//! The commands of a test.

/// A key field or argument by name.
pub type Named<T> = (String, T);

/// A command of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `add TABLE [PRIORITY] KEY:MATCH ... ACTION(PARAM:VALUE, ...) [= ID]`: adds a table entry.
    Add {
        /// Table.
        table: String,
        /// The higher wins; none in a table without priorities.
        priority: Option<i32>,
        /// Key fields; those left out match everything, exact ones zero.
        key: Vec<Named<Match>>,
        /// Action.
        action: String,
        /// Its arguments.
        args: Vec<Named<Vec<u8>>>,
        /// The entry's name in later commands.
        id: Option<String>,
    },
    /// `setdefault TABLE ACTION(PARAM:VALUE, ...)`.
    SetDefault {
        /// Table.
        table: String,
        /// Action.
        action: String,
        /// Its arguments.
        args: Vec<Named<Vec<u8>>>,
    },
    /// `remove all`: takes every entry away that the program does not fix.
    RemoveAll,
    /// `packet PORT HEX`: gives a frame.
    Packet(u16, Vec<u8>),
    /// `expect PORT [HEX]`: a frame leaves; those of a port in this order, before or after this
    /// line. Without digits: any frame.
    Expect(u16, Option<Expected>),
    /// `no_packet`: nothing left that was not expected before this line.
    NoPacket,
    /// `wait [MILLISECONDS]`: so much virtual time goes by, a second unless said.
    Wait(u64),
    /// `mc_group GROUP PORT:RID ...`: a multicast group of ports and instances, in this order.
    Group(u32, Vec<(u16, u16)>),
    /// `mc_mgrp_create GROUP`: makes an empty multicast group.
    GroupCreate(u32),
    /// `mc_node_create RID PORT ...`: makes the next node: an instance and its ports.
    NodeCreate(u16, Vec<u16>),
    /// `mc_node_update NODE PORT ...`: gives a node other ports.
    NodeUpdate(usize, Vec<u16>),
    /// `mc_node_associate GROUP NODE`: adds a node's replicas to a group.
    NodeAssociate(u32, usize),
    /// `mirroring_add SESSION PORT`: makes a clone session to a port.
    Mirror(u32, u16),
    /// `mirroring_add_mc SESSION GROUP`: makes a clone session to the replicas of a group.
    MirrorGroup(u32, u32),
    /// `mirroring_delete SESSION`.
    MirrorDelete(u32),
    /// `mirroring_get SESSION`: the session is there.
    MirrorGet(u32),
    /// `register_write NAME INDEX VALUE`.
    RegisterWrite(String, u64, Vec<u8>),
    /// `register_reset NAME`: every cell becomes zero.
    RegisterReset(String),
    /// `register_read NAME INDEX`: the cell is there.
    RegisterRead(String, u64),
    /// `register_check NAME INDEX VALUE`: compares a cell.
    RegisterCheck(String, u64, Vec<u8>),
    /// `counter_write NAME INDEX PACKETS BYTES`.
    CounterWrite(String, u64, u64, u64),
    /// `counter_read NAME INDEX`: the cell is there.
    CounterRead(String, u64),
    /// `meter_write NAME INDEX RATE BURST PEAK_RATE PEAK_BURST`: a meter's rates a second; without
    /// numbers after the index the cell is green again.
    MeterWrite(String, u64, Option<[u64; 4]>),
    /// `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`: the committed and the peak rate, in
    /// units a microsecond; here as `[RATE, BURST, PEAK_RATE, PEAK_BURST]` a second. In place of the
    /// index the ID of an entry, for its direct meter.
    MeterSetRates(String, String, [u64; 4]),
    /// `meter_array_set_rates NAME RATE:BURST RATE:BURST`: the same for every cell.
    MeterArraySetRates(String, [u64; 4]),
    /// `meter_get_rates NAME INDEX`: the cell is there, or the entry of this ID with its meter.
    MeterGetRates(String, String),
    /// `expect_digest NAME [VALUE ...]`: the next digest that the program gave; the values are those
    /// of its members.
    ExpectDigest(String, Option<Vec<Vec<u8>>>),
    /// `no_digest`: no digest was given that no line before this one expects.
    NoDigest,
    /// `value_set_add NAME MATCH ...`: a member of a parser value set, a match a part of its key.
    ValueSetAdd(String, Vec<Match>),
    /// `member_add TABLE MEMBER ACTION(PARAM:VALUE, ...)`: a member of the table's action profile.
    /// An entry of such a table names it as `member(id:MEMBER)`, a group as `group(id:GROUP)`; one
    /// with an action has a group of its own.
    MemberAdd {
        /// A table of the profile.
        table: String,
        /// Its name in entries and groups.
        member: u32,
        /// Action.
        action: String,
        /// Its arguments.
        args: Vec<Named<Vec<u8>>>,
    },
    /// `group_add TABLE GROUP MEMBER ...`: a group of the table's action selector.
    GroupAdd(String, u32, Vec<u32>),
    /// `check_counter NAME(INDEX) [packets|bytes == NUMBER]`, also with the index as a word of its
    /// own; in place of the index the ID of an entry, for its direct counter. Any comparison;
    /// without one both counts are zero.
    CheckCounter {
        /// Counter.
        counter: String,
        /// Cell, or an entry's ID.
        index: String,
        /// The compared count; none: packets and bytes.
        counted: Option<Counted>,
        /// How.
        comparison: Comparison,
        /// The value to compare with.
        value: u64,
    },
}

/// The match of a key field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// One value.
    Value(Vec<u8>),
    /// `VALUE/BITS`: a prefix.
    Prefix(Vec<u8>, u32),
    /// `VALUE&&&MASK`, or `0x12**`: a value under a mask.
    Mask(Vec<u8>, Vec<u8>),
    /// `LOW..HIGH`: a closed interval.
    Range(Vec<u8>, Vec<u8>),
}

/// As a test writes it.
impl std::fmt::Display for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = |bytes: &[u8]| format!("0x{}", crate::difference::hex(bytes));
        match self {
            Self::Value(value) => f.write_str(&hex(value)),
            Self::Prefix(value, bits) => write!(f, "{}/{bits}", hex(value)),
            Self::Mask(value, mask) => write!(f, "{}&&&{}", hex(value), hex(mask)),
            Self::Range(low, high) => write!(f, "{}..{}", hex(low), hex(high)),
        }
    }
}

/// Which of a counter's two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
}

/// How a count is compared with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
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

/// Bytes that are expected: half a byte each, any where `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Hexadecimal digits; `*` is any.
    pub(crate) digits: Vec<Option<u8>>,
    /// `$`: nothing follows.
    pub(crate) is_whole: bool,
}
