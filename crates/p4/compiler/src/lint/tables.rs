//! Warns about table entries that cannot match, keys with the same value for every packet, tables that cannot do
//! anything, and unknown properties.

use std::collections::HashMap;

use num_bigint::BigInt;

use super::Subject;
use crate::diagnostic::Sink;
use crate::ir::{Expr, ExprKind, Table};
use crate::limits;

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    for table in &subject.program.tables {
        if subject.is_library(table.span) {
            continue;
        }
        properties(table, sink);
        keys(table, sink);
        entries(table, sink);
        if table.keys.is_empty() && table.default_action.is_none() {
            sink.warning(
                "W0853",
                table.span,
                format!(
                    "table `{}` has neither a key nor a default action",
                    table.name
                ),
            )
            .label("it does nothing until the control plane sets its default action")
            .help("add `default_action`, or call the action");
        }
    }
}

const PROPERTIES: [&str; 11] = [
    "key",
    "actions",
    "entries",
    "default_action",
    "size",
    "implementation",
    "counters",
    "meters",
    "support_timeout",
    "largest_priority_wins",
    "priority_delta",
];

/// Warns about properties that neither the language nor v1model defines. The language allows them, but nothing reads
/// them.
fn properties(table: &Table, sink: &mut Sink) {
    for property in &table.properties {
        let name = &*property.name;
        if PROPERTIES.contains(&name) {
            continue;
        }
        let span = property.span;
        let similar = names::nearest(name, PROPERTIES.into_iter());
        let warning = sink.warning(
            "W0856",
            span,
            format!("v1model has no table property `{name}`"),
        );
        warning.label("nothing reads it");
        if let Some(similar) = similar {
            warning.help(format!("did you mean `{similar}`?"));
        }
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(
        expr.kind,
        ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Member(..) | ExprKind::Error(_)
    )
}

fn keys(table: &Table, sink: &mut Sink) {
    for key in table.keys.iter().filter(|key| is_constant(&key.expr)) {
        sink.warning(
            "W0852",
            key.expr.span,
            "this key has the same value for every packet",
        );
    }
}

fn entries(table: &Table, sink: &mut Sink) {
    let Some((_, entries)) = &table.entries else {
        return;
    };
    for entry in entries {
        for key in &entry.keys {
            if let ExprKind::Mask(value, mask) = &key.kind
                && let (ExprKind::Int(value), ExprKind::Int(mask)) = (&value.kind, &mask.kind)
                && (value & mask) != *value
            {
                sink.warning("W0854", key.span, "the value has bits outside of its mask")
                    .label(format!("matches as {:#x} does", value & mask))
                    .help("a controller must write such an entry with these bits 0");
            }
        }
    }
    // A priority or a longer prefix may give a later entry precedence.
    if entries.iter().any(|entry| entry.priority.is_some()) {
        return;
    }
    let by_length = table.keys.iter().any(|key| &*key.match_kind == "lpm");
    let mut earlier = Earlier::default();
    for (at, entry) in entries.iter().enumerate() {
        let covering = earlier.covering(&entry.keys, |before| {
            let before = &entries[before].keys;
            covers_all(before, &entry.keys) && (!by_length || covers_all(&entry.keys, before))
        });
        earlier.add(&entry.keys, at);
        if let Some(before) = covering.map(|before| &entries[before]) {
            sink.warning("W0851", entry.span, "this entry never matches")
                .note_at(
                    before.span,
                    "this earlier entry matches every packet that the later one would match",
                );
        }
    }
}

/// The part of a key that an entry compares.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Part {
    Nothing,
    Whole,
    Masked(BigInt),
    Range,
}

/// The entries of one shape, by the values with which they compare the key. The shape of an entry says which parts of
/// the key it compares.
type Wanted = HashMap<String, Vec<usize>>;

/// The earlier entries of a table or cases of a `select`, indexed by the compared parts of the key and by the compared
/// values. The index finds the few entries that may cover a later entry.
#[derive(Default)]
pub struct Earlier {
    shapes: HashMap<Vec<Part>, usize>,
    /// The entries of each shape, in the order of the shapes' first entries.
    by_shape: Vec<(Vec<Part>, Wanted)>,
    comparisons: usize,
}

impl Earlier {
    pub fn add(&mut self, sets: &[Expr], at: usize) {
        let Some(shape) = sets.iter().map(part).collect::<Option<Vec<Part>>>() else {
            return;
        };
        let Some(wanted) = seen_by(&shape, sets) else {
            return;
        };
        let next = self.by_shape.len();
        let place = *self.shapes.entry(shape.clone()).or_insert(next);
        if place == next {
            self.by_shape.push((shape, HashMap::new()));
        }
        self.by_shape[place].1.entry(wanted).or_default().push(at);
    }

