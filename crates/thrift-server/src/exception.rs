//! The exceptions that the services declare. Each has a code and nothing else; behind it stands, in a field of ours
//! that other clients pass over, why.
//!
//! The numbers are BMv2's: its clients print the codes' names.

use crate::wire::Type;
use crate::wire::write::Writer;

/// What goes into an exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) code: i32,
    /// Why, in words.
    pub(crate) message: String,
}

/// A code of some service's.
pub(crate) trait Code {
    fn number(self) -> i32;
}

impl Exception {
    pub(crate) fn new(code: impl Code, message: impl Into<String>) -> Self {
        Self {
            code: code.number(),
            message: message.into(),
        }
    }

    /// The field that it is in the answer's structure.
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::Struct);
        writer.field(1, Type::I32).i32(self.code);
        writer.field(2, Type::Bytes).bytes(self.message.as_bytes());
        writer.stop();
    }
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($code:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($code = $number,)*
        }

        impl Code for $name {
            fn number(self) -> i32 {
                self as i32
            }
        }
    };
}

codes! {
    /// Of tables and action profiles.
    TableCode {
        TableFull = 1,
        InvalidHandle = 2,
        ExpiredHandle = 3,
        CountersDisabled = 4,
        MetersDisabled = 5,
        AgeingDisabled = 6,
        InvalidTableName = 7,
        InvalidActionName = 8,
        WrongTableType = 9,
        InvalidMemberHandle = 10,
        MemberStillUsed = 11,
        MemberAlreadyInGroup = 12,
        MemberNotInGroup = 13,
        InvalidGroupHandle = 14,
        GroupStillUsed = 15,
        EmptyGroup = 16,
        DuplicateEntry = 17,
        BadMatchKey = 18,
        DefaultEntryIsConst = 21,
        InvalidActionProfileName = 23,
        NoActionProfileSelection = 24,
        ImmutableTableEntries = 25,
        BadActionData = 26,
        NoTableKey = 27,
        Error = 100,
    }
}

codes! {
    /// Of counter arrays, and of registers, whose codes have the same names.
    ArrayCode {
        InvalidName = 1,
        InvalidIndex = 2,
        Error = 3,
    }
}

codes! {
    /// Of meter arrays.
    MeterCode {
        InvalidName = 1,
        InvalidIndex = 2,
        BadRatesList = 3,
        InvalidInfoRate = 4,
        Error = 6,
    }
}

codes! {
    /// Of parser value sets.
    ValueSetCode {
        InvalidName = 1,
        Error = 2,
    }
}

codes! {
    /// Of exchanging programs.
    SwapCode {
        OngoingSwap = 2,
        NoOngoingSwap = 3,
    }
}

codes! {
    /// Of ports.
    PortCode {
        Error = 1,
    }
}

codes! {
    /// Of digests.
    LearnCode {
        Error = 3,
    }
}

codes! {
    /// Of calculations.
    HashCode {
        InvalidName = 1,
        WrongType = 2,
        InvalidConfig = 3,
    }
}

codes! {
    /// Of asking for ids.
    IdCode {
        InvalidType = 0,
        InvalidName = 1,
    }
}

codes! {
    /// Of multicast.
    MulticastCode {
        TableFull = 1,
        InvalidGroup = 2,
        InvalidGroupHandle = 3,
        InvalidNodeHandle = 4,
        Error = 5,
    }
}

codes! {
    /// Of mirroring sessions.
    MirrorCode {
        SessionNotFound = 1,
    }
}
