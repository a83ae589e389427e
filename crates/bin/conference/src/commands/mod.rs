//! The commands, one a file.

pub mod backup;
pub mod drain;
pub mod join;
pub mod restore;
pub mod serve;