    /// Returns the first entry for which `covers` holds, among those that may cover `sets`. Also returns `None` if the
    /// search would take too many comparisons.
    pub fn covering(&mut self, sets: &[Expr], covers: impl Fn(usize) -> bool) -> Option<usize> {
        let mut first: Option<usize> = None;
        for (shape, entries) in &self.by_shape {
            self.comparisons += 1;
            let candidates = seen_by(shape, sets).and_then(|seen| entries.get(&seen));
            for at in candidates.into_iter().flatten() {
                self.comparisons += 1;
                if self.comparisons > limits::COMPARED_ENTRIES {
                    return None;
                }
                if first.is_some_and(|first| first <= *at) {
                    break;
                }
                if covers(*at) {
                    first = Some(*at);
                    break;
                }
            }
        }
        first.filter(|_| self.comparisons <= limits::COMPARED_ENTRIES)
    }
}

fn part(set: &Expr) -> Option<Part> {
    Some(match &set.kind {
        ExprKind::DontCare => Part::Nothing,
        ExprKind::Range(..) => Part::Range,
        ExprKind::Mask(_, mask) => match &mask.kind {
            ExprKind::Int(mask) => Part::Masked(mask.clone()),
            _ => return None,
        },
        _ if is_constant(set) => Part::Whole,
        _ => return None,
    })
}

/// Returns, as text, the values that an entry of `shape` must compare with if it is to match everything that `sets`
/// match. Ranges add nothing to the text. Returns `None` if no entry of this shape can match everything that `sets`
/// match.
fn seen_by(shape: &[Part], sets: &[Expr]) -> Option<String> {
    if shape.iter().all(|part| *part == Part::Nothing) {
        return Some(String::new());
    }
    if shape.len() != sets.len() {
        return None;
    }
    let mut text = String::new();
    for (part, set) in shape.iter().zip(sets) {
        match (part, &set.kind) {
            (Part::Nothing | Part::Range, _) => {}
            (Part::Whole, ExprKind::Int(value)) => text += &format!("{value}"),
            (Part::Whole, ExprKind::Bool(value)) => text += &format!("{value}"),
            (Part::Whole, ExprKind::Error(value)) => text += &format!("e{value}"),
            (Part::Whole, ExprKind::Member(id, member)) => text += &format!("{id}.{member}"),
            (Part::Masked(mask), ExprKind::Int(value)) => text += &format!("{}", value & mask),
            (Part::Masked(mask), ExprKind::Mask(value, bits)) => match (&value.kind, &bits.kind) {
                (ExprKind::Int(value), ExprKind::Int(bits)) if &masked(bits, mask) == mask => {
                    text += &format!("{}", value & mask);
                }
                _ => return None,
            },
            _ => return None,
        }
        text.push(',');
    }
    Some(text)
}

/// Whether the key sets `first` match every key that the key sets `second` match.
pub fn covers_all(first: &[Expr], second: &[Expr]) -> bool {
    let is_any = |sets: &[Expr]| {
        sets.iter()
            .all(|set| matches!(set.kind, ExprKind::DontCare))
    };
    if is_any(first) {
        return true;
    }
    first.len() == second.len() && first.iter().zip(second).all(|(a, b)| covers(a, b))
}

fn covers(first: &Expr, second: &Expr) -> bool {
    let int = |expr: &Expr| match &expr.kind {
        ExprKind::Int(value) => Some(value.clone()),
        _ => None,
    };
    let pair = |a: &Expr, b: &Expr| int(a).zip(int(b));
    match (&first.kind, &second.kind) {
        (ExprKind::DontCare, _) => true,
        (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
        (ExprKind::Bool(a), ExprKind::Bool(b)) => a == b,
        (ExprKind::Error(a), ExprKind::Error(b)) => a == b,
        (ExprKind::Member(a, i), ExprKind::Member(b, j)) => (a, i) == (b, j),
        (ExprKind::Mask(value, mask), ExprKind::Int(exact)) => pair(value, mask)
            .is_some_and(|(value, mask)| masked(&value, &mask) == masked(exact, &mask)),
        (ExprKind::Mask(a, m), ExprKind::Mask(b, n)) => {
            pair(a, m).zip(pair(b, n)).is_some_and(|((a, m), (b, n))| {
                masked(&n, &m) == m && masked(&a, &m) == masked(&b, &m)
            })
        }
        (ExprKind::Range(low, high), ExprKind::Int(exact)) => {
            pair(low, high).is_some_and(|(low, high)| (low..=high).contains(exact))
        }
        (ExprKind::Range(a, b), ExprKind::Range(c, d)) => pair(a, b)
            .zip(pair(c, d))
            .is_some_and(|((a, b), (c, d))| a <= c && d <= b && c <= d),
        _ => false,
    }
}

fn masked(value: &BigInt, mask: &BigInt) -> BigInt {
    value & mask
}
