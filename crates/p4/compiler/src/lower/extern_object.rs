//! Lowers v1model's extern objects: their instances become arrays in the JSON.

use bmv2_json::{AttributeValue, CounterArray, ExternInstance, MeterArray, RegisterArray, Value};
use num_traits::ToPrimitive as _;

use super::Lower;
use crate::ir::{Annotation, ExprKind, Instance, is_secret};
use crate::limits;
use crate::source::Span;
use crate::types::Type;

#[derive(Clone, Debug)]
pub struct ExternObject {
    /// The extern's name, for example `counter`.
    pub kind: String,
    pub name: String,
    pub types: Vec<Type>,
    /// Number of cells or members.
    pub size: u32,
    /// `packets`, `bytes` or `packets_and_bytes`.
    pub unit: String,
    /// An action selector's algorithm. For a direct meter that is not yet bound to its table, the field that receives
    /// the meter's colour.
    pub algorithm: String,
    pub width: u32,
    /// The table of a direct counter or meter.
    pub bound_to: Option<String>,
    /// The tables of an action profile.
    pub tables: Vec<String>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

impl Lower<'_> {
    pub fn extern_object(
        &mut self,
        instance: &Instance,
        id: usize,
        types: &[Type],
        name: String,
    ) -> usize {
        let kind = self.program.extern_names[id].to_string();
        let foreign = self.emit_externs && !is_v1model(&kind);
        let mut object = ExternObject {
            kind,
            name,
            types: types.to_vec(),
            size: 0,
            unit: String::new(),
            algorithm: String::new(),
            width: 0,
            bound_to: None,
            tables: Vec::new(),
            annotations: instance.annotations.clone(),
            span: instance.span,
        };
        let mut numbers = Vec::new();
        for argument in instance.arguments.iter().flatten() {
            let argument = self.resolve(argument);
            match &argument.kind {
                ExprKind::Int(value) => match value.to_u32() {
                    Some(value) => numbers.push(value),
                    None => drop(self.sink.error(
                        "E0503",
                        argument.span,
                        format!("{value} is not a size"),
                    )),
                },
                ExprKind::Member(enumeration, member) => {
                    let name = self.program.enums[*enumeration].members[*member]
                        .0
                        .to_string();
                    if &*self.program.enums[*enumeration].name == "HashAlgorithm" {
                        object.algorithm = name
                    } else {
                        object.unit = name
                    }
                }
                ExprKind::Poison => {}
                _ if foreign => {}
                _ => drop(self.sink.error(
                    "E0502",
                    argument.span,
                    "a constructor's argument must be known at compile time",
                )),
            }
        }
        object.size = numbers.first().copied().unwrap_or(0);
        object.width = numbers.get(1).copied().unwrap_or(0);
        if foreign {
            self.foreign_instance(instance, &object);
        } else {
            self.add_array(&object);
        }
        self.externs.push(object);
        self.externs.len() - 1
    }

    /// Writes an instance of an extern that v1model does not declare, for a switch that was built with this extern.
    fn foreign_instance(&mut self, instance: &Instance, object: &ExternObject) {
        let mut attribute_values = Vec::new();
        for (name, argument) in instance.parameters.iter().zip(&instance.arguments) {
            let Some(argument) = argument else { continue };
            let value = match self.resolve(argument).kind {
                ExprKind::Int(value) => Value::Hexstr(super::place::hex_text(&value, 8)),
                ExprKind::Str(text) => Value::String(text.to_string()),
                _ => {
                    let message = "an extern's argument for the switch is a number or a string";
                    self.sink.error("E0502", argument.span, message);
                    continue;
                }
            };
            let name = name.to_string();
            attribute_values.push(AttributeValue { name, value });
        }
        self.json.extern_instances.push(ExternInstance {
            name: object.name.clone(),
            id: self.json.extern_instances.len() as u32,
            kind: object.kind.clone(),
            source_info: self.source_info(object.span),
            attribute_values,
        });
    }

