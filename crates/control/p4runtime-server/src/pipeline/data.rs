//! Types of `P4Data` in a register's cell or a digest, and the conversion of such data to and from the data plane's
//! numbers.
//!
//! Source: P4Runtime 1.5.0, "Representation of Arbitrary P4 Types" and "Bytestrings".

use std::fmt;

use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::config::v1::p4_bitstring_like_type_spec::TypeSpec as BitsSpec;
use p4runtime_proto::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime_proto::p4::config::v1::p4_new_type_spec::Representation;
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::p4_data::Data;

use super::translation::{NewNames, Types, Values};
use crate::bytestring;
use crate::error::{EntityError, EntityResult};
use crate::limits::DATA_TYPE_DEPTH_MAX;

#[derive(Clone)]
pub(crate) enum DataType {
    Bits(u32),
    Int(u32),
    Bool,
    /// A serializable enum of type `bit<W>`.
    EnumValue(u32),
    /// A `type` with `@p4runtime_translation`: its name, and how its values are translated.
    Translated(String, Values),
    Struct(Vec<DataType>),
    Tuple(Vec<DataType>),
    /// A type that is not supported: its name.
    Other(String),
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(bits) => write!(f, "bit<{bits}>"),
            Self::Int(bits) => write!(f, "int<{bits}>"),
            Self::Bool => f.write_str("bool"),
            Self::EnumValue(bits) => write!(f, "enum bit<{bits}>"),
            Self::Struct(_) => f.write_str("struct"),
            Self::Tuple(_) => f.write_str("tuple"),
            Self::Translated(name, _) | Self::Other(name) => f.write_str(name),
        }
    }
}

impl DataType {
    /// The width in the data plane. `None` if a value of the type consists of several numbers in the data plane, or if
    /// the type is not supported.
    pub(crate) fn bits(&self) -> Option<u32> {
        match self {
            Self::Bits(bits) | Self::Int(bits) | Self::EnumValue(bits) => Some(*bits),
            Self::Bool => Some(1),
            Self::Translated(_, values) => Some(values.data_bits()),
            Self::Struct(_) | Self::Tuple(_) | Self::Other(_) => None,
        }
    }

    /// The name of the first unsupported type within this type; `None` if all are supported.
    pub(crate) fn unsupported(&self) -> Option<&str> {
        match self {
            Self::Other(name) => Some(name),
            Self::Struct(members) | Self::Tuple(members) => {
                members.iter().find_map(Self::unsupported)
            }
            _ => None,
        }
    }

    /// How many numbers a value of this type has in the data plane.
    pub(crate) fn n_numbers(&self) -> usize {
        match self {
            Self::Struct(members) | Self::Tuple(members) => {
                members.iter().map(Self::n_numbers).sum()
            }
            _ => 1,
        }
    }

    /// Converts `P4Data` that is a single number to the data plane's form.
    pub(crate) fn number(&self, data: &v1::P4Data, what: &str) -> EntityResult<Vec<u8>> {
        match (self, data.data.as_ref()) {
            (Self::Bits(bits), Some(Data::Bitstring(given))) => {
                bytestring::parse(given, *bits, what)
            }
            (Self::Int(bits), Some(Data::Bitstring(given))) => {
                bytestring::parse_signed(given, *bits, what)
            }
            (Self::EnumValue(bits), Some(Data::EnumValue(given))) => {
                bytestring::parse(given, *bits, what)
            }
            (Self::Translated(_, values), Some(Data::Bitstring(given))) => {
                values.to_data(given, NewNames::Bound, what)
            }
            (Self::Bool, Some(Data::Bool(value))) => Ok(vec![u8::from(*value)]),
            (_, None) => Err(EntityError::invalid(format!(
                "{what}: expected data of type {self}, found none"
            ))),
            (_, Some(_)) => Err(EntityError::invalid(format!(
                "{what}: expected data of type {self}, found another"
            ))),
        }
    }

    /// Converts the data plane's numbers, in order, to `P4Data`. `None` if there are too few.
    pub(crate) fn to_proto<'n>(
        &self,
        numbers: &mut impl Iterator<Item = &'n Vec<u8>>,
    ) -> Option<v1::P4Data> {
        let data = match self {
            Self::Struct(members) => Data::Struct(members_to_proto(members, numbers)?),
            Self::Tuple(members) => Data::Tuple(members_to_proto(members, numbers)?),
            Self::Bool => Data::Bool(!bytestring::is_zero(numbers.next()?)),
            Self::Int(bits) => Data::Bitstring(bytestring::signed(numbers.next()?, *bits)),
            Self::EnumValue(_) => Data::EnumValue(numbers.next()?.clone()),
            Self::Translated(_, values) => Data::Bitstring(values.to_controller(numbers.next()?)),
            Self::Bits(_) | Self::Other(_) => Data::Bitstring(numbers.next()?.clone()),
        };
        Some(v1::P4Data { data: Some(data) })
    }
}

