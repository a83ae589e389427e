//! What the compiler writes besides the BMv2 JSON, which `lower` builds itself.

pub mod ids;
pub mod p4info;
mod type_spec;
