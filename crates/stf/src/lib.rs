//! STF, the "simple test format" of p4c's corpus: a program's tables, frames in, frames expected.
//!
//! One command a line, `#` begins a comment. All commands of p4c's driver for simple_switch work;
//! [`Command`] lists them with our own. docs/conformance.md is the user's version.
//!
//! ```text
//! add TABLE [PRIORITY] KEY:MATCH ... ACTION(PARAM:VALUE, ...) [= ID]    a higher priority wins
//! setdefault TABLE ACTION(PARAM:VALUE, ...)      remove all
//! packet PORT HEX                                expect PORT [HEX]
//! no_packet                                      wait [MILLISECONDS]
//! ```
//!
//! A test has no sockets and no clock: [`run`] gives each frame to a new switch of its own and
//! takes its output before the next command; `wait` moves virtual time. With [`run_over`] frames come and leave by a
//! [`Wire`], real interfaces for example.

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
pub use names::find_name;
pub use parse::{ParseError, ParseErrors, parse};
pub use program::{ProgramError, load, program_beside};
pub use run::{Outcome, Wire, run, run_and_keep, run_on, run_over};
