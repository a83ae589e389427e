//! Commands for parser value sets.

use bmv2_thrift::Call;
use data_encoding::HEXLOWER;

use super::{Typed, find, program};
use crate::connection::{Answer, Operation};
use crate::error::{Done, Error};
use crate::session::{Session, say};
use crate::value::value_set_value;

const WHAT: &str = "parser value set";

fn change(session: &mut Session, typed: &Typed<'_>, call: &'static str) -> Done {
    let [name, value] = typed.exactly()?;
    let program = program(session);
    let set = find(&program.value_sets, WHAT, name)?;
    let value = value_set_value(value, set.bits)?;
    let call = Call::in_context(call).bytes(&set.name).bytes(value);
    session.standard(call, Operation::ValueSet)?;
    Ok(())
}

pub fn add(session: &mut Session, typed: &Typed<'_>) -> Done {
    change(session, typed, "bm_parse_vset_add")
}

pub fn remove(session: &mut Session, typed: &Typed<'_>) -> Done {
    change(session, typed, "bm_parse_vset_remove")
}

fn of_set(session: &mut Session, typed: &Typed<'_>, call: &'static str) -> Result<Answer, Error> {
    let [name] = typed.exactly()?;
    let program = program(session);
    let set = find(&program.value_sets, WHAT, name)?;
    let call = Call::in_context(call).bytes(&set.name);
    session.standard(call, Operation::ValueSet)
}

pub fn get(session: &mut Session, typed: &Typed<'_>) -> Done {
    let answer = of_set(session, typed, "bm_parse_vset_get")?;
    for value in answer.result(|args, id| args.all_bytes(id))? {
        say!(session, "{}", HEXLOWER.encode(value))?;
    }
    Ok(())
}

pub fn clear(session: &mut Session, typed: &Typed<'_>) -> Done {
    of_set(session, typed, "bm_parse_vset_clear").map(drop)
}
