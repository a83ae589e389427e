//! Finds a P4Info's objects by name and by id, the objects that belong to them, and the types of their values.

use std::collections::HashMap;

use p4runtime_proto::p4::config::v1::match_field::{Match, MatchType};
use p4runtime_proto::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime_proto::p4::config::v1::{
    self as config, P4Info, P4NamedType, Preamble, p4_bitstring_like_type_spec,
};

use crate::bytestring::{canonical, parse_number};
use crate::value_type::{Format, ValueType};

/// A kind of object.
#[expect(missing_docs, reason = "P4Info's kinds")]
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
    /// The kind's name in messages.
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

/// A P4Info whose objects are found by name and by id.
#[derive(Clone, Debug, Default)]
pub struct P4InfoIndex {
    /// The P4Info itself.
    pub p4info: P4Info,
    /// Why there is no P4Info, if there is none. Each search by name then fails with this text.
    absence: Option<&'static str>,
    /// Maps the id of each object to its index in the list of its kind.
    by_id: HashMap<u32, usize>,
}

macro_rules! objects {
    ($($object:ident $list:ident $find:ident $by_id:ident $type:ident;)*) => {
        impl P4InfoIndex {
            /// Name, alias and id of every object of a kind.
            pub fn preambles(&self, object: Object) -> Vec<&Preamble> {
                match object {
                    $(Object::$object => {
                        self.p4info.$list.iter().filter_map(|it| it.preamble.as_ref()).collect()
                    })*
                }
            }

            $(
                /// Finds an object by name, unique suffix, alias or id.
                ///
                /// # Errors
                /// No object or several objects have the name; the message has suggestions.
                pub fn $find(&self, wanted: &str) -> Result<&config::$type, String> {
                    self.expect_names()?;
                    let all = || self.p4info.$list.iter().map(|it| (it, it.preamble.as_ref()));
                    find(Object::$object.noun(), wanted, all)
                }

                /// Finds an object by its id.
                pub fn $by_id(&self, id: u32) -> Option<&config::$type> {
                    let place = self.by_id.get(&id)?;
                    let found = self.p4info.$list.get(*place)?;
                    // If the id belongs to another kind of object, `found` has another id.
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

fn find<'p, T, I>(kind: &str, wanted: &str, all: impl Fn() -> I) -> Result<&'p T, String>
where
    I: Iterator<Item = (&'p T, Option<&'p Preamble>)>,
{
    let is_alias = |preamble: &Preamble| preamble.alias == wanted || preamble.name == wanted;
    if let Some((it, _)) = all().find(|(_, preamble)| preamble.is_some_and(is_alias)) {
        return Ok(it);
    }
    if let Some(id) = parse_number(wanted)
        && let Some((it, _)) = all().find(|(_, preamble)| u128::from(id_of(*preamble)) == id)
    {
        return Ok(it);
    }
    names::find(
        kind,
        wanted,
        all().map(|(it, preamble)| (it, name_of(preamble))),
    )
}

impl P4InfoIndex {
    /// Indexes a P4Info.
    pub fn new(p4info: P4Info) -> P4InfoIndex {
        P4InfoIndex {
            by_id: P4InfoIndex::places(&p4info),
            p4info,
            absence: None,
        }
    }

    /// Makes an index for a switch without P4Info: every search by name fails with `why`.
    pub fn absent(why: &'static str) -> P4InfoIndex {
        P4InfoIndex {
            absence: Some(why),
            ..P4InfoIndex::default()
        }
    }

    /// Checks that there is a P4Info.
    ///
    /// # Errors
    /// There is no P4Info.
    pub fn expect_names(&self) -> Result<(), String> {
        self.absence.map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// Returns the shortest name of an object, or the object's id if the P4Info lacks the object.
    pub fn short(&self, object: Object, id: u32) -> String {
        self.preamble(object, id)
            .map_or_else(|| format!("{id:#x}"), |it| alias(it).to_owned())
    }

    /// Returns the full name of an object, or the object's id if the P4Info lacks the object.
    pub fn full(&self, object: Object, id: u32) -> String {
        self.preamble(object, id)
            .map_or_else(|| format!("{id:#x}"), |it| it.name.clone())
    }

    /// The actions allowed in a table's default entry (`is_default`) or in its other entries.
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

    /// Returns the actions allowed in members of an action profile, which are the actions of the profile's tables.
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

    /// The direct counter of a table.
    pub fn direct_counter_of(&self, table_id: u32) -> Option<&config::DirectCounter> {
        let mut all = self.p4info.direct_counters.iter();
        all.find(|it| it.direct_table_id == table_id)
    }

    /// The direct meter of a table.
    pub fn direct_meter_of(&self, table_id: u32) -> Option<&config::DirectMeter> {
        let mut all = self.p4info.direct_meters.iter();
        all.find(|it| it.direct_table_id == table_id)
    }

    /// The type of a match field.
    pub fn field_type(&self, field: &config::MatchField) -> ValueType {
        let format = Format::of(field.bitwidth, &field.name, &field.annotations);
        self.of_type_name(format, field.type_name.as_ref())
    }

    /// The type of an action's parameter.
    pub fn param_type(&self, param: &config::action::Param) -> ValueType {
        let format = Format::of(param.bitwidth, &param.name, &param.annotations);
        self.of_type_name(format, param.type_name.as_ref())
    }

    /// The type of a field of a controller header.
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
                .map(|it| (it.name.clone(), canonical(&it.value)))
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

    /// The type of a bitstring in a register's cell or a digest's member; `name` is the name of the member or of the
    /// object.
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

    /// Names and types of the fields of a header.
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

/// The shortest name of an object.
pub fn alias(preamble: &Preamble) -> &str {
    match preamble.alias.as_str() {
        "" => &preamble.name,
        alias => alias,
    }
}

/// The full name of an object; empty without a preamble.
pub fn name_of(preamble: Option<&Preamble>) -> &str {
    preamble.map_or("", |preamble| preamble.name.as_str())
}

/// The id of an object; 0 without a preamble.
pub fn id_of(preamble: Option<&Preamble>) -> u32 {
    preamble.map_or(0, |preamble| preamble.id)
}

/// How a field is matched; `None` if the match kind is specific to a target.
pub fn match_type(field: &config::MatchField) -> Option<MatchType> {
    match field.r#match.as_ref()? {
        Match::MatchType(kind) => MatchType::try_from(*kind).ok(),
        Match::OtherMatchType(_) => None,
    }
}

/// Whether several entries of a table may match a packet, so that an entry needs a priority.
pub fn has_order(table: &config::Table) -> bool {
    let orders = |field: &config::MatchField| {
        matches!(
            match_type(field),
            Some(MatchType::Ternary | MatchType::Range | MatchType::Optional)
        )
    };
    table.match_fields.iter().any(orders)
}
