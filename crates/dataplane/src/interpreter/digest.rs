//! v1model `digest`: values that the control plane gets, taken at the end of ingress.

use super::control_flow::Pass;
use crate::{Digest, program::ir::DigestId, value};

/// Reads the members as they are now.
pub(crate) fn take(pass: &Pass<'_>, digest: DigestId) -> Digest {
    let list = &pass.ir.digests[digest.index()];
    let members = list.fields.iter();
    let members = members.map(|(expr, bits)| value::to_canonical_bytes(&pass.number(expr), *bits));
    Digest {
        name: list.name.clone(),
        members: members.collect(),
    }
}
