//! Commands for entries and default actions of tables.

use bmv2_thrift::Call;
use bmv2_thrift::message::{ActionEntry, Entry, MatchParam, Structure};
use data_encoding::HEXLOWER;

use super::profiles::dump_profile;
use super::{Typed, find, program};
use crate::connection::Answer;
use crate::error::{Done, Error};
use crate::program::{Action, MatchType, Program, Table, TableType};
use crate::session::{Session, say};
use crate::value::{colons, decimal, hex_number, i32_of, match_key, runtime_data};

fn action<'a>(
    program: &'a Program,
    table: &Table,
    name: &str,
    typed: &str,
) -> Result<&'a Action, Error> {
    let found = program.actions.get(name);
    let found = found.filter(|action| table.actions.contains(&action.name));
    found.ok_or_else(|| Error::input(format!("Table {typed} has no action {name}")))
}

/// Converts the arguments of an action. There must be as many arguments as the action has parameters.
pub(super) fn arguments(action: &Action, name: &str, args: &[&str]) -> Result<Vec<Vec<u8>>, Error> {
    let expected = action.params.len();
    if args.len() != expected {
        return Err(Error::input(format!(
            "Action {name} needs {expected} parameters"
        )));
    }
    runtime_data(action, args)
}

/// Skips the optional arrow after a handle.
pub(super) fn behind_arrow<'a>(args: &'a [&'a str]) -> &'a [&'a str] {
    match args {
        ["=>", args @ ..] => args,
        args => args,
    }
}

fn say_action(session: &Session, action: &str, args: &[Vec<u8>]) -> Done {
    let args: Vec<String> = args.iter().map(|arg| colons(arg)).collect();
    say!(session, "{:20} {action}", "action:")?;
    Ok(say!(session, "{:20} {}", "runtime data:", args.join("\t"))?)
}

pub fn set_default(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let [table_name, action_name, args @ ..] = typed.at_least(2)? else {
        return Ok(());
    };
    let table = find(&program.tables, "table", table_name)?;
    let action = action(&program, table, action_name, table_name)?;
    let args = arguments(action, action_name, args)?;
    say!(session, "Setting default action of {table_name}")?;
    say_action(session, action_name, &args)?;
    let call = Call::in_context("bm_mt_set_default_action");
    session.table(call.bytes(&table.name).bytes(&action.name).all_bytes(&args))?;
    Ok(())
}

fn of_table(session: &mut Session, typed: &Typed<'_>, call: &'static str) -> Result<Answer, Error> {
    let [name] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    session.table(Call::in_context(call).bytes(&table.name))
}

pub fn reset_default(session: &mut Session, typed: &Typed<'_>) -> Done {
    of_table(session, typed, "bm_mt_reset_default_entry").map(drop)
}

pub fn indirect_reset_default(session: &mut Session, typed: &Typed<'_>) -> Done {
    of_table(session, typed, "bm_mt_indirect_reset_default_entry").map(drop)
}

pub fn num_entries(session: &mut Session, typed: &Typed<'_>) -> Done {
    let answer = of_table(session, typed, "bm_mt_get_num_entries")?;
    let count = answer.result(|args, id| args.i64(id))?;
    Ok(say!(session, "{count}")?)
}

pub fn clear(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    let call = Call::in_context("bm_mt_clear_entries");
    session.table(call.bytes(&table.name).bool(false))?;
    Ok(())
}

/// If entries of the table have a priority, takes the last word as the priority.
fn priority(table: &Table, words: &mut Vec<&str>) -> Result<i32, Error> {
    if !table.has_priorities() {
        return Ok(0);
    }
    let last = words.pop().and_then(decimal);
    last.and_then(|it| i32::try_from(it).ok()).ok_or_else(|| {
        Error::input("Table is ternary, but could not extract a valid priority from args")
    })
}

/// Splits the words at the arrow. If there is no arrow, treats the last word as the arrow, as BMv2's command line does,
/// and prints a warning on standard error.
fn at_arrow<'a>(
    session: &Session,
    words: &'a [&'a str],
) -> Result<(&'a [&'a str], &'a [&'a str]), Error> {
    if let Some(arrow) = words.iter().position(|word| *word == "=>") {
        return Ok((&words[..arrow], &words[arrow + 1..]));
    }
    match words.split_last() {
        Some((last, words)) => {
            session.note(&format!(
                "there is no \"=>\" between key and arguments, so \"{last}\" is taken for it"
            ))?;
            Ok((words, &[]))
        }
        None => Ok((&[], &[])),
    }
}

