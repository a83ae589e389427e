//! The commands, one a file.

pub mod join;
pub mod load;
pub mod record;
pub mod serve;
