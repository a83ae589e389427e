//! Items of a line as P4Runtime's messages, by the names and types of the P4Info.

use std::collections::VecDeque;

use p4runtime_proto::p4::config::v1::match_field::MatchType;
use p4runtime_proto::p4::config::v1::{self as config, p4_data_type_spec::TypeSpec};
use p4runtime_proto::p4::v1::{
    Action, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    BackupReplica, CounterData, FieldMatch, MeterConfig, P4Data, P4StructLike, Replica,
    TableAction, TableEntry, ValueSetMember, action, action_profile_action, action_profile_group,
    p4_data, replica, table_action,
};

use super::print::{ATTRIBUTES, KEY_PREFIX, MODES, SIZES, UNITS, short_field};
use super::schema::{Object, Parsed, Schema, ValueType, alias, number};
use super::words::{Atom, Item, Value};
use crate::entries::entry::{Match, field_match};
use crate::entries::file::{id_of, match_type};
use crate::entries::value::{and, at_most, canonical, ones};

/// v1model's ports have 9 bits, other targets' up to 32.
const PORT_MAX: u128 = u32::MAX as u128;

/// The items of a line that are not read yet.
#[derive(Clone, Debug)]
pub struct Items(VecDeque<Item>);

impl Items {
    pub fn new(items: Vec<Item>) -> Items {
        Items(items.into())
    }

    pub fn next(&mut self) -> Option<Item> {
        self.0.pop_front()
    }

    pub fn peek(&self) -> Option<&Item> {
        self.0.front()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next item if it is a word by itself.
    pub fn word(&mut self) -> Option<String> {
        let Some(Item::Value(Value::Atom(atom))) = self.0.front() else {
            return None;
        };
        let text = atom.text.clone();
        self.0.pop_front();
        Some(text)
    }

    /// A word that has to be there.
    pub fn expect_word(&mut self, what: &str) -> Parsed<String> {
        match self.word() {
            Some(word) => Ok(word),
            None => Err(match self.peek() {
                Some(item) => format!("expected {what}, got \"{item}\""),
                None => format!("expected {what}, the line ends"),
            }),
        }
    }

    pub fn expect_number(&mut self, what: &str, max: u128) -> Parsed<u128> {
        let word = self.expect_word(what)?;
        let found = number(&word).filter(|it| *it <= max);
        found.ok_or_else(|| format!("expected {what}, a number up to {max}, got \"{word}\""))
    }

    /// Nothing may be left.
    pub fn end(&mut self) -> Parsed<()> {
        match self.0.front() {
            None => Ok(()),
            Some(item) => Err(format!("expected the end of the line, got \"{item}\"")),
        }
    }
}

/// A number of an attribute.
pub fn attribute(name: &str, value: &Value, max: u128) -> Parsed<u128> {
    let found = match value {
        Value::Atom(atom) if !atom.is_quoted => number(&atom.text).filter(|it| *it <= max),
        _ => None,
    };
    found.ok_or_else(|| format!("{name}: expected a number up to {max}, got \"{value}\""))
}

/// A signed number of P4Runtime's, which is never negative.
pub fn count_of(name: &str, value: &Value) -> Parsed<i64> {
    attribute(name, value, i64::MAX as u128).map(|it| i64::try_from(it).unwrap_or(i64::MAX))
}

fn u32_of(name: &str, value: &Value) -> Parsed<u32> {
    attribute(name, value, u128::from(u32::MAX)).map(|it| u32::try_from(it).unwrap_or(u32::MAX))
}

fn i32_of(name: &str, value: &Value) -> Parsed<i32> {
    attribute(name, value, i32::MAX as u128).map(|it| i32::try_from(it).unwrap_or(i32::MAX))
}

/// `5s`, `1.5ms`, `100ns`.
pub fn duration_of(name: &str, value: &Value) -> Parsed<i64> {
    let wrong =
        || format!("{name}: expected a time like 5s, 500ms, 10us or 100ns, got \"{value}\"");
    let Value::Atom(atom) = value else {
        return Err(wrong());
    };
    let unit_at = atom.text.find(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = atom.text.split_at(unit_at.unwrap_or(atom.text.len()));
    if digits == "0" && unit.is_empty() {
        return Ok(0);
    }
    let of_unit = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, ns)| *ns);
    let of_unit = of_unit.ok_or_else(wrong)?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) {
        return Err(wrong());
    }
    let whole: i64 = whole.parse().map_err(|_| wrong())?;
    let mut ns = whole.checked_mul(of_unit).ok_or_else(wrong)?;
    let mut of_digit = of_unit;
    for digit in part.bytes() {
        if of_digit % 10 != 0 && digit != b'0' {
            return Err(format!(
                "{name}: {} is no whole number of nanoseconds",
                atom.text
            ));
        }
        of_digit /= 10;
        ns = ns
            .checked_add(i64::from(digit - b'0') * of_digit)
            .ok_or_else(wrong)?;
    }
    Ok(ns)
}