fn expect_fields(table: &Table, typed: &str, key: &[&str]) -> Done {
    let expected = table.key.len();
    if key.len() == expected {
        Ok(())
    } else {
        Err(Error::input(format!(
            "Table {typed} needs {expected} key fields"
        )))
    }
}

fn shown(param: &MatchParam) -> String {
    match param {
        MatchParam::Exact(value) => format!("EXACT-{}", colons(value)),
        MatchParam::Lpm(value, length) => format!("LPM-{}/{length}", colons(value)),
        MatchParam::Ternary(value, mask) => {
            format!("TERNARY-{} &&& {}", colons(value), colons(mask))
        }
        MatchParam::Valid(_) => "VALID-".to_owned(),
        MatchParam::Range(start, end) => format!("RANGE-{} -> {}", colons(start), colons(end)),
        MatchParam::None(_) => String::new(),
    }
}

pub fn add(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let [table_name, action_name, words @ ..] = typed.at_least(3)? else {
        return Ok(());
    };
    let table = find(&program.tables, "table", table_name)?;
    let action = action(&program, table, action_name, table_name)?;
    let mut words = words.to_vec();
    let priority = priority(table, &mut words)?;
    let (key, args) = at_arrow(session, &words)?;
    expect_fields(table, table_name, key)?;
    let args = arguments(action, &action.name, args)?;
    let key = match_key(table, key)?;
    let of = table.match_type.name();
    say!(session, "Adding entry to {of} match table {table_name}")?;
    let shown: Vec<String> = key.iter().map(shown).collect();
    say!(session, "{:20} {}", "match key:", shown.join("\t"))?;
    say_action(session, action_name, &args)?;
    let call = Call::in_context("bm_mt_add_entry")
        .bytes(&table.name)
        .structures(&key)
        .bytes(&action.name)
        .all_bytes(&args)
        .priority(priority);
    let answer = session.table(call)?;
    say_added(session, &answer)
}

fn say_added(session: &Session, answer: &Answer) -> Done {
    let handle = answer.result(|args, id| args.i32(id))?;
    Ok(say!(session, "Entry has been added with handle {handle}")?)
}

pub fn set_timeout(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, handle, timeout] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    if !table.has_timeouts {
        return Err(Error::input(format!(
            "Table {name} does not support entry timeouts"
        )));
    }
    let handle = i32_of(handle, "entry handle")?;
    let timeout = i32_of(timeout, "timeout")?;
    say!(session, "Setting a {timeout} ms timeout for entry {handle}")?;
    let call = Call::in_context("bm_mt_set_entry_ttl");
    session.table(call.bytes(&table.name).i32(handle).i32(timeout))?;
    Ok(())
}

pub fn modify(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let [table_name, action_name, handle, args @ ..] = typed.at_least(3)? else {
        return Ok(());
    };
    let table = find(&program.tables, "table", table_name)?;
    let action = action(&program, table, action_name, table_name)?;
    let handle = i32_of(handle, "entry handle")?;
    let args = arguments(action, &action.name, behind_arrow(args))?;
    let of = table.match_type.name();
    say!(
        session,
        "Modifying entry {handle} for {of} match table {table_name}"
    )?;
    let call = Call::in_context("bm_mt_modify_entry")
        .bytes(&table.name)
        .i32(handle)
        .bytes(&action.name)
        .all_bytes(&args);
    session.table(call)?;
    Ok(())
}

