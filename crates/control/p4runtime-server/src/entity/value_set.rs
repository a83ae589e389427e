//! `ValueSetEntry`.
//!
//! Source: P4Runtime 1.5.0, "ValueSetEntry".

use std::collections::HashSet;

use control::Operation;
use dataplane::{MatchField, MatchKind};
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::update::Type;
use tonic::Code;

use super::{expect_modify, table_key};
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{NewNames, Pipeline, ValueSet};

/// Translates an update. The members in it replace all previous members.
pub(super) fn operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::ValueSetEntry,
) -> EntityResult<Operation> {
    let set = pipeline.value_set(entry.value_set_id)?;
    let what = format!("value set \"{}\"", set.name);
    expect_modify(kind, &what)?;
    let mut ranges = set.fields.iter().filter(|it| it.kind == MatchKind::Range);
    if let (Some(field), false) = (ranges.next(), entry.members.is_empty()) {
        return Err(EntityError::unimplemented(format!(
            "{what}: match field \"{}\": ranges are not supported, nor are they by BMv2",
            field.name
        )));
    }
    let members = entry.members.iter();
    let members =
        members.map(|member| table_key::key(&set.fields, &member.r#match, NewNames::Bound, &what));
    let members: Vec<_> = members.collect::<EntityResult<_>>()?;
    let mut seen = HashSet::new();
    if let Some(place) = members.iter().position(|member| !seen.insert(member)) {
        let message = format!("{what}: member {} is given twice", place + 1);
        return Err(EntityError::new(Code::AlreadyExists, message));
    }
    Ok(Operation::ValueSet(set.set, members))
}

pub(crate) fn to_proto(set: &ValueSet, members: &[Vec<MatchField>]) -> v1::ValueSetEntry {
    let members = members.iter().map(|member| v1::ValueSetMember {
        r#match: table_key::matches(&set.fields, member),
    });
    v1::ValueSetEntry {
        value_set_id: set.id,
        members: members.collect(),
    }
}
