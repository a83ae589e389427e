//! Header types and instances, the storage of metadata and temporaries, and BMv2's field aliases.

use std::rc::Rc;

use bmv2_json::{
    Field, FieldWidth, Header, HeaderStack, HeaderType, HeaderUnion, HeaderUnionStack,
    HeaderUnionType,
};

use super::place::Place;
use super::{BlockInstance, Lower};
use crate::ir::{self, InstanceKind, StructKind};
use crate::limits;
use crate::source::Span;
use crate::types::Type;

const SCALARS: &str = "scalars";
const SCALARS_TYPE: &str = "scalars_0";
pub const STANDARD_METADATA: &str = "standard_metadata";

pub struct Architecture {
    pub headers: Place,
    pub metadata: Place,
    pub standard: Place,
}

/// Fields of standard metadata that simple_switch needs, with their minimum widths.
const REQUIRED_METADATA: [(&str, u32); 5] = [
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 3),
    ("packet_length", 1),
];

impl Lower<'_> {
    /// Lays out headers, user metadata and standard metadata from the parser's parameters.
    pub fn architecture_places(&mut self, parser: &BlockInstance) -> Architecture {
        let json = &mut self.json;
        json.header_types.push(HeaderType {
            name: SCALARS_TYPE.to_owned(),
            id: 0,
            fields: Vec::new(),
            max_length: None,
            length_exp: None,
        });
        let scalars = Header {
            name: SCALARS.to_owned(),
            id: 0,
            header_type: SCALARS_TYPE.to_owned(),
            metadata: true,
            pi_omit: Some(true),
        };
        json.headers.push(scalars);
        json.errors = self
            .program
            .errors
            .iter()
            .enumerate()
            .map(|(at, name)| (name.to_string(), at as u32))
            .collect();
        let plain = self
            .program
            .enums
            .iter()
            .filter(|decl| decl.underlying.is_none() && !decl.from_library);
        json.enums = plain
            .map(|decl| bmv2_json::Enum {
                name: decl.name.to_string(),
                entries: decl
                    .members
                    .iter()
                    .enumerate()
                    .map(|(at, (name, _))| (name.to_string(), at as u32))
                    .collect(),
            })
            .collect();
        for name in [SCALARS, STANDARD_METADATA] {
            self.names.taken.insert(name.to_owned());
        }
        let types: Vec<Type> = match parser.kind {
            InstanceKind::Parser(id) => self.program.parsers[id]
                .parameters
                .iter()
                .map(|id| self.program.vars[*id].ty.clone())
                .collect(),
            _ => Vec::new(),
        };
        let span = Span::default();
        let [_, headers, metadata, standard] = types.as_slice() else {
            let nothing = || Place::Members(Rc::default());
            return Architecture {
                headers: nothing(),
                metadata: nothing(),
                standard: nothing(),
            };
        };
        let standard = self.standard_metadata(standard);
        let headers = self.allocate("", headers, span);
        let metadata_place = self.allocate_named(metadata, span);
        let places = Architecture {
            headers,
            metadata: metadata_place,
            standard,
        };
        self.field_lists(metadata, &places);
        places
    }

    /// Reports a required field that standard metadata lacks. A program may declare its own architecture with v1model's
    /// package, but simple_switch always fills and reads the required fields.
    fn expect_standard_metadata(&mut self, id: usize) {
        let decl = &self.program.structs[id];
        for (name, bits) in REQUIRED_METADATA {
            let field = decl.fields.iter().find(|field| &*field.name == name);
            let width = field.and_then(|field| self.program.width(&field.ty));
            if width.is_some_and(|width| width >= bits) {
                continue;
            }
            let message = format!(
                "`{}` has no field `{name}` of {bits} bits, which simple_switch needs",
                decl.name
            );
            self.sink
                .error("E0602", decl.span, message)
                .help("this back end makes programs for the v1model.p4 that is built in");
            return;
        }
    }

    fn standard_metadata(&mut self, ty: &Type) -> Place {
        let Type::Struct(id) = ty else {
            return Place::Members(Rc::default());
        };
        self.expect_standard_metadata(*id);
        let decl = &self.program.structs[*id];
        let name =
            ir::name_annotation(&decl.annotations).unwrap_or_else(|| STANDARD_METADATA.to_owned());
        let mut fields = Vec::new();
        let mut members = Vec::new();
        let mut bits = 0;
        for field in &decl.fields {
            let width = self.program.width(&field.ty).unwrap_or(32);
            bits += width;
            fields.push(Field {
                name: field.name.to_string(),
                width: FieldWidth::Fixed(width),
                signed: false,
            });
            members.push(Place::Field {
                header: name.clone(),
                field: field.name.to_string(),
                ty: field.ty.clone(),
            });
            if let Some(alias) = ir::string_annotation(&field.annotations, "alias") {
                self.json
                    .field_aliases
                    .push((alias, (name.clone(), field.name.to_string())));
            }
        }
        pad(&mut fields, bits);
        let id = self.json.header_types.len() as u32;
        self.json.header_types.push(HeaderType {
            name: name.clone(),
            id,
            fields,
            max_length: None,
            length_exp: None,
        });
        let id = self.json.headers.len() as u32;
        self.json.headers.push(Header {
            name: name.clone(),
            id,
            header_type: name,
            metadata: true,
            pi_omit: Some(true),
        });
        Place::Members(members.into())
    }

    /// Allocates user metadata under the names `type.field`, as p4c does.
    fn allocate_named(&mut self, ty: &Type, span: Span) -> Place {
        match ty {
            Type::Struct(id) if self.program.structs[*id].kind == StructKind::Struct => {
                let name = self.program.structs[*id].name.to_string();
                self.allocate(&name, ty, span)
            }
            _ => self.allocate("meta", ty, span),
        }
    }

    /// Allocates storage for a value of this type, named after `name`.
    pub fn allocate(&mut self, name: &str, ty: &Type, span: Span) -> Place {
        match self.program.underlying(ty).clone() {
            Type::Struct(id) => match self.program.structs[id].kind {
                StructKind::Header => self.new_header(name, id),
                StructKind::Union => self.new_union(name, id),
                StructKind::Struct => {
                    let fields = &self.program.structs[id].fields;
                    let place = |lower: &mut Self, field: &ir::Field| {
                        let field_name = ir::name_annotation(&field.annotations)
                            .unwrap_or_else(|| field.name.to_string());
                        let field_name = field_name.trim_start_matches('.');
                        let below = if name.is_empty() {
                            field_name.to_owned()
                        } else {
                            format!("{name}.{field_name}")
                        };
                        lower.allocate(&below, &field.ty, span)
                    };
                    Place::Members(fields.iter().map(|field| place(self, field)).collect())
                }
            },
            Type::Tuple(items) => {
                let members = items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| self.allocate(&format!("{name}.f{at}"), item, span))
                    .collect();
                Place::Members(members)
            }
            Type::Stack(element, size)
                if self.program.is_header(&element) || self.program.is_union(&element) =>
            {
                self.new_stack(name, &element, size)
            }
            // An array of elements that are neither headers nor unions becomes a variable for each element.
            Type::Stack(element, size) => {
                let members = (0..size)
                    .map(|at| self.allocate(&format!("{name}[{at}]"), &element, span))
                    .collect();
                Place::Members(members)
            }
            Type::Varbit(width) => self.new_varbit(name, width),
            below => self.new_scalar(name, ty, &below, span),
        }
    }

    fn new_scalar(&mut self, name: &str, ty: &Type, below: &Type, span: Span) -> Place {
        let Some(width) = self.program.width(below) else {
            let message = format!(
                "a variable of type {} cannot be stored by simple_switch",
                self.program.type_name(ty)
            );
            self.sink.error("E0604", span, message);
            return Place::Members(Rc::default());
        };
        if !self.has_room_for_fields(1, span) {
            return Place::Members(Rc::default());
        }
        let field = self.fresh(name);
        let signed = matches!(below, Type::Bits { signed: true, .. });
        self.fields.scalars.push(Field {
            name: field.clone(),
            width: FieldWidth::Fixed(width),
            signed,
        });
        Place::Field {
            header: SCALARS.to_owned(),
            field,
            ty: ty.clone(),
        }
    }

    /// Counts fields; returns false if there are too many, so that no more are created.
    fn has_room_for_fields(&mut self, n_fields: usize, span: Span) -> bool {
        self.fields.n_fields = self.fields.n_fields.saturating_add(n_fields);
        let has_room = self.fields.n_fields <= limits::FIELDS_MAX;
        if !has_room && !self.fields.is_too_many {
            self.fields.is_too_many = true;
            let message = format!(
                "headers, metadata and variables have more than {} fields",
                limits::FIELDS_MAX
            );
            let help = if self.depth > 0 {
                "each call has variables of its own, and calls multiply where a callee makes several calls"
            } else {
                "each takes memory in every packet that a switch holds: make structs and stacks smaller"
            };
            self.sink.error("E0618", span, message).help(help);
            self.stop();
        }
        has_room
    }

    fn new_varbit(&mut self, name: &str, width: u32) -> Place {
        let type_name = format!("$varbit{width}");
        if !self.json.header_types.iter().any(|ty| ty.name == type_name) {
            let id = self.json.header_types.len() as u32;
            let fields = vec![Field {
                name: "field".to_owned(),
                width: FieldWidth::Variable,
                signed: false,
            }];
            let max_length = Some(width.div_ceil(8));
            self.json.header_types.push(HeaderType {
                name: type_name.clone(),
                id,
                fields,
                max_length,
                length_exp: None,
            });
        }
        let header = self.fresh(name);
        let id = self.json.headers.len() as u32;
        self.json.headers.push(Header {
            name: header.clone(),
            id,
            header_type: type_name,
            metadata: true,
            pi_omit: Some(true),
        });
        Place::Field {
            header,
            field: "field".to_owned(),
            ty: Type::Varbit(width),
        }
    }

    fn header_type(&mut self, id: usize) -> String {
        if let Some(name) = self.fields.header_types.get(&id) {
            return name.clone();
        }
        let decl = &self.program.structs[id];
        let name = ir::name_annotation(&decl.annotations).unwrap_or_else(|| decl.name.to_string());
        let mut fields = Vec::new();
        self.header_fields("", id, &mut fields);
        let variable: Option<u32> = decl.fields.iter().find_map(|field| match field.ty {
            Type::Varbit(width) => Some(width),
            _ => None,
        });
        let fixed: u32 = fields
            .iter()
            .map(|field| {
                if let FieldWidth::Fixed(width) = field.width {
                    width
                } else {
                    0
                }
            })
            .sum();
        let whole = fixed + variable.unwrap_or(0);
        if !whole.is_multiple_of(8) {
            let message =
                format!("header `{name}` has {whole} bits; simple_switch takes whole bytes only");
            self.sink
                .error("E0605", decl.span, message)
                .help(format!("add a field of {} bits", 8 - whole % 8));
        }
        if decl
            .fields
            .iter()
            .filter(|field| matches!(field.ty, Type::Varbit(_)))
            .count()
            > 1
        {
            self.sink.error(
                "E0605",
                decl.span,
                format!("header `{name}` has more than one varbit field"),
            );
        }
        let json_id = self.json.header_types.len() as u32;
        let max_length = variable.map(|_| whole.div_ceil(8));
        self.json.header_types.push(HeaderType {
            name: name.clone(),
            id: json_id,
            fields,
            max_length,
            length_exp: None,
        });
        self.fields.header_types.insert(id, name.clone());
        name
    }

    fn header_fields(&self, prefix: &str, id: usize, out: &mut Vec<Field>) {
        for field in &self.program.structs[id].fields {
            let name = format!("{prefix}{}", field.name);
            match self.program.underlying(&field.ty) {
                Type::Struct(inner) => self.header_fields(&format!("{name}."), *inner, out),
                Type::Varbit(_) => out.push(Field {
                    name,
                    width: FieldWidth::Variable,
                    signed: false,
                }),
                below => {
                    let signed = matches!(below, Type::Bits { signed: true, .. });
                    out.push(Field {
                        name,
                        width: FieldWidth::Fixed(self.program.width(below).unwrap_or(0)),
                        signed,
                    });
                }
            }
        }
    }

    fn new_header(&mut self, name: &str, id: usize) -> Place {
        let span = self.program.structs[id].span;
        if !self.has_room_for_fields(self.program.structs[id].fields.len(), span) {
            return Place::Members(Rc::default());
        }
        let name = self.fresh(name);
        self.add_header(&name, id);
        let union = None;
        Place::Header { name, id, union }
    }

    fn add_header(&mut self, name: &str, id: usize) -> u32 {
        let header_type = self.header_type(id);
        let json_id = self.json.headers.len() as u32;
        self.json.headers.push(Header {
            name: name.to_owned(),
            id: json_id,
            header_type,
            metadata: false,
            pi_omit: Some(true),
        });
        json_id
    }

    fn new_union(&mut self, name: &str, id: usize) -> Place {
        let name = self.fresh(name);
        self.add_union(&name, id);
        Place::Union { name, id }
    }

    fn add_union(&mut self, name: &str, id: usize) -> u32 {
        let decl = &self.program.structs[id];
        let type_name = decl.name.to_string();
        let members: Vec<(String, usize)> = decl
            .fields
            .iter()
            .filter_map(|field| match field.ty {
                Type::Struct(member) => Some((field.name.to_string(), member)),
                _ => None,
            })
            .collect();
        let header_ids = members
            .iter()
            .map(|(member, id)| self.add_header(&format!("{name}.{member}"), *id))
            .collect();
        if !self
            .json
            .header_union_types
            .iter()
            .any(|ty| ty.name == type_name)
        {
            let headers = members
                .iter()
                .map(|(member, id)| (member.clone(), self.header_type(*id)))
                .collect();
            let id = self.json.header_union_types.len() as u32;
            self.json.header_union_types.push(HeaderUnionType {
                name: type_name.clone(),
                id,
                headers,
            });
        }
        let json_id = self.json.header_unions.len() as u32;
        self.json.header_unions.push(HeaderUnion {
            name: name.to_owned(),
            id: json_id,
            union_type: type_name,
            header_ids,
            pi_omit: Some(true),
        });
        json_id
    }

    fn new_stack(&mut self, name: &str, element: &Type, size: u32) -> Place {
        let name = self.fresh(name);
        let Type::Struct(id) = element else {
            return Place::Members(Rc::default());
        };
        let n_fields = self.program.structs[*id].fields.len();
        let span = self.program.structs[*id].span;
        if !self.has_room_for_fields(n_fields.saturating_mul(size as usize), span) {
            return Place::Members(Rc::default());
        }
        let is_union = self.program.structs[*id].kind == StructKind::Union;
        let ids: Vec<u32> = (0..size)
            .map(|at| {
                let element = format!("{name}[{at}]");
                self.names.taken.insert(element.clone());
                if is_union {
                    self.add_union(&element, *id)
                } else {
                    self.add_header(&element, *id)
                }
            })
            .collect();
        if is_union {
            let union_type = self.program.structs[*id].name.to_string();
            let json_id = self.json.header_union_stacks.len() as u32;
            self.json.header_union_stacks.push(HeaderUnionStack {
                name: name.clone(),
                id: json_id,
                union_type,
                header_union_ids: ids,
            });
        } else {
            let header_type = self.header_type(*id);
            let json_id = self.json.header_stacks.len() as u32;
            self.json.header_stacks.push(HeaderStack {
                name: name.clone(),
                id: json_id,
                size: Some(size),
                header_type,
                header_ids: ids,
            });
        }
        Place::Stack {
            name,
            element: element.clone(),
            size,
        }
    }

    /// Allocates storage under a name that the source does not have.
    pub fn temp(&mut self, name: &str, ty: &Type, span: Span) -> Place {
        let unique = self.fresh(name);
        // `fresh` has reserved the name. `allocate` reserves it again for the storage, so it is freed here.
        self.names.taken.remove(&unique);
        self.allocate(&unique, ty, span)
    }

    /// Completes the type of the `scalars` header when everything has been lowered.
    pub fn finish_headers(&mut self) {
        let mut fields = std::mem::take(&mut self.fields.scalars);
        let bits = fields
            .iter()
            .map(|field| {
                if let FieldWidth::Fixed(width) = field.width {
                    width
                } else {
                    0
                }
            })
            .sum();
        pad(&mut fields, bits);
        if let Some(scalars) = self.json.header_types.first_mut() {
            scalars.fields = fields;
        }
    }
}

fn pad(fields: &mut Vec<Field>, bits: u32) {
    if !bits.is_multiple_of(8) {
        fields.push(Field {
            name: "_padding_0".to_owned(),
            width: FieldWidth::Fixed(8 - bits % 8),
            signed: false,
        });
    }
}
