//! `reprise p4rt` as a user types it, against the real P4Runtime server and data plane, with a program that has every
//! entity.

mod entities;
mod failures;
mod programs;
mod switch;
