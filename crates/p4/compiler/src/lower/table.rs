//! Lowers tables: their keys, entries, default actions and the externs that they own.

use bmv2_json::{ActionProfile, DefaultEntry, Selector, Table, TableKey, Value};
use num_bigint::BigInt;
use num_traits::ToPrimitive as _;

use super::entries::unsigned;
use super::place::{Place, hex_text, parameter};
use super::{Lower, Object, TableInfo, qualify};
use crate::emit::ids::member_ids;
use crate::ir::{self, ActionUse, BinaryOp, Builtin, Callee, Direction, Expr, ExprKind, Key};
use crate::source::Span;
use crate::types::Type;

/// The size of a table without the property `size`.
pub const DEFAULT_SIZE: u32 = 1024;

impl Lower<'_> {
    /// Prepares a table's keys and returns its position among the pipeline's tables.
    pub fn apply_table(&mut self, id: usize, span: Span) -> usize {
        let table = &self.program.tables[id];
        let name =
            ir::name_annotation(&table.annotations).unwrap_or_else(|| table.name.to_string());
        let name = qualify(&self.path, &name);
        let n_before = self.n_before_changes(table.keys.iter().map(|key| &key.expr));
        let keys: Vec<(TableKey, Option<Value>)> = table
            .keys
            .iter()
            .enumerate()
            .map(|(at, key)| {
                let expr = self.hoist(&key.expr);
                self.key(&name, at, key, &expr, at < n_before)
            })
            .collect();
        self.flush(span);
        if let Some((index, first)) = self.pipeline.table_index.get(&name).copied() {
            if first != id {
                let first = self.program.tables[first].span;
                let message = format!("two tables have the control plane's name `{name}`");
                self.sink
                    .error("E0702", table.span, message)
                    .note_at(first, "the other one")
                    .help("give one of them another @name");
            }
            return index;
        }
        let index = self.pipeline.tables.len();
        self.pipeline.table_index.insert(name.clone(), (index, id));
        self.pipeline.tables_linked.push(false);
        self.pipeline.tables.push(placeholder(&name));
        let built = self.build_table(id, name, keys);
        self.pipeline.tables[index] = built;
        index
    }

    /// Returns how many keys come before the last key with a call that may change values that earlier keys read. Keys
    /// are evaluated in order (P4_16 1.2.5, sections 13.6 and 14.2.1), so these earlier keys keep the values that they
    /// had before the call.
    pub fn n_before_changes<'e>(&self, keys: impl Iterator<Item = &'e Expr>) -> usize {
        let keys: Vec<&Expr> = keys.collect();
        let last = keys.iter().rposition(|key| self.key_changes(key));
        last.unwrap_or(0)
    }

    fn key_changes(&self, key: &Expr) -> bool {
        let is_lookahead = matches!(
            &key.kind,
            ExprKind::Call(call)
                if matches!(&call.callee, Callee::ExternMethod(_, method) if &**method == "lookahead")
        );
        !is_lookahead && self.has_changing_call(key)
    }

    /// Returns the JSON key, which is a field. Any other expression is first computed into a field, and a field that a
    /// later key may change (`is_kept`) is first copied.
    fn key(
        &mut self,
        table: &str,
        at: usize,
        key: &Key,
        expr: &Expr,
        is_kept: bool,
    ) -> (TableKey, Option<Value>) {
        let expr = self.resolve(expr);
        let match_type = if &*key.match_kind == "optional" {
            "ternary"
        } else {
            &*key.match_kind
        };
        let simple = if is_kept {
            None
        } else {
            self.simple_key(&expr)
        };
        let (target, bits, input) = match simple {
            Some((place, bits)) => place_key(&place, bits, self.read_raw(&place).0),
            None => {
                let place = match self.pipeline.key_places.get(&(table.to_owned(), at)) {
                    Some(place) => place.clone(),
                    None => {
                        let place = self.temp("key", &expr.ty, expr.span);
                        self.pipeline
                            .key_places
                            .insert((table.to_owned(), at), place.clone());
                        place
                    }
                };
                self.assign(&place, &expr);
                place_key(&place, None, self.read_raw(&place).0)
            }
        };
        let json = TableKey {
            match_type: match_type.to_owned(),
            name: Some(key.name.clone()),
            target,
            mask: bits,
            secret: ir::is_secret(&key.annotations),
        };
        (json, Some(input))
    }

    /// Returns the place and the mask of a key that is a field, perhaps under a constant mask, or a header's validity.
    fn simple_key(&mut self, expr: &Expr) -> Option<(Place, Option<String>)> {
        match &expr.kind {
            ExprKind::Call(call) => match &call.callee {
                Callee::Builtin(Builtin::IsValid, object) => match self.place(object)? {
                    Place::Header { name, .. } => Some((
                        Place::Field {
                            header: name,
                            field: "$valid$".to_owned(),
                            ty: Type::Bool,
                        },
                        None,
                    )),
                    _ => None,
                },
                _ => None,
            },
            ExprKind::Binary(BinaryOp::BitAnd, left, right) => {
                let (field, bits) = match (&left.kind, &right.kind) {
                    (_, ExprKind::Int(bits)) => (left, bits),
                    (ExprKind::Int(bits), _) => (right, bits),
                    _ => return None,
                };
                let (place, None) = self.simple_key(field)? else {
                    return None;
                };
                let width = self.program.width(&field.ty)?;
                Some((place, Some(hex_text(&unsigned(bits, width), width))))
            }
            ExprKind::Var(_) | ExprKind::Field(..) => match self.place(expr)? {
                place @ Place::Field { .. } => Some((place, None)),
                _ => None,
            },
            ExprKind::Cast(inner)
                if self.program.width(&inner.ty) == self.program.width(&expr.ty)
                    && self.program.underlying(&inner.ty) == self.program.underlying(&expr.ty) =>
            {
                self.simple_key(inner)
            }
            _ => None,
        }
    }

    fn build_table(
        &mut self,
        id: usize,
        name: String,
        keys: Vec<(TableKey, Option<Value>)>,
    ) -> Table {
        let table = &self.program.tables[id];
        let (selector, keys): (Vec<_>, Vec<_>) = keys
            .into_iter()
            .partition(|(key, _)| key.match_type == "selector");
        let selector: Vec<Value> = selector.into_iter().filter_map(|it| it.1).collect();
        let is_secret = ir::is_secret(&table.annotations);
        let keys: Vec<TableKey> = keys
            .into_iter()
            .map(|(key, _)| kept(key, is_secret))
            .collect();
        let match_type = self.match_type(&keys, table);
        let (mut action_ids, mut actions) = (Vec::new(), Vec::new());
        let mut listed = Vec::new();
        for used in &table.actions {
            action_ids.push(self.lower_action(used.action, &used.arguments, &name));
            let action = self.action_name(used.action);
            actions.push(action.clone());
            listed.push((action, used.annotations.clone()));
        }
        let size = self.table_size(table);
        let profile = self.profile(table, &selector);
        let counter = self.direct(table, "counters", &name);
        let meter = self.direct(table, "meters", &name);
        let default = self.default_entry(table, &name, &mut action_ids, &mut actions, &mut listed);
        if is_secret {
            self.keep_arguments_secret(&action_ids);
        }
        let entries = self.entries(table, &name);
        if profile.is_some() {
            self.refuse_entries_of_a_profile(table);
        }
        let info_default = table
            .default_action
            .as_ref()
            .map(|used| self.default_info(used));
        let no_action = || ("NoAction".to_owned(), Vec::new());
        self.resources.tables.push(TableInfo {
            table: id,
            name: name.clone(),
            size,
            actions: listed,
            default: Some(info_default.unwrap_or_else(no_action)),
            direct_counter: counter,
            direct_meter: meter,
            profile,
            supports_timeout: supports_timeout(table),
            order: self.declared(ir::Local::Table(id)),
        });
        let (kind, action_profile) = self.implementation(profile);
        Table {
            source_info: self.source_info(table.span),
            name,
            id: 0,
            key: keys,
            match_type,
            kind: kind.to_owned(),
            action_profile,
            max_size: max_size(table, size),
            with_counters: counter.is_some(),
            support_timeout: supports_timeout(table),
            direct_meters: meter.map(|at| self.externs[at].name.clone()),
            action_ids,
            actions,
            base_default_next: None,
            next_tables: std::collections::BTreeMap::new(),
            default_entry: self.written_default(table, profile, default),
            const_entries: matches!(table.entries, Some((false, _))).then_some(false),
            entries,
        }
    }

    fn refuse_entries_of_a_profile(&mut self, table: &ir::Table) {
        let written = table.entries.as_ref().and_then(|(_, list)| list.first());
        if let Some(first) = written {
            let message = "a table with an action profile has no entries in the program";
            self.sink
                .error("E0508", first.span, message)
                .help("a controller writes its members and entries");
        }
    }

    /// Marks the parameters of a secret table's actions as secret. They are then also secret in other tables that have
    /// these actions.
    fn keep_arguments_secret(&mut self, action_ids: &[u32]) {
        for action in &mut self.json.actions {
            if action_ids.contains(&action.id) {
                let parameters = action.runtime_data.iter_mut();
                parameters.for_each(|parameter| parameter.secret = true);
            }
        }
    }

    /// Returns the table's kind in the JSON, and the name of its action profile if it has one.
    fn implementation(&self, profile: Option<usize>) -> (&'static str, Option<String>) {
        match profile.map(|at| &self.externs[at]) {
            Some(object) if object.kind == "action_selector" => {
                ("indirect_ws", Some(object.name.clone()))
            }
            Some(object) => ("indirect", Some(object.name.clone())),
            None => ("simple", None),
        }
    }

    fn match_type(&mut self, keys: &[TableKey], table: &ir::Table) -> String {
        let has = |kind: &str| keys.iter().any(|key| key.match_type == kind);
        if keys.iter().filter(|key| key.match_type == "lpm").count() > 1 {
            self.sink
                .error(
                    "E0608",
                    table.span,
                    format!("table `{}` has more than one lpm key", table.name),
                )
                .help("make the others ternary");
        }
        for key in table
            .keys
            .iter()
            .filter(|key| !crate::types::table::is_known_match_kind(&key.match_kind))
        {
            let message = format!("simple_switch does not match with `{}`", key.match_kind);
            self.sink.error("E0608", key.expr.span, message);
        }
        let kind = ["range", "ternary", "lpm"]
            .into_iter()
            .find(|kind| has(kind))
            .unwrap_or("exact");
        kind.to_owned()
    }

    fn table_size(&mut self, table: &ir::Table) -> u64 {
        let Some(property) = table.property("size") else {
            return default_size(table);
        };
        match self.resolve(&property.value).kind {
            ExprKind::Int(value) => match value.to_u64() {
                Some(0) => u64::from(DEFAULT_SIZE),
                Some(size) if size <= u64::from(u32::MAX) => size,
                _ => {
                    self.sink.error(
                        "E0503",
                        property.span,
                        format!("{value} is not a table's size"),
                    );
                    u64::from(DEFAULT_SIZE)
                }
            },
            _ => {
                self.sink.error(
                    "E0502",
                    property.span,
                    "a table's size must be known at compile time",
                );
                u64::from(DEFAULT_SIZE)
            }
        }
    }

    fn property_extern(&mut self, table: &ir::Table, name: &str) -> Option<usize> {
        let property = table.property(name)?;
        let object = match &property.value.kind {
            ExprKind::Construct(instance) => {
                // As in p4c, a name on the property is absolute.
                let (own, path) = match ir::name_annotation(&property.annotations) {
                    Some(own) => (own, String::new()),
                    None => (format!("{}_{name}", table.name), self.path.clone()),
                };
                let mut instance = (**instance).clone();
                instance
                    .annotations
                    .extend(property.annotations.iter().cloned());
                Some(self.instantiate(&instance, &own, &path))
            }
            _ => self.object(&property.value),
        };
        match object {
            Some(Object::Extern(at)) => Some(at),
            _ => {
                self.sink.error(
                    "E0508",
                    property.span,
                    format!("`{name}` needs an extern's instance"),
                );
                None
            }
        }
    }

    fn direct(&mut self, table: &ir::Table, property: &str, name: &str) -> Option<usize> {
        let at = self.property_extern(table, property)?;
        let wanted = if property == "counters" {
            "direct_counter"
        } else {
            "direct_meter"
        };
        if self.externs[at].kind != wanted {
            let span = table
                .property(property)
                .map_or(table.span, |property| property.span);
            self.sink
                .error("E0508", span, format!("`{property}` needs a {wanted}"));
            return None;
        }
        if let Some(other) = self.externs[at].bound_to.clone() {
            let message = format!(
                "`{}` belongs to table `{other}` already",
                self.externs[at].name
            );
            self.sink
                .error("E0508", table.span, message)
                .help("each table has a direct counter or meter of its own");
        }
        self.externs[at].bound_to = Some(name.to_owned());
        self.bind_direct(at, name);
        Some(at)
    }

    fn profile(&mut self, table: &ir::Table, selector: &[Value]) -> Option<usize> {
        let at = self.property_extern(table, "implementation")?;
        let (name, kind, size) = (
            self.externs[at].name.clone(),
            self.externs[at].kind.clone(),
            self.externs[at].size,
        );
        if !self
            .pipeline
            .action_profiles
            .iter()
            .any(|profile| profile.name == name)
        {
            let is_selector = kind == "action_selector";
            let algo = self.externs[at].algorithm.clone();
            let selector = is_selector.then(|| Selector {
                algo,
                input: selector.to_vec(),
            });
            let before: usize = self
                .json
                .pipelines
                .iter()
                .map(|pipeline| pipeline.action_profiles.len())
                .sum();
            let id = (before + self.pipeline.action_profiles.len()) as u32;
            let source_info = self.source_info(self.externs[at].span);
            self.pipeline.action_profiles.push(ActionProfile {
                name,
                id,
                source_info,
                max_size: size,
                selector,
            });
        }
        self.externs[at].tables.push(qualify(
            &self.path,
            &ir::name_annotation(&table.annotations).unwrap_or_else(|| table.name.to_string()),
        ));
        Some(at)
    }

    fn default_info(&mut self, used: &ActionUse) -> (String, Vec<(u32, Expr)>) {
        let parameters = self.program.actions[used.action].parameters.iter();
        let with_data: Vec<_> = parameters
            .zip(&used.arguments)
            .map(|(parameter, argument)| (&self.program.vars[*parameter], argument))
            .filter(|(parameter, _)| parameter.direction == Direction::None)
            .collect();
        let lists: Vec<_> = with_data
            .iter()
            .map(|(parameter, _)| parameter.annotations.as_slice())
            .collect();
        let ids = member_ids(&lists);
        let arguments = ids
            .into_iter()
            .zip(with_data)
            .filter_map(|(id, (_, argument))| Some((id, self.resolve(argument.as_ref()?))))
            .collect();
        (self.action_name(used.action), arguments)
    }

    /// Returns the default entry for the JSON. For a table with an action profile, it omits a default of `NoAction` and
    /// clears the constant flag of the action, because BMv2 allows only the whole entry to be constant.
    fn written_default(
        &self,
        table: &ir::Table,
        profile: Option<usize>,
        default: Option<DefaultEntry>,
    ) -> Option<DefaultEntry> {
        if profile.is_none() {
            return default;
        }
        let used = table.default_action.as_ref()?;
        let is_nothing = &*self.program.actions[used.action].name == "NoAction";
        default.filter(|_| !is_nothing).map(|default| DefaultEntry {
            action_const: false,
            ..default
        })
    }

    fn default_entry(
        &mut self,
        table: &ir::Table,
        name: &str,
        action_ids: &mut Vec<u32>,
        actions: &mut Vec<String>,
        listed: &mut Vec<(String, Vec<ir::Annotation>)>,
    ) -> Option<DefaultEntry> {
        match &table.default_action {
            Some(used) => {
                let action_id = self.lower_action(used.action, &used.arguments, name);
                let action_data = self.action_data(used);
                let fixed = table.default_is_const;
                Some(DefaultEntry {
                    action_id,
                    action_const: fixed,
                    action_data,
                    action_entry_const: fixed,
                })
            }
            None => {
                // Without a default action a miss does nothing.
                let nothing = self
                    .program
                    .actions
                    .iter()
                    .position(|action| action.is_global && &*action.name == "NoAction")?;
                let action_id = self.lower_action(nothing, &[], name);
                if !action_ids.contains(&action_id) {
                    let action = self.action_name(nothing);
                    action_ids.push(action_id);
                    actions.push(action.clone());
                    let span = table.span;
                    let body = crate::syntax::ast::AnnotationBody::None;
                    listed.push((
                        action,
                        vec![ir::Annotation {
                            name: "defaultonly".into(),
                            body,
                            span,
                        }],
                    ));
                }
                Some(DefaultEntry {
                    action_id,
                    action_const: false,
                    action_data: Vec::new(),
                    action_entry_const: false,
                })
            }
        }
    }

    pub fn action_data(&mut self, used: &ActionUse) -> Vec<String> {
        let parameters = &self.program.actions[used.action].parameters;
        let mut data = Vec::new();
        for (parameter, argument) in parameters.iter().zip(&used.arguments) {
            if self.program.vars[*parameter].direction != Direction::None {
                continue;
            }
            let width = self
                .program
                .width(&self.program.vars[*parameter].ty)
                .unwrap_or(0);
            data.push(
                match argument
                    .as_ref()
                    .and_then(|argument| self.constant(argument))
                {
                    Some(value) => hex_text(&unsigned(&value, width), width),
                    None => {
                        self.sink.error(
                            "E0502",
                            used.span,
                            "an action's arguments here must be known at compile time",
                        );
                        String::new()
                    }
                },
            );
        }
        data
    }

    /// Returns the value of a compile-time constant of any type as a number.
    pub fn constant(&self, expr: &Expr) -> Option<BigInt> {
        match self.resolve(expr).kind {
            ExprKind::Int(value) => Some(value),
            ExprKind::Bool(value) => Some(BigInt::from(u8::from(value))),
            ExprKind::Error(value) => Some(BigInt::from(value)),
            ExprKind::Member(_, index) => Some(BigInt::from(index)),
            _ => None,
        }
    }
}

