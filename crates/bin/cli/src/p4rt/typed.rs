//! Converts the items of a line to P4Runtime messages, by the names and types of the P4Info.

mod actions;
mod items;
mod values;

use p4runtime_client::bytestring::{canonical, ones, parse_number};
use p4runtime_client::field_match::{Match, may_be_range};
use p4runtime_client::{ValueType, alias, has_order, id_of, match_type};
use p4runtime_proto::p4::config::v1::match_field::MatchType;
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::{
    BackupReplica, CounterData, FieldMatch, MeterConfig, Replica, TableEntry, replica,
};

use super::print::{ATTRIBUTES, KEY_PREFIX, match_text, short_field};
use super::schema::{Parsed, Schema, find_of};
use super::words::{Atom, Item, Value};

use actions::table_action;
pub use actions::{group, member};
pub use items::{Items, attribute, count_of, duration_of, hex_of, number_u32, set};
use items::{i32_of, u32_of};
pub use values::{data, is_zero, packet_header, value_set_members};

/// The largest port number. Ports have 9 bits in v1model, and up to 32 bits on other targets.
const PORT_MAX: u128 = u32::MAX as u128;

/// How complete a table entry's key must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyUse {
    /// For a write: every exact field, and a priority if several entries may match a packet.
    Whole,
    /// For a read: missing fields match anything.
    Filter,
    /// The table's default entry has no key.
    Default,
}

/// Parses a table entry: key fields, attributes, and the action after an arrow.
pub fn table_entry(
    schema: &Schema,
    table: &config::Table,
    items: &mut Items,
    usage: KeyUse,
) -> Parsed<TableEntry> {
    let mut entry = TableEntry {
        table_id: id_of(table.preamble.as_ref()),
        is_default_action: usage == KeyUse::Default,
        ..TableEntry::default()
    };
    let mut key = Key::new(schema, &table.match_fields, table_words(table));
    while let Some(item) = items.next() {
        match item {
            Item::Arrow => {
                entry.action = Some(table_action(schema, table, items, usage)?);
            }
            Item::Pair(name, value) if ATTRIBUTES.contains(&name.as_str()) => {
                entry_attribute(&mut entry, table, &name, &value)?;
            }
            Item::Call(name, args) if name == "meter" => {
                entry.meter_config = Some(rates(&mut Items::new(args))?);
            }
            Item::Call(name, args) if name == "counter" => {
                entry.counter_data = Some(counts(&mut Items::new(args))?);
            }
            _ if usage == KeyUse::Default => {
                return Err(format!(
                    "the default entry of {} has no key: expected \"->\" and an action, got \"{item}\"",
                    table_words(table)
                ));
            }
            item => key
                .item(item)
                .map_err(|message| with_action_hint(schema, table, message))?,
        }
    }
    let is_priority_needed = has_order(table);
    match usage {
        KeyUse::Whole if is_priority_needed && entry.priority == 0 => {
            return Err(format!(
                "expected priority=NUMBER, the highest wins: {} has ternary, range or optional fields",
                table_words(table)
            ));
        }
        KeyUse::Whole if table.match_fields.is_empty() => {
            return Err(format!(
                "{} has no key, only a default entry: `table default {} -> ACTION`",
                table_words(table),
                short(table)
            ));
        }
        _ => {}
    }
    if !is_priority_needed && entry.priority != 0 {
        return Err(format!(
            "{} has no ternary, range or optional fields: leave the priority out",
            table_words(table)
        ));
    }
    items.note(&mut key.notes);
    entry.r#match = key.end(usage == KeyUse::Whole)?;
    Ok(entry)
}

fn table_words(table: &config::Table) -> String {
    format!("table \"{}\"", short(table))
}

fn short(table: &config::Table) -> &str {
    table.preamble.as_ref().map_or("", alias)
}

/// Adds to the message a hint for users of BMv2's command line, where the action precedes the key.
fn with_action_hint(schema: &Schema, table: &config::Table, message: String) -> String {
    let actions = schema.actions_of(table, false);
    let mut names = actions
        .iter()
        .filter_map(|it| it.preamble.as_ref())
        .map(alias);
    match names.find(|name| message.ends_with(&format!("got \"{name}\""))) {
        Some(name) => format!("{message}; an action comes after the key: `-> {name}(...)`"),
        None => message,
    }
}

