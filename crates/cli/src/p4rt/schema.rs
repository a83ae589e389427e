//! The program's P4Info by names and ids, and its types' values as text.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use conference::address::Mac;
use p4runtime_proto::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime_proto::p4::config::v1::{
    self as config, P4Info, P4NamedType, Preamble, p4_bitstring_like_type_spec,
};

use super::words::{Atom, quoted};
use crate::entries::file::{id_of, name_of};
use crate::entries::value::{self, Kind, Misfit, padded};

/// A message about a line: expected, found, next step.
pub type Parsed<T> = Result<T, String>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Object {
    Table,
    Action,
    ActionProfile,
    Counter,
    DirectCounter,
    Meter,
    DirectMeter,
    ValueSet,
    Register,
    Digest,
    PacketHeader,
}

impl Object {
    /// Its name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Object::Table => "table",
            Object::Action => "action",
            Object::ActionProfile => "action profile",
            Object::Counter => "counter",
            Object::DirectCounter => "direct counter",
            Object::Meter => "meter",
            Object::DirectMeter => "direct meter",
            Object::ValueSet => "value set",
            Object::Register => "register",
            Object::Digest => "digest",
            Object::PacketHeader => "controller header",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    Pipeline,
    /// The switch has a program that was set without P4Info.
    P4Info,
}

impl Lack {
    pub fn message(self) -> &'static str {
        match self {
            Lack::Pipeline => {
                "the switch has no pipeline yet: load one with `pipeline set PROGRAM.p4`"
            }
            Lack::P4Info => {
                "the switch has a program without P4Info, so nothing has a name: give its P4Info with --p4info FILE, or set a program that has one with `pipeline set PROGRAM.p4`"
            }
        }
    }
}

#[derive(Debug, Default)]
pub struct Schema {
    pub p4info: P4Info,
    pub lack: Option<Lack>,
    /// The file from which this shell loaded the program, if it did.
    pub file: Option<String>,
    /// Index of each object in the list of its kind.
    by_id: HashMap<u32, usize>,
}

macro_rules! objects {
    ($($object:ident $list:ident $find:ident $by_id:ident $type:ident;)*) => {
        impl Schema {
            pub fn preambles(&self, object: Object) -> Vec<&Preamble> {
                match object {
                    $(Object::$object => {
                        self.p4info.$list.iter().filter_map(|it| it.preamble.as_ref()).collect()
                    })*
                }
            }

            $(
                #[allow(dead_code, reason = "actions are found among those of a table")]
                /// Finds an object by name, unique suffix, alias or id.
                pub fn $find(&self, wanted: &str) -> Parsed<&config::$type> {
                    self.expect_names()?;
                    let all = || self.p4info.$list.iter().map(|it| (it, it.preamble.as_ref()));
                    find(Object::$object.noun(), wanted, all)
                }

                pub fn $by_id(&self, id: u32) -> Option<&config::$type> {
                    let place = self.by_id.get(&id)?;
                    let found = self.p4info.$list.get(*place)?;
                    // Ids are unique across kinds; objects of kinds that the shell does not know are not in the map.
                    (id_of(found.preamble.as_ref()) == id).then_some(found)
                }
            )*

            fn preamble(&self, object: Object, id: u32) -> Option<&Preamble> {
                match object {
                    $(Object::$object => self.$by_id(id)?.preamble.as_ref(),)*
                }
            }

            fn places(p4info: &P4Info) -> HashMap<u32, usize> {
                let mut places = HashMap::new();
                $(
                    let all = p4info.$list.iter().enumerate();
                    places.extend(all.map(|(place, it)| (id_of(it.preamble.as_ref()), place)));
                )*
                places
            }
        }
    };
}

objects! {
    Table tables table table_by_id Table;
    Action actions action action_by_id Action;
    ActionProfile action_profiles profile profile_by_id ActionProfile;
    Counter counters counter counter_by_id Counter;
    DirectCounter direct_counters direct_counter direct_counter_by_id DirectCounter;
    Meter meters meter meter_by_id Meter;
    DirectMeter direct_meters direct_meter direct_meter_by_id DirectMeter;
    ValueSet value_sets value_set value_set_by_id ValueSet;
    Register registers register register_by_id Register;
    Digest digests digest digest_by_id Digest;
    PacketHeader controller_packet_metadata packet_header packet_header_by_id ControllerPacketMetadata;
}

