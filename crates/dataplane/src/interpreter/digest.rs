//! v1model `digest`: values that the control plane gets, taken at the end of ingress.

use super::expression::Scope;
use crate::{
    Digest,
    program::ir::{DigestId, Ir},
    value,
};

/// Reads the members as they are now.
pub(crate) fn take(ir: &Ir, scope: &Scope<'_>, digest: DigestId) -> Digest {
    let list = &ir.digests[digest.index()];
    let members = list.fields.iter();
    let members = members.map(|(expr, bits)| value::to_canonical_bytes(&scope.number(expr), *bits));
    Digest {
        name: list.name.clone(),
        members: members.collect(),
    }
}
