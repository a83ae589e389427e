//! Writes P4Info, which describes a program's objects to a controller (P4Runtime 1.4.1, section 6).

use num_bigint::BigInt;
use p4runtime_proto::p4::config::v1 as p4;

use super::annotation::{self, Constant};
use super::ids::{Kind, Symbols, member_faults, member_ids};
use super::p4info_externs::extern_kind;
use crate::diagnostic::Sink;
use crate::ir::{
    self, Annotation, ExprKind, Key, Program, has_annotation, is_secret, string_annotation,
};
use crate::lower::{Resources, TableInfo};
use crate::source::Span;
use crate::types::Type;
use crate::types::const_eval::wrap;

/// Encodes a value, big endian, in as many bytes as its width needs. p4c keeps leading zeros in P4Info, and P4Runtime
/// accepts values with and without them.
pub fn value_bytes(value: &BigInt, width: u32) -> Vec<u8> {
    let significant = wrap(value, width, false).to_bytes_be().1;
    let n_bytes = (width.div_ceil(8) as usize).max(1);
    let mut bytes = vec![0; n_bytes.saturating_sub(significant.len())];
    bytes.extend(significant);
    bytes
}

/// Adds `@secret` to the annotations of a key or parameter whose table or action is `@secret`, so that a controller
/// need not also look at the table or action.
fn add_secret(annotations: &mut Vec<String>, is_covered: bool) {
    let is_said = |annotation: &String| annotation.as_str() == SECRET;
    if is_covered && !annotations.iter().any(is_said) {
        annotations.push(SECRET.to_owned());
    }
}

const SECRET: &str = "@secret";

pub struct Writer<'a> {
    pub program: &'a Program,
    pub symbols: Symbols,
    pub info: p4::P4Info,
    faults: Vec<(Span, String)>,
}

pub fn write(program: &Program, resources: &Resources, sink: &mut Sink) -> p4::P4Info {
    let mut writer = Writer {
        program,
        symbols: Symbols::default(),
        info: p4::P4Info::default(),
        faults: Vec::new(),
    };
    writer.collect(resources, sink);
    writer.symbols.assign(sink);
    writer.package();
    for table in &resources.tables {
        writer.table(table, resources);
    }
    for action in &resources.actions {
        let name = &action.name;
        let in_table = |table: &&TableInfo| table.actions.iter().any(|(known, _)| known == name);
        let tables: Vec<_> = resources.tables.iter().filter(in_table).collect();
        writer.action(name, action.action, &tables);
    }
    for object in &resources.externs {
        writer.object(object);
    }
    if resources.calls_extern_functions {
        writer.type_info();
    }
    writer.controller_headers();
    for (name, id, size) in &resources.value_sets {
        writer.value_set(name, *id, *size);
    }
    for (name, ty) in &resources.digests {
        let type_spec = Some(writer.type_spec(ty));
        let annotations = match ty {
            Type::Struct(id) => program.structs[*id].annotations.as_slice(),
            _ => &[],
        };
        let preamble = Some(writer.preamble(Kind::Digest, name, annotations, &[]));
        writer.info.digests.push(p4::Digest {
            preamble,
            type_spec,
        });
    }
    for (span, message) in writer.faults {
        sink.error("E0701", span, message);
    }
    writer.info
}

pub fn named(name: &str) -> Option<p4::P4NamedType> {
    Some(p4::P4NamedType {
        name: name.to_owned(),
    })
}

