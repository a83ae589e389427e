//! Commands for members and groups of action profiles. A command names the profile or, as in older scripts, a table
//! that uses the profile.

use bmv2_thrift::Call;
use bmv2_thrift::message::{Group, Member, read_all};

use super::tables::{arguments, behind_arrow, dump_call, expect_indirect, expect_selector};
use super::{Typed, find, program};
use crate::error::{Done, Error};
use crate::program::{Action, Profile, Program, Table};
use crate::session::{Session, say};
use crate::value::i32_of;

fn profile<'a>(program: &'a Program, name: &str) -> Result<&'a Profile, Error> {
    find(&program.profiles, "action profile", name)
}

fn with_groups<'a>(program: &'a Program, name: &str) -> Result<&'a Profile, Error> {
    let profile = profile(program, name)?;
    if profile.has_groups {
        Ok(profile)
    } else {
        Err(Error::input(
            "Cannot run this command on an action profile without selector",
        ))
    }
}

fn action<'a>(
    program: &'a Program,
    profile: &Profile,
    typed: &str,
    name: &str,
) -> Result<&'a Action, Error> {
    let found = program.actions.get(name);
    let found = found.filter(|action| profile.actions.contains(&action.name));
    found.ok_or_else(|| Error::input(format!("Action profile '{typed}' has no action '{name}'")))
}

pub fn create_member(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let [name, action_name, args @ ..] = typed.at_least(2)? else {
        return Ok(());
    };
    let profile = profile(&program, name)?;
    let action = action(&program, profile, name, action_name)?;
    let args = arguments(action, &action.name, args)?;
    let call = Call::in_context("bm_mt_act_prof_add_member")
        .bytes(&profile.name)
        .bytes(&action.name)
        .all_bytes(&args);
    let handle = session.table(call)?.result(|args, id| args.i32(id))?;
    Ok(say!(
        session,
        "Member has been created with handle {handle}"
    )?)
}

pub fn delete_member(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, handle] = typed.exactly()?;
    let program = program(session);
    let profile = profile(&program, name)?;
    let handle = i32_of(handle, "member handle")?;
    let call = Call::in_context("bm_mt_act_prof_delete_member");
    session.table(call.bytes(&profile.name).i32(handle))?;
    Ok(())
}

pub fn modify_member(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let [name, action_name, handle, args @ ..] = typed.at_least(3)? else {
        return Ok(());
    };
    let profile = profile(&program, name)?;
    let action = action(&program, profile, name, action_name)?;
    let handle = i32_of(handle, "member handle")?;
    let args = arguments(action, &action.name, behind_arrow(args))?;
    let call = Call::in_context("bm_mt_act_prof_modify_member")
        .bytes(&profile.name)
        .i32(handle)
        .bytes(&action.name)
        .all_bytes(&args);
    session.table(call)?;
    Ok(())
}

pub fn create_group(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    let program = program(session);
    let profile = with_groups(&program, name)?;
    let call = Call::in_context("bm_mt_act_prof_create_group").bytes(&profile.name);
    let handle = session.table(call)?.result(|args, id| args.i32(id))?;
    Ok(say!(
        session,
        "Group has been created with handle {handle}"
    )?)
}

pub fn delete_group(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, handle] = typed.exactly()?;
    let program = program(session);
    let profile = with_groups(&program, name)?;
    let handle = i32_of(handle, "group handle")?;
    let call = Call::in_context("bm_mt_act_prof_delete_group");
    session.table(call.bytes(&profile.name).i32(handle))?;
    Ok(())
}

fn membership(session: &mut Session, typed: &Typed<'_>, call: &'static str) -> Done {
    let [name, member, group] = typed.exactly()?;
    let program = program(session);
    let profile = with_groups(&program, name)?;
    let member = i32_of(member, "member handle")?;
    let group = i32_of(group, "group handle")?;
    let call = Call::in_context(call).bytes(&profile.name);
    session.table(call.i32(member).i32(group))?;
    Ok(())
}

pub fn add_to_group(session: &mut Session, typed: &Typed<'_>) -> Done {
    membership(session, typed, "bm_mt_act_prof_add_member_to_group")
}

pub fn remove_from_group(session: &mut Session, typed: &Typed<'_>) -> Done {
    membership(session, typed, "bm_mt_act_prof_remove_member_from_group")
}

fn dump_one_member(session: &Session, member: &Member) -> Done {
    say!(session, "Dumping member {}", member.handle)?;
    dump_call(session, &member.action, &member.args)
}

