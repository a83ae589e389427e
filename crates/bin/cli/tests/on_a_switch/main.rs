//! `reprise entries apply` and `reprise aom` as a user types them, against the real P4Runtime server and data plane.

mod aom;
mod changes;
mod mistakes;
mod stopped;
mod switch;
