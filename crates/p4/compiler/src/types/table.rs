//! Checks tables (their keys, actions, entries and properties) and the sets that match keys.

use std::rc::Rc;

use super::Type;
use super::check::Checker;
use super::scope::{Symbol, nearest};
use super::table_rules::Twins;
use crate::ir::{ActionUse, Direction, Entry, Expr, ExprKind, Key, Table, TableProperty};
use crate::source::Span;
use crate::spelling::{counted, wrong_count};
use crate::syntax::ast::{self, Property};
use crate::syntax::flatten_keys;

impl Checker<'_> {
    pub fn table(&mut self, decl: &ast::Table) -> usize {
        let mut table = Table {
            name: decl.name.name.clone(),
            keys: Vec::new(),
            actions: Vec::new(),
            default_action: None,
            default_is_const: false,
            entries: None,
            properties: Vec::new(),
            annotations: self.annotations(&decl.annotations),
            span: decl.name.span,
        };
        let mut has_actions = false;
        for property in &decl.properties {
            match property {
                Property::Key(elements) => {
                    // Inside the table, the table's own name is known and hides other declarations of the name.
                    self.scopes.push();
                    let own = Symbol::Type(Type::Void);
                    let name = &decl.name;
                    self.scopes.declare_member(&name.name, own, name.span);
                    table.keys = elements.iter().map(|element| self.key(element)).collect();
                    self.scopes.pop();
                    self.legal_key_names(&table);
                }
                Property::Actions(list) => {
                    has_actions = true;
                    table.actions = list
                        .iter()
                        .filter_map(|action| self.action_use(action, None))
                        .collect();
                }
                _ => {}
            }
        }
        if !has_actions && !self.sink.is_unreliable("actions") {
            let message = format!("table `{}` has no `actions`", decl.name.name);
            self.sink
                .error("E0419", decl.name.span, message)
                .help("add `actions = { NoAction; }`");
        }
        for property in &decl.properties {
            match property {
                Property::Entries { is_const, list } => {
                    let mut entries = Vec::new();
                    let mut twins = Twins::default();
                    for entry in list {
                        if let Some(entry) = self.entry(entry, &table) {
                            self.legal_entry(&entry, &entries, &table, &mut twins);
                            entries.push(entry);
                        }
                    }
                    table.entries = Some((*is_const, entries));
                }
                Property::Other {
                    annotations,
                    is_const,
                    name,
                    value,
                } => self.property(&mut table, annotations, *is_const, name, value),
                _ => {}
            }
        }
        if table.default_action.is_none() && !has_default(decl) {
            self.legal_no_action(decl);
        }
        self.program.tables.push(table);
        let id = self.program.tables.len() - 1;
        self.declare(&decl.name, Symbol::Table(id));
        id
    }

    fn key(&mut self, element: &ast::KeyElement) -> Key {
        let expr = self.expr(&element.expr);
        let below = self.program.underlying(&expr.ty).clone();
        if !matches!(
            below,
            Type::Bits { .. } | Type::Bool | Type::Enum(_) | Type::Error | Type::Poison
        ) {
            let message = format!("{} cannot be a key", self.program.type_name(&expr.ty));
            self.sink
                .error("E0408", expr.span, message)
                .help("a key is a bit<W>, int<W>, bool, enum or error");
        }
        let kind = &element.match_kind;
        if !self.match_kinds.contains(&kind.name) && !self.sink.is_unreliable(&kind.name) {
            let similar = nearest(&kind.name, self.match_kinds.iter().map(|name| &**name));
            let raw = self.sink.error(
                "E0312",
                kind.span,
                format!("cannot find match kind `{}`", kind.name),
            );
            if self.match_kinds.is_empty() {
                raw.help("core.p4 declares exact, lpm and ternary: add `#include <core.p4>`");
            } else {
                let mut known: Vec<_> = self
                    .match_kinds
                    .iter()
                    .map(|kind| format!("`{kind}`"))
                    .collect();
                known.sort();
                raw.did_you_mean(kind.span, similar)
                    .help(format!("there are {}", known.join(", ")));
            }
        }
        let name = crate::ir::name_annotation(&element.annotations)
            .or_else(|| self.key_name(&element.expr, &expr));
        let name = match name {
            Some(name) => name,
            None if expr.ty.is_poison() => "".into(),
            None => {
                self.sink
                    .error(
                        "E0420",
                        element.expr.span,
                        "the control plane has no name for this key",
                    )
                    .help("add `@name(\"...\")` after the match kind");
                String::new()
            }
        };
        Key {
            expr,
            match_kind: kind.name.clone(),
            annotations: self.annotations(&element.annotations),
            name,
        }
    }

    fn action_id(&mut self, decl: &ast::ActionRef) -> Option<usize> {
        match self.scopes.lookup(&decl.name.name, decl.global) {
            Some(Symbol::Action(id)) => return Some(*id),
            Some(Symbol::Broken) => {}
            Some(_) => {
                let message = format!("`{}` is not an action", decl.name.name);
                self.sink.error("E0311", decl.name.span, message);
            }
            None => self.unknown("action", &decl.name),
        }
        None
    }

    fn listed(&self, decl: &ast::ActionRef, table: &Table) -> Option<ActionUse> {
        let Some(Symbol::Action(id)) = self.scopes.lookup(&decl.name.name, decl.global) else {
            return None;
        };
        table
            .actions
            .iter()
            .find(|used| used.action == *id)
            .cloned()
    }

    fn wrong_count(&mut self, decl: &ast::ActionRef, wanted: usize) {
        let message = wrong_count(&decl.name.name, "", wanted, decl.arguments.len());
        self.sink.error("E0416", decl.span, message);
    }

    /// Checks a reference to an action. The reference is in a table's list of actions (`bound` is `None`), or in an
    /// entry or a default action. An entry or a default action gives the arguments that the list leaves open.
    fn action_use(&mut self, decl: &ast::ActionRef, bound: Option<&Table>) -> Option<ActionUse> {
        let id = self.action_id(decl)?;
        let parameters = self.program.actions[id].parameters.clone();
        let listed = match bound {
            Some(table) => match table.actions.iter().find(|used| used.action == id) {
                Some(used) => Some(used.clone()),
                None => {
                    let message = format!(
                        "`{}` is not in the actions of table `{}`",
                        decl.name.name, table.name
                    );
                    self.sink
                        .error("E0311", decl.name.span, message)
                        .help("add it to `actions`");
                    return None;
                }
            },
            None => None,
        };
        let mut arguments: Vec<Option<Expr>> = vec![None; parameters.len()];
        for (index, argument) in decl.arguments.iter().enumerate() {
            let Some(value) = &argument.value else {
                continue;
            };
            let at = match &argument.name {
                Some(name) => parameters
                    .iter()
                    .position(|id| self.program.vars[*id].name == name.name),
                None => self.positional(&parameters, index, decl.arguments.len(), bound.is_some()),
            };
            let Some(at) = at else {
                self.wrong_count(decl, parameters.len());
                return None;
            };
            let value = self.expr(value);
            let wanted = self.program.vars[parameters[at]].ty.clone();
            arguments[at] = Some(self.coerce(value, &wanted));
        }
        self.legal_action_use(decl, listed.as_ref(), &arguments);
        for (slot, parameter) in arguments.iter_mut().zip(&parameters) {
            let var = &self.program.vars[*parameter];
            let fixed = bound.is_some() || var.direction != Direction::None;
            if slot.is_none() && fixed {
                slot.clone_from(&var.default);
            }
        }
        if let Some(listed) = listed {
            for (slot, given) in arguments.iter_mut().zip(listed.arguments) {
                if slot.is_none() {
                    *slot = given;
                }
            }
            if arguments.iter().any(Option::is_none) {
                self.wrong_count(decl, parameters.len());
                return None;
            }
        }
        Some(ActionUse {
            action: id,
            arguments,
            annotations: self.annotations(&decl.annotations),
            span: decl.span,
        })
    }

    /// Returns the position of the parameter to which a positional argument belongs. `skip` says that the argument is
    /// in an entry or a default action, which may give all arguments, or only those for parameters without a direction.
    fn positional(
        &self,
        parameters: &[usize],
        index: usize,
        given: usize,
        skip: bool,
    ) -> Option<usize> {
        let directed = parameters
            .iter()
            .filter(|id| self.program.vars[**id].direction != Direction::None)
            .count();
        let offset = if skip && given + directed == parameters.len() {
            directed
        } else {
            0
        };
        (index + offset < parameters.len()).then_some(index + offset)
    }

    fn entry(&mut self, decl: &ast::EntrySyntax, table: &Table) -> Option<Entry> {
        let types: Vec<Type> = table
            .keys
            .iter()
            .filter(|key| &*key.match_kind != "selector")
            .map(|key| key.expr.ty.clone())
            .collect();
        if types.is_empty() {
            // Another rule reports entries of a table without a key.
            return None;
        }
        let keys = flatten_keys(&decl.keys);
        let keys = self.keyset(&keys, &types, decl.span);
        let keys = match keys.as_slice() {
            [
                Expr {
                    kind: ExprKind::DontCare,
                    ..
                },
            ] if types.len() > 1 => vec![keys[0].clone(); types.len()],
            _ => keys,
        };
        let priority = decl.priority.as_ref().map(|priority| {
            let value = self.expr(priority);
            self.coerce(value, &Type::Int)
        });
        // p4c's annotation `@priority` gives the number that BMv2 compares; the lowest number wins.
        let rank = crate::ir::int_annotation(&decl.annotations, "priority")
            .and_then(|numbers| numbers.first().and_then(num_traits::ToPrimitive::to_u32));
        let action = self.action_use(&decl.action, Some(table))?;
        if let Some(listed) = self.listed(&decl.action, table) {
            self.legal_role(&listed, false, decl.span);
        }
        (keys.len() == types.len()).then_some(Entry {
            keys,
            action,
            priority,
            rank,
            is_const: decl.is_const,
            span: decl.span,
        })
    }

    fn property(
        &mut self,
        table: &mut Table,
        annotations: &[ast::Annotation],
        is_const: bool,
        name: &ast::Ident,
        value: &ast::Expr,
    ) {
        if &*name.name == "default_action" {
            let (callee, arguments) = match &*value.kind {
                ast::ExprKind::Call(callee, _, arguments) => (callee, arguments.clone()),
                _ => (value, Vec::new()),
            };
            let ast::ExprKind::Name(action, global) = &*callee.kind else {
                self.sink.error("E0311", value.span, "expected an action");
                return;
            };
            let (name, global, span) = (action.clone(), *global, value.span);
            let decl = ast::ActionRef {
                annotations: Vec::new(),
                name,
                global,
                arguments,
                span,
            };
            if let Some(listed) = self.listed(&decl, table) {
                self.legal_role(&listed, true, span);
            }
            table.default_action = self.action_use(&decl, Some(table));
            table.default_is_const = is_const;
            return;
        }
        let expr = self.expr(value);
        let (name, annotations, span) =
            (name.name.clone(), self.annotations(annotations), value.span);
        if &*name == "size" && !matches!(expr.ty, Type::Int | Type::Bits { .. } | Type::Poison) {
            self.sink.error("E0401", span, "a table's size is a number");
        }
        table.properties.push(TableProperty {
            name,
            value: expr,
            annotations,
            span,
        });
    }

    /// Checks the sets of a `select` case or a table entry: one for each key, or one `default` for all keys.
    pub fn keyset(&mut self, sets: &[ast::Expr], types: &[Type], span: Span) -> Vec<Expr> {
        if let [only] = sets {
            if matches!(*only.kind, ast::ExprKind::DontCare) {
                return vec![Expr {
                    kind: ExprKind::DontCare,
                    ty: Type::DontCare,
                    span: only.span,
                }];
            }
            if let ast::ExprKind::Name(name, global) = &*only.kind
                && let Some(Symbol::ValueSet(id)) = self.scopes.lookup(&name.name, *global)
            {
                let id = *id;
                let of = self.program.value_sets[id].ty.clone();
                let keys = types.iter().map(|ty| self.program.width(ty));
                let keys = keys.sum::<Option<u32>>();
                if let (Some(wanted), Some(found)) = (keys, self.program.width(&of))
                    && wanted != found
                {
                    let message = format!(
                        "the values of `{}` have {found} bits, the keys have {wanted}",
                        name.name
                    );
                    self.sink.error("E0410", only.span, message);
                }
                return vec![Expr {
                    kind: ExprKind::ValueSet(id),
                    ty: Type::Set(Box::new(of)),
                    span: only.span,
                }];
            }
        }
        if sets.len() != types.len() {
            let message = format!(
                "{} matched, {} given",
                counted(types.len(), "key is", "keys are"),
                counted(sets.len(), "set was", "sets were")
            );
            self.sink.error("E0410", span, message);
            return Vec::new();
        }
        sets.iter()
            .zip(types)
            .flat_map(|(set, ty)| self.key_elements(set, ty))
            .collect()
    }

    /// Returns the scalars in a key that is a struct or tuple, or the key itself if it is neither.
    pub fn key_parts(&self, key: &Expr) -> Vec<Expr> {
        if let ExprKind::List(items) = &key.kind {
            return items.iter().flat_map(|item| self.key_parts(item)).collect();
        }
        let Some(types) = self.member_types(&key.ty) else {
            return vec![key.clone()];
        };
        let member = |(at, ty): (usize, &Type)| {
            let whole = Box::new(key.clone());
            let kind = match key.ty {
                Type::Struct(_) => ExprKind::Field(whole, at),
                _ => {
                    let index = Expr {
                        kind: ExprKind::Int(at.into()),
                        ty: Type::bits(32),
                        span: key.span,
                    };
                    ExprKind::Index(whole, Box::new(index))
                }
            };
            self.key_parts(&Expr {
                kind,
                ty: ty.clone(),
                span: key.span,
            })
        };
        types.iter().enumerate().flat_map(member).collect()
    }

    fn member_types(&self, ty: &Type) -> Option<Vec<Type>> {
        match ty {
            Type::Struct(id) if self.program.structs[*id].kind == ast::StructKind::Struct => {
                let fields = &self.program.structs[*id].fields;
                Some(fields.iter().map(|field| field.ty.clone()).collect())
            }
            Type::Tuple(items) | Type::ListOf(items) => Some(items.clone()),
            _ => None,
        }
    }

    /// Returns the sets for one key; a key that is a struct or tuple has one set for each scalar in it.
    fn key_elements(&mut self, set: &ast::Expr, ty: &Type) -> Vec<Expr> {
        let Some(types) = self.member_types(ty) else {
            return vec![self.key_element(set, ty)];
        };
        let parts = match &*set.kind {
            ast::ExprKind::List(items) => items.clone(),
            ast::ExprKind::Struct(pairs, false) => {
                pairs.iter().map(|(_, value)| value.clone()).collect()
            }
            ast::ExprKind::DontCare => vec![set.clone(); types.len()],
            ast::ExprKind::Mask(value, mask) => match (&*value.kind, &*mask.kind) {
                (ast::ExprKind::List(values), ast::ExprKind::List(masks)) => {
                    let join = |(value, mask): (&ast::Expr, &ast::Expr)| ast::Expr {
                        kind: Box::new(ast::ExprKind::Mask(value.clone(), mask.clone())),
                        ..set.clone()
                    };
                    values.iter().zip(masks).map(join).collect()
                }
                _ => Vec::new(),
            },
            _ => {
                let value = self.expr(set);
                let value = self.coerce(value, ty);
                return self.key_parts(&value);
            }
        };
        if parts.len() != types.len() {
            let message = format!(
                "{} has {}, {} given",
                self.program.type_name(ty),
                counted(types.len(), "element", "elements"),
                counted(parts.len(), "was", "were")
            );
            self.sink.error("E0410", set.span, message);
            return Vec::new();
        }
        parts
            .iter()
            .zip(&types)
            .flat_map(|(part, ty)| self.key_elements(part, ty))
            .collect()
    }

    fn key_element(&mut self, set: &ast::Expr, ty: &Type) -> Expr {
        let span = set.span;
        let kind = match &*set.kind {
            ast::ExprKind::DontCare => ExprKind::DontCare,
            ast::ExprKind::Mask(value, mask) => ExprKind::Mask(
                Box::new(self.key_value(value, ty)),
                Box::new(self.key_value(mask, ty)),
            ),
            ast::ExprKind::Range(low, high) => ExprKind::Range(
                Box::new(self.key_value(low, ty)),
                Box::new(self.key_value(high, ty)),
            ),
            _ => return self.key_value(set, ty),
        };
        Expr {
            kind,
            ty: Type::Set(Box::new(ty.clone())),
            span,
        }
    }

    fn key_value(&mut self, value: &ast::Expr, ty: &Type) -> Expr {
        let checked = self.expr(value);
        // In a set, a value of a serializable enum may be written as its number.
        let below = self.program.underlying(ty).clone();
        let wanted = if matches!(checked.ty, Type::Int | Type::Bits { .. }) {
            below
        } else {
            ty.clone()
        };
        let checked = self.coerce(checked, &wanted);
        if !self.is_constant(&checked) {
            self.sink.error(
                "E0502",
                value.span,
                "a key's value, mask or range must be known at compile time",
            );
        }
        checked
    }
}

fn has_default(decl: &ast::Table) -> bool {
    let is_default = |property: &Property| matches!(property, Property::Other { name, .. } if &*name.name == "default_action");
    decl.properties.iter().any(is_default)
}

pub fn is_known_match_kind(name: &Rc<str>) -> bool {
    matches!(
        &**name,
        "exact" | "lpm" | "ternary" | "range" | "optional" | "selector"
    )
}
