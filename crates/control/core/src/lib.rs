//! The control plane of a switch, without any protocol: the part that the servers of P4Runtime, Thrift and gNMI share.
//!
//! A [`Device`] takes calls from any thread. It has one switch for each worker, and each switch belongs to a thread of
//! its own ([`SwitchHandle`]). Operations use the program's ids, which [`dataplane::Program::table`] and similar
//! methods find by name, and values in the data plane's form. An error has a kind ([`Error`],
//! [`dataplane::ControlErrorKind`]). The crates of the protocols handle authorization, connections, and messages with
//! the protocol's own ids.
//!
//! # The steps of a call that changes something
//!
//! | step | packets see after it | readers see after it | if the call ends here |
//! |---|---|---|---|
//! | 1. The call waits for exclusive access ([`Device::exclusively`]). | the old state | the old state | cancelled: nothing was done |
//! | 2. The call has access, and goes on even if its caller gives up. | the old state | nothing: reads wait for step 7 | |
//! | 3. The call is checked against the current pipeline. | the old state | | refused: nothing was done |
//! | 4. The work is submitted to all workers together. | the old state | | stopped: nothing was done |
//! | 5. Each worker executes the work in pieces. | every update so far; workers may differ | | stopped: finished updates stay |
//! | 6. All workers have answered. The store makes the result durable ([`Store`]) before the call is answered. | the new state | | killed: after a restart all of it or nothing |
//! | 7. The change gets a number and is published ([`Device::changes`]); the access ends. | the new state | the new state | |
//!
//! - **A batch** ([`Batch`]) is executed in order. A packet sees an update completely or not at all, except that
//!   array cells change one by one. A piece of the batch has [`limits::UPDATES_PER_PIECE`] updates, and no frame passes
//!   while a worker executes a piece. A refused update changes nothing. [`Atomicity`] says whether later updates are
//!   still attempted and whether earlier ones are undone.
//! - **An undivided batch** ([`Atomicity::Whole`], [`Atomicity::WholeForPackets`]) is one piece in every worker: no
//!   frame passes during step 5, and all workers get the same result.
//! - **A pipeline** is prepared between steps 3 and 4 ([`Ready`]), on a thread that does not forward: it is compiled
//!   for each worker, and its initial state is written to it. Neither packets nor clients see the new pipeline yet, and
//!   if the engine panics the old pipeline stays in force. Step 5 is one piece in which each worker exchanges the old
//!   pipeline for the new one. Packets inside the switch leave through the old pipeline; packets that a queue's rate
//!   holds for more than [`limits::WAITS_BEFORE_EXCHANGE_MAX`] event-loop iterations are dropped and counted. All other
//!   state is cleared, and the switch reports the generation (the unique number) of the new pipeline. The old pipeline
//!   is freed on another thread before the access ends. So at most two pipelines take memory, plus a saved pipeline
//!   (one that waits for its commit), which has a switch of its own that forwards nothing.
//! - **Packet generators** belong to the switch, not to the pipeline. If a new pipeline's batch writes to a generator,
//!   the workers execute that operation and all later ones in pieces after the exchange.
//! - **An offload** beside the engine ([`dataplane::offload`]) applies all changes of a piece together when the piece
//!   ends. So packets in the offload never see part of an update that takes several calls, and they see a new pipeline
//!   with all its initial state. The offload does not wait for the end of the whole batch, because it punts some
//!   packets to the engine. The engine sees the effect of each piece, and the offload and the engine must agree while
//!   frames pass. A read first collects the offload's counts. [`Device::drain`] also waits for packets in the offload.
//! - **Ports are enabled and disabled** ([`Exclusive::set_ports_enabled`]) under exclusive access too, with or without
//!   a pipeline, in one piece for each worker. [`Device::ports`] reports the new state from step 7 on, when every
//!   worker has it.
//! - **Work names the pipeline that it was made for.** If another pipeline forwards, the work is refused
//!   ([`Error::Replaced`]). Once the work has started, this can happen only if some code replaces programs without the
//!   device.
//! - **A read** ([`Device::reading`]) waits until no call has exclusive access. Until the reading is dropped, no call
//!   gets exclusive access. A large read visits each worker's thread many times, and frames pass between two visits, so
//!   counters change during the read.
//! - **Frames** pass between pieces: an event loop executes a bounded number of updates in an iteration, whichever
//!   protocol wrote them.
//!
//! Reading order: `switch_handle`, `device`, `exclusive`, `pipeline`, `operation`, `batch`, `reading`,
//! `changes`, `store`, `ports`.
#![warn(missing_docs)]

mod batch;
mod borrowed_switch;
mod changes;
mod client_data;
mod counted;
mod device;
mod error;
mod exclusive;
pub mod limits;
mod operation;
mod pipeline;
mod ports;
mod reading;
mod store;
mod switch_handle;
mod workers;

pub use batch::{Atomicity, Batch};
pub use borrowed_switch::BorrowedSwitch;
pub use changes::{Change, Changed, Changes, Missed};
pub use client_data::{ClientData, ClientDataMap, EntryKey};
pub use counted::{Counted, TableCounted};
pub use device::{Answers, Device};
pub use error::{Error, OperationResult};
pub use exclusive::{Committed, Exclusive, Ready, Saved, Written};
pub use operation::{
    CellValue, EntityKey, EntryChange, EntryUpdate, GeneratorUpdate, NewAction, Operation, Stored,
    Update,
};
pub use pipeline::{Checked, Pipeline, blank_switch};
pub use ports::Port;
pub use reading::{Cursor, Reading};
pub use store::{JsonOrigin, Kept, Origin, OriginOf, Slot, Store, StoreError};
pub use switch_handle::{
    DigestNotice, DigestSender, DrainWaiters, IdleTimeoutNotice, IdleTimeoutSender, LinkSender,
    LinkState, MulticastCounters, NoticeSender, PacketInFrame, PacketInSender, PortStatus,
    Subscriber, SwitchContext, SwitchHandle, Work,
};
pub use workers::Registers;
