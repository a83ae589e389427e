//! Binds the P4Info's parser value sets to those of the program.

use dataplane::{KeyField, Program, ValueSetId};
use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;

use super::table::{Field, check_member_ids, match_kind};
use super::translation::Types;
use super::{PipelineError, PipelineResult};

pub(crate) struct ValueSet {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) set: ValueSetId,
    /// The match fields, in the order of the value set's key.
    pub(crate) fields: Vec<Field>,
}

pub(super) fn value_sets(
    p4info: &P4Info,
    program: &Program,
    types: &mut Types<'_>,
) -> PipelineResult<Vec<ValueSet>> {
    let mut bind = |set: &p4info::ValueSet| {
        let preamble = set.preamble.clone().unwrap_or_default();
        let error = |message: String| {
            PipelineError(format!("P4Info value set \"{}\": {message}", preamble.name))
        };
        let id = program
            .value_set(&preamble.name)
            .ok_or_else(|| error("the device config has no such value set".into()))?;
        let fields = fields(set, program.value_set_parts(id), types).map_err(&error)?;
        Ok(ValueSet {
            id: preamble.id,
            set: id,
            fields,
            name: preamble.name,
        })
    };
    p4info.value_sets.iter().map(&mut bind).collect()
}

fn fields(
    set: &p4info::ValueSet,
    parts: &[u32],
    types: &mut Types<'_>,
) -> Result<Vec<Field>, String> {
    if set.r#match.len() != parts.len() {
        let (found, expected) = (set.r#match.len(), parts.len());
        return Err(format!(
            "has {found} match fields, but {expected} in the device config"
        ));
    }
    check_member_ids("match field", set.r#match.iter().map(|field| field.id))?;
    let pairs = set.r#match.iter().zip(parts);
    let fields = pairs.map(|(field, bits)| {
        let values = types.values(field.type_name.as_ref(), field.bitwidth, *bits);
        let values = values.map_err(|error| format!("match field {}: {error}", field.id))?;
        let kind = match_kind(field)?;
        Ok(Field {
            id: field.id,
            name: field.name.clone(),
            kind,
            key: KeyField {
                name: field.name.clone(),
                kind,
                width_bits: *bits,
                is_signed: false,
                is_secret: false,
            },
            values,
            is_secret: false,
        })
    });
    fields.collect()
}
