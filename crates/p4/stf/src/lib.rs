//! STF, the "simple test format" of p4c's corpus: a program's table entries, input frames and expected frames.
//!
//! One command per line; `#` begins a comment. All commands of p4c's driver for simple_switch work; [`Command`] lists
//! these and the commands that Reprise adds. docs/conformance.md describes all of them for users.
//!
//! ```text
//! add TABLE [PRIORITY] KEY:MATCH ... ACTION(PARAM:VALUE, ...) [= ID]    a higher priority wins
//! setdefault TABLE ACTION(PARAM:VALUE, ...)      remove all
//! packet PORT HEX                                expect PORT [HEX]
//! no_packet                                      wait [MILLISECONDS]
//! ```
//!
//! A test has no sockets and no clock: [`run`] creates a new switch, gives it each frame and takes its output before
//! the next command; `wait` advances virtual time. With [`run_over`] frames pass through a [`Wire`], for example real
//! interfaces.

mod command;
mod difference;
mod frames;
mod key;
mod lex;
mod names;
mod number;
mod parse;
mod program;
mod run;

pub use command::{Command, Comparison, Counted, Expected, Match, Named};
pub use difference::Difference;
pub use frames::Failure;
pub use parse::{ParseError, ParseErrors, parse};
pub use program::{P4_SOURCE, ProgramError, SourceFiles, load, program_beside};
pub use run::{Outcome, Wire, run, run_and_keep, run_on, run_over};
