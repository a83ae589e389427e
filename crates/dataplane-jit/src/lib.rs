//! The native engine: a loaded program compiled to machine code by Cranelift.
//!
//! The interpreter of [`dataplane`] is the semantics; what this crate generates agrees with it in
//! every observable. A construct that has no native code is run by the interpreter's own code.

mod compile;
pub mod context;
mod fallback;
pub mod layout;
pub mod lookup;
pub mod options;
pub mod program;
pub mod runtime;
mod vector;

pub use compile::CompileError;
pub use options::NativeOptions;
