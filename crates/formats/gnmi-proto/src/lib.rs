//! Generated gNMI messages, client and server.
//!
//! `build.rs` makes the code from `descriptor.bin`, which comes from `crates/formats/p4runtime-proto/regenerate.sh`.
//! The definitions are gNMI's as the Python package finsy 0.30.0 contains them.

#![forbid(unsafe_code)]

/// The version of the gNMI service that [`gnmi`] was generated from (the file option `gnmi_service`), as
/// `Capabilities` reports it.
pub const GNMI_VERSION: &str = "0.10.0";

/// Package `gnmi`: requests, answers, `g_nmi_client`, `g_nmi_server`.
#[allow(
    deprecated,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated; gnmi.proto documents it"
)]
pub mod gnmi {
    include!(concat!(env!("OUT_DIR"), "/gnmi.rs"));
}

/// Package `gnmi_ext`: extensions of requests and answers.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated; gnmi_ext.proto documents it"
)]
pub mod gnmi_ext {
    include!(concat!(env!("OUT_DIR"), "/gnmi_ext.rs"));
}
