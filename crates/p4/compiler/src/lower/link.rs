//! Turns nodes, the parts into which a control was lowered, into tables and conditionals, each with its successors.

use std::collections::{BTreeMap, HashMap};

use bmv2_json::{Conditional, DefaultEntry, Primitive, Table};

use super::Lower;
use super::control::{Next, Node, Scope};
use crate::source::Span;

/// Where `return`, `break` and `continue` lead.
#[derive(Clone, Default)]
pub struct Leave {
    control: Option<String>,
    behind_loop: Option<String>,
    next_round: Option<String>,
}

impl Lower<'_> {
    /// Links the nodes to their successors. Returns the name of the table or conditional that runs first.
    pub fn link(&mut self, nodes: &[Node], next: Option<String>, leave: &Leave) -> Option<String> {
        let mut next = next;
        for node in nodes.iter().rev() {
            next = match node {
                Node::Exit => None,
                Node::Return => leave.control.clone(),
                Node::Break => leave.behind_loop.clone(),
                Node::Continue => leave.next_round.clone(),
                Node::Scope(inner, scope) => {
                    let mut leave = leave.clone();
                    match scope {
                        Scope::Control => leave = Leave::default(),
                        Scope::Loop => leave.behind_loop.clone_from(&next),
                        Scope::Round => leave.next_round.clone_from(&next),
                    }
                    if *scope == Scope::Control {
                        leave.control.clone_from(&next);
                    }
                    self.link(inner, next, &leave)
                }
                Node::Do(primitives, span) => Some(self.link_code(primitives, *span, next)),
                Node::If(condition, yes, no, span) => {
                    let true_next = self.link(yes, next.clone(), leave);
                    let false_next = self.link(no, next.clone(), leave);
                    if true_next == false_next {
                        // Both branches lead to the same node, and reading the condition changes nothing.
                        next = true_next;
                        continue;
                    }
                    self.check_depth(condition, *span);
                    let name = self.fresh("node");
                    let (expression, source_info) =
                        (condition.clone(), self.whole_source_info(*span));
                    self.pipeline.conditionals.push(Conditional {
                        name: name.clone(),
                        id: 0,
                        source_info,
                        expression,
                        true_next,
                        false_next,
                    });
                    Some(name)
                }
                Node::Apply(index, branches, span) => {
                    self.link_table(*index, branches, *span, next, leave)
                }
            };
        }
        next
    }

    fn link_code(&mut self, primitives: &[Primitive], span: Span, next: Option<String>) -> String {
        let span_info = primitives
            .first()
            .and_then(|primitive| primitive.source_info.clone())
            .or_else(|| self.source_info(span));
        let (file, line) = span_info
            .as_ref()
            .map_or(("code", 0), |info| (info.filename.as_str(), info.line));
        let stem = file
            .rsplit('/')
            .next()
            .unwrap_or(file)
            .split('.')
            .next()
            .unwrap_or(file);
        let stem: String = stem
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let action = self.fresh(&format!("{stem}{line}"));
        let id = self.json.actions.len() as u32;
        self.json.actions.push(bmv2_json::Action {
            name: action.clone(),
            id,
            runtime_data: Vec::new(),
            primitives: primitives.to_vec(),
            source_info: None,
        });
        let name = self.fresh(&format!("tbl_{action}"));
        self.pipeline.tables_linked.push(true);
        self.pipeline.tables.push(Table {
            name: name.clone(),
            id: 0,
            source_info: span_info,
            key: Vec::new(),
            match_type: "exact".to_owned(),
            kind: "simple".to_owned(),
            action_profile: None,
            max_size: super::table::DEFAULT_SIZE,
            with_counters: false,
            support_timeout: false,
            direct_meters: None,
            action_ids: vec![id],
            actions: vec![action.clone()],
            base_default_next: next.clone(),
            next_tables: BTreeMap::from([(action, next)]),
            default_entry: Some(DefaultEntry {
                action_id: id,
                action_const: true,
                action_data: Vec::new(),
                action_entry_const: true,
            }),
            entries: None,
            const_entries: None,
        });
        name
    }

    fn link_table(
        &mut self,
        index: usize,
        branches: &Next,
        span: Span,
        next: Option<String>,
        leave: &Leave,
    ) -> Option<String> {
        let mut next_tables = BTreeMap::new();
        let mut base = next.clone();
        match branches {
            Next::HitMiss(yes, no) => {
                next_tables.insert("__HIT__".to_owned(), self.link(yes, next.clone(), leave));
                next_tables.insert("__MISS__".to_owned(), self.link(no, next, leave));
                base = None;
            }
            Next::Nothing | Next::Actions(_) => {
                let mut other = next.clone();
                let mut named: HashMap<String, Option<String>> = HashMap::new();
                if let Next::Actions(cases) = branches {
                    for (labels, body) in cases {
                        let first = self.link(body, next.clone(), leave);
                        for label in labels {
                            match label {
                                Some(name) => drop(named.insert(name.clone(), first.clone())),
                                None => other.clone_from(&first),
                            }
                        }
                    }
                }
                for action in &self.pipeline.tables[index].actions {
                    let to = named.get(action).cloned().unwrap_or_else(|| other.clone());
                    next_tables.insert(action.clone(), to);
                }
            }
        }
        let table = &mut self.pipeline.tables[index];
        // E0702 already reports two tables of one name.
        if self.pipeline.tables_linked[index]
            && !self.sink.has_code("E0702")
            && (table.next_tables != next_tables || table.base_default_next != base)
        {
            let message = format!(
                "table `{}` is applied in several places, followed by different code",
                table.name
            );
            self.sink.error("E0607", span, message).help("simple_switch knows one next step for each of a table's actions: let the same code follow, or apply a second table");
        }
        table.next_tables = next_tables;
        table.base_default_next = base;
        self.pipeline.tables_linked[index] = true;
        Some(table.name.clone())
    }
}
