//! Prints each entity as a line: the shell command that writes the entity to a switch. Parts that cannot be written
//! follow as a comment: counts, the time since the last hit, and the word `const` for a const entry.

use p4runtime_client::bytestring::{hex, number, short_hex};
use p4runtime_client::{Object, SECRET, ValueType, entities, is_secret};
use p4runtime_proto::p4::config::v1::{self as config, p4_data_type_spec::TypeSpec};
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{
    Action, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember, CloneSessionEntry,
    CounterData, CounterEntry, DigestEntry, DirectCounterEntry, DirectMeterEntry, Entity,
    FieldMatch, Index, MeterConfig, MeterCounterData, MeterEntry, MulticastGroupEntry, P4Data,
    RegisterEntry, Replica, TableAction, TableEntry, ValueSetEntry, action_profile_action,
    action_profile_group, entity, field_match, p4_data, replica, table_action,
};

use super::schema::Schema;
use super::words::name_text;

/// Names of an entry's attributes, which are not key fields.
pub const ATTRIBUTES: &[&str] = &["priority", "timeout", "metadata"];

/// Prefix that is put before the name of a key field if an attribute has the same name.
pub const KEY_PREFIX: &str = "key.";

struct Line {
    words: Vec<String>,
    notes: Vec<String>,
    /// Whether the line is only a comment, because a controller cannot write the entity.
    is_comment: bool,
}

impl Line {
    fn of<const N: usize>(words: [String; N]) -> Line {
        Line {
            words: words.into(),
            notes: Vec::new(),
            is_comment: false,
        }
    }

    fn text(self) -> String {
        let mut text = self.words.join(" ");
        if self.is_comment {
            text.insert_str(0, "# ");
        }
        if !self.notes.is_empty() {
            text.push_str("  # ");
            text.push_str(&self.notes.join(", "));
        }
        text
    }
}

/// The shell command that writes an entity to a switch, as one line.
pub fn line(schema: &Schema, entity: &Entity) -> String {
    use entity::Entity as E;
    let line = match entity.entity.as_ref() {
        Some(E::TableEntry(it)) => table_entry(schema, it),
        Some(E::ActionProfileMember(it)) => member(schema, it),
        Some(E::ActionProfileGroup(it)) => group(schema, it),
        Some(E::CounterEntry(it)) => counter(schema, it),
        Some(E::DirectCounterEntry(it)) => direct_counter(schema, it),
        Some(E::MeterEntry(it)) => meter(schema, it),
        Some(E::DirectMeterEntry(it)) => direct_meter(schema, it),
        Some(E::RegisterEntry(it)) => register(schema, it),
        Some(E::ValueSetEntry(it)) => value_set(schema, it),
        Some(E::DigestEntry(it)) => digest(schema, it),
        Some(E::PacketReplicationEngineEntry(it)) => match it.r#type.as_ref() {
            Some(PreType::MulticastGroupEntry(it)) => multicast_group(it),
            Some(PreType::CloneSessionEntry(it)) => clone_session(it),
            None => unknown("an empty replication entry"),
        },
        Some(E::ExternEntry(it)) => unknown(&format!(
            "extern entry {:#x} of type {:#x}",
            it.extern_id, it.extern_type_id
        )),
        None => unknown("an empty entity"),
    };
    line.text()
}

