//! The switch as a process: with options, on ports, under signals. One test program, since each would link the whole
//! switch.
#![allow(clippy::panic, reason = "a test stops at what it did not expect")]

#[path = "../../../tls/tests/support/certificates.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod certificates;
mod connections;
mod documentation;
#[path = "../../../dataplane/tests/switch/offload/double.rs"]
mod double;
mod forwarding;
#[path = "../../../packet-io/tests/frames/mod.rs"]
mod frames;
mod full_disk;
mod generators;
mod gnmi;
mod interfaces;
mod kernel;
mod kernel_digests;
mod log;
#[path = "../../../dataplane/tests/switch/support/mask.rs"]
mod mask;
mod metrics;
#[path = "../../../packet-io/tests/namespace/mod.rs"]
mod namespace;
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
mod translation;
mod udp;
mod workers;
