//! The native engine: a loaded program compiled to machine code by Cranelift.
//!
//! The interpreter of [`dataplane`] is the semantics; what this crate generates agrees with it in
//! every observable. A construct that has no native code is run by the interpreter's own code.

pub mod context;
pub mod layout;
pub mod options;

pub use options::NativeOptions;
