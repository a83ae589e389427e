//! P4 types as P4Info describes them.

use p4::p4_bitstring_like_type_spec::TypeSpec as Bits;
use p4::p4_data_type_spec::TypeSpec as Data;
use p4runtime_proto::p4::config::v1 as p4;

use super::p4info::{Writer, value_bytes};
use crate::ir::{StructKind, has_annotation};
use crate::lex::Tok;
use crate::syntax::ast::AnnotationBody;
use crate::types::Type;

fn bit_string(width: u32, signed: bool) -> p4::P4BitstringLikeTypeSpec {
    let bitwidth = width as i32;
    let spec = if signed {
        Bits::Int(p4::P4IntTypeSpec { bitwidth })
    } else {
        Bits::Bit(p4::P4BitTypeSpec { bitwidth })
    };
    p4::P4BitstringLikeTypeSpec {
        type_spec: Some(spec),
        ..Default::default()
    }
}

impl Writer<'_> {
    /// Returns P4Info's description of a type. A named type is also described in `type_info`, but only once.
    pub fn type_spec(&mut self, ty: &Type) -> p4::P4DataTypeSpec {
        let named = |name: &str| p4::P4NamedType {
            name: name.to_owned(),
        };
        let spec = match ty {
            Type::Bits { width, signed } => Data::Bitstring(bit_string(*width, *signed)),
            Type::Varbit(width) => {
                let spec = Bits::Varbit(p4::P4VarbitTypeSpec {
                    max_bitwidth: *width as i32,
                });
                Data::Bitstring(p4::P4BitstringLikeTypeSpec {
                    type_spec: Some(spec),
                    ..Default::default()
                })
            }
            Type::Bool => Data::Bool(p4::P4BoolType {}),
            Type::Error => {
                let members = self
                    .program
                    .errors
                    .iter()
                    .map(|name| name.to_string())
                    .collect();
                self.type_info().error = Some(p4::P4ErrorTypeSpec { members });
                Data::Error(p4::P4ErrorType {})
            }
            Type::Tuple(items) | Type::ListOf(items) => {
                let members = items.iter().map(|item| self.type_spec(item)).collect();
                Data::Tuple(p4::P4TupleTypeSpec { members })
            }
            Type::Enum(id) => self.enum_spec(*id),
            Type::Newtype(id) => {
                self.newtype_spec(*id);
                Data::NewType(named(&self.program.newtypes[*id].name))
            }
            Type::Struct(id) => self.struct_spec(*id),
            Type::Stack(element, size) => {
                let Data::Header(header) = self
                    .type_spec(element)
                    .type_spec
                    .unwrap_or(Data::Bool(p4::P4BoolType {}))
                else {
                    let header_union = Some(named(&self.program.type_name(element)));
                    let spec = p4::P4HeaderUnionStackTypeSpec {
                        header_union,
                        size: *size as i32,
                    };
                    return p4::P4DataTypeSpec {
                        type_spec: Some(Data::HeaderUnionStack(spec)),
                    };
                };
                Data::HeaderStack(p4::P4HeaderStackTypeSpec {
                    header: Some(header),
                    size: *size as i32,
                })
            }
            _ => return p4::P4DataTypeSpec::default(),
        };
        p4::P4DataTypeSpec {
            type_spec: Some(spec),
        }
    }

    fn enum_spec(&mut self, id: usize) -> Data {
        let decl = &self.program.enums[id];
        let name = decl.name.to_string();
        let (annotations, _) = self.annotations(&decl.annotations, &[]);
        match decl
            .underlying
            .as_ref()
            .and_then(|below| self.program.width(below))
        {
            None => {
                let member = |name: &str| p4::p4_enum_type_spec::Member {
                    name: name.to_owned(),
                    ..Default::default()
                };
                let members = decl.members.iter().map(|(name, _)| member(name)).collect();
                let spec = p4::P4EnumTypeSpec {
                    members,
                    annotations,
                    ..Default::default()
                };
                self.type_info().enums.insert(name.clone(), spec);
                Data::Enum(p4::P4NamedType { name })
            }
            Some(width) => {
                let members = decl.members.iter().map(|(name, value)| {
                    p4::p4_serializable_enum_type_spec::Member {
                        name: name.to_string(),
                        value: value_bytes(value, width),
                        ..Default::default()
                    }
                });
                let spec = p4::P4SerializableEnumTypeSpec {
                    underlying_type: Some(p4::P4BitTypeSpec {
                        bitwidth: width as i32,
                    }),
                    members: members.collect(),
                    annotations,
                    ..Default::default()
                };
                self.type_info()
                    .serializable_enums
                    .insert(name.clone(), spec);
                Data::SerializableEnum(p4::P4NamedType { name })
            }
        }
    }

    fn newtype_spec(&mut self, id: usize) {
        let decl = &self.program.newtypes[id];
        if self.type_info().new_types.contains_key(&*decl.name) {
            return;
        }
        let below = self.program.underlying(&decl.ty).clone();
        let original = self.type_spec(&below);
        let (annotations, structured_annotations) =
            self.annotations(&decl.annotations, &["p4runtime_translation"]);
        let representation = match self.translation(id) {
            Some(translated) => p4::p4_new_type_spec::Representation::TranslatedType(translated),
            None => p4::p4_new_type_spec::Representation::OriginalType(original),
        };
        let spec = p4::P4NewTypeSpec {
            annotations,
            structured_annotations,
            representation: Some(representation),
            ..Default::default()
        };
        self.type_info()
            .new_types
            .insert(decl.name.to_string(), spec);
    }

    /// Reads `@p4runtime_translation("uri", string | bit<W> | W)`; `None` if the type has no such annotation.
    fn translation(&self, id: usize) -> Option<p4::P4NewTypeTranslation> {
        let annotations = &self.program.newtypes[id].annotations;
        let found = annotations
            .iter()
            .find(|annotation| &*annotation.name == "p4runtime_translation")?;
        let AnnotationBody::Tokens(tokens) = &found.body else {
            return None;
        };
        let Some(Tok::Str(uri)) = tokens.first().map(|token| &token.tok) else {
            return None;
        };
        let width = tokens.iter().find_map(|token| match &token.tok {
            Tok::Int(value, _) => i32::try_from(value).ok(),
            _ => None,
        });
        let sdn_type = match width {
            Some(width) => p4::p4_new_type_translation::SdnType::SdnBitwidth(width),
            None => p4::p4_new_type_translation::SdnType::SdnString(
                p4::p4_new_type_translation::SdnString {},
            ),
        };
        Some(p4::P4NewTypeTranslation {
            uri: uri.to_string(),
            sdn_type: Some(sdn_type),
        })
    }

    /// Whether the control plane represents the type differently from the data plane.
    pub fn is_translated(&self, id: usize) -> bool {
        has_annotation(
            &self.program.newtypes[id].annotations,
            "p4runtime_translation",
        )
    }

    fn struct_spec(&mut self, id: usize) -> Data {
        let decl = &self.program.structs[id];
        let name = decl.name.to_string();
        let named = p4::P4NamedType { name: name.clone() };
        let (annotations, structured_annotations) = self.annotations(&decl.annotations, &[]);
        match decl.kind {
            StructKind::Struct => {
                let members = decl.fields.iter().map(|field| {
                    let type_spec = Some(self.type_spec(&field.ty));
                    p4::p4_struct_type_spec::Member {
                        name: field.name.to_string(),
                        type_spec,
                    }
                });
                let members = members.collect();
                let spec = p4::P4StructTypeSpec {
                    members,
                    annotations,
                    structured_annotations,
                    ..Default::default()
                };
                self.type_info().structs.insert(name, spec);
                Data::Struct(named)
            }
            StructKind::Header => {
                let members = decl.fields.iter().map(|field| {
                    let type_spec =
                        match self.type_spec(self.program.underlying(&field.ty)).type_spec {
                            Some(Data::Bitstring(bits)) => Some(bits),
                            _ => Some(bit_string(
                                self.program.width(&field.ty).unwrap_or(0),
                                false,
                            )),
                        };
                    p4::p4_header_type_spec::Member {
                        name: field.name.to_string(),
                        type_spec,
                    }
                });
                let members = members.collect();
                let spec = p4::P4HeaderTypeSpec {
                    members,
                    annotations,
                    structured_annotations,
                    ..Default::default()
                };
                self.type_info().headers.insert(name, spec);
                Data::Header(named)
            }
            StructKind::Union => {
                let members = decl.fields.iter().map(|field| {
                    self.type_spec(&field.ty);
                    let header = Some(p4::P4NamedType {
                        name: self.program.type_name(&field.ty),
                    });
                    p4::p4_header_union_type_spec::Member {
                        name: field.name.to_string(),
                        header,
                    }
                });
                let members = members.collect();
                let spec = p4::P4HeaderUnionTypeSpec {
                    members,
                    annotations,
                    structured_annotations,
                    ..Default::default()
                };
                self.type_info().header_unions.insert(name, spec);
                Data::HeaderUnion(named)
            }
        }
    }
}
