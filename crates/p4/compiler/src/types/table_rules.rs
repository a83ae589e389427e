//! Checks rules of tables that go beyond the types of their parts (P4_16 language specification 1.2.5, section 14.2).

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use super::check::Checker;
use crate::ir::{ActionUse, Callee, Direction, Entry, Expr, ExprKind, Key, Table, name_annotation};
use crate::source::Span;
use crate::syntax::ast;

/// The entries of a table that were read so far, arranged for the search for duplicates.
#[derive(Default)]
pub struct Twins {
    /// The indices of the entries whose keys are all constants, by the text of the keys.
    constant: HashMap<String, usize>,
    others: Vec<usize>,
}

impl Twins {
    /// Returns an earlier entry with the same keys, and adds this entry.
    fn of<'e>(&mut self, entry: &Entry, before: &'e [Entry]) -> Option<&'e Entry> {
        let same_keys = |at: &&usize| {
            let other = &before[**at];
            other.keys.len() == entry.keys.len()
                && other.keys.iter().zip(&entry.keys).all(|(a, b)| same(a, b))
        };
        let twin = match constants(&entry.keys) {
            Some(text) => {
                let twin = self.others.iter().find(same_keys).copied();
                match self.constant.entry(text) {
                    Vacant(place) => {
                        place.insert(before.len());
                        twin
                    }
                    Occupied(place) => twin.or(Some(*place.get())),
                }
            }
            None => {
                let all = self.constant.values().chain(&self.others);
                let twin = all.filter(|at| same_keys(at)).min().copied();
                self.others.push(before.len());
                twin
            }
        };
        twin.map(|at| &before[at])
    }
}

/// Constant key sets as text; `None` if a set is computed or had an error.
fn constants(keys: &[Expr]) -> Option<String> {
    let mut text = String::new();
    for key in keys {
        match &key.kind {
            ExprKind::Int(value) => text += &format!("{value},"),
            ExprKind::Bool(value) => text += &format!("{value},"),
            ExprKind::Error(value) => text += &format!("e{value},"),
            ExprKind::Member(id, member) => text += &format!("{id}.{member},"),
            ExprKind::DontCare => text += "_,",
            _ => return None,
        }
    }
    Some(text)
}

impl Checker<'_> {
    /// Checks that an action's use agrees with the table's list of actions.
    pub fn legal_action_use(
        &mut self,
        decl: &ast::ActionRef,
        listed: Option<&ActionUse>,
        given: &[Option<Expr>],
    ) {
        let Some(listed) = listed else {
            let id = match self.scopes.lookup(&decl.name.name, decl.global) {
                Some(super::scope::Symbol::Action(id)) => *id,
                _ => return,
            };
            let parameters = self.program.actions[id].parameters.clone();
            for (value, id) in given.iter().zip(parameters) {
                let var = &self.program.vars[id];
                if let (Some(value), Direction::None) = (value, var.direction) {
                    let message = format!("`{}` is given by the control plane", var.name);
                    self.sink
                        .error("E0432", value.span, message)
                        .note_at(var.span, "a parameter without direction")
                        .help("in a table's `actions` only parameters with a direction have arguments");
                }
            }
            return;
        };
        for (value, before) in given.iter().zip(&listed.arguments) {
            if let (Some(value), Some(before)) = (value, before)
                && !same(value, before)
            {
                self.sink
                    .error(
                        "E0432",
                        value.span,
                        format!("`{}` has another argument in `actions`", decl.name.name),
                    )
                    .note_at(before.span, "it is bound to this");
                return;
            }
        }
    }

    /// Checks `@tableonly` and `@defaultonly` in a table's list of actions.
    pub fn legal_role(&mut self, used: &ActionUse, is_default: bool, span: Span) {
        let (forbidden, role) = if is_default {
            ("tableonly", "the default action")
        } else {
            ("defaultonly", "an entry's action")
        };
        let annotation = used
            .annotations
            .iter()
            .find(|annotation| &*annotation.name == forbidden);
        if let Some(annotation) = annotation {
            let at = annotation.span;
            self.sink
                .error(
                    "E0433",
                    span,
                    format!("an action with @{forbidden} cannot be {role}"),
                )
                .note_at(at, "because of this annotation");
        }
    }

    /// Checks that no two fields of a table's key have the same control-plane name.
    pub fn legal_key_names(&mut self, table: &Table) {
        let has_own = |key: &Key| name_annotation(&key.annotations).is_some();
        let mut firsts: HashMap<&str, &Key> = HashMap::new();
        for key in (table.keys.iter()).filter(|key| &*key.match_kind != "selector") {
            let before = *firsts.entry(&key.name).or_insert(key);
            // The same field may be in a key twice if neither has a `@name`.
            let first = before.expr.span;
            if first != key.expr.span && (has_own(key) || has_own(before)) {
                let (table, name) = (&table.name, &key.name);
                let message = format!(
                    "two fields of table `{table}`'s key have the control plane's name `{name}`"
                );
                self.sink
                    .error("E0702", key.expr.span, message)
                    .note_at(first, "the other one")
                    .help("give one of them another @name");
            }
        }
    }

    /// Reports a mask or range for an optional key, and an entry that an earlier entry with the same keys hides.
    pub fn legal_entry(
        &mut self,
        entry: &Entry,
        before: &[Entry],
        table: &Table,
        twins: &mut Twins,
    ) {
        for (key, set) in table.keys.iter().zip(&entry.keys) {
            if &*key.match_kind == "optional"
                && matches!(set.kind, ExprKind::Mask(..) | ExprKind::Range(..))
            {
                self.sink
                    .error(
                        "E0509",
                        set.span,
                        "an optional key is matched with one value or with all",
                    )
                    .help("write a value, or `_`");
            }
        }
        if table.keys.iter().any(|key| &*key.match_kind != "exact") {
            return;
        }
        let twin = twins.of(entry, before);
        if let Some(twin) = twin {
            self.sink
                .error(
                    "E0425",
                    entry.span,
                    "an earlier entry already has the same keys",
                )
                .note_at(twin.span, "first here");
        }
    }

    /// Checks `NoAction`, which `core.p4` declares and a table without a default action uses.
    pub fn legal_no_action(&mut self, decl: &ast::Table) {
        use super::scope::Symbol;
        if self.sink.has_errors() {
            // Perhaps all of core.p4 is missing, which another message reports.
            return;
        }
        let wrong = match self.scopes.lookup("NoAction", true) {
            Some(Symbol::Action(id)) if self.program.actions[*id].parameters.is_empty() => return,
            Some(Symbol::Broken) => return,
            Some(Symbol::Action(id)) => Some(self.program.actions[*id].span),
            Some(_) => None,
            None => {
                let message = format!(
                    "table `{}` has no default action, and there is no `NoAction`",
                    decl.name.name
                );
                self.sink
                    .error("E0437", decl.name.span, message)
                    .help("include core.p4, or write `default_action = ...`");
                return;
            }
        };
        let message = "`NoAction` must be an action without parameters";
        self.sink
            .error("E0437", wrong.unwrap_or(decl.name.span), message)
            .note_at(decl.name.span, "this table has it as its default action")
            .help("include core.p4, or write `default_action = ...`");
    }
}

