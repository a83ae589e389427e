//! Generated messages, clients and servers of P4Runtime, P4Info and Reprise's own control service. The crate also reads
//! and writes these messages as protobuf text ([`text_format`]), writes them as JSON ([`json_format`]), and removes
//! from a P4Info what an older version of P4Runtime lacks ([`P4RuntimeVersion`]).
//!
//! `build.rs` makes the code from `descriptor.bin`, which comes from `regenerate.sh`. The modules are nested as the
//! protobuf packages are. The definitions are P4Runtime 1.5.0's as the Python package finsy 0.30.0 contains them.

#![forbid(unsafe_code)]

pub mod json_format;
pub mod text_format;
mod texts;
mod version;
pub mod wire;

pub use texts::with_texts;
pub use version::{P4RUNTIME_VERSION_VARIABLE, P4RuntimeVersion};

/// The P4Runtime version that [`p4::v1`] was generated from, as `Capabilities` reports it.
pub const P4RUNTIME_API_VERSION: &str = "1.5.0";

/// The descriptors of all messages of this crate and of the messages that they import, as an encoded
/// `FileDescriptorSet`.
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
    /// What a controller needs from the switch but P4Runtime does not offer.
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
