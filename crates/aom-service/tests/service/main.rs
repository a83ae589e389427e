//! The service on a sequencer that runs its real program: groups and members, epochs, and every way in which
//! service, switch or members can fail between two steps.

mod byzantine;
mod changes;
mod joined;
mod mistakes;
mod operators;
mod restarts;
mod stopped;
mod support;
