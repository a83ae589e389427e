//! The passes' model of a program: every field with its width, and the fields of each object.
//!
//! A header's validity counts as a field, and so does a stack's next index.

use super::{HashMap, HashSet};
use bmv2_json::{FieldWidth, Program, Value};

/// The number of a field among all fields of the program.
pub type FieldId = u32;

/// The hidden field that says whether a header is valid.
pub const VALID: &str = "$valid$";
const NEXT: &str = "$next$";
/// The headers whose fields the target itself reads and writes.
const ARCHITECTURE: &[&str] = &[
    "standard_metadata",
    "intrinsic_metadata",
    "queueing_metadata",
];

/// Who can see or change a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// User metadata or a temporary: nothing outside the program sees it.
    Local,
    /// A field of a header that may be on the wire.
    Header,
    /// The target reads or writes the field between the controls.
    Architecture,
    /// Validity of a header, or the next index of a stack.
    Hidden,
}

#[derive(Debug)]
pub struct FieldInfo {
    pub header: String,
    pub name: String,
    /// 0 for a varbit field.
    pub bits: u32,
    pub signed: bool,
    pub role: Role,
}

impl FieldInfo {
    /// Whether the field is an unsigned number: never negative, and cut to its width when it is written.
    pub fn is_plain(&self) -> bool {
        self.bits > 0 && !self.signed
    }
}

#[derive(Debug, Default)]
pub struct HeaderInfo {
    pub fields: Vec<FieldId>,
    pub valid: FieldId,
    /// Whether the header is metadata, which is always valid.
    pub metadata: bool,
    /// Whether the header is on the wire, or part of a stack or union. Then its fields are visible even if the program
    /// does not read them.
    pub sent: bool,
    /// The validities of the other members of its union.
    pub rivals: Vec<FieldId>,
}

#[derive(Debug, Default)]
pub struct Model {
    ids: HashMap<String, HashMap<String, FieldId>>,
    pub fields: Vec<FieldInfo>,
    pub headers: HashMap<String, HeaderInfo>,
    /// All fields of each stack, union and stack of unions.
    pub groups: HashMap<String, Vec<FieldId>>,
    /// The inputs of each calculation.
    pub calculations: HashMap<String, Vec<FieldId>>,
}

impl Model {
    pub fn new(program: &Program) -> Self {
        let mut model = Self::default();
        let opaque = opaque_headers(program);
        let types: HashMap<&str, &bmv2_json::HeaderType> = program
            .header_types
            .iter()
            .map(|ty| (ty.name.as_str(), ty))
            .collect();
        for header in &program.headers {
            let role = if !header.metadata {
                Role::Header
            } else if opaque.contains(header.name.as_str()) {
                Role::Architecture
            } else {
                Role::Local
            };
            let mut info = HeaderInfo {
                metadata: header.metadata,
                ..HeaderInfo::default()
            };
            if let Some(ty) = types.get(header.header_type.as_str()) {
                for field in &ty.fields {
                    let bits = match field.width {
                        FieldWidth::Fixed(bits) => bits,
                        FieldWidth::Variable => 0,
                    };
                    let id = model.add(&header.name, &field.name, bits, field.signed, role);
                    info.fields.push(id);
                }
            }
            info.valid = model.add(&header.name, VALID, 1, false, Role::Hidden);
            info.fields.push(info.valid);
            model.headers.insert(header.name.clone(), info);
        }
        model.add_groups(program);
        let sent = program.deparsers.iter().flat_map(|it| &it.order);
        for name in sent {
            if let Some(header) = model.headers.get_mut(name) {
                header.sent = true;
            }
        }
        for calculation in &program.calculations {
            let mut fields = Vec::new();
            for input in &calculation.input {
                model.collect(&input.value, &mut fields);
            }
            model.calculations.insert(calculation.name.clone(), fields);
        }
        model
    }

    fn add(&mut self, header: &str, name: &str, bits: u32, signed: bool, role: Role) -> FieldId {
        let id = self.fields.len() as FieldId;
        self.ids
            .entry(header.to_owned())
            .or_default()
            .insert(name.to_owned(), id);
        self.fields.push(FieldInfo {
            header: header.to_owned(),
            name: name.to_owned(),
            bits,
            signed,
            role,
        });
        id
    }

