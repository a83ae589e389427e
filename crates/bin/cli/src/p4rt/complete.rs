//! Completes a line with the help of the grammar and the P4Info: finds the words that may follow and, after `=`, an
//! example of the value. Does no I/O.

use p4runtime_client::{Object, ValueType, alias, has_order, match_type};
use p4runtime_proto::p4::config::v1::match_field::MatchType;
use p4runtime_proto::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime_proto::p4::config::v1::{self as config};

use super::grammar::{Arg, COMMANDS, Usage};
use super::info::KINDS;
use super::print::short_field;
use super::schema::Schema;
use super::words::{Kind, Token, name_text, tokens};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Candidates {
    /// Words that may replace the text from `start` to the cursor.
    Words {
        start: usize,
        words: Vec<String>,
    },
    File,
}

/// Finds what may stand at the cursor, from the text before the cursor.
pub fn complete(schema: &Schema, line: &str, cursor: usize) -> Candidates {
    let nothing = Candidates::Words {
        start: cursor,
        words: Vec::new(),
    };
    let Some(cut) = Cut::at(line, cursor) else {
        return nothing;
    };
    let place = place(schema, &cut.before);
    if place == Place::File {
        return Candidates::File;
    }
    let mut words: Vec<String> = place.words();
    words.retain(|it| it.starts_with(&cut.word));
    words.dedup();
    Candidates::Words {
        start: cut.start,
        words,
    }
}

/// Returns an example of the value that is expected at the cursor, if nothing is typed there yet.
pub fn hint(schema: &Schema, line: &str, cursor: usize) -> Option<String> {
    let cut = Cut::at(line, cursor).filter(|cut| cut.word.is_empty())?;
    match place(schema, &cut.before) {
        Place::Value { example, .. } => Some(example),
        _ => None,
    }
}

/// The incomplete word at the cursor, and the tokens before it.
struct Cut {
    before: Vec<Token>,
    word: String,
    start: usize,
}

