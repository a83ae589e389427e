//! Checks which entries of a table have a priority (P4_16 language specification 1.2.5, section 14.2.1.4).

use super::rules::Rules;
use crate::syntax::ast::{EntrySyntax, Expr, Property, Table};

impl Rules<'_> {
    /// Checks where a table's entries have priorities. They may have priorities if the table's key needs them and
    /// `entries` is not `const`. If an entry has no priority of its own, its priority follows from the entry before. So
    /// if any entry has a priority, the first entry must have one.
    pub(super) fn priorities(&mut self, decl: &Table) {
        for property in &decl.properties {
            let Property::Entries { is_const, list } = property else {
                continue;
            };
            let given = list
                .iter()
                .find_map(|entry| Some((entry, entry.priority.as_ref()?)));
            let Some((entry, priority)) = given else {
                continue;
            };
            if *is_const {
                self.sink
                    .error(
                        "E0439",
                        priority.span,
                        "constant entries are ranked by their order and have no priorities",
                    )
                    .help("leave the priority out, or write `entries` without `const`");
            } else if !self.unneeded(decl, priority) {
                self.first_priority(list, entry, priority);
            }
        }
    }

    /// Whether the table needs no priorities, because every key is exact or lpm and so only one entry can win. Reports
    /// a priority in such a table.
    fn unneeded(&mut self, decl: &Table, priority: &Expr) -> bool {
        let elements: Vec<_> = decl
            .properties
            .iter()
            .filter_map(|property| match property {
                Property::Key(elements) => Some(elements),
                _ => None,
            })
            .flatten()
            .collect();
        let decides = |kind: &str| matches!(kind, "exact" | "lpm");
        let (Some(first), Some(last)) = (elements.first(), elements.last()) else {
            // Another rule reports entries of a table without a key.
            return true;
        };
        if !elements
            .iter()
            .all(|element| decides(&element.match_kind.name))
        {
            return false;
        }
        let message = format!("the entries of table `{}` need no priority", decl.name.name);
        let keys = first.expr.span.to(last.match_kind.span);
        self.sink
            .error("E0439", priority.span, message)
            .note_at(
                keys,
                "no two entries match alike where all keys are exact or lpm",
            )
            .help("leave the priorities out");
        true
    }

    fn first_priority(&mut self, list: &[EntrySyntax], later: &EntrySyntax, priority: &Expr) {
        let Some(first) = list.first().filter(|first| first.priority.is_none()) else {
            return;
        };
        let given = later.span.to(priority.span);
        self.sink
            .error(
                "E0439",
                first.span,
                "the first entry has no priority, though a later one has",
            )
            .note_at(given, "this one")
            .help("begin it with `priority = NUMBER:`; an entry without a priority gets it from the entry before");
    }
}
