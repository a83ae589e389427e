//! Header types and instances, stacks, unions, errors, field lists, digests.

use std::collections::HashMap;

use bmv2_json as json;

use super::{At, Context, Load, Loader, index_u32, metadata};
use crate::{
    limits,
    program::ir::{
        DigestId, DigestList, Expr, Field, FieldId, FieldList, FieldListId, Header, HeaderId,
        Stack, StackId, Union, UnionId, UnionStack, UnionStackId,
    },
};

impl<'a> Loader<'a> {
    pub(super) fn header_types_and_instances(&mut self) -> Load {
        let mut types: HashMap<&str, (usize, &'a json::HeaderType)> = HashMap::new();
        for (index, header_type) in self.json.header_types.iter().enumerate() {
            let context = Context::new("header type", &header_type.name);
            check_header_type(&context, header_type)?;
            let name = header_type.name.as_str();
            context.declare(&mut types, name, (index, header_type))?;
        }
        for header in &self.json.headers {
            let context = Context::new("header", &header.name);
            let header_type = context.find(&types, "header type", &header.header_type)?;
            self.header(&context, header, header_type)?;
        }
        Ok(())
    }

    fn header(
        &mut self,
        context: &Context,
        header: &'a json::Header,
        (type_index, header_type): (usize, &'a json::HeaderType),
    ) -> Load {
        let id = HeaderId(index_u32(self.ir.headers.len()));
        let first = index_u32(self.ir.fields.len());
        let mut fixed_bits = 0;
        let mut variable_field = None;
        let mut names = HashMap::new();
        for field in &header_type.fields {
            let field_id = FieldId(index_u32(self.ir.fields.len()));
            let bits = match field.width {
                json::FieldWidth::Fixed(bits) => bits,
                json::FieldWidth::Variable => {
                    variable_field = Some(field_id);
                    0
                }
            };
            fixed_bits += bits;
            names.insert(field.name.as_str(), field_id);
            self.ir.fields.push(Field {
                name: format!("{}.{}", header.name, field.name),
                header: id,
                bits,
                signed: field.signed,
                variable: field.width == json::FieldWidth::Variable,
            });
        }
        if !header.metadata && fixed_bits % 8 != 0 {
            return context.fail(format!("expected a multiple of 8 bits, found {fixed_bits}"));
        }
        context.declare(&mut self.names.headers, &header.name, id)?;
        if self.names.header_ids.insert(header.id, id).is_some() {
            return context.fail(format!("id {} is another header's", header.id));
        }
        self.names.fields.insert(&header.name, names);
        self.ir.headers.push(Header {
            name: header.name.clone(),
            type_index,
            fields: first..index_u32(self.ir.fields.len()),
            metadata: header.metadata,
            fixed_bits,
            variable_field,
            max_bytes: header_type.max_length.unwrap_or(0),
            union: None,
        });
        Ok(())
    }

    pub(super) fn stacks_and_unions(&mut self) -> Load {
        for stack in &self.json.header_stacks {
            let context = Context::new("header stack", &stack.name);
            let headers = &self.names.header_ids;
            let elements = by_ids(&context, headers, "header", &stack.header_ids)?;
            if elements.is_empty() {
                return context.fail("has no element");
            }
            let id = StackId(index_u32(self.ir.stacks.len()));
            self.ir.stacks.push(Stack { elements });
            context.declare(&mut self.names.stacks, &stack.name, id)?;
        }
        let types = self.json.header_union_types.iter();
        let types = types.map(|it| (it.name.as_str(), it)).collect();
        for union in &self.json.header_unions {
            self.union(union, &types)?;
        }
        for stack in &self.json.header_union_stacks {
            let context = Context::new("header union stack", &stack.name);
            let unions = &self.names.union_ids;
            let elements = by_ids(&context, unions, "header union", &stack.header_union_ids)?;
            if elements.is_empty() {
                return context.fail("has no element");
            }
            let id = UnionStackId(index_u32(self.ir.union_stacks.len()));
            self.ir.union_stacks.push(UnionStack { elements });
            self.names.union_stacks.insert(&stack.name, id);
        }
        Ok(())
    }

    fn union(
        &mut self,
        union: &'a json::HeaderUnion,
        types: &HashMap<&str, &'a json::HeaderUnionType>,
    ) -> Load {
        let context = Context::new("header union", &union.name);
        let members = by_ids(
            &context,
            &self.names.header_ids,
            "header",
            &union.header_ids,
        )?;
        let union_type = context.find(types, "header union type", &union.union_type)?;
        let (expected, found) = (union_type.headers.len(), members.len());
        if found != expected {
            let name = &union.union_type;
            return context.fail(format!(
                "expected {expected} members, as its type \"{name}\" has, found {found}"
            ));
        }
        let id = UnionId(index_u32(self.ir.unions.len()));
        for member in &members {
            self.ir.headers[member.index()].union = Some(id);
        }
        self.ir.unions.push(Union { members });
        self.names.unions.insert(&union.name, id);
        self.names.union_ids.insert(union.id, id);
        let names = union_type.headers.iter().map(|(name, _)| name.as_str());
        self.names.union_members.insert(id, names.collect());
        Ok(())
    }

    pub(super) fn standard_metadata(&mut self) -> Load {
        let fields = self.ir.fields.iter().map(|field| field.name.clone());
        let mut aliases: HashMap<_, _> = fields.zip((0..).map(FieldId)).collect();
        for (alias, (header, field)) in &self.json.field_aliases {
            let context = Context::new("field alias", alias);
            aliases.insert(alias.clone(), self.at(&context).field(header, field)?);
        }
        self.ir.metadata = metadata::resolve(self.ir.architecture, &aliases, &self.ir.fields)?;
        Ok(())
    }

    pub(super) fn field_lists(&mut self) -> Load {
        for list in &self.json.field_lists {
            let context = Context::new("field list", &format!("{} (id {})", list.name, list.id));
            let mut fields = Vec::new();
            for element in &list.elements {
                match element {
                    json::Value::Field((header, field)) => {
                        fields.push(self.at(&context).field(header, field)?);
                    }
                    // A constant in a field list preserves nothing.
                    json::Value::Hexstr(_) => {}
                    other => return context.fail(format!("expected a field, found {other:?}")),
                }
            }
            let id = FieldListId(index_u32(self.ir.field_lists.len()));
            self.ir.field_lists.push(FieldList { fields });
            context.declare(&mut self.names.field_lists, list.id, id)?;
        }
        Ok(())
    }

    pub(super) fn digests(&mut self) -> Load {
        for list in &self.json.learn_lists {
            let context = Context::new("digest", &list.name);
            let fields = list.elements.iter().map(|element| {
                let expr = self.at(&context).number(element)?;
                let bits = self.bits_of(&expr).unwrap_or(64);
                Ok((expr, bits))
            });
            let fields = fields.collect::<Load<_>>()?;
            let id = DigestId(index_u32(self.ir.digests.len()));
            self.ir.digests.push(DigestList {
                name: list.name.clone(),
                fields,
            });
            context.declare(&mut self.names.digests, list.id, id)?;
        }
        Ok(())
    }

    /// Returns the width of what an expression reads, if the expression is a field, a validity bit or a register cell.
    pub(super) fn bits_of(&self, expr: &Expr) -> Option<u32> {
        let ir = &self.ir;
        let field_bits = |field: FieldId| ir.fields[field.index()].bits;
        Some(match expr {
            Expr::Field(field) => field_bits(*field),
            Expr::ValidBit(_) => 1,
            Expr::Access { header, offset } => {
                let example = ir.example_of(header);
                field_bits(ir.headers[example.index()].field_at(*offset))
            }
            Expr::Register { register, .. } => ir.registers[register.index()].bits,
            _ => return None,
        })
    }

    /// Whether an expression reads a signed field.
    pub(super) fn is_signed(&self, expr: &Expr) -> bool {
        let ir = &self.ir;
        match expr {
            Expr::Field(field) => ir.fields[field.index()].signed,
            Expr::Access { header, offset } => {
                let example = &ir.headers[ir.example_of(header).index()];
                ir.fields[example.field_at(*offset).index()].signed
            }
            _ => false,
        }
    }
}

impl At<'_, '_> {
    pub(super) fn field(&self, header: &str, field: &str) -> Load<FieldId> {
        let fields = self.loader.names.fields.get(header);
        let fields = fields.ok_or_else(|| self.error(format!("unknown header \"{header}\"")))?;
        let found = fields.get(field).copied();
        let error = || self.error(format!("header \"{header}\" has no field \"{field}\""));
        found.ok_or_else(error)
    }
}

fn by_ids<T: Copy>(
    context: &Context,
    names: &HashMap<u32, T>,
    kind: &str,
    ids: &[u32],
) -> Load<Vec<T>> {
    let ids = ids.iter();
    ids.map(|id| context.find_id(names, kind, *id)).collect()
}

fn check_header_type(context: &Context, header_type: &json::HeaderType) -> Load {
    let mut variable = 0;
    let mut names = std::collections::HashSet::new();
    for field in &header_type.fields {
        if !names.insert(&field.name) {
            return context.fail(format!("field \"{}\" is declared twice", field.name));
        }
        match field.width {
            json::FieldWidth::Fixed(0) if field.signed => {
                let name = &field.name;
                return context.fail(format!("field \"{name}\" is signed and has 0 bits"));
            }
            json::FieldWidth::Fixed(bits) => {
                context.check_field_width(&format!("field \"{}\"", field.name), bits)?;
            }
            json::FieldWidth::Variable => variable += 1,
        }
    }
    if variable > 1 {
        let expected = "expected one varbit field at most";
        return context.fail(format!("{expected}, found {variable}"));
    }
    if header_type.length_exp.is_some() {
        return context.fail("\"length_exp\" (P4_14) is not supported, use \"extract_VL\"");
    }
    Ok(())
}

impl Context {
    /// Refuses a width of 0 or above the limit.
    pub(super) fn check_width(&self, what: &str, bits: u32) -> Load {
        if bits == 0 {
            let max = limits::FIELD_BITS_MAX;
            return self.fail(format!("{what} has 0 bits, expected 1 to {max}"));
        }
        self.check_field_width(what, bits)
    }

    /// Refuses a width above the limit. Allows `bit<0>`, as P4 does.
    pub(super) fn check_field_width(&self, what: &str, bits: u32) -> Load {
        let max = limits::FIELD_BITS_MAX;
        if bits > max {
            return self.fail(format!("{what} has {bits} bits, expected {max} at most"));
        }
        Ok(())
    }
}