/// Bytes in hexadecimal, of any length.
pub fn hex_of(name: &str, value: &Value) -> Parsed<Vec<u8>> {
    let wrong = || format!("{name}: expected bytes in hexadecimal like 0x0102, got \"{value}\"");
    let Value::Atom(atom) = value else {
        return Err(wrong());
    };
    hex_bytes(atom.text.strip_prefix("0x").unwrap_or(&atom.text)).ok_or_else(wrong)
}

/// Pairs of hexadecimal digits.
pub fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.bytes().collect();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

/// What belongs to the key of a table entry, and whether it is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyUse {
    /// To write: every exact field, and a priority where there is an order.
    Whole,
    /// To read: what is left out is any.
    Filter,
    /// A table's default entry has none.
    Default,
}

/// A table's entry: key fields, attributes, and after an arrow the action.
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
    entry.r#match = key.end(usage == KeyUse::Whole)?;
    Ok(entry)
}

fn table_words(table: &config::Table) -> String {
    format!("table \"{}\"", short(table))
}

fn short(table: &config::Table) -> &str {
    table.preamble.as_ref().map_or("", alias)
}

/// BMv2's command line has the action before the key.
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

/// May several entries of a table match a packet?
pub fn has_order(table: &config::Table) -> bool {
    let orders = |field: &config::MatchField| {
        matches!(
            match_type(field),
            Some(MatchType::Ternary | MatchType::Range | MatchType::Optional)
        )
    };
    table.match_fields.iter().any(orders)
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

/// Key fields that come by name or in their order.
struct Key<'s> {
    schema: &'s Schema,
    fields: &'s [config::MatchField],
    /// Whose they are.
    of: String,
    /// `None` in it: matches anything.
    found: Vec<Option<Option<Match>>>,
}