/// Whether two checked expressions are the same in all their parts.
fn same(left: &Expr, right: &Expr) -> bool {
    match (&left.kind, &right.kind) {
        (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
        (ExprKind::Bool(a), ExprKind::Bool(b)) => a == b,
        (ExprKind::Str(a), ExprKind::Str(b)) => a == b,
        (ExprKind::Error(a), ExprKind::Error(b)) => a == b,
        (ExprKind::Member(a, x), ExprKind::Member(b, y)) => a == b && x == y,
        (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
        (ExprKind::Instance(a), ExprKind::Instance(b)) => a == b,
        (ExprKind::Field(a, x), ExprKind::Field(b, y)) => x == y && same(a, b),
        (ExprKind::Stack(a, x), ExprKind::Stack(b, y)) => x == y && same(a, b),
        (ExprKind::Slice(a, high, low), ExprKind::Slice(b, top, bottom)) => {
            high == top && low == bottom && same(a, b)
        }
        (ExprKind::Cast(a), ExprKind::Cast(b)) => left.ty == right.ty && same(a, b),
        (ExprKind::Unary(x, a), ExprKind::Unary(y, b)) => x == y && same(a, b),
        (ExprKind::Index(a, x), ExprKind::Index(b, y)) => same(a, b) && same(x, y),
        (ExprKind::Binary(p, a, b), ExprKind::Binary(q, c, d)) => {
            p == q && same(a, c) && same(b, d)
        }
        (ExprKind::List(a), ExprKind::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (ExprKind::Call(a), ExprKind::Call(b)) => {
            a.arguments.len() == b.arguments.len()
                && a.arguments.iter().zip(&b.arguments).all(|pair| match pair {
                    (Some(a), Some(b)) => same(a, b),
                    (a, b) => a.is_none() && b.is_none(),
                })
                && callee_name(&a.callee) == callee_name(&b.callee)
        }
        (ExprKind::DontCare, ExprKind::DontCare)
        | (ExprKind::Poison, _)
        | (_, ExprKind::Poison) => true,
        _ => false,
    }
}

/// Returns a text that identifies the callee.
fn callee_name(callee: &Callee) -> String {
    match callee {
        Callee::Function(id) => format!("function {id}"),
        Callee::Action(id) => format!("action {id}"),
        Callee::ExternFunction(name, _) => name.to_string(),
        Callee::ExternMethod(_, name) => format!(".{name}"),
        Callee::ApplyTable(id) => format!("table {id}"),
        Callee::ApplyBlock(_) => "apply".to_owned(),
        Callee::Builtin(builtin, _) => format!("{builtin:?}"),
    }
}
