//! `reprise entries apply` as a user types it, against the real P4Runtime server and data plane.

mod changes;
mod mistakes;
mod stopped;
mod switch;
