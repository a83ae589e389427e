//! The native engine: a loaded program compiled to machine code by Cranelift.
//!
//! The interpreter of [`dataplane`] defines the semantics. The code that this crate generates has the same observable
//! behaviour. The interpreter's own code runs the parts of a program that have no native code.

mod blank;
mod compile;
pub mod context;
mod engine;
mod factory;
mod fallback;
mod flow;
mod frames;
mod graph;
pub mod layout;
pub mod lookup;
mod metadata;
pub mod options;
mod packet;
mod packets;
mod packing;
mod passes;
pub mod program;
pub mod runtime;
mod tables;
mod usage;
mod vector;
mod wire;

pub use compile::CompileError;
pub use factory::NativeFactory;
pub use options::NativeOptions;
