//! Development only: one corpus on every engine; the architecture test.

pub mod stf;