    fn add_groups(&mut self, program: &Program) {
        let headers: HashMap<u32, &str> = program
            .headers
            .iter()
            .map(|header| (header.id, header.name.as_str()))
            .collect();
        let mut unions: HashMap<u32, &str> = HashMap::default();
        for stack in &program.header_stacks {
            self.group(&stack.name, &named(&stack.header_ids, &headers));
        }
        for union in &program.header_unions {
            let members = named(&union.header_ids, &headers);
            self.group(&union.name, &members);
            unions.insert(union.id, &union.name);
            let valid: Vec<FieldId> = members
                .iter()
                .filter_map(|member| Some(self.headers.get(*member)?.valid))
                .collect();
            for member in members {
                if let Some(info) = self.headers.get_mut(member) {
                    let own = info.valid;
                    info.rivals = valid.iter().copied().filter(|id| *id != own).collect();
                }
            }
        }
        for stack in &program.header_union_stacks {
            let elements = named(&stack.header_union_ids, &unions);
            let mut all: Vec<FieldId> = elements
                .iter()
                .flat_map(|union| self.groups.get(*union).cloned().unwrap_or_default())
                .collect();
            all.push(self.add(&stack.name, NEXT, 32, false, Role::Hidden));
            self.groups.insert(stack.name.clone(), all);
        }
    }

    fn group(&mut self, name: &str, headers: &[&str]) {
        let mut all: Vec<FieldId> = Vec::new();
        for header in headers {
            if let Some(header) = self.headers.get_mut(*header) {
                header.sent = true;
                all.extend(&header.fields);
            }
        }
        all.push(self.add(name, NEXT, 32, false, Role::Hidden));
        self.groups.insert(name.to_owned(), all);
    }

    pub fn id(&self, header: &str, field: &str) -> Option<FieldId> {
        self.ids.get(header)?.get(field).copied()
    }

    pub fn info(&self, id: FieldId) -> &FieldInfo {
        &self.fields[id as usize]
    }

    pub fn is_local(&self, id: FieldId) -> bool {
        self.info(id).role == Role::Local
    }

    pub fn value(&self, id: FieldId) -> Value {
        let info = self.info(id);
        Value::Field((info.header.clone(), info.name.clone()))
    }

    /// Returns the fields of the target's own headers.
    pub fn architecture(&self) -> impl Iterator<Item = FieldId> {
        (0..)
            .zip(&self.fields)
            .filter(|(_, info)| info.role == Role::Architecture)
            .map(|(id, _)| id)
    }

    fn collect(&self, value: &Value, out: &mut Vec<FieldId>) {
        let mut touched = super::effect::Touch::default();
        super::effect::read(self, value, &mut touched);
        out.extend(touched.fields);
    }
}

fn named<'a>(ids: &[u32], names: &HashMap<u32, &'a str>) -> Vec<&'a str> {
    ids.iter().filter_map(|id| names.get(id).copied()).collect()
}

/// Returns the metadata headers that are used in other ways than by reading and writing single fields.
fn opaque_headers(program: &Program) -> HashSet<&str> {
    let mut opaque: HashSet<&str> = ARCHITECTURE.iter().copied().collect();
    for (_, (header, _)) in &program.field_aliases {
        opaque.insert(header);
    }
    let by_id: HashMap<u32, &str> = program
        .headers
        .iter()
        .map(|header| (header.id, header.name.as_str()))
        .collect();
    let stacks = program.header_stacks.iter().map(|stack| &stack.header_ids);
    let unions = program.header_unions.iter().map(|union| &union.header_ids);
    for ids in stacks.chain(unions) {
        opaque.extend(named(ids, &by_id));
    }
    let metadata: HashMap<&str, &str> = program
        .headers
        .iter()
        .filter(|header| header.metadata)
        .map(|header| (header.name.as_str(), header.name.as_str()))
        .collect();
    super::walk::values(program, &mut |value| {
        if let Value::Header(name) | Value::Regular(name) = value
            && let Some(known) = metadata.get(name.as_str())
        {
            opaque.insert(known);
        }
    });
    opaque
}
