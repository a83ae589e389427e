//! Writes entries of any program from a runtime file, the JSON of the P4 tutorials
//! (p4lang/tutorials, `utils/p4runtime_lib/simple_controller.py`): `sX-runtime.json`.
//!
//! In reading order: [`node`] is a value of the file with its place; [`value`] converts numbers and
//! addresses; [`entry`] has the switch's entries in comparable form;
//! [`file`] reads the file's entries by the names of P4Info; [`difference`] computes the changes.
//! None of them does I/O.

pub mod difference;
pub mod entry;
pub mod file;
pub mod node;
pub mod value;

#[cfg(test)]
mod tests;