fn entry_attribute(
    entry: &mut TableEntry,
    table: &config::Table,
    name: &str,
    value: &Value,
) -> Parsed<()> {
    match name {
        "priority" => entry.priority = i32_of(name, value)?,
        "timeout" => {
            entry.idle_timeout_ns = duration_of(name, value)?;
            if entry.idle_timeout_ns != 0
                && table.idle_timeout_behavior() == config::table::IdleTimeoutBehavior::NoTimeout
            {
                return Err(format!(
                    "{} has no idle timeouts: its program has no `support_timeout = true`",
                    table_words(table)
                ));
            }
        }
        _ => entry.metadata = hex_of(name, value)?,
    }
    Ok(())
}

/// Collects the fields of a key, which a user gives by name or in the order of the P4Info.
struct Key<'s> {
    schema: &'s Schema,
    fields: &'s [config::MatchField],
    /// Owner of the fields, for messages.
    of: String,
    /// The match of each field: `None` if the field was not given, `Some(None)` if it matches anything.
    found: Vec<Option<Option<Match>>>,
    /// Remarks about values that the shell changed.
    notes: Vec<String>,
}

impl<'s> Key<'s> {
    fn new(schema: &'s Schema, fields: &'s [config::MatchField], of: String) -> Key<'s> {
        Key {
            schema,
            fields,
            of,
            found: vec![None; fields.len()],
            notes: Vec::new(),
        }
    }

    fn item(&mut self, item: Item) -> Parsed<()> {
        match item {
            Item::Pair(name, value) => {
                let idx = self.named(&name)?;
                self.set(idx, &value)
            }
            Item::Value(value) => {
                let idx = self.found.iter().position(Option::is_none);
                let idx = idx.ok_or_else(|| {
                    format!(
                        "every field of {} has a value already, got \"{value}\"",
                        self.of
                    )
                })?;
                self.set(idx, &value)
            }
            item => Err(format!(
                "expected FIELD=VALUE of {}, got \"{item}\"",
                self.of
            )),
        }
    }

    fn named(&self, name: &str) -> Parsed<usize> {
        let names = || {
            let all = self.fields.iter().enumerate();
            all.map(|(idx, field)| (idx, field.name.as_str()))
        };
        let kind = format!("field of {}", self.of);
        find_of(&kind, name, names()).or_else(|message| {
            let id = parse_number(name);
            let of_id = self
                .fields
                .iter()
                .position(|it| Some(u128::from(it.id)) == id);
            match (of_id, name.strip_prefix(KEY_PREFIX)) {
                (Some(idx), _) => Ok(idx),
                (None, Some(name)) => find_of(&kind, name, names()),
                (None, None) => Err(message),
            }
        })
    }

    fn set(&mut self, idx: usize, value: &Value) -> Parsed<()> {
        let field = &self.fields[idx];
        if self.found[idx].is_some() {
            return Err(format!("field \"{}\" is there twice", field.name));
        }
        let ty = self.schema.field_type(field);
        let found = one_match(&ty, field, value).map_err(|message| {
            format!("field \"{}\": {message}", short_field(self.fields, field))
        })?;
        let note = left_out(&ty, field, value, found.as_ref());
        self.notes.extend(
            note.map(|note| format!("field \"{}\": {note}", short_field(self.fields, field))),
        );
        self.found[idx] = Some(found);
        Ok(())
    }

    fn end(self, is_whole: bool) -> Parsed<Vec<FieldMatch>> {
        let mut matches = Vec::new();
        for (field, found) in self.fields.iter().zip(self.found) {
            match found.flatten() {
                Some(found) => matches.push(found.field(field.id)),
                None if is_whole && match_type(field) == Some(MatchType::Exact) => {
                    let ty = self.schema.field_type(field);
                    return Err(format!(
                        "expected {}={} for {}: an exact field has to be there",
                        short_field(self.fields, field),
                        ty.format.example(),
                        self.of
                    ));
                }
                None => {}
            }
        }
        Ok(matches)
    }
}

