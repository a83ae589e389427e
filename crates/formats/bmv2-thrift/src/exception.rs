//! The exceptions that the services declare. BMv2's exceptions have only a code. This switch's exceptions have the
//! reason in a second field, which BMv2's clients ignore.
//!
//! Numbers and names are BMv2's: its clients print the names.

use crate::wire::Type;
use crate::wire::write::Writer;
use crate::{Args, ArgsError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The number of one of the codes below.
    pub code: i32,
    /// The reason; empty if BMv2 has sent the exception.
    pub message: String,
}

/// An error code of a service.
pub trait Code {
    /// The number on the wire.
    fn number(self) -> i32;
}

impl Exception {
    pub fn new(code: impl Code, message: impl Into<String>) -> Self {
        Self {
            code: code.number(),
            message: message.into(),
        }
    }

    /// Writes the exception as field 1 of an answer, where Thrift expects it.
    pub fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::Struct);
        writer.field(1, Type::I32).i32(self.code);
        writer.field(2, Type::Bytes).bytes(self.message.as_bytes());
        writer.stop();
    }

    /// Reads the structure that `Exception::write` writes.
    ///
    /// # Errors
    /// A field has another type.
    pub fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        let message = String::from_utf8_lossy(args.bytes(2)?).into_owned();
        Ok(Self {
            code: args.i32(1)?,
            message,
        })
    }
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($code:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($code = $number,)*
        }

        impl Code for $name {
            fn number(self) -> i32 {
                self as i32
            }
        }

        impl $name {
            /// BMv2's name of a code.
            pub fn name(number: i32) -> Option<&'static str> {
                match number {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Errors of calls on tables and action profiles.
    TableCode {
        TableFull = 1 "TABLE_FULL",
        InvalidHandle = 2 "INVALID_HANDLE",
        ExpiredHandle = 3 "EXPIRED_HANDLE",
        CountersDisabled = 4 "COUNTERS_DISABLED",
        MetersDisabled = 5 "METERS_DISABLED",
        AgeingDisabled = 6 "AGEING_DISABLED",
        InvalidTableName = 7 "INVALID_TABLE_NAME",
        InvalidActionName = 8 "INVALID_ACTION_NAME",
        WrongTableType = 9 "WRONG_TABLE_TYPE",
        InvalidMemberHandle = 10 "INVALID_MBR_HANDLE",
        MemberStillUsed = 11 "MBR_STILL_USED",
        MemberAlreadyInGroup = 12 "MBR_ALREADY_IN_GRP",
        MemberNotInGroup = 13 "MBR_NOT_IN_GRP",
        InvalidGroupHandle = 14 "INVALID_GRP_HANDLE",
        GroupStillUsed = 15 "GRP_STILL_USED",
        EmptyGroup = 16 "EMPTY_GRP",
        DuplicateEntry = 17 "DUPLICATE_ENTRY",
        BadMatchKey = 18 "BAD_MATCH_KEY",
        InvalidMeterOperation = 19 "INVALID_METER_OPERATION",
        DefaultActionIsConst = 20 "DEFAULT_ACTION_IS_CONST",
        DefaultEntryIsConst = 21 "DEFAULT_ENTRY_IS_CONST",
        NoDefaultEntry = 22 "NO_DEFAULT_ENTRY",
        InvalidActionProfileName = 23 "INVALID_ACTION_PROFILE_NAME",
        NoActionProfileSelection = 24 "NO_ACTION_PROFILE_SELECTION",
        ImmutableTableEntries = 25 "IMMUTABLE_TABLE_ENTRIES",
        BadActionData = 26 "BAD_ACTION_DATA",
        NoTableKey = 27 "NO_TABLE_KEY",
        Error = 100 "ERROR",
    }
}

codes! {
    CounterCode {
        InvalidName = 1 "INVALID_COUNTER_NAME",
        InvalidIndex = 2 "INVALID_INDEX",
        Error = 3 "ERROR",
    }
}

codes! {
    RegisterCode {
        InvalidName = 1 "INVALID_REGISTER_NAME",
        InvalidIndex = 2 "INVALID_INDEX",
        Error = 3 "ERROR",
    }
}

codes! {
    MeterCode {
        InvalidName = 1 "INVALID_METER_NAME",
        InvalidIndex = 2 "INVALID_INDEX",
        BadRatesList = 3 "BAD_RATES_LIST",
        InvalidInfoRate = 4 "INVALID_INFO_RATE_VALUE",
        InvalidBurstSizeValue = 5 "INVALID_BURST_SIZE_VALUE",
        Error = 6 "ERROR",
    }
}

codes! {
    ValueSetCode {
        InvalidName = 1 "INVALID_PARSE_VSET_NAME",
        Error = 2 "ERROR",
    }
}

codes! {
    /// Errors of program swaps.
    SwapCode {
        ConfigSwapDisabled = 1 "CONFIG_SWAP_DISABLED",
        OngoingSwap = 2 "ONGOING_SWAP",
        NoOngoingSwap = 3 "NO_ONGOING_SWAP",
    }
}

codes! {
    PortCode {
        Error = 1 "ERROR",
    }
}

codes! {
    /// Errors of calls on digests.
    LearnCode {
        InvalidListId = 1 "INVALID_LIST_ID",
        InvalidListName = 2 "INVALID_LIST_NAME",
        Error = 3 "ERROR",
    }
}

codes! {
    /// Errors of calls on hash calculations.
    HashCode {
        InvalidName = 1 "INVALID_CALCULATION_NAME",
        WrongType = 2 "WRONG_TYPE_CALCULATION",
        InvalidConfig = 3 "INVALID_CONFIG",
    }
}

codes! {
    /// Errors of lookups of ids by name.
    IdCode {
        InvalidType = 0 "INVALID_RESOURCE_TYPE",
        InvalidName = 1 "INVALID_RESOURCE_NAME",
    }
}

codes! {
    MulticastCode {
        TableFull = 1 "TABLE_FULL",
        InvalidGroup = 2 "INVALID_MGID",
        InvalidGroupHandle = 3 "INVALID_MGRP_HANDLE",
        InvalidNodeHandle = 4 "INVALID_L1_HANDLE",
        Error = 5 "ERROR",
    }
}

codes! {
    /// Errors of calls on mirroring sessions.
    MirrorCode {
        SessionNotFound = 1 "SESSION_NOT_FOUND",
    }
}
