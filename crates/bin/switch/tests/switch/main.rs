//! The switch as a process: with options, on ports, under signals. All tests are in one program, since each program
//! links the whole switch.
#![allow(clippy::panic, reason = "a test stops at what it did not expect")]

mod connections;
mod documentation;
mod forwarding;
mod full_disk;
mod generators;
mod gnmi;
mod interfaces;
mod kernel;
mod kernel_digests;
mod log;
mod metrics;
mod old_frames;
mod over_tls;
mod p4runtime;
mod parts;
mod privileges;
mod secrets;
mod sockets;
mod startup_errors;
mod state;
mod support;
mod takeover;
mod translation;
mod udp;
mod workers;