/// Parses a field's match. Returns `None` if it matches anything.
fn one_match(ty: &ValueType, field: &config::MatchField, value: &Value) -> Parsed<Option<Match>> {
    let bits = ty.format.bits();
    let kind = match_type(field);
    let atom = match value {
        Value::Atom(atom) => atom,
        Value::Masked(value, mask) if kind == Some(MatchType::Ternary) => {
            return Ok(Match::ternary(&value.bytes(ty)?, &mask.bytes(ty)?));
        }
        other => return Err(unfit(kind, other)),
    };
    if atom.text == "*" && !atom.is_quoted {
        return match kind {
            Some(MatchType::Exact) => {
                Err("an exact field cannot be *, expected a value".to_owned())
            }
            _ => Ok(None),
        };
    }
    Ok(match kind {
        Some(MatchType::Exact) => Some(Match::Exact(atom.bytes(ty)?)),
        Some(MatchType::Optional) => Some(Match::Optional(atom.bytes(ty)?)),
        Some(MatchType::Lpm) => {
            let (value, len) = prefix(ty, atom)?;
            Match::lpm(&value, len, bits)
        }
        Some(MatchType::Ternary) => {
            let (value, len) = prefix(ty, atom)?;
            Match::ternary(&value, &ones(len, bits))
        }
        Some(MatchType::Range) => {
            let (low, high) = match atom.text.split_once("..") {
                Some((low, high)) => (plain(low).bytes(ty)?, plain(high).bytes(ty)?),
                None => (atom.bytes(ty)?, atom.bytes(ty)?),
            };
            if !may_be_range(&low, &high, bits) {
                return Err(format!(
                    "expected LOW..HIGH, the first of {atom} is greater"
                ));
            }
            Match::range(low, high, bits)
        }
        Some(MatchType::Unspecified) | None => {
            return Err("a field of a kind that P4Runtime does not match".to_owned());
        }
    })
}

/// If a prefix or mask clears bits of the typed value, returns a remark that shows the resulting match.
fn left_out(
    ty: &ValueType,
    field: &config::MatchField,
    value: &Value,
    found: Option<&Match>,
) -> Option<String> {
    let typed = match value {
        Value::Atom(atom) => plain(atom.text.rsplit_once('/')?.0),
        Value::Masked(value, _) => value.clone(),
        Value::Set(_) => return None,
    };
    let (kept, shown) = match found {
        Some(it @ (Match::Lpm(kept, _) | Match::Ternary(kept, _))) => {
            (kept.clone(), match_text(ty, &it.clone().field(field.id)))
        }
        Some(_) => return None,
        None => (vec![0], "*".to_owned()),
    };
    let typed = canonical(&typed.bytes(ty).ok()?);
    (typed != canonical(&kept)).then(|| format!("{value} is {shown}, all other bits are ignored"))
}

fn unfit(kind: Option<MatchType>, value: &Value) -> String {
    let expected = match kind {
        Some(MatchType::Exact) => "an exact field's VALUE",
        Some(MatchType::Lpm) => "VALUE/PREFIX_LENGTH",
        Some(MatchType::Ternary) => "VALUE&&&MASK or *",
        Some(MatchType::Range) => "LOW..HIGH or *",
        _ => "VALUE or *",
    };
    format!("expected {expected}, got \"{value}\"")
}

fn plain(text: &str) -> Atom {
    Atom {
        text: text.to_owned(),
        is_quoted: false,
    }
}

/// Parses `VALUE/LENGTH`, or a value without a length, which must match in all bits.
fn prefix(ty: &ValueType, atom: &Atom) -> Parsed<(Vec<u8>, u32)> {
    let bits = ty.format.bits();
    let Some((value, len)) = atom.text.rsplit_once('/').filter(|_| !atom.is_quoted) else {
        return Ok((atom.bytes(ty)?, bits));
    };
    let found = parse_number(len).filter(|it| *it <= u128::from(bits));
    let len = found.and_then(|it| u32::try_from(it).ok()).ok_or_else(|| {
        format!("expected a prefix length up to {bits} after \"/\", got \"{len}\"")
    })?;
    Ok((plain(value).bytes(ty)?, len))
}

