//! The service on a sequencer that runs its real program: groups and members, epochs, and every way in which
//! service, switch or members can fail between two steps.

mod changes;
mod joined;
mod mistakes;
mod operators;
mod stopped;
mod support;
