//! Ids of a program's parts, and positions in its source.

use std::sync::Arc;

macro_rules! inner_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The position among the program's parts of this kind, from 0 without gaps.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

inner_ids! {
    /// A field of a header instance; the fields of all instances are numbered together.
    FieldId;
    /// A header or metadata instance.
    HeaderId;
    /// A header stack.
    StackId;
    /// A header union.
    UnionId;
    /// A stack of header unions.
    UnionStackId;
    /// A parser state.
    StateId;
    /// A calculation of a checksum or hash.
    CalculationId;
    /// A field list of a clone, resubmission or recirculation.
    FieldListId;
    /// A digest's list of members.
    DigestId;
    /// A payload extern that the program calls.
    PayloadExternId;
    /// A node of a control: table, condition or action call.
    NodeId;
}

/// A line of the P4 source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// The file name given to the compiler.
    pub file: Arc<str>,
    /// The line number, from 1.
    pub line: u32,
}
