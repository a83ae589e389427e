//! Hides secret key fields (`@secret`) from readers: an `exact` field reads as zero, and a field with another match
//! kind reads as if it were omitted. [`control::Reading`] hides secret arguments of actions and secret registers.

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType};
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::{Action, Entity, TableAction, TableEntry};

use crate::pipeline::{Pipeline, Table};

/// Describes the object to which an entity with a secret belongs, for an error message; `None` if the entity has no
/// secret. A constant entry has no secret, since it is written in the program. A register cell that is zero has no
/// secret either, since zero is its initial value.
pub(crate) fn holder(pipeline: &Pipeline, entity: &Entity) -> Option<String> {
    match entity.entity.as_ref()? {
        Kind::TableEntry(entry) if !entry.is_const => {
            let table = pipeline.table(entry.table_id).ok()?;
            let has_secret_field = table.fields.iter().any(|field| field.is_secret);
            let is_in_key = has_secret_field && !entry.is_default_action;
            let action = entry.action.as_ref();
            let is_in_action = action.is_some_and(|it| calls(it).any(|it| is_in(pipeline, it)));
            (is_in_key || is_in_action).then(|| format!("table \"{}\"", table.name))
        }
        Kind::ActionProfileMember(member) => {
            let profile = pipeline.profile(member.action_profile_id).ok()?;
            let is_secret = is_in(pipeline, member.action.as_ref()?);
            is_secret.then(|| format!("action profile \"{}\"", profile.name))
        }
        Kind::RegisterEntry(entry) => {
            let register = pipeline.register(entry.register_id).ok()?;
            let is_secret = pipeline.program().is_secret(register.register);
            let is_written = entry.data != register.cell.to_proto(&mut std::iter::once(&vec![0]));
            (is_secret && is_written).then(|| format!("register \"{}\"", register.name))
        }
        _ => None,
    }
}

/// Returns the actions that an entry itself contains, not those of a member or group to which the entry refers.
fn calls(action: &TableAction) -> impl Iterator<Item = &Action> {
    let (one, set) = match &action.r#type {
        Some(ActionType::Action(call)) => (Some(call), None),
        Some(ActionType::ActionProfileActionSet(set)) => (None, Some(set)),
        _ => (None, None),
    };
    let of_set = set.into_iter().flat_map(|set| &set.action_profile_actions);
    one.into_iter()
        .chain(of_set.filter_map(|it| it.action.as_ref()))
}

fn is_in(pipeline: &Pipeline, call: &Action) -> bool {
    let mut tables = pipeline.tables();
    let action = tables.find_map(|table| table.action(call.action_id));
    let info = action.and_then(|it| pipeline.program().action_info(it.action));
    info.is_some_and(|info| info.params.iter().any(|param| param.is_secret))
}

/// Hides the secret key fields of an entity.
pub(crate) fn hide_key(pipeline: &Pipeline, kind: &mut Kind) {
    let entry = match kind {
        Kind::TableEntry(entry) => Some(entry),
        Kind::DirectCounterEntry(entry) => entry.table_entry.as_mut(),
        Kind::DirectMeterEntry(entry) => entry.table_entry.as_mut(),
        _ => None,
    };
    let Some(entry) = entry else { return };
    if let Ok(table) = pipeline.table(entry.table_id) {
        hide(table, entry);
    }
}

/// Hides the secret key fields of an entry of `table`.
pub(crate) fn hide(table: &Table, entry: &mut TableEntry) {
    if !table.fields.iter().any(|field| field.is_secret) {
        return;
    }
    let is_secret = |id: u32| {
        let mut fields = table.fields.iter();
        fields.any(|field| field.id == id && field.is_secret)
    };
    entry
        .r#match
        .retain_mut(|field| match &mut field.field_match_type {
            _ if !is_secret(field.field_id) => true,
            Some(FieldMatchType::Exact(exact)) => {
                *exact = Exact { value: vec![0] };
                true
            }
            _ => false,
        });
}
