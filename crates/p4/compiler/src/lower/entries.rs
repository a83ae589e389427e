//! The entries in a program's tables: sets become BMv2 keys, and priorities become ranks.

use std::collections::BTreeMap;

use bmv2_json::{ActionEntry, Entry, MatchKey};
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive as _, Zero as _};

use super::Lower;
use super::place::hex_text;
use crate::ir::{self, Expr, ExprKind, Key};
use crate::types::const_eval::mask;

struct Order {
    /// The priorities of the entries, which the program gives or which follow from the entries' order.
    numbers: Vec<BigInt>,
    least: BigInt,
    most: BigInt,
    largest_wins: bool,
    /// Whether the program specifies priorities. If it does not, the order of the list decides.
    is_explicit: bool,
}

impl Order {
    /// Returns an entry's rank for BMv2 (the lowest wins) and its priority for P4Runtime (the highest wins).
    fn of(&self, position: usize) -> (u32, i32) {
        let number = self.numbers.get(position).cloned().unwrap_or_default();
        let (rank, priority) = if self.largest_wins {
            (&self.most - &number + 1, number)
        } else {
            (number.clone(), &self.most + &self.least - number)
        };
        (
            rank.to_u32().unwrap_or(u32::MAX),
            priority.to_i32().unwrap_or(i32::MAX),
        )
    }
}