fn dump_one_group(session: &Session, group: &Group) -> Done {
    let members: Vec<String> = group.members.iter().map(i32::to_string).collect();
    say!(session, "Dumping group {}", group.handle)?;
    Ok(say!(session, "Members: [{}]", members.join(", "))?)
}

pub fn dump_member(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, handle] = typed.exactly()?;
    let program = program(session);
    let profile = profile(&program, name)?;
    let handle = i32_of(handle, "member handle")?;
    let call = Call::in_context("bm_mt_act_prof_get_member");
    let answer = session.table(call.bytes(&profile.name).i32(handle))?;
    dump_one_member(session, &answer.structure()?)
}

pub fn dump_group(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, handle] = typed.exactly()?;
    let program = program(session);
    let profile = profile(&program, name)?;
    let handle = i32_of(handle, "group handle")?;
    let call = Call::in_context("bm_mt_act_prof_get_group");
    let answer = session.table(call.bytes(&profile.name).i32(handle))?;
    dump_one_group(session, &answer.structure()?)
}

pub(super) fn dump_profile(session: &mut Session, profile: &Profile) -> Done {
    let call = Call::in_context("bm_mt_act_prof_get_members").bytes(&profile.name);
    let members: Vec<Member> = session.table(call)?.result(read_all)?;
    say!(session, "==========")?;
    say!(session, "MEMBERS")?;
    for member in &members {
        say!(session, "**********")?;
        dump_one_member(session, member)?;
    }
    if profile.has_groups {
        let call = Call::in_context("bm_mt_act_prof_get_groups").bytes(&profile.name);
        let groups: Vec<Group> = session.table(call)?.result(read_all)?;
        say!(session, "==========")?;
        say!(session, "GROUPS")?;
        for group in &groups {
            say!(session, "**********")?;
            dump_one_group(session, group)?;
        }
    }
    Ok(())
}

pub fn dump(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    let program = program(session);
    dump_profile(session, profile(&program, name)?)
}

/// An action profile's command in its older form, with a table's name.
struct ByTable {
    instead: &'static str,
    run: fn(&mut Session, &Typed<'_>) -> Done,
    expect: fn(&Table) -> Done,
    /// Whether the command is deprecated. A deprecated command prints a warning, and is refused if several tables share
    /// the profile.
    is_deprecated: bool,
}

impl ByTable {
    fn call(self, session: &mut Session, typed: &Typed<'_>) -> Done {
        let program = program(session);
        let [name, words @ ..] = typed.at_least(1)? else {
            return Ok(());
        };
        let table = find(&program.tables, "table", name)?;
        (self.expect)(table)?;
        let profile = table.profile.as_deref();
        let Some(profile) = profile.and_then(|name| program.profiles.full(name)) else {
            return expect_indirect(table);
        };
        if self.is_deprecated {
            if profile.n_tables > 1 {
                return Err(Error::input(
                    "Legacy command does not work with shared action profiles",
                ));
            }
            let instead = self.instead;
            session.out.error_line(format_args!(
                "This is a deprecated command, use '{instead}' instead"
            ))?;
        }
        let words = [profile.name.as_str()]
            .into_iter()
            .chain(words.iter().copied());
        let line = words.collect::<Vec<_>>().join(" ");
        (self.run)(session, &Typed::new(&line))
    }
}

macro_rules! by_table {
    ($($name:ident: $run:ident, $instead:literal, $expect:expr, $is_deprecated:literal;)*) => {
        $(pub fn $name(session: &mut Session, typed: &Typed<'_>) -> Done {
            let by_table = ByTable {
                instead: $instead,
                run: $run,
                expect: $expect,
                is_deprecated: $is_deprecated,
            };
            by_table.call(session, typed)
        })*
    };
}

by_table! {
    table_create_member: create_member, "act_prof_create_member", expect_indirect, true;
    table_delete_member: delete_member, "act_prof_delete_member", expect_indirect, true;
    table_modify_member: modify_member, "act_prof_modify_member", expect_indirect, true;
    table_create_group: create_group, "act_prof_create_group", expect_selector, true;
    table_delete_group: delete_group, "act_prof_delete_group", expect_selector, true;
    table_add_to_group: add_to_group, "act_prof_add_member_to_group", expect_selector, true;
    table_remove_from_group: remove_from_group, "act_prof_remove_member_from_group", expect_selector, true;
    table_dump_member: dump_member, "act_prof_dump_member", expect_indirect, false;
    table_dump_group: dump_group, "act_prof_dump_group", expect_indirect, false;
}