fn find<'p, T, I>(kind: &str, wanted: &str, all: impl Fn() -> I) -> Parsed<&'p T>
where
    I: Iterator<Item = (&'p T, Option<&'p Preamble>)>,
{
    let is_alias = |preamble: &Preamble| preamble.alias == wanted || preamble.name == wanted;
    if let Some((it, _)) = all().find(|(_, preamble)| preamble.is_some_and(is_alias)) {
        return Ok(it);
    }
    if let Some(id) = number(wanted)
        && let Some((it, _)) = all().find(|(_, preamble)| u128::from(id_of(*preamble)) == id)
    {
        return Ok(it);
    }
    stf::find_name(
        kind,
        wanted,
        all().map(|(it, preamble)| (it, name_of(preamble))),
    )
}

/// Finds a name among those of an owner. `kind` is `field of table "t"`, and messages say `field "f" of table "t"`.
pub fn find_of<'n, T: Copy>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = (T, &'n str)>,
) -> Parsed<T> {
    stf::find_name(kind, wanted, names).map_err(|message| match kind.split_once(" of ") {
        Some((what, owner)) => message.replacen(
            &format!("{kind} \"{wanted}\""),
            &format!("{what} \"{wanted}\" of {owner}"),
            1,
        ),
        None => message,
    })
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
pub fn number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

impl Schema {
    pub fn new(p4info: P4Info) -> Schema {
        Schema {
            by_id: Schema::places(&p4info),
            p4info,
            ..Schema::default()
        }
    }

    pub fn named(self, file: Option<String>) -> Schema {
        Schema { file, ..self }
    }

    /// For a switch without names.
    pub fn without(lack: Lack) -> Schema {
        Schema {
            lack: Some(lack),
            ..Schema::default()
        }
    }

    pub fn expect_names(&self) -> Parsed<()> {
        match self.lack {
            Some(lack) => Err(lack.message().to_owned()),
            None => Ok(()),
        }
    }

    /// The shortest name of an object; its id if the P4Info lacks it.
    pub fn short(&self, object: Object, id: u32) -> String {
        self.preamble(object, id)
            .map_or_else(|| format!("{id:#x}"), |it| alias(it).to_owned())
    }

    /// The full name of an object; its id if the P4Info lacks it.
    pub fn full(&self, object: Object, id: u32) -> String {
        self.preamble(object, id)
            .map_or_else(|| format!("{id:#x}"), |it| it.name.clone())
    }

    /// The actions allowed in a table's entries, or in its default entry.
    pub fn actions_of(&self, table: &config::Table, is_default: bool) -> Vec<&config::Action> {
        use config::action_ref::Scope;
        let elsewhere = if is_default {
            Scope::TableOnly
        } else {
            Scope::DefaultOnly
        };
        let refs = table
            .action_refs
            .iter()
            .filter(|it| it.scope() != elsewhere);
        refs.filter_map(|it| self.action_by_id(it.id)).collect()
    }

    /// The actions allowed in members of an action profile: those of its tables.
    pub fn actions_of_profile(&self, profile: &config::ActionProfile) -> Vec<&config::Action> {
        let mut actions: Vec<&config::Action> = Vec::new();
        for table in profile
            .table_ids
            .iter()
            .filter_map(|id| self.table_by_id(*id))
        {
            for action in self.actions_of(table, false) {
                if !actions.iter().any(|it| std::ptr::eq(*it, action)) {
                    actions.push(action);
                }
            }
        }
        actions
    }

    pub fn direct_counter_of(&self, table_id: u32) -> Option<&config::DirectCounter> {
        let mut all = self.p4info.direct_counters.iter();
        all.find(|it| it.direct_table_id == table_id)
    }

    pub fn direct_meter_of(&self, table_id: u32) -> Option<&config::DirectMeter> {
        let mut all = self.p4info.direct_meters.iter();
        all.find(|it| it.direct_table_id == table_id)
    }

    pub fn field_type(&self, field: &config::MatchField) -> ValueType {
        let format = Format::of(field.bitwidth, &field.name, &field.annotations);
        self.of_type_name(format, field.type_name.as_ref())
    }

    pub fn param_type(&self, param: &config::action::Param) -> ValueType {
        let format = Format::of(param.bitwidth, &param.name, &param.annotations);
        self.of_type_name(format, param.type_name.as_ref())
    }

    pub fn metadata_type(&self, field: &config::controller_packet_metadata::Metadata) -> ValueType {
        let format = Format::of(field.bitwidth, &field.name, &field.annotations);
        self.of_type_name(format, field.type_name.as_ref())
    }

    fn of_type_name(&self, format: Format, name: Option<&P4NamedType>) -> ValueType {
        let types = self.p4info.type_info.as_ref();
        let (Some(types), Some(name)) = (types, name.map(|it| it.name.as_str())) else {
            return ValueType {
                format,
                ..ValueType::default()
            };
        };
        let members = types.serializable_enums.get(name).map(|it| {
            let members = it.members.iter();
            members
                .map(|it| (it.name.clone(), value::canonical(&it.value)))
                .collect()
        });
        let new_type = types.new_types.get(name);
        let mapped = new_type.map(|it| mapped_names(&it.annotations));
        ValueType {
            format,
            members: members.unwrap_or_default(),
            names: mapped.unwrap_or_default(),
        }
    }

    /// The type of a bitstring in a register's cell or a digest's member; `name` is the member's or the object's.
    pub fn data_type(&self, spec: Option<&TypeSpec>, name: &str) -> ValueType {
        match spec {
            Some(TypeSpec::Bitstring(it)) => ValueType {
                format: Format::of_data(bits_of(it), name, &it.annotations),
                ..ValueType::default()
            },
            Some(TypeSpec::SerializableEnum(it)) => {
                let types = self.p4info.type_info.as_ref();
                let found = types.and_then(|types| types.serializable_enums.get(&it.name));
                let bits = found.and_then(|it| it.underlying_type.as_ref());
                let format = Format::of(bits.map_or(0, |it| it.bitwidth), name, &[]);
                self.of_type_name(format, Some(it))
            }
            Some(TypeSpec::NewType(it)) => self.new_type(it, name),
            _ => ValueType::default(),
        }
    }

    fn new_type(&self, named: &P4NamedType, name: &str) -> ValueType {
        use config::p4_new_type_spec::Representation;
        use config::p4_new_type_translation::SdnType;
        let types = self.p4info.type_info.as_ref();
        let found = types.and_then(|types| types.new_types.get(&named.name));
        let format = match found.and_then(|it| it.representation.as_ref()) {
            Some(Representation::OriginalType(it)) => {
                return self.data_type(it.type_spec.as_ref(), name);
            }
            Some(Representation::TranslatedType(it)) => match it.sdn_type {
                Some(SdnType::SdnBitwidth(bits)) => Format::of(bits, name, &[]),
                _ => Format::of(0, name, &[]),
            },
            None => Format::default(),
        };
        self.of_type_name(format, Some(named))
    }

    /// Names and types of the members of a struct or a tuple; a tuple's members have no names.
    pub fn members_of<'s>(
        &'s self,
        spec: Option<&'s TypeSpec>,
    ) -> Vec<(&'s str, Option<&'s TypeSpec>)> {
        let types = self.p4info.type_info.as_ref();
        match spec {
            Some(TypeSpec::Struct(it)) => {
                let found = types.and_then(|types| types.structs.get(&it.name));
                let members = found.map_or(&[][..], |it| it.members.as_slice()).iter();
                members
                    .map(|it| (it.name.as_str(), inner(it.type_spec.as_ref())))
                    .collect()
            }
            Some(TypeSpec::Tuple(it)) => {
                let members = it.members.iter();
                members.map(|it| ("", it.type_spec.as_ref())).collect()
            }
            _ => Vec::new(),
        }
    }

    pub fn header_fields(&self, name: &str) -> Vec<(&str, ValueType)> {
        let types = self.p4info.type_info.as_ref();
        let found = types.and_then(|types| types.headers.get(name));
        let members = found.map_or(&[][..], |it| it.members.as_slice()).iter();
        let field = |it: &config::p4_header_type_spec::Member| {
            let bits = it.type_spec.as_ref().map_or(0, bits_of);
            Format::of(bits, &it.name, &[])
        };
        members
            .map(|it| {
                let of_field = ValueType {
                    format: field(it),
                    ..ValueType::default()
                };
                (it.name.as_str(), of_field)
            })
            .collect()
    }
}

