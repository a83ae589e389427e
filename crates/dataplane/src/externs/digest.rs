//! v1model `digest`: values that the control plane gets, taken at the end of ingress.

use crate::{
    interpreter::expression::Scope,
    program::ir::{DigestId, Ir},
    value,
};

/// A digest message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Name of the digest (the struct) in the BMv2 JSON.
    pub name: String,
    /// One value a member, canonical.
    pub members: Vec<Vec<u8>>,
}

/// Reads the members as they are now.
pub(crate) fn take(ir: &Ir, scope: &Scope<'_>, digest: DigestId) -> Digest {
    let list = &ir.digests[digest.index()];
    let members = list
        .fields
        .iter()
        .map(|(expr, bits)| value::to_canonical_bytes(&scope.number(expr), *bits))
        .collect();
    Digest {
        name: list.name.clone(),
        members,
    }
}