pub fn delete(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, handle] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    let handle = i32_of(handle, "entry handle")?;
    say!(session, "Deleting entry {handle} from {name}")?;
    let call = Call::in_context("bm_mt_delete_entry");
    session.table(call.bytes(&table.name).i32(handle))?;
    Ok(())
}

pub(super) fn expect_indirect(table: &Table) -> Done {
    match table.of {
        TableType::Simple => Err(Error::input(
            "Cannot run this command on non-indirect table",
        )),
        _ => Ok(()),
    }
}

/// Fails unless the table's entries refer to an action profile with groups.
pub(super) fn expect_selector(table: &Table) -> Done {
    match table.of {
        TableType::IndirectWithSelector => Ok(()),
        _ => Err(Error::input(
            "Cannot run this command on non-indirect table, or on indirect table with no selector",
        )),
    }
}

/// A check that a table has an action profile, or that it has an action profile with groups.
type Expect = fn(&Table) -> Done;

fn add_indirect(
    session: &mut Session,
    typed: &Typed<'_>,
    expect: Expect,
    call: &'static str,
) -> Done {
    let program = program(session);
    let [table_name, words @ ..] = typed.at_least(2)? else {
        return Ok(());
    };
    let table = find(&program.tables, "table", table_name)?;
    expect(table)?;
    let mut words = words.to_vec();
    let priority = priority(table, &mut words)?;
    let arrow = words.iter().position(|word| *word == "=>");
    let (key, handle) = match arrow.map(|arrow| words.split_at(arrow)) {
        Some((key, ["=>", handle])) => (key, handle),
        _ => return Err(Error::input("Invalid arguments, could not find handle")),
    };
    let handle = i32_of(handle, "handle")?;
    expect_fields(table, table_name, key)?;
    let key = match_key(table, key)?;
    say!(
        session,
        "Adding entry to indirect match table {}",
        table.name
    )?;
    let call = Call::in_context(call)
        .bytes(&table.name)
        .structures(&key)
        .i32(handle)
        .priority(priority);
    let answer = session.table(call)?;
    say_added(session, &answer)
}

pub fn indirect_add(session: &mut Session, typed: &Typed<'_>) -> Done {
    add_indirect(session, typed, expect_indirect, "bm_mt_indirect_add_entry")
}

pub fn indirect_add_with_group(session: &mut Session, typed: &Typed<'_>) -> Done {
    let call = "bm_mt_indirect_ws_add_entry";
    add_indirect(session, typed, expect_selector, call)
}

pub fn indirect_delete(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, handle] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    expect_indirect(table)?;
    let handle = i32_of(handle, "entry handle")?;
    say!(session, "Deleting entry {handle} from {name}")?;
    let call = Call::in_context("bm_mt_indirect_delete_entry");
    session.table(call.bytes(&table.name).i32(handle))?;
    Ok(())
}

fn default_indirect(
    session: &mut Session,
    typed: &Typed<'_>,
    expect: Expect,
    call: &'static str,
) -> Done {
    let [name, handle] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    expect(table)?;
    let handle = i32_of(handle, "handle")?;
    session.table(Call::in_context(call).bytes(&table.name).i32(handle))?;
    Ok(())
}

pub fn indirect_set_default(session: &mut Session, typed: &Typed<'_>) -> Done {
    let call = "bm_mt_indirect_set_default_member";
    default_indirect(session, typed, expect_indirect, call)
}

pub fn indirect_set_default_with_group(session: &mut Session, typed: &Typed<'_>) -> Done {
    let call = "bm_mt_indirect_ws_set_default_group";
    default_indirect(session, typed, expect_selector, call)
}

pub(super) fn dump_call(session: &Session, name: &str, args: &[Vec<u8>]) -> Done {
    let args: Vec<String> = args.iter().map(|arg| HEXLOWER.encode(arg)).collect();
    Ok(say!(session, "Action entry: {name} - {}", args.join(", "))?)
}

