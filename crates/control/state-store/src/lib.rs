//! A state file, which makes durable what controllers write to a switch, before their calls are answered.
//!
//! [`StateFile`] is a [`control::Store`] over redb. Each entity has one key, whose value is the few operations that
//! make the entity again in a switch with a new pipeline. So the file grows with the state, not with its history. The
//! file has no state that packets write: no counters, no idle timers and no buckets of meters.
//!
//! # The steps of a call whose change is stored
//!
//! | step | if the switch is killed after it, the file has |
//! |---|---|
//! | 1. The data plane has carried the call out. | the state before |
//! | 2. A transaction has the change. | the state before |
//! | 3. The transaction is committed with redb's default durability: on disk when the commit returns. | the change |
//! | 4. The call is answered. | the change |
//!
//! Reading order: `key`, `cells`, `contents`, `file`.

#![forbid(unsafe_code)]

mod cells;
mod contents;
mod file;
mod key;

pub use contents::{Contents, OpenTo, StoredPipeline};
pub use file::{FORMAT, OpenError, StateFile};