impl Cut {
    fn at(line: &str, cursor: usize) -> Option<Cut> {
        let typed = line.get(..cursor)?;
        let mut before = tokens(typed).ok()?;
        let is_comment = {
            let end = before.last().map_or(0, |it| it.end);
            typed[end..].trim_start().starts_with('#')
        };
        if is_comment {
            return None;
        }
        match before.last() {
            Some(Token {
                kind: Kind::Word(word),
                start,
                end,
            }) if *end == cursor => {
                let (word, start) = (word.clone(), *start);
                before.pop();
                Some(Cut {
                    before,
                    word,
                    start,
                })
            }
            _ => Some(Cut {
                before,
                word: String::new(),
                start: cursor,
            }),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Words(Vec<String>),
    Value { names: Vec<String>, example: String },
    File,
}

impl Place {
    fn nothing() -> Place {
        Place::Words(Vec::new())
    }

    fn words(self) -> Vec<String> {
        match self {
            Place::Words(words) => words,
            Place::Value { names, .. } => names,
            Place::File => Vec::new(),
        }
    }

    fn value(ty: &ValueType, what: &str) -> Place {
        let names = ty.all_names().into_iter().map(name_text).collect();
        let bits = match ty.format.bits() {
            0 => "a string".to_owned(),
            bits => format!("{bits} bits"),
        };
        Place::Value {
            names,
            example: format!("{}{what} ({bits})", ty.format.example()),
        }
    }
}

fn word(token: &Token) -> Option<&str> {
    match &token.kind {
        Kind::Word(text) | Kind::Quoted(text) => Some(text),
        _ => None,
    }
}

fn spaced(word: impl AsRef<str>) -> String {
    format!("{} ", word.as_ref())
}

fn of_noun(noun: &str) -> impl Iterator<Item = &'static Usage> {
    COMMANDS
        .iter()
        .filter(move |it| it.words.split(' ').next() == Some(noun))
}

/// Returns the words that may follow at the beginning of a command: first the nouns, then the verbs of the noun.
fn words_of(before: &[Token]) -> Place {
    let words: Vec<&str> = match before {
        [] => {
            let nouns = COMMANDS.iter().filter_map(|it| it.words.split(' ').next());
            let mut nouns: Vec<&str> = nouns.collect();
            nouns.dedup();
            nouns
        }
        [noun] => {
            let commands = of_noun(word(noun).unwrap_or_default());
            commands
                .filter_map(|it| it.words.split(' ').nth(1))
                .collect()
        }
        _ => Vec::new(),
    };
    Place::Words(words.into_iter().map(spaced).collect())
}

fn place(schema: &Schema, before: &[Token]) -> Place {
    let Some(noun) = before.first() else {
        return words_of(before);
    };
    let Some(noun) = word(noun) else {
        return Place::nothing();
    };
    let one = of_noun(noun).find(|it| it.words == noun);
    if let Some(usage) = one {
        return arguments(schema, usage, &before[1..]);
    }
    let Some(verb) = before.get(1) else {
        return words_of(before);
    };
    let verb = word(verb).unwrap_or_default();
    let usage = of_noun(noun).find(|it| it.words.split(' ').nth(1) == Some(verb));
    usage.map_or_else(Place::nothing, |usage| {
        arguments(schema, usage, &before[2..])
    })
}

fn names(schema: &Schema, objects: &[Object]) -> Place {
    let all = objects.iter().flat_map(|it| schema.preambles(*it));
    let mut all: Vec<String> = all.map(|it| spaced(name_text(alias(it)))).collect();
    all.sort();
    Place::Words(all)
}

fn arguments(schema: &Schema, usage: &Usage, args: &[Token]) -> Place {
    let first = args.first().and_then(word);
    match (usage.arg, first) {
        (Arg::File, _) => file(usage, args),
        (Arg::Words(words), _) => listed(schema, usage, words, args),
        (Arg::PacketOut, _) => packet_out(schema, args),
        (Arg::Object(kind), None) => names(schema, &[kind]),
        (Arg::Counter, None) => names(schema, &[Object::Counter, Object::DirectCounter]),
        (Arg::Meter, None) => names(schema, &[Object::Meter, Object::DirectMeter]),
        (Arg::Object(kind), Some(name)) => of_object(schema, kind, usage, (name, args)),
        (Arg::Counter, Some(name)) => {
            let found = schema
                .direct_counter(name)
                .ok()
                .map(|it| it.direct_table_id);
            of_counted(schema, found, usage, args, &["packets=", "bytes="])
        }
        (Arg::Meter, Some(name)) => {
            let found = schema.direct_meter(name).ok().map(|it| it.direct_table_id);
            of_counted(schema, found, usage, args, RATES)
        }
        (Arg::None, _) => Place::nothing(),
    }
}

/// What may follow in a command that takes a file: the file's name or, after the name of a program's file, attributes.
fn file(usage: &Usage, args: &[Token]) -> Place {
    match named(args) {
        _ if args.is_empty() => Place::File,
        Some("p4info") => Place::File,
        Some(_) => Place::nothing(),
        None if usage.args.contains("cookie=") => words_left(args, &["p4info=", "cookie="]),
        None if usage.args.contains("p4info=") => words_left(args, &["p4info="]),
        None => Place::nothing(),
    }
}

fn listed(schema: &Schema, usage: &Usage, words: &[&str], args: &[Token]) -> Place {
    match usage.words {
        "info" if args.is_empty() => names(schema, KINDS),
        "help" => words_of(args),
        _ if named(args).is_some() => Place::nothing(),
        _ => Place::Words(words.iter().map(|it| end_of(it)).collect()),
    }
}

/// What may follow the name of an object.
fn of_object(
    schema: &Schema,
    kind: Object,
    usage: &Usage,
    (name, args): (&str, &[Token]),
) -> Place {
    match kind {
        Object::Table => schema.table(name).map_or_else(
            |_| Place::nothing(),
            |table| of_table(schema, table, usage.words, &args[1..]),
        ),
        Object::ActionProfile => schema.profile(name).map_or_else(
            |_| Place::nothing(),
            |profile| {
                let actions = schema.actions_of_profile(profile);
                of_profile(schema, &actions, usage.words, &args[1..])
            },
        ),
        Object::Register if usage.words == "register set" && args.len() == 2 => {
            let register = schema.register(name);
            register.map_or_else(|_| Place::nothing(), |it| of_register(schema, it))
        }
        Object::Digest if usage.args.contains("list=") => {
            words_left(args, &["list=", "timeout=", "ack="])
        }
        Object::ValueSet if args.len() == 1 && usage.args.contains('{') => {
            Place::Words(vec!["{".to_owned()])
        }
        _ => Place::nothing(),
    }
}

const RATES: &[&str] = &["cir=", "cburst=", "pir=", "pburst=", "eburst="];

/// The completed word: with a space after it, unless a value follows.
fn end_of(word: &str) -> String {
    if word.ends_with('=') {
        word.to_owned()
    } else {
        spaced(word)
    }
}

fn given(tokens: &[Token]) -> Vec<&str> {
    let pairs = tokens
        .windows(2)
        .filter(|pair| pair[1].kind == Kind::Mark('='));
    pairs.filter_map(|pair| word(&pair[0])).collect()
}

fn words_left(tokens: &[Token], words: &[&str]) -> Place {
    if tokens.last().is_some_and(|it| it.kind == Kind::Mark('=')) {
        return Place::nothing();
    }
    let given = given(tokens);
    let left = words
        .iter()
        .filter(|it| !given.contains(&it.trim_end_matches('=')));
    Place::Words(left.map(|it| (*it).to_owned()).collect())
}

/// If the tokens end with a name and `=`, returns the name.
fn named(tokens: &[Token]) -> Option<&str> {
    match tokens {
        [.., name, equals] if equals.kind == Kind::Mark('=') => word(name),
        _ => None,
    }
}

/// Finds the innermost open bracket. Returns it, the word before it, and the tokens inside.
fn innermost(tokens: &[Token]) -> Option<(char, Option<&str>, &[Token])> {
    let mut open: Vec<usize> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Mark('(' | '{') => open.push(at),
            Kind::Mark(')' | '}') => {
                open.pop();
            }
            _ => {}
        }
    }
    let at = *open.last()?;
    let Kind::Mark(mark) = tokens[at].kind else {
        return None;
    };
    let name = at.checked_sub(1).and_then(|before| word(&tokens[before]));
    Some((mark, name, &tokens[at + 1..]))
}

