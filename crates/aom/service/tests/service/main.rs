//! Tests the service with a sequencer that runs its real P4 program: groups and members, epochs, and failures of
//! service, switch and members between any two steps.

mod byzantine;
mod changes;
mod joined;
mod mistakes;
mod operators;
mod restarts;
mod stopped;
mod support;
