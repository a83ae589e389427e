//! The commands, one a file.

pub mod join;
pub mod serve;
pub mod why;
