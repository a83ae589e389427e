//! v1model's `digest`: values for the control plane, read at the end of ingress.

use super::control_flow::Pass;
use crate::{Digest, program::ir::DigestId, value};

pub(crate) fn take(pass: &Pass<'_>, digest: DigestId) -> Digest {
    let list = &pass.ir.digests[digest.index()];
    let members = list.fields.iter();
    let members = members.map(|(expr, bits)| value::to_canonical_bytes(&pass.number(expr), *bits));
    Digest {
        name: list.name.clone(),
        members: members.collect(),
    }
}