/// Marks a key as secret if its table is secret.
fn kept(key: TableKey, is_secret: bool) -> TableKey {
    TableKey {
        secret: key.secret || is_secret,
        ..key
    }
}

/// Returns a table's size in the JSON. A table with constant entries takes no other entries, so without the property
/// `size` it has room for exactly these.
fn max_size(table: &ir::Table, size: u64) -> u32 {
    let is_sized = table.property("size").is_some();
    let max = match &table.entries {
        Some((true, entries)) if !is_sized && !entries.is_empty() => entries.len() as u64,
        _ => size,
    };
    u32::try_from(max).unwrap_or(u32::MAX)
}

/// Returns the size of a table without the property `size`. Like p4c, this function counts the initial entries even if
/// they are not constant; 1024 or more of them leave no room for a controller's entries.
fn default_size(table: &ir::Table) -> u64 {
    let n_entries = table.entries.as_ref().map_or(0, |(_, list)| list.len());
    u64::from(DEFAULT_SIZE).max(n_entries as u64)
}

fn supports_timeout(table: &ir::Table) -> bool {
    let property = table.property("support_timeout");
    property.is_some_and(|property| matches!(property.value.kind, ExprKind::Bool(true)))
}

fn place_key(
    place: &Place,
    bits: Option<String>,
    input: Value,
) -> ((String, String), Option<String>, Value) {
    let target = match place {
        Place::Field { header, field, .. } => (header.clone(), field.clone()),
        _ => (String::new(), String::new()),
    };
    (target, bits, parameter(input))
}

fn placeholder(name: &str) -> Table {
    Table {
        name: name.to_owned(),
        id: 0,
        source_info: None,
        key: Vec::new(),
        match_type: "exact".to_owned(),
        kind: "simple".to_owned(),
        action_profile: None,
        max_size: DEFAULT_SIZE,
        with_counters: false,
        support_timeout: false,
        direct_meters: None,
        action_ids: Vec::new(),
        actions: Vec::new(),
        base_default_next: None,
        next_tables: std::collections::BTreeMap::new(),
        default_entry: None,
        entries: None,
        const_entries: None,
    }
}