fn inner(spec: Option<&config::P4DataTypeSpec>) -> Option<&TypeSpec> {
    spec.and_then(|it| it.type_spec.as_ref())
}

fn bits_of(spec: &config::P4BitstringLikeTypeSpec) -> i32 {
    use p4_bitstring_like_type_spec::TypeSpec as Bits;
    match &spec.type_spec {
        Some(Bits::Bit(it)) => it.bitwidth,
        Some(Bits::Int(it)) => it.bitwidth,
        Some(Bits::Varbit(it)) => it.max_bitwidth,
        None => 0,
    }
}

/// The names in `@p4runtime_translation_mappings({{"name", number}, ...})`, which P4Info has as text.
fn mapped_names(annotations: &[String]) -> Vec<String> {
    let mappings = annotations
        .iter()
        .find(|it| it.starts_with("@p4runtime_translation_mappings"));
    let pieces = mappings.map_or("", String::as_str).split('"');
    // Every second piece is a quoted name.
    pieces.skip(1).step_by(2).map(str::to_owned).collect()
}

pub fn alias(preamble: &Preamble) -> &str {
    match preamble.alias.as_str() {
        "" => &preamble.name,
        alias => alias,
    }
}

/// Placeholder for a value that the switch does not reveal.
pub const SECRET: &str = "<secret>";

