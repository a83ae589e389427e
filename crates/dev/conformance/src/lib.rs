//! This crate is only for development. The crate runs the same programs and packets on every engine, tests whole
//! systems in virtual time, and checks the architecture.

pub mod aom;
pub mod beside;
pub mod compile;
pub mod controller;
pub mod engines;
pub mod fuzz;
pub mod packet;
pub mod payload;
pub mod sfu;
