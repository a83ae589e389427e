//! Development only: one corpus on every engine, whole-system tests in virtual time, the
//! architecture test.

pub mod aom;
pub mod beside;
pub mod compile;
pub mod controller;
pub mod engines;
pub mod fuzz;
pub mod packet;
pub mod payload;
pub mod sfu;