pub fn is_secret(annotations: &[String]) -> bool {
    annotations.iter().any(|it| it == "@secret")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    Decimal,
    Hex,
    Mac,
    Ipv4,
    /// If shorter than 128 bits, these are the leading bits, as in PINS.
    Ipv6,
}

/// The kind of a value, and how it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    pub kind: Kind,
    style: Style,
    /// The switch returns zeros for the value, which must not be written back.
    is_secret: bool,
}

impl Default for Format {
    fn default() -> Format {
        Format {
            kind: Kind::Bits(0),
            style: Style::Hex,
            is_secret: false,
        }
    }
}

const MAC_BITS: u32 = 48;
const IPV4_BITS: u32 = 32;
const IPV6_BITS: u32 = 128;

impl Format {
    /// By `@format(...)`, as in PINS' programs, otherwise by width and name.
    fn of(bitwidth: i32, name: &str, annotations: &[String]) -> Format {
        let kind = Kind::of_bitwidth(bitwidth);
        let is_secret = is_secret(annotations);
        let Kind::Bits(bits) = kind else {
            return Format {
                kind,
                style: Style::Decimal,
                is_secret,
            };
        };
        let annotated = annotations.iter().find_map(|it| {
            let inside = it.trim().strip_prefix("@format")?.trim();
            Some(inside.trim_matches(['(', ')', '"', ' ']))
        });
        let style = match (annotated, bits) {
            (Some("MAC_ADDRESS"), MAC_BITS) => Style::Mac,
            (Some("IPV4_ADDRESS"), IPV4_BITS) => Style::Ipv4,
            (Some("IPV6_ADDRESS"), 1..=IPV6_BITS) => Style::Ipv6,
            (Some("HEX_STRING"), _) => Style::Hex,
            _ => by_name(bits, name),
        };
        Format {
            kind,
            style,
            is_secret,
        }
    }

    /// For a register or a digest: 48 bits may be a time or an address, so only the name decides.
    fn of_data(bitwidth: i32, name: &str, annotations: &[String]) -> Format {
        let format = Format::of(bitwidth, name, annotations);
        let name = name.to_ascii_lowercase();
        let is_address = ["addr", "mac", "src", "dst"]
            .iter()
            .any(|part| name.contains(part));
        let is_annotated = annotations.iter().any(|it| it.starts_with("@format"));
        match format.style {
            Style::Mac if !is_address && !is_annotated => Format {
                style: Style::Decimal,
                ..format
            },
            _ => format,
        }
    }

    pub fn is_secret(self) -> bool {
        self.is_secret
    }

    pub fn bits(self) -> u32 {
        match self.kind {
            Kind::Bits(bits) => bits,
            Kind::Text => 0,
        }
    }

    pub fn text(self, bytes: &[u8]) -> String {
        if self.is_secret {
            return SECRET.to_owned();
        }
        let canonical = value::canonical(bytes);
        match (self.kind, self.style) {
            (Kind::Text, _) => match std::str::from_utf8(bytes) {
                Ok(text) => string_text(text),
                Err(_) => value::hex(bytes),
            },
            (Kind::Bits(0), _) | (_, Style::Hex) => value::short_hex(&canonical),
            (_, Style::Mac) => Mac(padded(&canonical)).to_string(),
            (_, Style::Ipv4) => Ipv4Addr::from(padded::<4>(&canonical)).to_string(),
            (Kind::Bits(bits), Style::Ipv6) => {
                let address = u128::from_be_bytes(padded(&canonical));
                let address = address.checked_shl(IPV6_BITS - bits).unwrap_or(0);
                Ipv6Addr::from(address).to_string()
            }
            (_, Style::Decimal) => conference::entities::number(&canonical)
                .map_or_else(|| value::short_hex(&canonical), |n| n.to_string()),
        }
    }

