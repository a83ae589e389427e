//! Lowers calls of v1model's externs to primitives.

use std::rc::Rc;

use bmv2_json::{LearnList, Value};

use super::headers::STANDARD_METADATA;
use super::place::{Place, hex, parameter, plain_hex};
use super::{Lower, Object, Stage};
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::Type;

const DROP_PORT: u64 = 511;
const EGRESS_SPEC: &str = "egress_spec";
const MCAST_GRP: &str = "mcast_grp";

impl Lower<'_> {
    fn place_argument(
        &mut self,
        arguments: &[Option<Expr>],
        at: usize,
        span: Span,
    ) -> Option<Place> {
        match arguments.get(at) {
            Some(Some(argument)) => {
                let place = self.place(argument);
                if place.is_none() {
                    self.unsupported(argument.span, "this argument");
                }
                place
            }
            _ => {
                let ty = Type::bits(32);
                Some(self.temp("unused", &ty, span))
            }
        }
    }

    pub fn data_argument(&mut self, arguments: &[Option<Expr>], at: usize) -> Value {
        match arguments.get(at) {
            Some(Some(argument)) => {
                let argument = self.resolve(argument);
                parameter(self.data(&argument))
            }
            _ => plain_hex(0),
        }
    }

    /// Returns the name of the enum member that is passed as an argument. If the member is known only at run time,
    /// reports an error and returns an empty name.
    pub fn enum_argument(&mut self, arguments: &[Option<Expr>], at: usize, span: Span) -> String {
        let argument = arguments.get(at).and_then(Option::as_ref);
        let argument = argument.map(|argument| self.resolve(argument));
        match argument.as_ref().map(|argument| &argument.kind) {
            Some(ExprKind::Member(id, member)) => {
                self.program.enums[*id].members[*member].0.to_string()
            }
            Some(ExprKind::Poison) => String::new(),
            _ => {
                let span = argument.map_or(span, |argument| argument.span);
                self.sink
                    .error(
                        "E0502",
                        span,
                        "this enum's value must be known at compile time",
                    )
                    .help("write the call in both branches of an `if`, each time with a constant");
                String::new()
            }
        }
    }

    pub fn extern_method(
        &mut self,
        object: &Expr,
        method: &str,
        arguments: &[Option<Expr>],
        span: Span,
    ) {
        match self.object(object) {
            Some(Object::Packet) => self.packet_method(method, arguments, span),
            Some(Object::Extern(at)) => self.array_method(at, method, arguments, span),
            _ => self.unsupported(span, "a method of this"),
        }
    }

    fn array_method(&mut self, at: usize, method: &str, arguments: &[Option<Expr>], span: Span) {
        let (kind, name) = (self.externs[at].kind.clone(), self.externs[at].name.clone());
        match (kind.as_str(), method) {
            ("counter", "count") => {
                let index = self.data_argument(arguments, 0);
                self.emit("count", vec![Value::CounterArray(name), index], span);
            }
            ("meter", "execute_meter") => {
                let index = self.data_argument(arguments, 0);
                let Some(place) = self.place_argument(arguments, 1, span) else {
                    return;
                };
                let target = parameter(self.read_raw(&place).0);
                self.emit(
                    "execute_meter",
                    vec![Value::MeterArray(name), index, target],
                    span,
                );
            }
            ("register", "read") => {
                let index = self.data_argument(arguments, 1);
                self.out_primitive(arguments, 0, span, |target| {
                    (
                        "register_read",
                        vec![target, Value::RegisterArray(name), index],
                    )
                });
            }
            ("register", "write") => {
                let (index, value) = (
                    self.data_argument(arguments, 0),
                    self.data_argument(arguments, 1),
                );
                self.emit(
                    "register_write",
                    vec![Value::RegisterArray(name), index, value],
                    span,
                );
            }
            // simple_switch counts the table's hits without a primitive.
            ("direct_counter", "count") => {}
            ("direct_meter", "read") => self.direct_meter(at, arguments, span),
            _ if self.emit_externs => {
                let mut parameters = vec![Value::Extern(name)];
                parameters.extend(self.foreign_arguments(arguments));
                self.emit(&format!("_{kind}_{method}"), parameters, span);
            }
            _ => self.unsupported(span, &format!("`{method}` of {kind}")),
        }
    }

    /// Emits a primitive that writes its result into an argument, which may be a slice.
    pub fn out_primitive(
        &mut self,
        arguments: &[Option<Expr>],
        at: usize,
        span: Span,
        make: impl FnOnce(Value) -> (&'static str, Vec<Value>),
    ) {
        let sliced = match arguments.get(at) {
            Some(Some(argument)) if matches!(argument.kind, ExprKind::Slice(..)) => {
                Some(argument.clone())
            }
            _ => None,
        };
        let place = match &sliced {
            Some(argument) => Some(self.temp("tmp", &argument.ty, span)),
            None => self.place_argument(arguments, at, span),
        };
        let Some(place) = place else { return };
        let (op, parameters) = make(parameter(self.read_raw(&place).0));
        self.emit(op, parameters, span);
        if let Some(target) = sliced {
            let value = self.hold(place, target.ty.clone(), span);
            self.assign_statement(&target, &value, span);
        }
    }

    /// simple_switch writes a direct meter's colour into one field, before the action runs.
    fn direct_meter(&mut self, at: usize, arguments: &[Option<Expr>], span: Span) {
        let Some(Place::Field { header, field, .. }) = self.place_argument(arguments, 0, span)
        else {
            return self.unsupported(span, "a direct meter's result here");
        };
        let name = self.externs[at].name.clone();
        let target = (header.clone(), field.clone());
        let known = self
            .json
            .meter_arrays
            .iter_mut()
            .find(|meter| meter.is_direct && meter.name == name);
        let clash = match known {
            Some(meter)
                if meter
                    .result_target
                    .as_ref()
                    .is_none_or(|other| *other == target) =>
            {
                meter.result_target = Some(target);
                false
            }
            Some(_) => true,
            None => {
                self.externs[at].algorithm = format!("{header}\0{field}");
                false
            }
        };
        if clash {
            self.sink.error(
                "E0610",
                span,
                format!("the meter `{name}` is read into more than one field"),
            );
        }
    }

    pub fn extern_function(
        &mut self,
        name: &str,
        types: &[Type],
        arguments: &[Option<Expr>],
        span: Span,
    ) {
        self.resources.calls_extern_functions |= self.stage != super::Stage::Parser;
        match name {
            "mark_to_drop" => self.mark_to_drop(arguments, span),
            "clone" | "clone_preserving_field_list" | "clone3" => {
                self.clone_packet(name, arguments, span)
            }
            "resubmit"
            | "resubmit_preserving_field_list"
            | "recirculate"
            | "recirculate_preserving_field_list" => self.again(name, arguments, span),
            "truncate" => {
                let length = self.data_argument(arguments, 0);
                self.emit("truncate", vec![length], span);
            }
            "random" => {
                let (low, high) = (
                    self.data_argument(arguments, 1),
                    self.data_argument(arguments, 2),
                );
                self.out_primitive(arguments, 0, span, |target| {
                    ("modify_field_rng_uniform", vec![target, low, high])
                });
            }
            "hash" => self.hash(arguments, span),
            "digest" => self.digest(types, arguments, span),
            "log_msg" => self.log_msg(arguments, span),
            "assert" | "assume" => {
                let condition = self.data_argument(arguments, 0);
                self.emit(name, vec![condition], span);
            }
            "verify" if self.stage == Stage::Parser => self.verify(arguments, span),
            "verify" => drop(
                self.sink
                    .error("E0309", span, "`verify` stands only in a parser"),
            ),
            _ if name.starts_with("verify_checksum") || name.starts_with("update_checksum") => {
                self.sink.error(
                    "E0309",
                    span,
                    format!("`{name}` stands only in the architecture's checksum controls"),
                );
            }
            other if self.emit_externs => {
                let parameters = self.foreign_arguments(arguments);
                self.emit(other, parameters, span);
            }
            other => drop(
                self.sink
                    .error(
                        "E0610",
                        span,
                        format!("simple_switch has no extern function `{other}`"),
                    )
                    .help("`--emit-externs` writes it out for a switch that was built with it (docs/payload-externs.md)"),
            ),
        }
    }

    /// Lowers the arguments of an extern that v1model does not declare: an argument that is an l-value stays one, any
    /// other argument becomes a value.
    fn foreign_arguments(&mut self, arguments: &[Option<Expr>]) -> Vec<Value> {
        let mut out = Vec::new();
        for argument in arguments.iter().flatten() {
            let argument = self.resolve(argument);
            let place = match argument.kind {
                ExprKind::Var(_) | ExprKind::Field(..) | ExprKind::Index(..) => {
                    self.place(&argument)
                }
                _ => None,
            };
            let value = match place {
                Some(place) => self.read_raw(&place).0,
                None => self.data(&argument),
            };
            out.push(parameter(value));
        }
        out
    }

    /// simple_switch's primitive `mark_to_drop` writes two fields of its header argument, so this header must be the
    /// standard metadata itself. A copy of the struct is stored in another header, so for a copy the compiler assigns
    /// the two fields one by one.
    fn mark_to_drop(&mut self, arguments: &[Option<Expr>], span: Span) {
        let Some(Some(argument)) = arguments.first() else {
            let metadata = Value::Header(STANDARD_METADATA.to_owned());
            return self.emit("mark_to_drop", vec![metadata], span);
        };
        let ty = self.closed_type(&argument.ty);
        let place = self.place_argument(arguments, 0, span);
        let (Some(Place::Members(members)), Type::Struct(id)) = (place, ty) else {
            return self.unsupported(argument.span, "this argument");
        };
        let names: Vec<Rc<str>> = (self.program.structs[id].fields.iter())
            .map(|field| field.name.clone())
            .collect();
        for (name, member) in names.iter().zip(members.iter()) {
            let value = match &**name {
                EGRESS_SPEC => DROP_PORT,
                MCAST_GRP => 0,
                _ => continue,
            };
            match member {
                Place::Field { header, field, .. } if field == EGRESS_SPEC => {
                    let metadata = Value::Header(header.clone());
                    return self.emit("mark_to_drop", vec![metadata], span);
                }
                _ => self.store(member, plain_hex(value), span),
            }
        }
    }

    fn digest(&mut self, types: &[Type], arguments: &[Option<Expr>], span: Span) {
        if self.stage != Stage::Ingress {
            self.sink
                .error("E0309", span, "`digest` stands only in ingress");
        }
        let receiver = self.data_argument(arguments, 0);
        let Some(Some(data)) = arguments.get(1) else {
            return;
        };
        let ty = types
            .first()
            .cloned()
            .filter(|ty| !crate::types::unify::is_open(ty))
            .unwrap_or_else(|| self.closed_type(&data.ty));
        let name = match &ty {
            Type::Struct(id) => crate::ir::name_annotation(&self.program.structs[*id].annotations)
                .unwrap_or_else(|| self.program.structs[*id].name.to_string()),
            _ => format!("digest_{}", self.json.learn_lists.len()),
        };
        let mut elements = Vec::new();
        for (value, ty) in self.flatten(data) {
            elements.push(match value {
                Value::Field(_) => value,
                computed => {
                    let temp = self.temp("digest", &ty, span);
                    let (target, _) = self.read_raw(&temp);
                    self.emit("assign", vec![target.clone(), parameter(computed)], span);
                    target
                }
            });
        }
        if !self
            .resources
            .digests
            .iter()
            .any(|(known, _)| *known == name)
        {
            self.resources.digests.push((name.clone(), ty));
        }
        let id = self.json.learn_lists.len() as u32 + 1;
        let source_info = self.source_info(span);
        self.json.learn_lists.push(LearnList {
            id,
            name,
            source_info,
            elements,
        });
        self.emit(
            "generate_digest",
            vec![receiver, plain_hex(u64::from(id))],
            span,
        );
    }

    fn log_msg(&mut self, arguments: &[Option<Expr>], span: Span) {
        let text = match arguments
            .first()
            .and_then(Option::as_ref)
            .map(|argument| self.resolve(argument).kind)
        {
            Some(ExprKind::Str(text)) => text.to_string(),
            _ => String::new(),
        };
        // A `{}` may stand for a whole header. simple_switch wants a `{}` for each number, and terminates if there
        // are fewer.
        let mut values = Vec::new();
        let mut whole = String::new();
        let mut rest = text.as_str();
        if let Some(Some(data)) = arguments.get(1) {
            let data = self.resolve(data);
            if let ExprKind::List(items) = &data.kind {
                for item in items {
                    let fields = self.flatten(item);
                    if let Some((before, behind)) = rest.split_once("{}") {
                        let marks = vec!["{}"; fields.len()].join(", ");
                        whole += before;
                        whole += &marks;
                        rest = behind;
                    }
                    values.extend(fields);
                }
            } else {
                values = self.flatten(&data);
            }
        }
        whole += rest;
        let values = values
            .into_iter()
            .map(|(value, _)| parameter(value))
            .collect();
        self.emit(
            "log_msg",
            vec![Value::String(whole), Value::ParametersVector(values)],
            span,
        );
    }

    pub fn extern_method_value(&mut self, object: &Expr, method: &str, expr: &Expr) -> Value {
        let is_packet = matches!(self.object(object), Some(Object::Packet));
        match method {
            "lookahead" if is_packet => match self.lookahead(&expr.ty, expr.span) {
                Some(place) => self.read(&place),
                None => plain_hex(0),
            },
            "length" if is_packet => {
                // simple_switch knows the length before it parses.
                Value::Field(("standard_metadata".to_owned(), "packet_length".to_owned()))
            }
            _ => {
                self.unsupported(expr.span, "this call in an expression");
                hex(&0.into(), 8)
            }
        }
    }
}
