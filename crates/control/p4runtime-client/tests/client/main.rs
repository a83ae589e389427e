//! The client against a switch in memory that is strict about every write, and against P4Runtime's server over TLS.
#![allow(clippy::too_many_lines, reason = "some tests are lists of cases")]

mod broken;
mod over_tls;
mod writes;
