//! What the parts of a program are called, and where they are in its source.

use std::sync::Arc;

macro_rules! inner_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The position among its kind, from 0 without gaps.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

inner_ids! {
    /// A field of a header instance, among all fields.
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
    /// A calculation.
    CalculationId;
    /// A field list.
    FieldListId;
    /// A digest.
    DigestId;
    /// An extern that changes payloads.
    PayloadExternId;
    /// A node of a control.
    NodeId;
}

/// A line of the P4 source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, as it was named to the compiler.
    pub file: Arc<str>,
    /// Its line, from 1.
    pub line: u32,
}
