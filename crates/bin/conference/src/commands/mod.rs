//! The commands, one a file.

pub mod doctor;
pub mod join;
pub mod load;
mod open_files;
pub mod record;
pub mod serve;
pub mod why;
