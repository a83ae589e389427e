//! Entries of any program from a runtime file, the JSON of the P4 tutorials (p4lang/tutorials,
//! `utils/p4runtime_lib/simple_controller.py`): `sX-runtime.json`.
//!
//! In reading order: [`node`] a value of the file with its place; [`value`] numbers and addresses
//! as P4Runtime's byte strings; [`entry`] the switch's entries in a form that can be compared;
//! [`file`] the file's entries by the names of P4Info; [`difference`] the changes. None of it does
//! I/O.

pub mod difference;
pub mod entry;
pub mod file;
pub mod node;
pub mod value;

#[cfg(test)]
mod tests;