fn members_to_proto<'n>(
    members: &[DataType],
    numbers: &mut impl Iterator<Item = &'n Vec<u8>>,
) -> Option<v1::P4StructLike> {
    let members = members.iter().map(|member| member.to_proto(numbers));
    let members = members.collect::<Option<_>>()?;
    Some(v1::P4StructLike { members })
}

/// Reads a type of the P4Info. `data_bits` is the width of a single number in the data plane, if known.
pub(super) fn data_type(
    p4info: &P4Info,
    spec: Option<&p4info::P4DataTypeSpec>,
    types: &mut Types<'_>,
    data_bits: Option<u32>,
) -> Result<DataType, String> {
    Reader {
        p4info,
        types,
        data_bits,
    }
    .read(spec, 0)
}

struct Reader<'a, 't, 'p> {
    p4info: &'a P4Info,
    types: &'t mut Types<'p>,
    data_bits: Option<u32>,
}

impl Reader<'_, '_, '_> {
    fn read(
        &mut self,
        spec: Option<&p4info::P4DataTypeSpec>,
        depth: usize,
    ) -> Result<DataType, String> {
        if depth > DATA_TYPE_DEPTH_MAX {
            return Err("its type refers to itself".into());
        }
        let spec = spec.and_then(|spec| spec.type_spec.as_ref());
        Ok(match spec.ok_or("expected a type, found none")? {
            TypeSpec::Bitstring(bits) => bits_type(bits),
            TypeSpec::Bool(_) => DataType::Bool,
            TypeSpec::Tuple(tuple) => {
                let members = tuple.members.iter();
                let members = members.map(|member| self.read(Some(member), depth + 1));
                DataType::Tuple(members.collect::<Result<_, _>>()?)
            }
            TypeSpec::Struct(named) => self.read_struct(&named.name, depth)?,
            TypeSpec::SerializableEnum(named) => self.read_enum(&named.name)?,
            TypeSpec::NewType(named) => self.read_new(named, depth)?,
            other => DataType::Other(type_name(other).into()),
        })
    }

    fn read_struct(&mut self, name: &str, depth: usize) -> Result<DataType, String> {
        let types = self.p4info.type_info.as_ref();
        let found = types.and_then(|types| types.structs.get(name));
        let found = found.ok_or_else(|| format!("no struct \"{name}\""))?;
        let members = found.members.iter();
        let members = members.map(|member| self.read(member.type_spec.as_ref(), depth + 1));
        Ok(DataType::Struct(members.collect::<Result<_, _>>()?))
    }

    fn read_enum(&self, name: &str) -> Result<DataType, String> {
        let types = self.p4info.type_info.as_ref();
        let found = types.and_then(|types| types.serializable_enums.get(name));
        let bits = found.and_then(|found| found.underlying_type.as_ref());
        let bits = bits.ok_or_else(|| format!("no serializable enum \"{name}\""))?;
        Ok(DataType::EnumValue(width(bits.bitwidth)))
    }

    fn read_new(&mut self, named: &p4info::P4NamedType, depth: usize) -> Result<DataType, String> {
        let name = &named.name;
        let types = self.p4info.type_info.as_ref();
        let found = types.and_then(|types| types.new_types.get(name));
        let found = found.ok_or_else(|| format!("no type \"{name}\""))?;
        match (&found.representation, self.data_bits) {
            (Some(Representation::OriginalType(original)), _) => {
                self.read(Some(original), depth + 1)
            }
            (Some(Representation::TranslatedType(_)), Some(data_bits)) => {
                let values = self.types.values_of(named, data_bits)?;
                Ok(DataType::Translated(name.clone(), values))
            }
            _ => Ok(DataType::Other(format!("translated type {name}"))),
        }
    }
}

fn width(bits: i32) -> u32 {
    u32::try_from(bits).unwrap_or(0)
}

fn bits_type(bits: &p4info::P4BitstringLikeTypeSpec) -> DataType {
    match &bits.type_spec {
        Some(BitsSpec::Bit(bit)) => DataType::Bits(width(bit.bitwidth)),
        Some(BitsSpec::Int(int)) => DataType::Int(width(int.bitwidth)),
        Some(BitsSpec::Varbit(varbit)) => {
            DataType::Other(format!("varbit<{}>", varbit.max_bitwidth))
        }
        None => DataType::Other("bit string without a type".into()),
    }
}

fn type_name(spec: &TypeSpec) -> &'static str {
    match spec {
        TypeSpec::Header(_) => "header",
        TypeSpec::HeaderUnion(_) => "header union",
        TypeSpec::HeaderStack(_) => "header stack",
        TypeSpec::HeaderUnionStack(_) => "header union stack",
        TypeSpec::Enum(_) => "enum",
        TypeSpec::Error(_) => "error",
        TypeSpec::Bitstring(_)
        | TypeSpec::Bool(_)
        | TypeSpec::Tuple(_)
        | TypeSpec::Struct(_)
        | TypeSpec::SerializableEnum(_)
        | TypeSpec::NewType(_) => "type",
    }
}
