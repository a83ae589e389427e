//! The control plane of a switch, without any protocol: what P4Runtime's server and its neighbours share.
//!
//! A [`Device`] is reached by calls from any thread; its switches, one a worker, belong to threads of their own
//! ([`SwitchHandle`]). Entities are named by the program ([`dataplane::Program::table`] and its like), values are
//! the data plane's, errors say of which kind they are ([`Error`], [`dataplane::ControlErrorKind`]).
//! Not here: who may call, messages and their ids, connections.
//!
//! # The steps of a call that changes something
//!
//! | step | a packet sees after it | a reader sees after it | ended there |
//! |---|---|---|---|
//! | 1. It waits for its turn ([`Device::in_turn`]). | the state before | the state before | given up: nothing was done |
//! | 2. It has its turn, and goes on though its caller gives up. | the state before | nothing: reads wait for step 7 | |
//! | 3. It is checked against the pipeline it finds. | the state before | | refused: nothing was done |
//! | 4. Its work is handed to every worker, in one go. | the state before | | stopped: nothing was done |
//! | 5. Each worker carries it out, in pieces. | every update so far; a worker may be earlier than another | | stopped: what was done stays |
//! | 6. All have answered; a store keeps what came of it ([`Store`]), durable before the answer. | all of it | | killed: after a restart all of it or nothing |
//! | 7. The change has a number and is told ([`Device::changes`]); the turn ends. | all of it | all of it | |
//!
//! - **A batch** ([`Batch`]) is carried out in its order. A packet sees an update wholly or not at all, only cells of an
//!   array one by one; [`limits::UPDATES_PER_PIECE`] updates have no frame in between. An update that is refused
//!   changes nothing; [`Atomicity`] says whether those behind it are attempted, and those before it taken back.
//! - **An undivided batch** ([`Atomicity::Whole`], [`Atomicity::WholeForPackets`]) is one piece in every worker: step 5
//!   has no frame in it, and all workers come to the same.
//! - **A pipeline** is made ready between steps 3 and 4 ([`Ready`]), on a thread that no frame waits for: it is compiled
//!   for each worker, and what it is to have from its beginning is written to it. Nobody sees anything of it; a panic of
//!   the engine leaves the pipeline before in force. Step 5 is one piece in which each worker exchanges what it has for
//!   what was made ready. Packets inside leave by the pipeline before; those that a rate holds longer than
//!   [`limits::TURNS_BEFORE_EXCHANGE_MAX`] turns are dropped and counted. All other state is cleared, and the switch has
//!   the pipeline's generation for a name. What was there before is freed before step 7, beside the workers. So two
//!   pipelines at most take memory, and a saved one, which has a switch of its own that forwards nothing.
//! - **Generators** are the switch's and not the pipeline's: what is written to them with a pipeline is written by the
//!   workers, in pieces behind the exchange, and so is what is behind it in the batch.
//! - **An offload** beside the engine ([`dataplane::offload`]) shows what a piece has changed as one, when the piece
//!   ends; so an update of several calls is never seen in part, and a pipeline is seen with all that it has from its
//!   beginning. It is the piece and not the batch, since packets that the offload punts see each piece, and
//!   both sides are to agree as frames pass. What is read is asked of the offload first; a drain waits for it too.
//! - **Ports are enabled and disabled** ([`Turn::set_ports_enabled`]) in a turn too, with a pipeline or without, each
//!   worker in one piece. They are reported as enabled or not ([`Device::ports`]) from step 7 on, when every worker
//!   has done it.
//! - **Work names the pipeline that it was made for.** Where another forwards it is refused ([`Error::Replaced`]); once
//!   it has begun only somebody who replaces programs behind the device can bring that about.
//! - **A read** ([`Device::reading`]) waits until nobody has a turn, and nobody gets one until it is dropped. A large one
//!   is many visits with frames in between: what packets count goes on meanwhile.
//! - **Frames** have their turn between pieces: a loop runs so many updates a turn, whoever wrote them.
//!
//! Reading order: `switch_handle`, `device`, `turn`, `pipeline`, `operation`, `batch`, `undo`, `reading`,
//! `changes`, `store`, `ports`.

mod batch;
mod changes;
mod counted;
mod device;
mod error;
mod lent;
pub mod limits;
mod notes;
mod operation;
mod pipeline;
mod ports;
mod reading;
mod store;
mod switch_handle;
mod turn;
mod undo;
mod workers;

pub use batch::{Atomicity, Batch};
pub use changes::{Change, Changed, Changes, Missed};
pub use counted::{Counted, TableCounted};
pub use device::{Answers, Device};
pub use error::{Error, OperationResult};
pub use lent::Lent;
pub use notes::{EntryKey, Note, Notes};
pub use operation::{CellValue, EntryChange, NewAction, Operation};
pub use pipeline::{Checked, Pipeline, blank_switch};
pub use ports::Port;
pub use reading::{Places, Reading};
pub use store::{JsonOrigin, Kept, Origin, OriginOf, Slot, Store, StoreError};
pub use switch_handle::{
    Casts, DigestNotice, DigestSender, DrainWaiters, IdleTimeoutNotice, IdleTimeoutSender,
    LinkSender, LinkState, NoticeSender, PacketInFrame, PacketInSender, PortStatus, Subscriber,
    SwitchContext, SwitchHandle, Work,
};
pub use turn::{Committed, Ready, Saved, Turn, Written};
pub use workers::Registers;