    pub fn example(self) -> &'static str {
        match (self.kind, self.style) {
            (Kind::Text, _) => "\"name\"",
            (_, Style::Mac) => "08:00:00:00:01:11",
            (_, Style::Ipv4) => "10.0.1.1",
            (_, Style::Ipv6) => "2001:db8::1",
            (_, Style::Hex) => "0x1f",
            (_, Style::Decimal) => "1",
        }
    }

    fn bytes(self, atom: &Atom) -> Parsed<Vec<u8>> {
        let text = atom.text.as_str();
        let bits = match self.kind {
            Kind::Text => return Ok(text.as_bytes().to_vec()),
            Kind::Bits(bits) => bits,
        };
        let expected = || match self.style {
            Style::Ipv6 if bits < IPV6_BITS => {
                format!(
                    "an IPv6 address like {}, or a number of {bits} bits",
                    self.example()
                )
            }
            _ => self.kind.expected(),
        };
        if atom.is_quoted {
            return Err(format!("expected {}, got {atom}", expected()));
        }
        if self.style == Style::Ipv6
            && bits < IPV6_BITS
            && let Ok(address) = text.parse::<Ipv6Addr>()
        {
            let rest = IPV6_BITS - bits;
            let address = u128::from(address);
            if address << bits != 0 {
                return Err(format!(
                    "expected an IPv6 address of which {bits} bits are used, the last {rest} of {text} are not 0"
                ));
            }
            return Ok(value::canonical(&(address >> rest).to_be_bytes()));
        }
        value::parsed(&text.replace('_', ""), bits).map_err(|misfit| match misfit {
            Misfit::Bits(needed) => {
                format!("expected a number of {bits} bits, got {text}, which has {needed} bits")
            }
            Misfit::NoValue => format!("expected {}, got \"{text}\"", expected()),
        })
    }
}

/// Quotes a text unless it is unambiguous.
fn string_text(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-/.:".contains(c);
    let is_plain = !text.is_empty()
        && text.chars().all(is_word)
        && !text.contains("->")
        && !text.contains("..")
        && !text.starts_with('-');
    if is_plain {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Addresses are recognised by width, those of 32 and 128 bits also by name; frame types are shown in hexadecimal.
fn by_name(bits: u32, name: &str) -> Style {
    let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let whole = name.to_ascii_lowercase();
    let is_address = ["addr", "ip"].iter().any(|part| whole.contains(part))
        || ["src", "dst"].contains(&last.as_str());
    match bits {
        MAC_BITS => Style::Mac,
        IPV4_BITS if is_address => Style::Ipv4,
        IPV6_BITS if is_address => Style::Ipv6,
        16 if last.contains("type") => Style::Hex,
        _ => Style::Decimal,
    }
}

#[derive(Clone, Debug, Default)]
pub struct ValueType {
    pub format: Format,
    /// Names and values of a serializable enum.
    pub members: Vec<(String, Vec<u8>)>,
    /// Names that the program maps for a translated type.
    pub names: Vec<String>,
}

impl ValueType {
    pub fn text(&self, bytes: &[u8]) -> String {
        let canonical = value::canonical(bytes);
        let named = self.members.iter().find(|(_, it)| *it == canonical);
        match named {
            Some((name, _)) if !self.format.is_secret => name.clone(),
            _ => self.format.text(bytes),
        }
    }

    pub fn bytes(&self, atom: &Atom) -> Parsed<Vec<u8>> {
        let mut members = self.members.iter();
        let named = members.find(|(name, _)| !atom.is_quoted && *name == atom.text);
        match named {
            Some((_, bytes)) => Ok(bytes.clone()),
            None => self.format.bytes(atom).map_err(|message| {
                if self.members.is_empty() {
                    return message;
                }
                let names = self.members.iter().map(|(name, _)| name.as_str());
                match p4_compiler::nearest(&atom.text, names.clone()) {
                    Some(near) => format!("{message}; did you mean {near}?"),
                    None => format!(
                        "{message}; or one of {}",
                        names.collect::<Vec<_>>().join(", ")
                    ),
                }
            }),
        }
    }

    pub fn all_names(&self) -> Vec<&str> {
        let members = self.members.iter().map(|(name, _)| name.as_str());
        members
            .chain(self.names.iter().map(String::as_str))
            .collect()
    }
}
