//! Parser value sets.

use crate::{
    ControlErrorKind, Controlled, MatchField, ValueSetId,
    engine::Change,
    externs::value_set::Member,
    invalid,
    match_action::number,
    missing, refuse,
    switch::Switch,
    value::{self, Int},
};

impl Switch {
    /// Replaces the members of a value set; each member has one match per part of the set's key. Ranges are not
    /// supported, as in BMv2.
    ///
    /// # Errors
    /// `NotFound` for the set, `InvalidArgument` if a member does not fit its key,
    /// `ResourceExhausted`.
    pub fn set_value_set(&mut self, set: ValueSetId, members: Vec<Vec<MatchField>>) -> Controlled {
        let loaded = self.loaded_mut()?;
        let declared = loaded.program.ir.value_sets.get(set.index());
        let declared = declared.ok_or_else(|| missing("value set", set.index()))?;
        let what = format!("value set \"{}\"", declared.name);
        let (size, found) = (declared.max_size, members.len());
        if found > size {
            let message = format!("{what}: expected at most {size} members, found {found}");
            return refuse(ControlErrorKind::ResourceExhausted, message);
        }
        let members = members.into_iter();
        let members = members.map(|fields| member(&what, &declared.parts, fields));
        let members = members.collect::<Controlled<_>>()?;
        loaded.externs.value_sets.replace(set, members);
        self.done(&Change::ValueSet(set))
    }

    /// The members of a value set, as the control plane wrote them.
    pub fn value_set(&self, set: ValueSetId) -> Vec<Vec<MatchField>> {
        let members = self.model.state.externs.value_sets.members(set).iter();
        members.map(|member| member.fields.clone()).collect()
    }
}

fn member(what: &str, parts: &[u32], fields: Vec<MatchField>) -> Controlled<Member> {
    let (expected, found) = (parts.len(), fields.len());
    if found != expected {
        return invalid(format!(
            "{what}: expected {expected} match fields, found {found}"
        ));
    }
    let (mut value, mut mask) = (Int::ZERO, Int::ZERO);
    for (bits, field) in parts.iter().zip(&fields) {
        let (part, part_mask) = masked(what, *bits, field)?;
        value = (value << *bits as usize) | (part & &part_mask);
        mask = (mask << *bits as usize) | part_mask;
    }
    Ok(Member {
        value,
        mask,
        fields,
    })
}

fn masked(what: &str, bits: u32, field: &MatchField) -> Controlled<(Int, Int)> {
    Ok(match field {
        MatchField::Exact(value) | MatchField::Optional(Some(value)) => {
            (number(what, value, bits)?, value::ones(bits))
        }
        MatchField::Optional(None) => (Int::ZERO, Int::ZERO),
        MatchField::Ternary { value, mask } => {
            (number(what, value, bits)?, number(what, mask, bits)?)
        }
        MatchField::Lpm { value, prefix_len } if *prefix_len <= bits => (
            number(what, value, bits)?,
            value::prefix_mask(bits, *prefix_len),
        ),
        other => {
            let expected = format!("expected a value, prefix or mask of {bits} bits");
            return invalid(format!("{what}: {expected}, found {other:?}"));
        }
    })
}