fn unknown(what: &str) -> Line {
    Line {
        is_comment: true,
        ..Line::of([what.to_owned()])
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn named(words_before: &str, schema: &Schema, object: Object, id: u32) -> Line {
    let mut all = words(words_before);
    all.push(name_text(&schema.short(object, id)));
    Line {
        words: all,
        notes: Vec::new(),
        is_comment: false,
    }
}

fn table_entry(schema: &Schema, entry: &TableEntry) -> Line {
    let verb = if entry.is_default_action {
        "table default"
    } else {
        "table add"
    };
    let mut line = named(verb, schema, Object::Table, entry.table_id);
    line.words.extend(key(schema, entry));
    if let Some(config) = &entry.meter_config {
        line.words
            .push(format!("meter({})", rates(config).join(", ")));
    }
    if let Some(action) = &entry.action {
        line.words.push("->".to_owned());
        line.words.extend(table_action(schema, action));
    }
    let table = schema.table_by_id(entry.table_id);
    // A table with an action profile has no default action that could be written.
    let is_fixed =
        |table: &config::Table| table.const_default_action_id != 0 || table.implementation_id != 0;
    let is_const_default = entry.is_default_action && table.is_some_and(is_fixed);
    if entry.is_const || is_const_default || table.is_some_and(|table| table.is_const_table) {
        line.is_comment = true;
        line.notes.push("const".to_owned());
    }
    if let Some(data) = &entry.counter_data {
        let spec = schema.direct_counter_of(entry.table_id);
        line.notes
            .push(count(data, spec.and_then(|it| it.spec.as_ref())));
    }
    line.notes
        .extend(colours(entry.meter_counter_data.as_ref()));
    if let Some(hit) = &entry.time_since_last_hit {
        line.notes
            .push(format!("idle for {}", coarse(hit.elapsed_ns)));
    }
    line
}

/// The words for an entry's key fields, priority, idle timeout and metadata.
pub fn key(schema: &Schema, entry: &TableEntry) -> Vec<String> {
    let table = schema.table_by_id(entry.table_id);
    let fields = table.map_or(&[][..], |table| table.match_fields.as_slice());
    let mut words = matches(schema, fields, &entry.r#match);
    if !entry.is_default_action {
        words.extend(omitted(fields, &entry.r#match));
    }
    if entry.priority != 0 {
        words.push(format!("priority={}", entry.priority));
    }
    if entry.idle_timeout_ns != 0 {
        words.push(format!("timeout={}", duration(entry.idle_timeout_ns)));
    }
    if !entry.metadata.is_empty() {
        words.push(format!("metadata={}", hex(&entry.metadata)));
    }
    words
}

/// Returns the words for secret fields that the switch omits. With these words the printed line fails if it is run as a
/// command. Without them it would create an entry that matches any value of these fields.
fn omitted(fields: &[config::MatchField], found: &[FieldMatch]) -> Vec<String> {
    let is_omitted = |field: &&config::MatchField| {
        is_secret(&field.annotations) && !found.iter().any(|it| it.field_id == field.id)
    };
    let omitted = fields.iter().filter(is_omitted);
    let named = omitted.map(|field| match short_field(fields, field).as_str() {
        "" => SECRET.to_owned(),
        name => format!("{}={SECRET}", name_text(name)),
    });
    named.collect()
}

/// Returns the words for the key fields, in the order of the table's fields, which may differ from the order in the
/// message.
fn matches(schema: &Schema, fields: &[config::MatchField], found: &[FieldMatch]) -> Vec<String> {
    let of_field = |field: &config::MatchField| {
        let found = found.iter().find(|it| it.field_id == field.id)?;
        let text = match_text(&schema.field_type(field), found);
        Some(match short_field(fields, field).as_str() {
            "" => text,
            name => format!("{}={text}", name_text(name)),
        })
    };
    let mut words: Vec<String> = fields.iter().filter_map(of_field).collect();
    let unknown = found
        .iter()
        .filter(|it| !fields.iter().any(|field| field.id == it.field_id));
    words.extend(unknown.map(|it| {
        let text = match_text(&ValueType::default(), it);
        format!("{:#x}={text}", it.field_id)
    }));
    words
}

/// Returns the shortest unique suffix of a field's name. If an attribute has this name, puts `KEY_PREFIX` before it.
pub fn short_field(fields: &[config::MatchField], field: &config::MatchField) -> String {
    let all = || fields.iter().map(|it| it.name.as_str());
    let short = short_name(&field.name, all);
    if ATTRIBUTES.contains(&short) {
        format!("{KEY_PREFIX}{short}")
    } else {
        short.to_owned()
    }
}

/// The shortest suffix of a name, after a dot, that no other name has.
pub fn short_name<'n, I: Iterator<Item = &'n str>>(name: &'n str, all: impl Fn() -> I) -> &'n str {
    let ends = name.rmatch_indices('.').map(|(at, _)| &name[at + 1..]);
    let is_unique = |end: &&str| {
        let has_end = |other: &&str| {
            other
                .strip_suffix(*end)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        !end.is_empty() && all().filter(has_end).count() == 1
    };
    ends.into_iter().find(is_unique).unwrap_or(name)
}

pub fn match_text(ty: &ValueType, found: &FieldMatch) -> String {
    use field_match::FieldMatchType as T;
    if ty.format.is_secret() {
        return SECRET.to_owned();
    }
    match found.field_match_type.as_ref() {
        Some(T::Exact(it)) => ty.text(&it.value),
        Some(T::Optional(it)) => ty.text(&it.value),
        Some(T::Lpm(it)) => format!("{}/{}", ty.text(&it.value), it.prefix_len),
        Some(T::Ternary(it)) => {
            // A masked value is never printed as a name, since the mask may leave out some of the value's bits.
            format!(
                "{}&&&{}",
                ty.format.text(&it.value),
                mask_text(ty, &it.mask)
            )
        }
        Some(T::Range(it)) => format!("{}..{}", ty.format.text(&it.low), ty.format.text(&it.high)),
        Some(T::Other(_)) | None => "*".to_owned(),
    }
}

fn mask_text(ty: &ValueType, mask: &[u8]) -> String {
    match ty.format.text(mask) {
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => short_hex(mask),
        text => text,
    }
}

fn table_action(schema: &Schema, action: &TableAction) -> Vec<String> {
    use table_action::Type as T;
    match action.r#type.as_ref() {
        Some(T::Action(it)) => vec![call(schema, it)],
        Some(T::ActionProfileMemberId(id)) => vec![format!("member={id}")],
        Some(T::ActionProfileGroupId(id)) => vec![format!("group={id}")],
        Some(T::ActionProfileActionSet(it)) => one_shot(schema, it),
        None => Vec::new(),
    }
}

/// The names of P4Runtime's action selection modes and size semantics, by number. Number 0 leaves the choice to the
/// program's action selector, and is not printed.
pub const MODES: &[&str] = &["", "hash", "random"];
pub const SIZES: &[&str] = &["", "sum_of_weights", "sum_of_members"];

fn one_shot(schema: &Schema, set: &ActionProfileActionSet) -> Vec<String> {
    let members = set.action_profile_actions.iter().map(|it| {
        let mut words: Vec<String> = it.action.iter().map(|it| call(schema, it)).collect();
        words.push(format!("weight={}", it.weight));
        let port = it.watch_kind.as_ref().map(watched_by_action);
        words.extend(port.map(|port| format!("watch={port}")));
        words.join(" ")
    });
    let mut words = vec![format!("{{{}}}", members.collect::<Vec<_>>().join(", "))];
    let chosen = |names: &[&'static str], number: i32| {
        let name = usize::try_from(number)
            .ok()
            .and_then(|it| names.get(it).copied());
        name.filter(|name| !name.is_empty())
    };
    words.extend(chosen(MODES, set.action_selection_mode).map(|it| format!("selection={it}")));
    words.extend(chosen(SIZES, set.size_semantics).map(|it| format!("size={it}")));
    words
}

/// An action with its parameters: `forward(dst=08:00:00:00:01:11, port=2)`.
pub fn call(schema: &Schema, action: &Action) -> String {
    let name = name_text(&schema.short(Object::Action, action.action_id));
    let params = schema
        .action_by_id(action.action_id)
        .map_or(&[][..], |it| it.params.as_slice());
    let known = params.iter().filter_map(|param| {
        let found = action.params.iter().find(|it| it.param_id == param.id)?;
        let text = schema.param_type(param).text(&found.value);
        Some(format!("{}={text}", name_text(&param.name)))
    });
    let unknown = action
        .params
        .iter()
        .filter(|it| !params.iter().any(|param| param.id == it.param_id))
        .map(|it| format!("{:#x}={}", it.param_id, hex(&it.value)));
    let all: Vec<String> = known.chain(unknown).collect();
    match all.as_slice() {
        [] => name,
        all => format!("{name}({})", all.join(", ")),
    }
}

fn member(schema: &Schema, member: &ActionProfileMember) -> Line {
    let mut line = named(
        "member add",
        schema,
        Object::ActionProfile,
        member.action_profile_id,
    );
    line.words.push(member.member_id.to_string());
    if let Some(action) = &member.action {
        line.words.extend(["->".to_owned(), call(schema, action)]);
    }
    line
}

fn group(schema: &Schema, group: &ActionProfileGroup) -> Line {
    let mut line = named(
        "group add",
        schema,
        Object::ActionProfile,
        group.action_profile_id,
    );
    line.words.push(group.group_id.to_string());
    let members = group.members.iter().map(|it| {
        let mut text = it.member_id.to_string();
        if it.weight != 1 {
            text.push_str(&format!(" weight={}", it.weight));
        }
        if let Some(port) = it.watch_kind.as_ref().map(watched_by_member) {
            text.push_str(&format!(" watch={port}"));
        }
        text
    });
    let members: Vec<String> = members.collect();
    line.words.push(format!("{{{}}}", members.join(", ")));
    if group.max_size != 0 {
        line.words.push(format!("max_size={}", group.max_size));
    }
    line
}

/// A cell's index, or `*` for all cells.
pub fn cell(index: Option<&Index>) -> String {
    index.map_or("*".to_owned(), |it| it.index.to_string())
}

fn counts(data: &CounterData, spec: Option<&config::CounterSpec>) -> Vec<String> {
    use config::counter_spec::Unit;
    let unit = spec.map_or(Unit::Both, config::CounterSpec::unit);
    let packets = (unit != Unit::Bytes).then(|| format!("packets={}", data.packet_count));
    let bytes = (unit != Unit::Packets).then(|| format!("bytes={}", data.byte_count));
    packets.into_iter().chain(bytes).collect()
}

fn counter(schema: &Schema, entry: &CounterEntry) -> Line {
    let mut line = named("counter set", schema, Object::Counter, entry.counter_id);
    line.words.push(cell(entry.index.as_ref()));
    let counter = schema.counter_by_id(entry.counter_id);
    let data = entry.data.unwrap_or_default();
    let spec = counter.and_then(|it| it.spec.as_ref());
    line.words.extend(counts(&data, spec));
    line
}

fn of_entry(
    verb: &str,
    schema: &Schema,
    object: Object,
    id: Option<u32>,
    entry: &TableEntry,
) -> Line {
    let mut line = match id {
        Some(id) => named(verb, schema, object, id),
        None => named(verb, schema, Object::Table, entry.table_id),
    };
    // The command for a direct counter names the entry only by its key; the entry's other parts are left out.
    let only_key = entities::key_of(entry.clone());
    line.words.extend(key(schema, &only_key));
    if entry.is_default_action {
        line.is_comment = true;
        line.notes.push("default entry".to_owned());
    }
    line
}

fn direct_counter(schema: &Schema, entry: &DirectCounterEntry) -> Line {
    let of = entry.table_entry.clone().unwrap_or_default();
    let counter = schema.direct_counter_of(of.table_id);
    let id = counter.and_then(|it| it.preamble.as_ref()).map(|it| it.id);
    let mut line = of_entry("counter set", schema, Object::DirectCounter, id, &of);
    let data = entry.data.unwrap_or_default();
    line.words
        .extend(counts(&data, counter.and_then(|it| it.spec.as_ref())));
    line
}

fn rates(config: &MeterConfig) -> Vec<String> {
    let mut all = vec![
        format!("cir={}", config.cir),
        format!("cburst={}", config.cburst),
        format!("pir={}", config.pir),
        format!("pburst={}", config.pburst),
    ];
    if config.eburst != 0 {
        all.push(format!("eburst={}", config.eburst));
    }
    all
}

/// A meter without rates is printed as a reset.
fn meter_line(
    mut words: Vec<String>,
    rest: Vec<String>,
    config: Option<&MeterConfig>,
) -> Vec<String> {
    words.push(if config.is_some() { "set" } else { "reset" }.to_owned());
    words.extend(rest);
    words.extend(config.map(rates).unwrap_or_default());
    words
}

fn meter(schema: &Schema, entry: &MeterEntry) -> Line {
    let name = name_text(&schema.short(Object::Meter, entry.meter_id));
    let rest = vec![name, cell(entry.index.as_ref())];
    Line {
        words: meter_line(words("meter"), rest, entry.config.as_ref()),
        notes: colours(entry.counter_data.as_ref()).into_iter().collect(),
        is_comment: false,
    }
}

fn direct_meter(schema: &Schema, entry: &DirectMeterEntry) -> Line {
    let of = entry.table_entry.clone().unwrap_or_default();
    let meter = schema.direct_meter_of(of.table_id);
    let id = meter.and_then(|it| it.preamble.as_ref()).map(|it| it.id);
    let Line {
        words: rest,
        notes,
        is_comment,
    } = of_entry("", schema, Object::DirectMeter, id, &of);
    let rest = rest.into_iter().skip(1).collect();
    Line {
        words: meter_line(words("meter"), rest, entry.config.as_ref()),
        notes: notes
            .into_iter()
            .chain(colours(entry.counter_data.as_ref()))
            .collect(),
        is_comment,
    }
}

fn count(data: &CounterData, spec: Option<&config::CounterSpec>) -> String {
    use config::counter_spec::Unit;
    match spec.map_or(Unit::Both, config::CounterSpec::unit) {
        Unit::Packets => format!("{} packets", data.packet_count),
        Unit::Bytes => format!("{} bytes", data.byte_count),
        _ => format!("{} packets {} bytes", data.packet_count, data.byte_count),
    }
}

fn colours(data: Option<&MeterCounterData>) -> Option<String> {
    let data = data?;
    let colours = [
        ("green", data.green.as_ref()),
        ("yellow", data.yellow.as_ref()),
        ("red", data.red.as_ref()),
    ];
    let counted = colours.into_iter().filter_map(|(name, data)| {
        let data = data?;
        let is_any = data.packet_count != 0 || data.byte_count != 0;
        is_any.then(|| format!("{name} {}", count(data, None)))
    });
    let counted: Vec<String> = counted.collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}

fn register(schema: &Schema, entry: &RegisterEntry) -> Line {
    let mut line = named("register set", schema, Object::Register, entry.register_id);
    line.words.push(cell(entry.index.as_ref()));
    let found = schema.register_by_id(entry.register_id);
    let spec = found.and_then(|it| it.type_spec.as_ref()?.type_spec.as_ref());
    let name = schema.short(Object::Register, entry.register_id);
    let preamble = found.and_then(|it| it.preamble.as_ref());
    match &entry.data {
        Some(_) if preamble.is_some_and(|it| is_secret(&it.annotations)) => {
            line.words.push(SECRET.to_owned());
        }
        Some(value) => line.words.push(data(schema, value, spec, &name)),
        None => {}
    }
    line
}

pub fn data(schema: &Schema, value: &P4Data, spec: Option<&TypeSpec>, name: &str) -> String {
    use p4_data::Data;
    let list = |items: Vec<String>| format!("{{{}}}", items.join(", "));
    match value.data.as_ref() {
        Some(Data::Bitstring(it) | Data::EnumValue(it)) => schema.data_type(spec, name).text(it),
        Some(Data::Bool(it)) => it.to_string(),
        Some(Data::Enum(it) | Data::Error(it)) => name_text(it),
        Some(Data::Struct(it) | Data::Tuple(it)) => {
            let members = schema.members_of(spec);
            let member = |(idx, value): (usize, &P4Data)| {
                let (name, spec) = members.get(idx).copied().unwrap_or_default();
                let text = data(schema, value, spec, name);
                match name {
                    "" => text,
                    name => format!("{}={text}", name_text(name)),
                }
            };
            list(it.members.iter().enumerate().map(member).collect())
        }
        Some(Data::Header(it)) => header(schema, it, spec),
        Some(Data::HeaderUnion(it)) => match &it.valid_header {
            Some(header_) => list(vec![format!(
                "{}={}",
                name_text(&it.valid_header_name),
                header(schema, header_, None)
            )]),
            None => "invalid".to_owned(),
        },
        Some(Data::HeaderStack(it)) => list(
            it.entries
                .iter()
                .map(|it| header(schema, it, None))
                .collect(),
        ),
        Some(Data::HeaderUnionStack(it)) => {
            let unions = it.entries.iter().map(|it| it.valid_header_name.clone());
            list(unions.collect())
        }
        Some(Data::Varbit(it)) => format!("{}:{}", hex(&it.bitstring), it.bitwidth),
        None => "{}".to_owned(),
    }
}

fn header(
    schema: &Schema,
    header: &p4runtime_proto::p4::v1::P4Header,
    spec: Option<&TypeSpec>,
) -> String {
    if !header.is_valid {
        return "invalid".to_owned();
    }
    let fields = match spec {
        Some(TypeSpec::Header(it)) => schema.header_fields(&it.name),
        _ => Vec::new(),
    };
    let field = |(idx, bytes): (usize, &Vec<u8>)| match fields.get(idx) {
        Some((name, ty)) => format!("{}={}", name_text(name), ty.text(bytes)),
        None => hex(bytes),
    };
    let fields: Vec<String> = header.bitstrings.iter().enumerate().map(field).collect();
    format!("{{{}}}", fields.join(", "))
}

fn value_set(schema: &Schema, entry: &ValueSetEntry) -> Line {
    let mut line = named("valueset set", schema, Object::ValueSet, entry.value_set_id);
    let found = schema.value_set_by_id(entry.value_set_id);
    let fields = found.map_or(&[][..], |it| it.r#match.as_slice());
    let members = entry.members.iter();
    let members = members.map(|it| matches(schema, fields, &it.r#match).join(" "));
    let members: Vec<String> = members.collect();
    line.words.push(format!("{{{}}}", members.join(", ")));
    line
}

fn digest(schema: &Schema, entry: &DigestEntry) -> Line {
    let mut line = named("digest add", schema, Object::Digest, entry.digest_id);
    if let Some(config) = &entry.config {
        line.words.extend([
            format!("list={}", config.max_list_size),
            format!("timeout={}", duration(config.max_timeout_ns)),
            format!("ack={}", duration(config.ack_timeout_ns)),
        ]);
    }
    line
}

fn multicast_group(entry: &MulticastGroupEntry) -> Line {
    let mut line = Line::of(["multicast".to_owned(), "add".to_owned()]);
    line.words.push(entry.multicast_group_id.to_string());
    line.words.push(replicas(&entry.replicas));
    if !entry.metadata.is_empty() {
        line.words
            .push(format!("metadata={}", hex(&entry.metadata)));
    }
    line
}

fn clone_session(entry: &CloneSessionEntry) -> Line {
    let mut line = Line::of(["clone".to_owned(), "add".to_owned()]);
    line.words.push(entry.session_id.to_string());
    line.words.push(replicas(&entry.replicas));
    if entry.packet_length_bytes != 0 {
        line.words
            .push(format!("length={}", entry.packet_length_bytes));
    }
    if entry.class_of_service != 0 {
        line.words.push(format!("class={}", entry.class_of_service));
    }
    line
}

fn replicas(replicas: &[Replica]) -> String {
    let replicas: Vec<String> = replicas.iter().map(replica_text).collect();
    format!("{{{}}}", replicas.join(", "))
}

/// `PORT:INSTANCE|BACKUP_PORT:INSTANCE`; an instance of 0 is left out.
pub fn replica_text(replica: &Replica) -> String {
    let of = |port: String, instance: u32| match instance {
        0 => port,
        instance => format!("{port}:{instance}"),
    };
    let port = replica
        .port_kind
        .as_ref()
        .map_or("0".to_owned(), replica_port);
    let backups = replica.backup_replicas.iter();
    let backups = backups.map(|it| of(port_text(&it.port), it.instance));
    let all: Vec<String> = std::iter::once(of(port, replica.instance))
        .chain(backups)
        .collect();
    all.join("|")
}

/// The text of a replica's port, also in the deprecated form that servers may still return.
#[expect(deprecated, reason = "the older form of a port")]
fn replica_port(kind: &replica::PortKind) -> String {
    match kind {
        replica::PortKind::Port(port) => port_text(port),
        replica::PortKind::EgressPort(port) => port.to_string(),
    }
}

#[expect(deprecated, reason = "the older form of a port")]
pub fn watched_by_member(kind: &action_profile_group::member::WatchKind) -> String {
    use action_profile_group::member::WatchKind;
    match kind {
        WatchKind::WatchPort(port) => port_text(port),
        WatchKind::Watch(port) => port.to_string(),
    }
}

#[expect(deprecated, reason = "the older form of a port")]
pub fn watched_by_action(kind: &action_profile_action::WatchKind) -> String {
    use action_profile_action::WatchKind;
    match kind {
        WatchKind::WatchPort(port) => port_text(port),
        WatchKind::Watch(port) => port.to_string(),
    }
}

/// A port's number, or its name on a target whose ports have names. P4Runtime does not say which it is, so three bytes
/// or more are taken for a name if they look like one.
pub fn port_text(port: &[u8]) -> String {
    let is_name = port.len() >= 3
        && port[0].is_ascii_alphabetic()
        && port
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-/.".contains(byte));
    match std::str::from_utf8(port) {
        Ok(name) if is_name => name.to_owned(),
        _ => number(port).map_or_else(|| hex(port), |number| number.to_string()),
    }
}

/// The exact time, in the largest unit of which it is a whole number: `5s`, `1500ms`.
pub fn duration(ns: i64) -> String {
    for (unit, of_unit) in UNITS {
        if ns % of_unit == 0 {
            return format!("{}{unit}", ns / of_unit);
        }
    }
    format!("{ns}ns")
}

/// Units of time, in nanoseconds.
pub const UNITS: [(&str, i64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The rounded time, with at most three decimals, for a user.
pub fn coarse(ns: i64) -> String {
    let ns = ns as f64;
    match ns {
        0.0..1e3 => format!("{ns:.0} ns"),
        1e3..1e6 => format!("{:.3} us", ns / 1e3),
        1e6..1e9 => format!("{:.3} ms", ns / 1e6),
        _ => format!("{:.3} s", ns / 1e9),
    }
}
