//! Commands that show the program's objects.

use super::{Typed, find, program};
use crate::error::Done;
use crate::program::{Action, Program, Table};
use crate::session::{Session, say};

pub fn greet(session: &mut Session, _: &Typed<'_>) -> Done {
    Ok(say!(session, "hello")?)
}

fn table_line(table: &Table) -> String {
    let key = table.key.iter().map(|field| {
        let (name, of, bits) = (&field.name, field.match_type.name(), field.bits);
        format!("{name}({of}, {bits})")
    });
    let (key, name) = (key.collect::<Vec<_>>().join(",\t"), &table.name);
    let profile = table.profile.as_deref().unwrap_or("None");
    format!("{name:30} [implementation={profile}, mk={key}]")
}

fn action_line(action: &Action) -> String {
    let params = action.params.iter();
    let params = params.map(|(name, bits)| format!("{name}({bits})"));
    let (params, name) = (params.collect::<Vec<_>>().join(",\t"), &action.name);
    format!("{name:30} [{params}]")
}

pub fn tables(session: &mut Session, typed: &Typed<'_>) -> Done {
    typed.exactly::<0>()?;
    for table in program(session).tables.values() {
        say!(session, "{}", table_line(table))?;
    }
    Ok(())
}

pub fn actions(session: &mut Session, typed: &Typed<'_>) -> Done {
    typed.exactly::<0>()?;
    for action in program(session).actions.values() {
        say!(session, "{}", action_line(action))?;
    }
    Ok(())
}

fn actions_of(session: &Session, program: &Program, table: &Table) -> Done {
    let actions = table.actions.iter();
    for action in actions.filter_map(|name| program.actions.full(name)) {
        say!(session, "{}", action_line(action))?;
    }
    Ok(())
}

pub fn table_actions(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    let program = program(session);
    actions_of(session, &program, find(&program.tables, "table", name)?)
}

pub fn table(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    let program = program(session);
    let table = find(&program.tables, "table", name)?;
    say!(session, "{}", table_line(table))?;
    say!(session, "{}", "*".repeat(80))?;
    actions_of(session, &program, table)
}

pub fn value_sets(session: &mut Session, typed: &Typed<'_>) -> Done {
    typed.exactly::<0>()?;
    for set in program(session).value_sets.values() {
        let (name, bits) = (&set.name, set.bits);
        say!(session, "{name:30} [compressed bitwidth:{bits}]")?;
    }
    Ok(())
}
