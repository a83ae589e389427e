//! Entries as engines see them, and conversion between the control plane's byte strings and integers.

use super::{Call, EntryAction};
use crate::{
    ActionCall, Controlled, CounterValue, MatchField, Nanos, invalid,
    program::{ActionInfo, KeyField, MatchKind, TableInfo, ir::Matcher},
    value::{self, Int},
};

/// The position of an entry in its table, fixed while the entry exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryIndex(pub(super) usize);

impl EntryIndex {
    /// Returns the index of the entry at a position that [`EntryIndex::index`] has returned.
    pub fn at(index: usize) -> Self {
        Self(index)
    }

    /// The position, from 0; there may be gaps.
    pub fn index(self) -> usize {
        self.0
    }
}

/// The counter and the times of an entry, which packets update. Engines may write the account in place.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct EntryAccount {
    /// The direct counter; counts even if the table declares none.
    pub counter: CounterValue,
    /// Time of the last hit, or of the entry's creation.
    pub last_hit: Nanos,
    /// Whether the entry was reported idle. A hit of an idle entry must go through [`crate::engine::State::count_hit`],
    /// which restarts the entry's timeout.
    pub is_idle: bool,
}

/// The parts of an entry that a lookup needs.
#[derive(Debug, Clone, Copy)]
pub struct EntryView<'a> {
    /// One matcher per key field.
    pub key: &'a [Matcher],
    /// The numerically higher priority wins.
    pub priority: i32,
    /// The action that a hit runs.
    pub action: &'a EntryAction,
    /// Whether the entry has a direct meter, even one without rates.
    pub has_meter: bool,
}

/// Converts a byte string to a number. Returns an error, whose message begins with `what`, if the byte string is empty
/// or its value does not fit `bits` bits.
pub(crate) fn number(what: &str, bytes: &[u8], bits: u32) -> Controlled<Int> {
    if bytes.is_empty() {
        return invalid(format!("{what}: expected at least one byte, found none"));
    }
    let number = value::from_be_bytes(bytes);
    if !value::fits(&number, bits) {
        return invalid(format!("{what}: 0x{number:x} does not fit {bits} bits"));
    }
    Ok(number)
}

/// Checks and converts an entry's key.
pub(crate) fn to_key(info: &TableInfo, key: &[MatchField]) -> Controlled<Vec<Matcher>> {
    let (expected, found) = (info.key.len(), key.len());
    if found != expected {
        let found = format!("expected {expected} match fields, found {found}");
        return invalid(format!("table \"{}\": {found}", info.name));
    }
    let fields = info.key.iter().zip(key);
    fields
        .map(|(field, given)| to_matcher(info, field, given))
        .collect()
}

fn to_matcher(info: &TableInfo, field: &KeyField, given: &MatchField) -> Controlled<Matcher> {
    let what = format!("table \"{}\": key \"{}\"", info.name, field.name);
    let bits = field.width_bits;
    Ok(match (field.kind, given) {
        (MatchKind::Exact, MatchField::Exact(value)) => Matcher::Exact(number(&what, value, bits)?),
        (MatchKind::Lpm, MatchField::Lpm { value, prefix_len }) => {
            if *prefix_len > bits {
                return invalid(format!(
                    "{what}: {bits} bits, found a prefix of {prefix_len}"
                ));
            }
            let value = number(&what, value, bits)?;
            if &value & value::prefix_mask(bits, *prefix_len) != value {
                return invalid(format!("{what}: bits set after the prefix of {prefix_len}"));
            }
            Matcher::Lpm {
                value,
                prefix_len: *prefix_len,
            }
        }
        (MatchKind::Ternary, MatchField::Ternary { value, mask }) => {
            let (value, mask) = (number(&what, value, bits)?, number(&what, mask, bits)?);
            if &value & &mask != value {
                return invalid(format!("{what}: bits set outside of the mask"));
            }
            Matcher::Ternary { value, mask }
        }
        // BMv2 JSON has no optional match kind; compilers write such a field as ternary.
        (MatchKind::Ternary, MatchField::Optional(Some(value))) => Matcher::Ternary {
            value: number(&what, value, bits)?,
            mask: value::ones(bits),
        },
        (MatchKind::Ternary, MatchField::Optional(None)) => Matcher::Ternary {
            value: Int::ZERO,
            mask: Int::ZERO,
        },
        (MatchKind::Range, MatchField::Range { low, high }) => {
            let (low, high) = (number(&what, low, bits)?, number(&what, high, bits)?);
            if field.order(&low) > field.order(&high) {
                return invalid(format!("{what}: the range begins above its end"));
            }
            Matcher::Range { low, high }
        }
        (MatchKind::Optional, MatchField::Optional(value)) => {
            let value = value.as_ref().map(|value| number(&what, value, bits));
            Matcher::Optional(value.transpose()?)
        }
        (kind, given) => {
            return invalid(format!(
                "{what}: expected a match of kind {kind:?}, found {given:?}"
            ));
        }
    })
}

pub(crate) fn to_fields(info: &TableInfo, key: &[Matcher]) -> Vec<MatchField> {
    let fields = info.key.iter().zip(key).map(|(field, matcher)| {
        let bytes = |value: &Int| value::to_canonical_bytes(value, field.width_bits);
        match matcher {
            Matcher::Exact(value) => MatchField::Exact(bytes(value)),
            Matcher::Lpm { value, prefix_len } => MatchField::Lpm {
                value: bytes(value),
                prefix_len: *prefix_len,
            },
            Matcher::Ternary { value, mask } => MatchField::Ternary {
                value: bytes(value),
                mask: bytes(mask),
            },
            Matcher::Range { low, high } => MatchField::Range {
                low: bytes(low),
                high: bytes(high),
            },
            Matcher::Optional(value) => MatchField::Optional(value.as_ref().map(bytes)),
        }
    });
    fields.collect()
}

pub(crate) fn to_call(
    info: &TableInfo,
    actions: &[ActionInfo],
    call: &ActionCall,
) -> Controlled<Call> {
    let (table, index) = (&info.name, call.action.index());
    let action = actions
        .get(index)
        .filter(|_| info.actions.contains(&call.action));
    let Some(ActionInfo { name, params }) = action else {
        return invalid(format!(
            "table \"{table}\": action {index} is not in its list"
        ));
    };
    let (expected, found) = (params.len(), call.args.len());
    if found != expected {
        return invalid(format!(
            "action \"{name}\": expected {expected} arguments, found {found}"
        ));
    }
    let args = params.iter().zip(&call.args).map(|(param, arg)| {
        let what = format!("action \"{name}\": parameter \"{}\"", param.name);
        number(&what, arg, param.width_bits)
    });
    Ok(Call {
        action: call.action,
        args: args.collect::<Controlled<_>>()?,
    })
}