impl Writer<'_> {
    pub fn member_ids(&mut self, annotations: &[&[Annotation]]) -> Vec<u32> {
        self.faults.extend(member_faults(annotations));
        member_ids(annotations)
    }

    fn collect(&mut self, resources: &Resources, sink: &mut Sink) {
        let program = self.program;
        for table in &resources.tables {
            let decl = &program.tables[table.table];
            self.symbols
                .add(Kind::Table, &table.name, &decl.annotations, decl.span, sink);
        }
        for action in &resources.actions {
            let decl = &program.actions[action.action];
            self.symbols.add(
                Kind::Action,
                &action.name,
                &decl.annotations,
                decl.span,
                sink,
            );
        }
        for object in &resources.externs {
            let unbound = matches!(object.kind.as_str(), "direct_counter" | "direct_meter")
                && object.bound_to.is_none();
            if let Some(kind) = extern_kind(object).filter(|_| !unbound) {
                self.symbols
                    .add(kind, &object.name, &object.annotations, object.span, sink);
            }
        }
        for decl in program
            .structs
            .iter()
            .filter(|decl| has_annotation(&decl.annotations, "controller_header"))
        {
            self.symbols.add(
                Kind::ControllerHeader,
                &decl.name,
                &decl.annotations,
                decl.span,
                sink,
            );
        }
        for (name, id, _) in &resources.value_sets {
            let decl = &program.value_sets[*id];
            self.symbols
                .add(Kind::ValueSet, name, &decl.annotations, decl.span, sink);
        }
        for (name, _) in &resources.digests {
            self.symbols.add(
                Kind::Digest,
                name,
                &[],
                crate::source::Span::default(),
                sink,
            );
        }
    }

    pub fn type_info(&mut self) -> &mut p4::P4TypeInfo {
        self.info.type_info.get_or_insert_default()
    }

    /// Returns the unstructured annotations as text and the structured annotations as messages. Leaves out unstructured
    /// annotations that are in `hidden` or for which P4Info has a field (`@name`, `@id`).
    pub fn annotations(
        &self,
        list: &[Annotation],
        hidden: &[&str],
    ) -> (Vec<String>, Vec<p4::StructuredAnnotation>) {
        let (mut plain, mut structured) = (Vec::new(), Vec::new());
        for found in list {
            let name = &*found.name;
            if let Some(message) = annotation::structured(found) {
                structured.push(message);
            } else if !matches!(name, "name" | "id" | "brief" | "description")
                && !hidden.contains(&name)
            {
                plain.push(annotation::plain(found));
            }
        }
        (plain, structured)
    }

    pub fn documentation(list: &[Annotation]) -> Option<p4::Documentation> {
        let (brief, description) = (
            string_annotation(list, "brief"),
            string_annotation(list, "description"),
        );
        if brief.is_none() && description.is_none() {
            return None;
        }
        Some(p4::Documentation {
            brief: brief.unwrap_or_default(),
            description: description.unwrap_or_default(),
        })
    }

    pub fn preamble(
        &self,
        kind: Kind,
        name: &str,
        list: &[Annotation],
        hidden: &[&str],
    ) -> p4::Preamble {
        let (annotations, structured_annotations) = self.annotations(list, hidden);
        p4::Preamble {
            id: self.symbols.id(kind, name),
            name: name.to_owned(),
            alias: self.symbols.alias(name),
            annotations,
            doc: Self::documentation(list),
            structured_annotations,
            ..Default::default()
        }
    }

    /// Writes the name of the architecture, and the values in `@pkginfo(name = "...", ...)` on `main`.
    fn package(&mut self) {
        let mut package = p4::PkgInfo {
            arch: "v1model".to_owned(),
            ..Default::default()
        };
        let Some(main) = self.program.main else {
            return;
        };
        let list = &self.program.instances[main].annotations;
        for (key, value) in annotation::pairs(list, "pkginfo") {
            let Constant::Text(text) = value else {
                continue;
            };
            let field = match key.as_str() {
                "name" => &mut package.name,
                "version" => &mut package.version,
                "arch" => &mut package.arch,
                "organization" => &mut package.organization,
                "contact" => &mut package.contact,
                "url" => &mut package.url,
                _ => continue,
            };
            *field = text;
        }
        if has_annotation(list, "platform_property") {
            package.platform_properties = Some(annotation::platform_properties(list));
        }
        let others: Vec<Annotation> = list
            .iter()
            .filter(|annotation| !matches!(&*annotation.name, "pkginfo" | "platform_property"))
            .cloned()
            .collect();
        (package.annotations, package.structured_annotations) = self.annotations(&others, &[]);
        package.doc = Self::documentation(list);
        self.info.pkg_info = Some(package);
    }

    /// Describes a type in `type_info`. Returns the type's width and also its name if it is declared with `type` or is
    /// an enum without an underlying type.
    fn described(&mut self, ty: &Type) -> (i32, Option<p4::P4NamedType>) {
        self.type_info();
        self.type_spec(ty);
        let width = match ty {
            Type::Enum(id) if self.program.enums[*id].underlying.is_none() => 0,
            Type::Error => 0,
            _ => self.program.width(ty).unwrap_or(0) as i32,
        };
        match ty {
            Type::Newtype(id) => (
                self.translated_width(*id).unwrap_or(width),
                named(&self.program.newtypes[*id].name),
            ),
            Type::Enum(id) if self.program.enums[*id].underlying.is_none() => {
                (width, named(&self.program.enums[*id].name))
            }
            _ => (width, None),
        }
    }

    /// Returns the width that the control plane uses for a type with `@p4runtime_translation`, or 0 if the control
    /// plane uses a string. Returns `None` if the type has no such annotation.
    fn translated_width(&mut self, id: usize) -> Option<i32> {
        if !self.is_translated(id) {
            return None;
        }
        let name = self.program.newtypes[id].name.to_string();
        let spec = self
            .type_info()
            .new_types
            .get(&name)?
            .representation
            .clone()?;
        match spec {
            p4::p4_new_type_spec::Representation::TranslatedType(translation) => {
                match translation.sdn_type? {
                    p4::p4_new_type_translation::SdnType::SdnBitwidth(width) => Some(width),
                    p4::p4_new_type_translation::SdnType::SdnString(_) => Some(0),
                }
            }
            p4::p4_new_type_spec::Representation::OriginalType(_) => None,
        }
    }

    fn table(&mut self, table: &TableInfo, resources: &Resources) {
        let decl = &self.program.tables[table.table];
        if has_annotation(&decl.annotations, "hidden") {
            return;
        }
        self.type_info();
        let mut out = p4::Table {
            preamble: Some(self.preamble(Kind::Table, &table.name, &decl.annotations, &[])),
            size: table.size as i64,
            match_fields: self.match_fields(&decl.keys, is_secret(&decl.annotations)),
            is_const_table: decl.entries.as_ref().is_some_and(|(is_const, _)| *is_const),
            has_initial_entries: decl
                .entries
                .as_ref()
                .is_some_and(|(_, list)| !list.is_empty()),
            idle_timeout_behavior: i32::from(table.supports_timeout),
            ..Default::default()
        };
        for (name, annotations) in &table.actions {
            let scope = match (
                has_annotation(annotations, "tableonly"),
                has_annotation(annotations, "defaultonly"),
            ) {
                (true, _) => p4::action_ref::Scope::TableOnly,
                (_, true) => p4::action_ref::Scope::DefaultOnly,
                _ => p4::action_ref::Scope::TableAndDefault,
            };
            let (annotations, structured_annotations) = self.annotations(annotations, &[]);
            let id = self.symbols.id(Kind::Action, name);
            out.action_refs.push(p4::ActionRef {
                id,
                scope: scope as i32,
                annotations,
                structured_annotations,
                ..Default::default()
            });
        }
        if let Some((name, arguments)) = &table.default {
            let action_id = self.symbols.id(Kind::Action, name);
            if decl.default_is_const {
                out.const_default_action_id = action_id;
            }
            let mut call = p4::TableActionCall {
                action_id,
                ..Default::default()
            };
            for (param_id, value) in arguments {
                if let Some(value) = self.argument_bytes(value) {
                    call.arguments.push(p4::table_action_call::Argument {
                        param_id: *param_id,
                        value,
                    });
                }
            }
            out.initial_default_action = Some(call);
        }
        let externs = [
            (table.direct_counter, Kind::DirectCounter),
            (table.direct_meter, Kind::DirectMeter),
        ];
        for (at, kind) in externs {
            out.direct_resource_ids
                .extend(at.map(|at| self.symbols.id(kind, &resources.externs[at].name)));
        }
        if let Some(at) = table.profile {
            out.implementation_id = self
                .symbols
                .id(Kind::ActionProfile, &resources.externs[at].name);
        }
        self.info.tables.push(out);
    }

    fn argument_bytes(&self, value: &ir::Expr) -> Option<Vec<u8>> {
        let width = self.program.width(&value.ty)?;
        let number = match &value.kind {
            ExprKind::Int(value) => value.clone(),
            ExprKind::Bool(value) => BigInt::from(u8::from(*value)),
            ExprKind::Member(_, index) => BigInt::from(*index),
            _ => return None,
        };
        Some(value_bytes(&number, width))
    }

    fn match_fields(&mut self, keys: &[Key], is_table_secret: bool) -> Vec<p4::MatchField> {
        let lists: Vec<&[Annotation]> = keys.iter().map(|key| key.annotations.as_slice()).collect();
        let ids = self.member_ids(&lists);
        let mut out = Vec::new();
        for (key, id) in keys.iter().zip(ids) {
            let match_type = match &*key.match_kind {
                "exact" => p4::match_field::MatchType::Exact,
                "lpm" => p4::match_field::MatchType::Lpm,
                "ternary" => p4::match_field::MatchType::Ternary,
                "range" => p4::match_field::MatchType::Range,
                "optional" => p4::match_field::MatchType::Optional,
                // Entries do not match on a selector's inputs.
                _ => continue,
            };
            let (bitwidth, type_name) = self.described(&key.expr.ty);
            let (mut annotations, structured_annotations) = self.annotations(&key.annotations, &[]);
            add_secret(&mut annotations, is_table_secret);
            out.push(p4::MatchField {
                id,
                name: key.name.clone(),
                bitwidth,
                r#match: Some(p4::match_field::Match::MatchType(match_type as i32)),
                type_name,
                annotations,
                structured_annotations,
                doc: Self::documentation(&key.annotations),
                ..Default::default()
            });
        }
        out
    }

    /// Writes an action. If no table has the action, the program gives all arguments, so P4Info lists no parameters.
    fn action(&mut self, name: &str, id: usize, tables: &[&TableInfo]) {
        let decl = &self.program.actions[id];
        if has_annotation(&decl.annotations, "hidden") {
            return;
        }
        let parameters: Vec<&ir::Var> = decl
            .parameters
            .iter()
            .map(|id| &self.program.vars[*id])
            .filter(|var| !tables.is_empty() && var.direction == ir::Direction::None)
            .collect();
        let lists: Vec<&[Annotation]> = parameters
            .iter()
            .map(|var| var.annotations.as_slice())
            .collect();
        let ids = self.member_ids(&lists);
        let is_tables_secret =
            |table: &&TableInfo| is_secret(&self.program.tables[table.table].annotations);
        let are_secret = is_secret(&decl.annotations) || tables.iter().any(is_tables_secret);
        let mut params = Vec::new();
        for (var, id) in parameters.iter().zip(ids) {
            let (bitwidth, type_name) = self.described(&var.ty);
            let (mut annotations, structured_annotations) = self.annotations(&var.annotations, &[]);
            add_secret(&mut annotations, are_secret);
            params.push(p4::action::Param {
                id,
                name: ir::name_annotation(&var.annotations).unwrap_or_else(|| var.name.to_string()),
                bitwidth,
                type_name,
                annotations,
                structured_annotations,
                doc: Self::documentation(&var.annotations),
                ..Default::default()
            });
        }
        let preamble = Some(self.preamble(Kind::Action, name, &decl.annotations, &[]));
        self.info.actions.push(p4::Action { preamble, params });
    }

    fn controller_headers(&mut self) {
        let program = self.program;
        for decl in program
            .structs
            .iter()
            .filter(|decl| has_annotation(&decl.annotations, "controller_header"))
        {
            let shown = string_annotation(&decl.annotations, "controller_header")
                .unwrap_or_else(|| decl.name.to_string());
            let mut preamble =
                self.preamble(Kind::ControllerHeader, &decl.name, &decl.annotations, &[]);
            (preamble.name, preamble.alias) = (shown.clone(), shown);
            let mut fields = Vec::new();
            Self::leaves(program, "", &decl.fields, &mut fields);
            let lists: Vec<&[Annotation]> = fields
                .iter()
                .map(|(_, field)| field.annotations.as_slice())
                .collect();
            let ids = self.member_ids(&lists);
            let mut metadata = Vec::new();
            for ((name, field), id) in fields.into_iter().zip(ids) {
                let (bitwidth, type_name) = self.described(&field.ty);
                let (annotations, structured_annotations) =
                    self.annotations(&field.annotations, &[]);
                metadata.push(p4::controller_packet_metadata::Metadata {
                    id,
                    name,
                    bitwidth,
                    type_name,
                    annotations,
                    structured_annotations,
                    ..Default::default()
                });
            }
            self.info
                .controller_packet_metadata
                .push(p4::ControllerPacketMetadata {
                    preamble: Some(preamble),
                    metadata,
                });
        }
    }

    /// Adds the fields of a header to `out`, each with its name. Instead of a nested struct it adds the struct's
    /// fields.
    fn leaves<'p>(
        program: &'p Program,
        prefix: &str,
        fields: &'p [ir::Field],
        out: &mut Vec<(String, &'p ir::Field)>,
    ) {
        for field in fields {
            let own = ir::name_annotation(&field.annotations);
            let name = format!("{prefix}{}", own.as_deref().unwrap_or(&field.name));
            match &field.ty {
                Type::Struct(id) => {
                    let inner = &program.structs[*id].fields;
                    Self::leaves(program, &format!("{name}."), inner, out);
                }
                _ => out.push((name, field)),
            }
        }
    }
}
