//! Generated P4Runtime, P4Info and Reprise control messages, clients and servers,
//! and the one way to read and write them as protobuf text ([`text_format`]) and to write them
//! as JSON ([`json_format`]); what of P4Info an older version has ([`P4RuntimeVersion`]).
//!
//! `build.rs` makes the code from `descriptor.bin`, which comes from `regenerate.sh`. The modules are nested as the protobuf
//! packages are. P4Runtime 1.5.0 as finsy 0.30.0 carries it.

#![forbid(unsafe_code)]

pub mod json_format;
pub mod text_format;
mod version;
pub mod wire;

pub use version::{P4RUNTIME_VERSION_VARIABLE, P4RuntimeVersion};

/// The P4Runtime version that [`p4::v1`] was generated from, as `Capabilities` reports it.
pub const P4RUNTIME_API_VERSION: &str = "1.5.0";

/// Descriptors of every message here and of what they import, as an encoded `FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("../descriptor.bin");

/// Package `p4`.
pub mod p4 {
    /// P4Runtime: entities, requests, stream messages, `p4_runtime_client`, `p4_runtime_server`.
    #[allow(
        clippy::all,
        clippy::pedantic,
        clippy::allow_attributes_without_reason,
        reason = "generated; the .proto files document it"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/p4.v1.rs"));
    }

    /// Package `p4.config`.
    pub mod config {
        /// P4Info: what a P4 program offers to a controller.
        #[allow(
            clippy::all,
            clippy::pedantic,
            clippy::allow_attributes_without_reason,
            reason = "generated; the .proto files document it"
        )]
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/p4.config.v1.rs"));
        }
    }
}

/// Package `google`.
pub mod google {
    /// `Status` and the canonical error codes.
    #[allow(
        clippy::all,
        clippy::pedantic,
        clippy::allow_attributes_without_reason,
        reason = "generated; the .proto files document it"
    )]
    pub mod rpc {
        include!(concat!(env!("OUT_DIR"), "/google.rpc.rs"));
    }
}

/// Package `reprise`.
pub mod reprise {
    /// What a controller needs of the switch and P4Runtime has no place for.
    #[allow(
        clippy::all,
        clippy::pedantic,
        clippy::allow_attributes_without_reason,
        reason = "generated; proto/reprise/v1/switch.proto documents it"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/reprise.v1.rs"));
    }
}
