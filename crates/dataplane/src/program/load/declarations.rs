//! Header types and instances, stacks, unions, errors, field lists, digests.

use std::collections::HashMap;

use bmv2_json as json;

use super::{Context, Load, Loader, index_u32, metadata};
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
            if types
                .insert(&header_type.name, (index, header_type))
                .is_some()
            {
                return context.fail("declared twice");
            }
        }
        for header in &self.json.headers {
            let context = Context::new("header", &header.name);
            let (type_index, header_type) =
                context.find(&types, "header type", &header.header_type)?;
            self.header(&context, header, type_index, header_type)?;
        }
        Ok(())
    }

    fn header(
        &mut self,
        context: &Context,
        header: &'a json::Header,
        type_index: usize,
        header_type: &'a json::HeaderType,
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
        if self.names.headers.insert(&header.name, id).is_some() {
            return context.fail("declared twice");
        }
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
            let elements = self.headers_of(&context, &stack.header_ids)?;
            if elements.is_empty() {
                return context.fail("has no element");
            }
            let id = StackId(index_u32(self.ir.stacks.len()));
            self.ir.stacks.push(Stack { elements });
            if self.names.stacks.insert(&stack.name, id).is_some() {
                return context.fail("declared twice");
            }
        }
        let types: HashMap<&str, &'a json::HeaderUnionType> = self
            .json
            .header_union_types
            .iter()
            .map(|t| (t.name.as_str(), t))
            .collect();
        for union in &self.json.header_unions {
            self.union(union, &types)?;
        }
        for stack in &self.json.header_union_stacks {
            let context = Context::new("header union stack", &stack.name);
            let mut elements = Vec::new();
            for id in &stack.header_union_ids {
                let union = self.names.union_ids.get(id);
                elements.push(
                    *union.ok_or_else(|| context.error(format!("unknown header union id {id}")))?,
                );
            }
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
        let members = self.headers_of(&context, &union.header_ids)?;
        let union_type = context.find(types, "header union type", &union.union_type)?;
        if union_type.headers.len() != members.len() {
            return context.fail(format!(
                "its type has {} members, it has {}",
                union_type.headers.len(),
                members.len()
            ));
        }
        let id = UnionId(index_u32(self.ir.unions.len()));
        for member in &members {
            if let Some(header) = self.ir.headers.get_mut(member.index()) {
                header.union = Some(id);
            }
        }
        self.ir.unions.push(Union { members });
        self.names.unions.insert(&union.name, id);
        self.names.union_ids.insert(union.id, id);
        let names = union_type
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        self.names.union_members.insert(id, names);
        Ok(())
    }

    fn headers_of(&self, context: &Context, ids: &[u32]) -> Load<Vec<HeaderId>> {
        let mut headers: Vec<HeaderId> = Vec::new();
        for id in ids {
            let header = self.names.header_ids.get(id);
            headers.push(*header.ok_or_else(|| context.error(format!("unknown header id {id}")))?);
        }
        Ok(headers)
    }

    pub(super) fn standard_metadata(&mut self) -> Load {
        let mut aliases: HashMap<String, FieldId> = HashMap::new();
        for field_id in (0..index_u32(self.ir.fields.len())).map(FieldId) {
            aliases.insert(self.ir.fields[field_id.index()].name.clone(), field_id);
        }
        for (alias, (header, field)) in &self.json.field_aliases {
            let context = Context::new("field alias", alias);
            aliases.insert(alias.clone(), self.field(&context, header, field)?);
        }
        self.ir.metadata = metadata::resolve(self.ir.architecture, &aliases, &self.ir.fields)?;
        Ok(())
    }

    pub(super) fn errors(&mut self) {
        self.ir.errors.clone_from(&self.json.errors);
        let code = |name: &str, otherwise: u32| {
            self.json
                .errors
                .iter()
                .find(|(n, _)| n == name)
                .map_or(otherwise, |(_, code)| *code)
        };
        let errors = &mut self.ir.core_errors;
        errors.no_error = code("NoError", errors.no_error);
        errors.packet_too_short = code("PacketTooShort", errors.packet_too_short);
        errors.stack_out_of_bounds = code("StackOutOfBounds", errors.stack_out_of_bounds);
        errors.header_too_short = code("HeaderTooShort", errors.header_too_short);
        errors.parser_timeout = code("ParserTimeout", errors.parser_timeout);
        errors.parser_invalid_argument =
            code("ParserInvalidArgument", errors.parser_invalid_argument);
    }

    pub(super) fn field_lists(&mut self) -> Load {
        for list in &self.json.field_lists {
            let context = Context::new("field list", &format!("{} (id {})", list.name, list.id));
            let mut fields = Vec::new();
            for element in &list.elements {
                match element {
                    json::Value::Field((header, field)) => {
                        fields.push(self.field(&context, header, field)?);
                    }
                    // A constant keeps nothing.
                    json::Value::Hexstr(_) => {}
                    other => {
                        return context.fail(format!("expected a field, found {other:?}"));
                    }
                }
            }
            let id = FieldListId(index_u32(self.ir.field_lists.len()));
            self.ir.field_lists.push(FieldList { fields });
            if self.names.field_lists.insert(list.id, id).is_some() {
                return context.fail("declared twice");
            }
        }
        Ok(())
    }

    pub(super) fn digests(&mut self) -> Load {
        for list in &self.json.learn_lists {
            let context = Context::new("digest", &list.name);
            let mut fields = Vec::new();
            for element in &list.elements {
                let expr = self.number(&context, element)?;
                let bits = self.bits_of(&expr).unwrap_or(64);
                fields.push((expr, bits));
            }
            let id = DigestId(index_u32(self.ir.digests.len()));
            self.ir.digests.push(DigestList {
                name: list.name.clone(),
                fields,
            });
            if self.names.digests.insert(list.id, id).is_some() {
                return context.fail("declared twice");
            }
        }
        Ok(())
    }

    /// The width of what an expression reads, where it is a field.
    pub(super) fn bits_of(&self, expr: &Expr) -> Option<u32> {
        match expr {
            Expr::Field(field) => self.ir.fields.get(field.index()).map(|field| field.bits),
            Expr::ValidBit(_) => Some(1),
            Expr::LastField { stack, offset } => {
                let element = self.ir.stacks.get(stack.index())?.elements.first()?;
                self.field_bits(*element, *offset)
            }
            Expr::UnionLastField {
                stack,
                member,
                offset,
            } => {
                let union = self.ir.union_stacks.get(stack.index())?.elements.first()?;
                let header = self
                    .ir
                    .unions
                    .get(union.index())?
                    .members
                    .get(*member as usize)?;
                self.field_bits(*header, *offset)
            }
            Expr::Register { register, .. } => self
                .ir
                .registers
                .get(register.index())
                .map(|register| register.bits),
            _ => None,
        }
    }

    fn field_bits(&self, header: HeaderId, offset: u32) -> Option<u32> {
        let field = self.ir.headers.get(header.index())?.field_at(offset);
        self.ir.fields.get(field.index()).map(|field| field.bits)
    }

    /// A field by name.
    pub(super) fn field(&self, context: &Context, header: &str, field: &str) -> Load<FieldId> {
        let fields = self
            .names
            .fields
            .get(header)
            .ok_or_else(|| context.error(format!("unknown header \"{header}\"")))?;
        fields
            .get(field)
            .copied()
            .ok_or_else(|| context.error(format!("header \"{header}\" has no field \"{field}\"")))
    }
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
                check_field_width(context, &format!("field \"{}\"", field.name), bits)?;
            }
            json::FieldWidth::Variable => variable += 1,
        }
    }
    if variable > 1 {
        return context.fail(format!(
            "expected one varbit field at most, found {variable}"
        ));
    }
    if header_type.length_exp.is_some() {
        return context.fail("\"length_exp\" (P4_14) is not supported, use \"extract_VL\"");
    }
    Ok(())
}

pub(super) fn check_width(context: &Context, what: &str, bits: u32) -> Load {
    if bits == 0 {
        let max = limits::FIELD_BITS_MAX;
        return context.fail(format!("{what} has 0 bits, expected 1 to {max}"));
    }
    check_field_width(context, what, bits)
}

/// `bit<0>` is a type too, of fields and of parameters.
pub(super) fn check_field_width(context: &Context, what: &str, bits: u32) -> Load {
    if bits > limits::FIELD_BITS_MAX {
        return context.fail(format!(
            "{what} has {bits} bits, expected {} at most",
            limits::FIELD_BITS_MAX
        ));
    }
    Ok(())
}