fn dump_action(session: &Session, action: &ActionEntry) -> Done {
    match action {
        ActionEntry::Empty => say!(session, "EMPTY")?,
        ActionEntry::Call(name, args) => dump_call(session, name, args)?,
        ActionEntry::Member(handle) => say!(session, "Index: member({handle})")?,
        ActionEntry::Group(handle) => say!(session, "Index: group({handle})")?,
    }
    Ok(())
}

fn dumped(param: &MatchParam) -> (MatchType, String) {
    let hex = |bytes: &[u8]| HEXLOWER.encode(bytes);
    match param {
        MatchParam::Exact(value) => (MatchType::Exact, hex(value)),
        MatchParam::Lpm(value, length) => (MatchType::Lpm, format!("{}/{length}", hex(value))),
        MatchParam::Ternary(value, mask) => (
            MatchType::Ternary,
            format!("{} &&& {}", hex(value), hex(mask)),
        ),
        MatchParam::Valid(value) => (MatchType::Valid, format!("0{}", u8::from(*value))),
        MatchParam::Range(start, end) => {
            (MatchType::Range, format!("{} -> {}", hex(start), hex(end)))
        }
        MatchParam::None(of) => (MatchType::Exact, format!("(a match of type {of})")),
    }
}

fn dump_one(session: &Session, table: &Table, entry: &Entry) -> Done {
    let names = table.key.iter().map(|field| field.name.chars().count());
    let width = names.max().unwrap_or(0).max(20);
    say!(session, "Dumping entry {}", hex_number(entry.handle))?;
    say!(session, "Match key:")?;
    for (field, param) in table.key.iter().zip(&entry.key) {
        let (name, (of, value)) = (&field.name, dumped(param));
        let of = of.name().to_ascii_uppercase();
        say!(session, "* {name:width$}: {of:10}{value}")?;
    }
    if let Some(priority @ 0..) = entry.options.priority {
        say!(session, "Priority: {priority}")?;
    }
    dump_action(session, &entry.action)?;
    if let Some(life) = entry.life {
        let (since, timeout) = (life.since_hit_ms, life.timeout_ms);
        say!(session, "Life: {since}ms since hit, timeout is {timeout}ms")?;
    }
    Ok(())
}

pub fn dump_entry(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, handle] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    let handle = i32_of(handle, "entry handle")?;
    let call = Call::in_context("bm_mt_get_entry");
    let answer = session.table(call.bytes(&table.name).i32(handle))?;
    dump_one(session, table, &answer.structure()?)
}

pub fn dump_entry_from_key(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let [name, words @ ..] = typed.at_least(1)? else {
        return Ok(());
    };
    let table = find(&program.tables, "table", name)?;
    let mut words = words.to_vec();
    let priority = priority(table, &mut words)?;
    expect_fields(table, name, &words)?;
    let key = match_key(table, &words)?;
    let call = Call::in_context("bm_mt_get_entry_from_key")
        .bytes(&table.name)
        .structures(&key)
        .priority(priority);
    let answer = session.table(call)?;
    dump_one(session, table, &answer.structure()?)
}

pub fn dump(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    let call = Call::in_context("bm_mt_get_entries").bytes(&table.name);
    let answer = session.table(call)?;
    say!(session, "==========")?;
    say!(session, "TABLE ENTRIES")?;
    for entry in answer.result(|args, id| args.all_fields(id))? {
        say!(session, "**********")?;
        dump_one(session, table, &Entry::read(entry)?)?;
    }
    drop(answer);
    let profile = table.profile.as_deref();
    if let Some(profile) = profile.and_then(|name| program.profiles.full(name)) {
        dump_profile(session, profile)?;
    }
    let call = Call::in_context("bm_mt_get_default_entry").bytes(&table.name);
    let default: ActionEntry = session.table(call)?.structure()?;
    say!(session, "==========")?;
    say!(session, "Dumping default entry")?;
    dump_action(session, &default)?;
    Ok(say!(session, "==========")?)
}