fn actions_place(actions: &[&config::Action]) -> Place {
    let action = |it: &&config::Action| {
        let name = name_text(alias(it.preamble.as_ref()?));
        Some(if it.params.is_empty() {
            name
        } else {
            format!("{name}(")
        })
    };
    let mut all: Vec<String> = actions.iter().filter_map(action).collect();
    all.sort();
    Place::Words(all)
}

fn params_place(
    schema: &Schema,
    actions: &[&config::Action],
    name: &str,
    inside: &[Token],
) -> Place {
    let is_it = |it: &&&config::Action| {
        it.preamble.as_ref().is_some_and(|it| {
            alias(it) == name || it.name == name || it.name.ends_with(&format!(".{name}"))
        })
    };
    let Some(action) = actions.iter().find(is_it) else {
        return Place::nothing();
    };
    if let Some(name) = named(inside) {
        let param = action.params.iter().find(|it| it.name == name);
        return param.map_or_else(Place::nothing, |it| {
            Place::value(&schema.param_type(it), "")
        });
    }
    let given = given(inside);
    let left = action
        .params
        .iter()
        .filter(|it| !given.contains(&it.name.as_str()));
    let mut words: Vec<String> = left.map(|it| format!("{}=", name_text(&it.name))).collect();
    if words.is_empty() {
        words.push(")".to_owned());
    }
    Place::Words(words)
}

fn of_table(schema: &Schema, table: &config::Table, words: &str, args: &[Token]) -> Place {
    let is_default = words == "table default" || words == "table reset";
    let actions = schema.actions_of(table, is_default);
    let arrow = args.iter().rposition(|it| it.kind == Kind::Arrow);
    if let Some((mark, name, inside)) = innermost(args) {
        return match (mark, name) {
            ('(', Some("meter")) if arrow.is_none() => words_left(inside, RATES),
            ('(', Some("counter")) if arrow.is_none() => {
                words_left(inside, &["packets=", "bytes="])
            }
            ('(', Some(name)) => params_place(schema, &actions, name, inside),
            ('{', _) if arrow.is_some() => in_members(&actions, inside),
            _ => Place::nothing(),
        };
    }
    if let Some(arrow) = arrow {
        return match args.len() - arrow {
            1 if table.implementation_id != 0 && !is_default => {
                let indirect = ["member=", "group=", "{"];
                Place::Words(indirect.map(str::to_owned).into())
            }
            1 => actions_place(&actions),
            _ => Place::nothing(),
        };
    }
    if words == "table reset" || words == "table clear" {
        return Place::nothing();
    }
    let attributes = |has_rest: bool| {
        let mut all = Vec::new();
        if has_order(table) {
            all.push("priority=");
        }
        if has_rest {
            if table.idle_timeout_behavior() != config::table::IdleTimeoutBehavior::NoTimeout {
                all.push("timeout=");
            }
            all.push("metadata=");
            let id = table.preamble.as_ref().map_or(0, |it| it.id);
            if schema.direct_meter_of(id).is_some() {
                all.push("meter(");
            }
            if schema.direct_counter_of(id).is_some() {
                all.push("counter(");
            }
        }
        all
    };
    let has_action = words != "table delete" && words != "table get";
    if is_default {
        return Place::Words(vec!["-> ".to_owned()]);
    }
    let mut place = fields(schema, &table.match_fields, args, &attributes(has_action));
    if let Place::Words(words) = &mut place
        && has_action
    {
        words.push("-> ".to_owned());
    }
    place
}