impl<'s> Key<'s> {
    fn new(schema: &'s Schema, fields: &'s [config::MatchField], of: String) -> Key<'s> {
        Key {
            schema,
            fields,
            of,
            found: vec![None; fields.len()],
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
        stf::find_name(&kind, name, names()).or_else(|message| {
            let id = number(name);
            let of_id = self
                .fields
                .iter()
                .position(|it| Some(u128::from(it.id)) == id);
            match (of_id, name.strip_prefix(KEY_PREFIX)) {
                (Some(idx), _) => Ok(idx),
                (None, Some(name)) => stf::find_name(&kind, name, names()),
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
        self.found[idx] = Some(found);
        Ok(())
    }

    fn end(self, is_whole: bool) -> Parsed<Vec<FieldMatch>> {
        let mut matches = Vec::new();
        for (field, found) in self.fields.iter().zip(self.found) {
            match found.flatten() {
                Some(found) => matches.push(field_match(field.id, &found)),
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

/// A field's match; `None`: anything.
fn one_match(ty: &ValueType, field: &config::MatchField, value: &Value) -> Parsed<Option<Match>> {
    let bits = ty.format.bits();
    let kind = match_type(field);
    let atom = match value {
        Value::Atom(atom) => atom,
        Value::Masked(value, mask) if kind == Some(MatchType::Ternary) => {
            return masked(&ty.bytes(value)?, &ty.bytes(mask)?);
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
        Some(MatchType::Exact) => Some(Match::Exact(ty.bytes(atom)?)),
        Some(MatchType::Optional) => Some(Match::Optional(ty.bytes(atom)?)),
        Some(MatchType::Lpm) => {
            let (value, len) = prefix(ty, atom)?;
            (len > 0).then(|| Match::Lpm(and(&value, &ones(len, bits)), len.cast_signed()))
        }
        Some(MatchType::Ternary) => {
            let (value, len) = prefix(ty, atom)?;
            return masked(&value, &ones(len, bits));
        }
        Some(MatchType::Range) => {
            let (low, high) = match atom.text.split_once("..") {
                Some((low, high)) => (ty.bytes(&plain(low))?, ty.bytes(&plain(high))?),
                None => (ty.bytes(atom)?, ty.bytes(atom)?),
            };
            if !at_most(&low, &high) {
                return Err(format!(
                    "expected LOW..HIGH, the first of {atom} is greater"
                ));
            }
            let is_any = low == [0] && high == ones(bits, bits);
            (!is_any).then_some(Match::Range(low, high))
        }
        Some(MatchType::Unspecified) | None => {
            return Err("a field of a kind that P4Runtime does not match".to_owned());
        }
    })
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

fn masked(value: &[u8], mask: &[u8]) -> Parsed<Option<Match>> {
    let is_any = mask == [0];
    Ok((!is_any).then(|| Match::Ternary(and(value, mask), mask.to_vec())))
}

fn plain(text: &str) -> Atom {
    Atom {
        text: text.to_owned(),
        is_quoted: false,
    }
}

/// `VALUE/LENGTH`, or a whole value.
fn prefix(ty: &ValueType, atom: &Atom) -> Parsed<(Vec<u8>, u32)> {
    let bits = ty.format.bits();
    let Some((value, len)) = atom.text.rsplit_once('/').filter(|_| !atom.is_quoted) else {
        return Ok((ty.bytes(atom)?, bits));
    };
    let found = number(len).filter(|it| *it <= u128::from(bits));
    let len = found.and_then(|it| u32::try_from(it).ok()).ok_or_else(|| {
        format!("expected a prefix length up to {bits} after \"/\", got \"{len}\"")
    })?;
    Ok((ty.bytes(&plain(value))?, len))
}

/// What follows the arrow of a table entry.
fn table_action(
    schema: &Schema,
    table: &config::Table,
    items: &mut Items,
    usage: KeyUse,
) -> Parsed<TableAction> {
    let is_default = usage == KeyUse::Default;
    let kind = match is_default {
        true => format!("default action of {}", table_words(table)),
        false => format!("action of {}", table_words(table)),
    };
    let expected = || format!("expected an {kind} after \"->\"");
    let item = items
        .next()
        .ok_or_else(|| format!("{}, the line ends", expected()))?;
    let actions = schema.actions_of(table, is_default);
    let is_partial = usage == KeyUse::Filter;
    let is_indirect = table.implementation_id != 0;
    let found = match item {
        Item::Pair(name, value) if name == "member" => {
            table_action::Type::ActionProfileMemberId(u32_of(&name, &value)?)
        }
        Item::Pair(name, value) if name == "group" => {
            table_action::Type::ActionProfileGroupId(u32_of(&name, &value)?)
        }
        Item::Value(Value::Set(members)) => {
            table_action::Type::ActionProfileActionSet(one_shot(schema, &actions, members, items)?)
        }
        item if is_indirect && !is_default && !is_partial => {
            return Err(format!(
                "{} gets its actions from an action profile: expected member=ID, group=ID or {{ACTION(...) weight=N, ...}} after \"->\", got \"{item}\"",
                table_words(table)
            ));
        }
        item => table_action::Type::Action(call(schema, &kind, &actions, item, is_partial)?),
    };
    Ok(TableAction {
        r#type: Some(found),
    })
}

fn one_shot(
    schema: &Schema,
    actions: &[&config::Action],
    members: Vec<Vec<Item>>,
    items: &mut Items,
) -> Parsed<ActionProfileActionSet> {
    let mut set = ActionProfileActionSet::default();
    for member in members {
        let mut found = ActionProfileAction {
            weight: 1,
            ..ActionProfileAction::default()
        };
        for item in member {
            match item {
                Item::Pair(name, value) if name == "weight" => {
                    found.weight = i32_of(&name, &value)?;
                }
                Item::Pair(name, value) if name == "watch" => {
                    let port = port(&value)?;
                    found.watch_kind = Some(action_profile_action::WatchKind::WatchPort(port));
                }
                item if found.action.is_none() => {
                    found.action = Some(call(schema, "action", actions, item, false)?);
                }
                item => {
                    return Err(format!("expected weight=N or watch=PORT, got \"{item}\""));
                }
            }
        }
        if found.action.is_none() {
            return Err("expected an action for each member between { and }".to_owned());
        }
        set.action_profile_actions.push(found);
    }
    while let Some(Item::Pair(name, value)) = items.peek() {
        let chosen = |names: &[&str]| {
            let found = names
                .iter()
                .position(|it| !it.is_empty() && *it == value.to_string());
            let found = found.and_then(|idx| i32::try_from(idx).ok());
            let names = names[1..].join(" or ");
            found.ok_or_else(|| format!("{name}: expected {names}, got \"{value}\""))
        };
        match name.as_str() {
            "selection" => set.action_selection_mode = chosen(MODES)?,
            "size" => set.size_semantics = chosen(SIZES)?,
            _ => break,
        }
        items.next();
    }
    Ok(set)
}

/// `forward(dst=08:00:00:00:01:11, port=2)`, or the values in the order of the parameters.
pub fn call(
    schema: &Schema,
    kind: &str,
    actions: &[&config::Action],
    item: Item,
    is_partial: bool,
) -> Parsed<Action> {
    let (name, args) = match item {
        Item::Call(name, args) => (name, args),
        Item::Value(Value::Atom(atom)) => (atom.text, Vec::new()),
        item => return Err(format!("expected an {kind}, got \"{item}\"")),
    };
    let action = find_action(kind, &name, actions)?;
    let name = action.preamble.as_ref().map_or(name.as_str(), alias);
    let mut values: Vec<Option<Vec<u8>>> = vec![None; action.params.len()];
    for arg in args {
        let (idx, value) = match arg {
            Item::Pair(param, value) => {
                let names = action.params.iter().enumerate();
                let names = names.map(|(idx, it)| (idx, it.name.as_str()));
                let kind = format!("parameter of action \"{name}\"");
                (stf::find_name(&kind, &param, names)?, value)
            }
            Item::Value(value) => {
                let idx = values.iter().position(Option::is_none).ok_or_else(|| {
                    format!(
                        "action \"{name}\" has {} parameters, got one more: \"{value}\"",
                        values.len()
                    )
                })?;
                (idx, value)
            }
            item => return Err(format!("expected PARAMETER=VALUE, got \"{item}\"")),
        };
        let param = &action.params[idx];
        if values[idx].is_some() {
            return Err(format!("parameter \"{}\" is there twice", param.name));
        }
        let Value::Atom(atom) = &value else {
            return Err(format!(
                "parameter \"{}\": expected a value, got \"{value}\"",
                param.name
            ));
        };
        let bytes = schema.param_type(param).bytes(atom);
        let bytes = bytes.map_err(|message| format!("parameter \"{}\": {message}", param.name))?;
        values[idx] = Some(bytes);
    }
    let mut params = Vec::new();
    for (param, value) in action.params.iter().zip(values) {
        match value {
            Some(value) => params.push(action::Param {
                param_id: param.id,
                value,
            }),
            None if is_partial => {}
            None => {
                let expected = schema.param_type(param).format.example();
                return Err(format!(
                    "expected {}={expected} for action \"{name}\"",
                    param.name
                ));
            }
        }
    }
    Ok(Action {
        action_id: id_of(action.preamble.as_ref()),
        params,
    })
}

fn find_action<'p>(
    kind: &str,
    wanted: &str,
    actions: &[&'p config::Action],
) -> Parsed<&'p config::Action> {
    let all = || {
        actions
            .iter()
            .copied()
            .filter_map(|it| Some((it, it.preamble.as_ref()?)))
    };
    if let Some((it, _)) = all().find(|(_, preamble)| alias(preamble) == wanted) {
        return Ok(it);
    }
    stf::find_name(
        kind,
        wanted,
        all().map(|(it, preamble)| (it, preamble.name.as_str())),
    )
}

/// `cir=1 cburst=2 pir=3 pburst=4`
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

/// `packets=1 bytes=60`
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

/// `spread 1 -> send(port=1)`
pub fn member(schema: &Schema, items: &mut Items, has_action: bool) -> Parsed<ActionProfileMember> {
    let profile = schema.profile(&items.expect_word("an action profile's name")?)?;
    let member_id = number_u32(items, "a member's id")?;
    let action = match items.next() {
        None if !has_action => None,
        Some(Item::Arrow) => {
            let name = profile.preamble.as_ref().map_or("", alias);
            let kind = format!("action of action profile \"{name}\"");
            let actions = schema.actions_of_profile(profile);
            let item = items.next();
            let item = item.ok_or_else(|| format!("expected an {kind}, the line ends"))?;
            Some(call(schema, &kind, &actions, item, false)?)
        }
        Some(item) => return Err(format!("expected \"->\" and an action, got \"{item}\"")),
        None => return Err("expected \"->\" and an action, the line ends".to_owned()),
    };
    items.end()?;
    Ok(ActionProfileMember {
        action_profile_id: id_of(profile.preamble.as_ref()),
        member_id,
        action,
    })
}

/// `spread 5 {1, 2 weight=3 watch=1} max_size=4`
pub fn group(schema: &Schema, items: &mut Items, has_members: bool) -> Parsed<ActionProfileGroup> {
    let profile = schema.profile(&items.expect_word("an action profile's name")?)?;
    let mut group = ActionProfileGroup {
        action_profile_id: id_of(profile.preamble.as_ref()),
        group_id: number_u32(items, "a group's id")?,
        ..ActionProfileGroup::default()
    };
    if has_members {
        group.members = members(&set(items, "{MEMBER weight=N watch=PORT, ...}")?)?;
    }
    while let Some(item) = items.next() {
        match item {
            Item::Pair(name, value) if name == "max_size" => {
                group.max_size = i32_of(&name, &value)?
            }
            item => return Err(format!("expected max_size=N, got \"{item}\"")),
        }
    }
    Ok(group)
}

fn members(set: &[Vec<Item>]) -> Parsed<Vec<action_profile_group::Member>> {
    let member = |items: &Vec<Item>| {
        let mut items = Items::new(items.clone());
        let mut found = action_profile_group::Member {
            member_id: number_u32(&mut items, "a member's id")?,
            weight: 1,
            watch_kind: None,
        };
        while let Some(item) = items.next() {
            match item {
                Item::Pair(name, value) if name == "weight" => {
                    found.weight = i32_of(&name, &value)?;
                }
                Item::Pair(name, value) if name == "watch" => {
                    let port = port(&value)?;
                    found.watch_kind =
                        Some(action_profile_group::member::WatchKind::WatchPort(port));
                }
                item => return Err(format!("expected weight=N or watch=PORT, got \"{item}\"")),
            }
        }
        Ok(found)
    };
    set.iter().map(member).collect()
}

/// What is between `{` and `}`.
pub fn set(items: &mut Items, what: &str) -> Parsed<Vec<Vec<Item>>> {
    match items.next() {
        Some(Item::Value(Value::Set(members))) => Ok(members),
        Some(item) => Err(format!("expected {what}, got \"{item}\"")),
        None => Err(format!("expected {what}, the line ends")),
    }
}

pub fn number_u32(items: &mut Items, what: &str) -> Parsed<u32> {
    let found = items.expect_number(what, u128::from(u32::MAX))?;
    Ok(u32::try_from(found).unwrap_or(u32::MAX))
}

/// A port's number, or a name.
fn port(value: &Value) -> Parsed<Vec<u8>> {
    match value {
        Value::Atom(atom) => port_bytes(&atom.text),
        other => Err(format!("expected a port, got \"{other}\"")),
    }
}

fn port_bytes(text: &str) -> Parsed<Vec<u8>> {
    match number(text) {
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

/// `{1, 2:5, 3:1|4:1}`: port, instance, and ports that stand in.
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
            let instance = number(instance).and_then(|it| u32::try_from(it).ok());
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

/// `{0x800, 0x86dd}`; a set of several fields `{ether_type=0x800&&&0xff00 port=3, ...}`.
pub fn value_set_members(
    schema: &Schema,
    set: &config::ValueSet,
    items: &mut Items,
) -> Parsed<Vec<ValueSetMember>> {
    let name = set.preamble.as_ref().map_or("", alias);
    let what = "{VALUE, ...}, all members of the value set";
    let member = |items: Vec<Item>| {
        let mut key = Key::new(schema, &set.r#match, format!("value set \"{name}\""));
        for item in items {
            key.item(item)?;
        }
        Ok(ValueSetMember {
            r#match: key.end(true)?,
        })
    };
    self::set(items, what)?.into_iter().map(member).collect()
}

/// A value of a register or of a part of it.
pub fn data(schema: &Schema, value: &Value, spec: Option<&TypeSpec>, name: &str) -> Parsed<P4Data> {
    use p4_data::Data;
    let is_word = |value: &Value, words: &[&str]| words.contains(&value.to_string().as_str());
    let found = match spec {
        Some(TypeSpec::Bool(_)) => match value {
            value if is_word(value, &["true", "1"]) => Data::Bool(true),
            value if is_word(value, &["false", "0"]) => Data::Bool(false),
            other => return Err(format!("expected true or false, got \"{other}\"")),
        },
        Some(TypeSpec::Struct(_)) => Data::Struct(struct_like(schema, value, spec)?),
        Some(TypeSpec::Tuple(_)) => Data::Tuple(struct_like(schema, value, spec)?),
        Some(TypeSpec::Enum(_)) => Data::Enum(value.to_string()),
        Some(TypeSpec::Error(_)) => Data::Error(value.to_string()),
        Some(TypeSpec::SerializableEnum(_)) => Data::EnumValue(bytes(schema, value, spec, name)?),
        Some(TypeSpec::Bitstring(_) | TypeSpec::NewType(_)) => {
            Data::Bitstring(bytes(schema, value, spec, name)?)
        }
        _ => return Err("a value of this type cannot be typed".to_owned()),
    };
    Ok(P4Data { data: Some(found) })
}

fn bytes(schema: &Schema, value: &Value, spec: Option<&TypeSpec>, name: &str) -> Parsed<Vec<u8>> {
    match value {
        Value::Atom(atom) => schema.data_type(spec, name).bytes(atom),
        other => Err(format!("expected a value, got \"{other}\"")),
    }
}

fn struct_like(schema: &Schema, value: &Value, spec: Option<&TypeSpec>) -> Parsed<P4StructLike> {
    let members = schema.members_of(spec);
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let expected = || format!("{{{}}}", names.join("=..., "));
    let Value::Set(items) = value else {
        return Err(format!("expected {}, got \"{value}\"", expected()));
    };
    let mut values = vec![None; members.len()];
    for (at, items) in items.iter().enumerate() {
        let (idx, value) = match items.as_slice() {
            [Item::Pair(name, value)] => {
                let idx = names.iter().position(|it| it == name);
                let idx = idx.ok_or_else(|| format!("expected {}, got \"{name}\"", expected()))?;
                (idx, value)
            }
            [Item::Value(value)] => (at, value),
            _ => return Err(format!("expected {}, got \"{value}\"", expected())),
        };
        let Some((name, spec)) = members.get(idx) else {
            return Err(format!("expected {} members, got more", members.len()));
        };
        let found = data(schema, value, *spec, name);
        values[idx] = Some(found.map_err(|message| format!("{name}: {message}"))?);
    }
    let members: Option<Vec<P4Data>> = values.into_iter().collect();
    let members = members.ok_or_else(|| format!("expected {}, all members", expected()))?;
    Ok(P4StructLike { members })
}

/// The header in front of packets of a controller.
pub fn packet_header<'s>(
    schema: &'s Schema,
    name: &str,
) -> Option<&'s config::ControllerPacketMetadata> {
    let all = schema.preambles(Object::PacketHeader);
    all.iter().find(|it| it.name == name)?;
    schema.packet_header(name).ok()
}