/// Parses a meter's rates and burst sizes: `cir=1 cburst=2 pir=3 pburst=4`.
pub fn rates(items: &mut Items) -> Parsed<MeterConfig> {
    let mut config = MeterConfig::default();
    if items.is_empty() {
        return Err(
            "expected cir=RATE cburst=SIZE and, for two rates, pir=RATE pburst=SIZE".to_owned(),
        );
    }
    while let Some(item) = items.next() {
        let Item::Pair(name, value) = &item else {
            return Err(format!(
                "expected cir=, cburst=, pir=, pburst= or eburst=, got \"{item}\""
            ));
        };
        let number = count_of(name, value)?;
        match name.as_str() {
            "cir" => config.cir = number,
            "cburst" => config.cburst = number,
            "pir" => config.pir = number,
            "pburst" => config.pburst = number,
            "eburst" => config.eburst = number,
            _ => {
                return Err(format!(
                    "expected cir=, cburst=, pir=, pburst= or eburst=, got \"{item}\""
                ));
            }
        }
    }
    Ok(config)
}

/// Parses a counter's values: `packets=1 bytes=60`.
pub fn counts(items: &mut Items) -> Parsed<CounterData> {
    let mut data = CounterData::default();
    if items.is_empty() {
        return Err("expected packets=NUMBER or bytes=NUMBER".to_owned());
    }
    while let Some(item) = items.next() {
        match &item {
            Item::Pair(name, value) if name == "packets" => {
                data.packet_count = count_of(name, value)?;
            }
            Item::Pair(name, value) if name == "bytes" => data.byte_count = count_of(name, value)?,
            item => {
                return Err(format!(
                    "expected packets=NUMBER or bytes=NUMBER, got \"{item}\""
                ));
            }
        }
    }
    Ok(data)
}

fn port(value: &Value) -> Parsed<Vec<u8>> {
    match value {
        Value::Atom(atom) => port_bytes(&atom.text),
        other => Err(format!("expected a port, got \"{other}\"")),
    }
}

fn port_bytes(text: &str) -> Parsed<Vec<u8>> {
    match parse_number(text) {
        Some(number) if number <= PORT_MAX => Ok(canonical(&number.to_be_bytes())),
        Some(_) => Err(format!(
            "expected a port, a number up to {PORT_MAX} or a name, got \"{text}\""
        )),
        None if text.is_empty() || text.starts_with('-') => Err(format!(
            "expected a port, a number or a name, got \"{text}\""
        )),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Parses replicas, each as `PORT`, `PORT:INSTANCE` or with backups: `{1, 2:5, 3:1|4:1}`.
pub fn replicas(items: &mut Items) -> Parsed<Vec<Replica>> {
    const WHAT: &str = "{PORT:INSTANCE, ...}";
    let mut found = Vec::new();
    for member in set(items, WHAT)? {
        let [Item::Value(Value::Atom(atom))] = member.as_slice() else {
            let member: Vec<String> = member.iter().map(Item::to_string).collect();
            return Err(format!(
                "expected PORT:INSTANCE, got \"{}\"",
                member.join(" ")
            ));
        };
        let mut ports = Vec::new();
        for one in atom.text.split('|') {
            let (port, instance) = one.rsplit_once(':').unwrap_or((one, "0"));
            let instance = parse_number(instance).and_then(|it| u32::try_from(it).ok());
            let instance =
                instance.ok_or_else(|| format!("expected PORT:INSTANCE, got \"{one}\""))?;
            ports.push((port_bytes(port)?, instance));
        }
        let mut ports = ports.into_iter();
        let (port, instance) = ports.next().unwrap_or_default();
        found.push(Replica {
            instance,
            port_kind: Some(replica::PortKind::Port(port)),
            backup_replicas: ports
                .map(|(port, instance)| BackupReplica { port, instance })
                .collect(),
        });
    }
    Ok(found)
}