/// What may follow in a member of a one-shot action set: its action, then its weight and port.
fn in_members(actions: &[&config::Action], inside: &[Token]) -> Place {
    let begin = inside.iter().rposition(|it| it.kind == Kind::Mark(','));
    let member = &inside[begin.map_or(0, |at| at + 1)..];
    if member.is_empty() {
        actions_place(actions)
    } else {
        words_left(member, &["weight=", "watch="])
    }
}

/// What may follow in a key: the value of the field whose name stands before the cursor; otherwise the fields that have
/// no value yet, and attributes.
fn fields(
    schema: &Schema,
    fields: &[config::MatchField],
    args: &[Token],
    attributes: &[&str],
) -> Place {
    if let Some(name) = named(args) {
        let end = format!(".{name}");
        let is_it = |it: &&config::MatchField| {
            it.name == name || short_field(fields, it) == name || it.name.ends_with(&end)
        };
        let Some(field) = fields.iter().find(is_it) else {
            return Place::nothing();
        };
        let form = match match_type(field) {
            Some(MatchType::Lpm) => "/PREFIX_LENGTH",
            Some(MatchType::Ternary) => "&&&MASK",
            Some(MatchType::Range) => "..HIGH",
            _ => "",
        };
        return Place::value(&schema.field_type(field), form);
    }
    let given = given(args);
    let is_left = |it: &&config::MatchField| {
        let short = short_field(fields, it);
        !given.iter().any(|name| *name == it.name || *name == short)
    };
    let mut words: Vec<String> = fields
        .iter()
        .filter(is_left)
        .map(|it| format!("{}=", name_text(&short_field(fields, it))))
        .collect();
    let rest = attributes
        .iter()
        .filter(|it| !given.contains(&it.trim_end_matches(['=', '('])));
    words.extend(rest.map(|it| (*it).to_owned()));
    Place::Words(words)
}

fn of_profile(schema: &Schema, actions: &[&config::Action], words: &str, args: &[Token]) -> Place {
    if words.starts_with("group") {
        return match innermost(args) {
            Some((_, _, inside)) if inside.last().and_then(word).is_some() => {
                words_left(inside, &["weight=", "watch="])
            }
            Some(_) => Place::nothing(),
            None if args.len() == 1 && !words.ends_with("list") && !words.ends_with("delete") => {
                Place::Words(vec!["{".to_owned()])
            }
            None if args.last().is_some_and(|it| it.kind == Kind::Mark('}')) => {
                Place::Words(vec!["max_size=".to_owned()])
            }
            None => Place::nothing(),
        };
    }
    if let Some(('(', Some(name), inside)) = innermost(args) {
        return params_place(schema, actions, name, inside);
    }
    match args.last().map(|it| &it.kind) {
        Some(Kind::Arrow) => actions_place(actions),
        Some(_) if args.len() == 1 && (words.ends_with("add") || words.ends_with("modify")) => {
            Place::Words(vec!["-> ".to_owned()])
        }
        _ => Place::nothing(),
    }
}

fn of_register(schema: &Schema, register: &config::Register) -> Place {
    let spec = register
        .type_spec
        .as_ref()
        .and_then(|it| it.type_spec.as_ref());
    let name = register.preamble.as_ref().map_or("", alias);
    match spec {
        Some(TypeSpec::Bool(_)) => Place::Words(vec!["true".to_owned(), "false".to_owned()]),
        Some(TypeSpec::Struct(_) | TypeSpec::Tuple(_)) => Place::Words(vec!["{".to_owned()]),
        spec => Place::value(&schema.data_type(spec, name), ""),
    }
}

fn of_counted(
    schema: &Schema,
    direct_table_id: Option<u32>,
    usage: &Usage,
    args: &[Token],
    values: &[&str],
) -> Place {
    let values = if usage.words.ends_with("set") && !usage.words.ends_with("reset") {
        values
    } else {
        &[]
    };
    let Some(table) = direct_table_id.and_then(|id| schema.table_by_id(id)) else {
        return match args.len() {
            1 => Place::Words(vec!["* ".to_owned()]),
            _ => words_left(args, values),
        };
    };
    fields(schema, &table.match_fields, &args[1..], values)
}

fn packet_out(schema: &Schema, args: &[Token]) -> Place {
    let Some(header) = super::typed::packet_header(schema, "packet_out") else {
        return Place::nothing();
    };
    if let Some(name) = named(args) {
        let field = header.metadata.iter().find(|it| it.name == name);
        return field.map_or_else(Place::nothing, |it| {
            Place::value(&schema.metadata_type(it), "")
        });
    }
    let given = given(args);
    let left = header
        .metadata
        .iter()
        .filter(|it| !given.contains(&it.name.as_str()));
    Place::Words(left.map(|it| format!("{}=", name_text(&it.name))).collect())
}
