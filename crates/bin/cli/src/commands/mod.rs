//! The commands of `reprise`, a module for each; `program` has both `compile` and `check`.

pub mod address;
pub mod aom;
pub mod apply;
pub mod entries;
pub mod explain;
pub mod export;
pub mod fmt;
pub mod group;
pub mod pipeline;
pub mod program;
pub mod refresh;
pub mod show;
pub mod stf;
pub mod viewer;
pub mod watch;