impl Lower<'_> {
    pub fn entries(&mut self, table: &ir::Table, name: &str) -> Option<Vec<Entry>> {
        let (is_const, list) = table.entries.as_ref()?;
        let keys: Vec<&Key> = table
            .keys
            .iter()
            .filter(|key| &*key.match_kind != "selector")
            .collect();
        let order = self.order(table, list);
        let ranked = keys
            .iter()
            .any(|key| matches!(&*key.match_kind, "ternary" | "range" | "optional"));
        let mut out = Vec::new();
        let mut seen = BTreeMap::new();
        for (position, entry) in list.iter().enumerate() {
            let match_key: Vec<MatchKey> = entry
                .keys
                .iter()
                .zip(&keys)
                .filter_map(|(set, key)| self.match_key(set, key))
                .collect();
            let action_id = self.lower_action(entry.action.action, &entry.action.arguments, name);
            let action_data = self.action_data(&entry.action);
            let (rank, priority) = order.of(position);
            let listed = if order.is_explicit {
                rank
            } else {
                position as u32 + 1
            };
            let rank = entry.rank.unwrap_or(listed);
            // Entries with equal keys are duplicates unless they have different priorities.
            let is_whole = match_key.len() == keys.len();
            let same = (format!("{match_key:?}"), if ranked { rank } else { 0 });
            if is_whole && let Some(first) = seen.insert(same, entry.span) {
                let message = "an earlier entry matches the same packets";
                self.sink
                    .error("E0425", entry.span, message)
                    .note_at(first, "first here");
            }
            out.push(Entry {
                source_info: self.source_info(entry.span),
                match_key,
                action_entry: ActionEntry {
                    action_id,
                    action_data,
                },
                priority: rank,
                control_priority: (ranked && !is_const).then_some(priority),
                is_const: (entry.is_const && !is_const).then_some(true),
            });
        }
        Some(out)
    }

    /// Returns the priorities of the entries (P4_16 1.2.5, section 14.2.1.4). They begin with the first entry's
    /// priority and change in steps of `priority_delta`, downwards with `largest_priority_wins`.
    fn order(&mut self, table: &ir::Table, list: &[ir::Entry]) -> Order {
        let said = |lower: &Self, name: &str| {
            let property = table.property(name)?;
            Some((lower.resolve(&property.value), property.span))
        };
        let largest = said(self, "largest_priority_wins");
        let largest_wins = !matches!(
            largest,
            Some((
                Expr {
                    kind: ExprKind::Bool(false),
                    ..
                },
                _
            ))
        );
        let delta = match said(self, "priority_delta") {
            None => BigInt::from(1),
            Some((expr, span)) => match self.constant(&expr).filter(Signed::is_positive) {
                Some(delta) => delta,
                None => {
                    self.sink
                        .error("E0503", span, "`priority_delta` is a number above 0");
                    BigInt::from(1)
                }
            },
        };
        let mut numbers: Vec<BigInt> = Vec::new();
        for entry in list {
            let given = entry
                .priority
                .as_ref()
                .and_then(|priority| self.constant(priority));
            let number = match (given, numbers.last()) {
                (Some(given), _) => given,
                (None, None) if largest_wins => BigInt::from(list.len() - 1) * &delta + 1,
                (None, None) => BigInt::from(1),
                (None, Some(before)) if largest_wins => before - &delta,
                (None, Some(before)) => before + &delta,
            };
            if number.is_negative() || number > BigInt::from(i32::MAX) {
                let message = format!("the priority {number} is not from 0 to {}", i32::MAX);
                self.sink
                    .error("E0503", entry.span, message)
                    .help("give the entries priorities of their own: `priority = 10: ...`");
            }
            numbers.push(number);
        }
        let is_explicit = table.property("largest_priority_wins").is_some()
            || list.iter().any(|entry| entry.priority.is_some());
        Order {
            least: numbers.iter().min().cloned().unwrap_or_default(),
            most: numbers.iter().max().cloned().unwrap_or_default(),
            numbers,
            largest_wins,
            is_explicit,
        }
    }

    fn match_key(&mut self, set: &Expr, key: &Key) -> Option<MatchKey> {
        let width = self.program.width(&key.expr.ty)?;
        self.legal_set(set, key)?;
        let text = |value: &BigInt| hex_text(&unsigned(value, width), width);
        Some(match &*key.match_kind {
            "exact" => MatchKey::Exact {
                key: text(&self.constant(set)?),
            },
            "range" => {
                let (low, high) = match &set.kind {
                    ExprKind::DontCare => ends(width, self.is_signed(&key.expr.ty)),
                    ExprKind::Range(low, high) => {
                        let (low, high) = (self.constant(low)?, self.constant(high)?);
                        if low > high {
                            let message = format!("the range {low}..{high} is empty");
                            self.sink.error("E0509", set.span, message);
                            return None;
                        }
                        (low, high)
                    }
                    _ => {
                        let value = self.constant(set)?;
                        (value.clone(), value)
                    }
                };
                MatchKey::Range {
                    start: text(&low),
                    end: text(&high),
                }
            }
            kind => {
                let (value, bits) = self.masked(set, width)?;
                match prefix_length(&bits, width) {
                    _ if kind != "lpm" => MatchKey::Ternary {
                        key: text(&value),
                        mask: text(&bits),
                    },
                    Some(prefix_length) => MatchKey::Lpm {
                        key: text(&value),
                        prefix_length,
                    },
                    None => {
                        let message = "the mask of an lpm key is ones followed by zeros";
                        self.sink
                            .error("E0509", set.span, message)
                            .help("make the key ternary");
                        return None;
                    }
                }
            }
        })
    }

    /// Checks, like p4c, whether a match kind accepts a set: `exact` takes only values, `range` no masks, `lpm` and
    /// `ternary` no ranges. The type checker has already checked sets for `optional`.
    fn legal_set(&mut self, set: &Expr, key: &Key) -> Option<()> {
        let kind = &*key.match_kind;
        let (message, help) = match (&set.kind, kind) {
            (ExprKind::Range(..) | ExprKind::Mask(..) | ExprKind::DontCare, "exact") => (
                "an exact key is matched with one value",
                "make the key ternary",
            ),
            (ExprKind::Range(..), "lpm" | "ternary") => (
                "a range matches only a range key",
                "make the key a range key",
            ),
            (ExprKind::Mask(..), "range") => (
                "a range key is matched with a value or a range, not under a mask",
                "make the key ternary, or write the range",
            ),
            _ => return Some(()),
        };
        self.sink.error("E0509", set.span, message).help(help);
        None
    }

    /// Returns a set as a value and a mask, both unsigned.
    fn masked(&mut self, set: &Expr, width: u32) -> Option<(BigInt, BigInt)> {
        Some(match &set.kind {
            ExprKind::DontCare => (BigInt::zero(), BigInt::zero()),
            ExprKind::Mask(value, bits) => {
                let bits = unsigned(&self.constant(bits)?, width);
                (unsigned(&self.constant(value)?, width) & &bits, bits)
            }
            _ => (unsigned(&self.constant(set)?, width), mask(width)),
        })
    }
}

fn ends(width: u32, is_signed: bool) -> (BigInt, BigInt) {
    if is_signed {
        (-(mask(width - 1) + BigInt::from(1)), mask(width - 1))
    } else {
        (BigInt::zero(), mask(width))
    }
}

pub fn unsigned(value: &BigInt, width: u32) -> BigInt {
    crate::types::const_eval::wrap(value, width, false)
}

/// Returns the number of leading 1 bits, or `None` if a 1 bit follows after a 0 bit.
fn prefix_length(bits: &BigInt, width: u32) -> Option<u32> {
    (0..=width).find(|length| *bits == (mask(*length) << (width - length)))
}
