//! The compiler's outputs other than the BMv2 JSON, which `lower` builds itself.

mod annotation;
pub mod ids;
pub mod p4info;
mod p4info_externs;
mod type_spec;