    fn add_array(&mut self, object: &ExternObject) {
        let is_array = matches!(object.kind.as_str(), "counter" | "meter" | "register");
        if is_array && object.size > limits::ARRAY_CELLS_MAX {
            let (size, max) = (object.size, limits::ARRAY_CELLS_MAX);
            let message = format!("{size} is not a size: an array has {max} cells at most");
            self.sink.error("E0503", object.span, message);
            return;
        }
        let (name, source_info, size) = (
            object.name.clone(),
            self.source_info(object.span),
            object.size,
        );
        match object.kind.as_str() {
            "counter" => {
                let id = self.json.counter_arrays.len() as u32;
                self.json.counter_arrays.push(CounterArray {
                    name,
                    id,
                    source_info,
                    is_direct: false,
                    size: Some(size),
                    binding: None,
                });
            }
            "meter" => {
                let id = self.json.meter_arrays.len() as u32;
                self.json.meter_arrays.push(MeterArray {
                    name,
                    id,
                    source_info,
                    is_direct: false,
                    rate_count: 2,
                    kind: object.unit.clone(),
                    size: Some(size),
                    binding: None,
                    result_target: None,
                });
            }
            "register" => {
                let Some(bitwidth) = self.cell_bits(object) else {
                    return;
                };
                let id = self.json.register_arrays.len() as u32;
                let mut annotations = object.annotations.iter();
                let shared = annotations.any(|annotation| &*annotation.name == "shared");
                self.json.register_arrays.push(RegisterArray {
                    name,
                    id,
                    source_info,
                    size,
                    bitwidth,
                    shared,
                    secret: is_secret(&object.annotations),
                });
            }
            "direct_counter" | "direct_meter" | "action_profile" | "action_selector" => {}
            other => drop(self.sink.error(
                "E0610",
                object.span,
                format!("simple_switch has no extern `{other}`"),
            )),
        }
    }

    fn cell_bits(&mut self, object: &ExternObject) -> Option<u32> {
        let ty = object.types.first();
        let bits = ty.and_then(|ty| match self.program.underlying(ty) {
            Type::Bits { width, .. } => Some(*width),
            Type::Bool => Some(1),
            _ => None,
        });
        let bits = bits.filter(|width| *width > 0);
        if bits.is_none() {
            self.sink
                .error("E0604", object.span, "a register holds bit<W> or int<W>")
                .help("split the struct into several registers");
        }
        bits
    }

    /// Creates the array of a direct counter or meter once its table is known.
    pub fn bind_direct(&mut self, at: usize, table: &str) {
        let object = self.externs[at].clone();
        let (name, source_info, binding) = (
            object.name,
            self.source_info(object.span),
            Some(table.to_owned()),
        );
        if object.kind == "direct_counter" {
            let id = self.json.counter_arrays.len() as u32;
            self.json.counter_arrays.push(CounterArray {
                name,
                id,
                source_info,
                is_direct: true,
                size: None,
                binding,
            });
            return;
        }
        let id = self.json.meter_arrays.len() as u32;
        let (kind, size) = (object.unit, None);
        let result_target = self.meter_targets().remove(&name);
        self.json.meter_arrays.push(MeterArray {
            name,
            id,
            source_info,
            is_direct: true,
            rate_count: 2,
            kind,
            size,
            binding,
            result_target,
        });
    }

    /// Reports each direct meter that belongs to a table although no action reads its colour, and each direct meter
    /// whose colour an action reads although it belongs to no table. simple_switch refuses these meters.
    pub fn check_direct_meters(&mut self) {
        let is_read = |name: &str| {
            let arrays = &self.json.meter_arrays;
            let array = arrays.iter().find(|meter| meter.name == name);
            array.is_some_and(|meter| meter.result_target.is_some())
        };
        let mut wrong = Vec::new();
        for info in &self.resources.tables {
            let meter = info.direct_meter.and_then(|at| self.externs.get(at));
            if let Some(meter) = meter.filter(|meter| !is_read(&meter.name)) {
                let table = &self.program.tables[info.table];
                let message = format!(
                    "table `{}` has the meter `{}`, but no action of it reads the meter",
                    info.name, meter.name
                );
                wrong.push((table.span, message, "read it in an action of the table"));
            }
        }
        for meter in &self.externs {
            let is_read = !meter.algorithm.is_empty();
            if meter.kind == "direct_meter" && is_read && meter.bound_to.is_none() {
                let message = format!("the meter `{}` is read, but no table has it", meter.name);
                wrong.push((meter.span, message, "give it to a table: `meters = ...;`"));
            }
        }
        for (span, message, help) in wrong {
            self.sink.error("E0508", span, message).help(help);
        }
    }

    /// Returns, for each direct meter of which a call of `read` has been lowered, the field to which `read` writes the
    /// colour.
    fn meter_targets(&self) -> std::collections::HashMap<String, (String, String)> {
        let known = self
            .externs
            .iter()
            .filter(|object| object.kind == "direct_meter" && !object.algorithm.is_empty());
        known
            .filter_map(|object| {
                let (header, field) = object.algorithm.split_once('\0')?;
                Some((object.name.clone(), (header.to_owned(), field.to_owned())))
            })
            .collect()
    }
}

/// Whether simple_switch has this kind of extern object.
fn is_v1model(kind: &str) -> bool {
    matches!(
        kind,
        "counter"
            | "direct_counter"
            | "meter"
            | "direct_meter"
            | "register"
            | "action_profile"
            | "action_selector"
    )
}
