//! The commands, one a file.

pub mod doctor;
pub mod join;
pub mod serve;
