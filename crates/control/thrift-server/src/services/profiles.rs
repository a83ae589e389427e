//! Action profiles: members and groups. BMv2's handle of a member or group is its id in P4Runtime. New members and
//! groups get the lowest free id, as in BMv2.

use std::sync::Arc;

use control::{Exclusive, Operation, OperationResult, Pipeline, Update};
use dataplane::{
    ActionCall, ActionId, ActionProfileId, ControlErrorKind, ProfileGroup, ProfileMember, Switch,
};

use super::expect_context;
use super::tables::{action_call, name_and_args};
use crate::call::{Answer, Answered, Refusal, declared, expect_room};
use crate::context::{Context, read_first, write_all};
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, TableCode};
use bmv2_thrift::message::{Group, Member, Structure};
use bmv2_thrift::wire::Type;
use bmv2_thrift::wire::write::Writer;

#[derive(Clone)]
struct Target {
    pipeline: Arc<Pipeline>,
    id: ActionProfileId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Members,
    Groups,
}

fn refuse<T>(code: TableCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Exception::new(code, message).into())
}

impl Target {
    /// Finds the action profile that field 2 of the arguments names.
    fn of(ctx: &Context, args: Args<'_>) -> Result<Self, Refusal> {
        expect_context(args)?;
        let (pipeline, name) = (ctx.pipeline()?, args.text(2)?);
        match pipeline.program().action_profile(name) {
            Some(id) => Ok(Self { pipeline, id }),
            None => refuse(
                TableCode::InvalidActionProfileName,
                format!("no action profile \"{name}\""),
            ),
        }
    }

    /// Finds the action profile that field 2 of the arguments names. Fails if the profile has no selector, since then
    /// it cannot have groups.
    fn with_groups(ctx: &Context, args: Args<'_>) -> Result<Self, Refusal> {
        let target = Self::of(ctx, args)?;
        let info = target.pipeline.program().action_profile_info(target.id);
        match info {
            Some(info) if info.selector.is_none() => refuse(
                TableCode::NoActionProfileSelection,
                format!("action profile \"{}\" has no groups", info.name),
            ),
            _ => Ok(target),
        }
    }

    fn ids(&self, of: Of) -> (u64, usize, bool) {
        (
            self.pipeline.generation(),
            self.id.index(),
            of == Of::Groups,
        )
    }

    fn call(&self, name: &str, args: &[&[u8]]) -> Result<ActionCall, Refusal> {
        match self.action(name) {
            Some(action) => action_call(&self.pipeline, action, args),
            None => refuse(
                TableCode::InvalidActionName,
                format!("no table of the action profile has the action \"{name}\""),
            ),
        }
    }

    fn action(&self, name: &str) -> Option<ActionId> {
        let program = self.pipeline.program();
        let mut tables = program
            .tables()
            .filter(|(_, info)| info.action_profile == Some(self.id));
        tables.find_map(|(table, _)| program.action_of(table, name))
    }

    async fn members(&self, device: &control::Device) -> Result<Vec<ProfileMember>, Refusal> {
        let id = self.id;
        read_first(device, &self.pipeline, move |switch| switch.members(id)).await
    }

    async fn groups(&self, device: &control::Device) -> Result<Vec<ProfileGroup>, Refusal> {
        let id = self.id;
        read_first(device, &self.pipeline, move |switch| switch.groups(id)).await
    }

    async fn group(&self, device: &control::Device, id: i32) -> Result<ProfileGroup, Refusal> {
        let mut groups = self.groups(device).await?.into_iter();
        match groups.find(|group| group.id == id.cast_unsigned()) {
            Some(group) => Ok(group),
            None => refuse(TableCode::InvalidGroupHandle, format!("no group {id}")),
        }
    }
}

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_mt_act_prof_add_member" => add_member(ctx, args).await,
        "bm_mt_act_prof_delete_member" => delete_member(ctx, args).await,
        "bm_mt_act_prof_modify_member" => modify_member(ctx, args).await,
        "bm_mt_act_prof_create_group" => create_group(ctx, args).await,
        "bm_mt_act_prof_delete_group" => delete_group(ctx, args).await,
        "bm_mt_act_prof_add_member_to_group" => add_to_group(ctx, args).await,
        "bm_mt_act_prof_remove_member_from_group" => remove_from_group(ctx, args).await,
        "bm_mt_act_prof_get_members" => members(ctx, args).await,
        "bm_mt_act_prof_get_member" => member(ctx, args).await,
        "bm_mt_act_prof_get_groups" => groups(ctx, args).await,
        "bm_mt_act_prof_get_group" => group(ctx, args).await,
        _ => return None,
    })
}

fn member_code(kind: ControlErrorKind) -> TableCode {
    match kind {
        ControlErrorKind::NotFound => TableCode::InvalidMemberHandle,
        ControlErrorKind::FailedPrecondition => TableCode::MemberStillUsed,
        ControlErrorKind::ResourceExhausted => TableCode::TableFull,
        ControlErrorKind::InvalidArgument => TableCode::BadActionData,
        _ => TableCode::Error,
    }
}

fn group_code(kind: ControlErrorKind) -> TableCode {
    match kind {
        ControlErrorKind::NotFound => TableCode::InvalidGroupHandle,
        ControlErrorKind::FailedPrecondition => TableCode::GroupStillUsed,
        ControlErrorKind::ResourceExhausted => TableCode::TableFull,
        _ => TableCode::Error,
    }
}

/// Adds a member or a group under the lowest free id. Tries a remembered guess of this id first, since reading all ids
/// takes longer the more ids there are. If the guess was wrong, the ids are read.
async fn add(
    ctx: &Context,
    target: Target,
    of: Of,
    insert: impl Fn(ActionProfileId, u32) -> Operation,
) -> Result<(u32, OperationResult), Refusal> {
    let ids = target.ids(of);
    let guess = ctx.free_id(ids);
    let added = write_new(ctx, &target, guess, &insert).await?;
    let is_taken = |error: &dataplane::ControlError| error.kind == ControlErrorKind::AlreadyExists;
    if !added.as_ref().is_err_and(is_taken) {
        return Ok((guess, added));
    }
    let lowest = lowest_free(ctx, &target, of).await?;
    Ok((lowest, write_new(ctx, &target, lowest, &insert).await?))
}

async fn write_new(
    ctx: &Context,
    target: &Target,
    id: u32,
    insert: impl Fn(ActionProfileId, u32) -> Operation,
) -> Result<OperationResult, Refusal> {
    ctx.write(Arc::clone(&target.pipeline), insert(target.id, id))
        .await
}

async fn lowest_free(ctx: &Context, target: &Target, of: Of) -> Result<u32, Refusal> {
    let profile = target.id;
    let taken = move |switch: &Switch| {
        let mut taken: Vec<u32> = match of {
            Of::Members => switch
                .members(profile)
                .iter()
                .map(|member| member.id)
                .collect(),
            Of::Groups => switch
                .groups(profile)
                .iter()
                .map(|group| group.id)
                .collect(),
        };
        taken.sort_unstable();
        taken
    };
    let taken = ctx.read_first(&target.pipeline, taken).await?;
    let taken = taken.into_iter();
    Ok(taken.fold(0, |lowest, taken| lowest + u32::from(taken == lowest)))
}

async fn add_member(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let action = target.call(args.text(3)?, &args.all_bytes(4)?)?;
    let ids = target.ids(Of::Members);
    let insert = |profile, id| {
        let action = action.clone();
        Operation::Member(profile, Update::Insert(ProfileMember { id, action }))
    };
    let (id, added) = add(ctx, target, Of::Members, insert).await?;
    added.map_err(declared(member_code))?;
    ctx.set_free_id(ids, id + 1);
    Ok(Answer::I32(id.cast_signed()))
}

async fn create_group(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::with_groups(ctx, args)?;
    let ids = target.ids(Of::Groups);
    let insert = |profile, id| {
        let group = ProfileGroup {
            id,
            max_size: 0,
            counts_members: false,
            members: Vec::new(),
            watched: Vec::new(),
        };
        Operation::ProfileGroup(profile, Update::Insert(group))
    };
    let (id, added) = add(ctx, target, Of::Groups, insert).await?;
    added.map_err(declared(group_code))?;
    ctx.set_free_id(ids, id + 1);
    Ok(Answer::I32(id.cast_signed()))
}

async fn delete_member(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let (ids, id) = (target.ids(Of::Members), args.i32(3)?.cast_unsigned());
    let delete = Operation::Member(target.id, Update::Delete(id));
    ctx.write(target.pipeline, delete)
        .await?
        .map_err(declared(member_code))?;
    ctx.add_free_id(ids, id);
    Ok(Answer::Void)
}

async fn delete_group(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::with_groups(ctx, args)?;
    let (ids, id) = (target.ids(Of::Groups), args.i32(3)?.cast_unsigned());
    let delete = Operation::ProfileGroup(target.id, Update::Delete(id));
    ctx.write(target.pipeline, delete)
        .await?
        .map_err(declared(group_code))?;
    ctx.add_free_id(ids, id);
    Ok(Answer::Void)
}

async fn modify_member(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let id = args.i32(3)?.cast_unsigned();
    let action = target.call(args.text(4)?, &args.all_bytes(5)?)?;
    let modify = Operation::Member(target.id, Update::Modify(ProfileMember { id, action }));
    ctx.write(target.pipeline, modify)
        .await?
        .map_err(declared(member_code))?;
    Ok(Answer::Void)
}

async fn add_to_group(ctx: &Context, args: Args<'_>) -> Answered {
    change_group(ctx, args, |members, member| {
        if members.iter().any(|(found, _)| *found == member) {
            let message = format!("the member {member} is in the group already");
            return refuse(TableCode::MemberAlreadyInGroup, message);
        }
        members.push((member, 1));
        Ok(())
    })
    .await
}

async fn remove_from_group(ctx: &Context, args: Args<'_>) -> Answered {
    change_group(ctx, args, |members, member| {
        let Some(place) = members.iter().position(|(found, _)| *found == member) else {
            let message = format!("the member {member} is not in the group");
            return refuse(TableCode::MemberNotInGroup, message);
        };
        members.remove(place);
        Ok(())
    })
    .await
}

/// A function that adds a member to a group's list of (member, weight), or removes it.
type ChangeMembers = fn(&mut Vec<(u32, u32)>, u32) -> Result<(), Refusal>;

/// Adds the member in field 3 to the group in field 4, or removes it from the group, as `change` does.
async fn change_group(ctx: &Context, args: Args<'_>, change: ChangeMembers) -> Answered {
    let target = Target::with_groups(ctx, args)?;
    let (member, group) = (args.i32(3)?, args.i32(4)?);
    let call = move |exclusive: Exclusive| async move {
        let members = target.members(exclusive.device()).await?;
        if members.iter().all(|it| it.id != member.cast_unsigned()) {
            return refuse(
                TableCode::InvalidMemberHandle,
                format!("no member {member}"),
            );
        }
        let mut group = target.group(exclusive.device(), group).await?;
        change(&mut group.members, member.cast_unsigned())?;
        let modify = Operation::ProfileGroup(target.id, Update::Modify(group));
        let written = write_all(exclusive, &target.pipeline, vec![modify]).await?;
        written.map_err(declared(group_code))
    };
    ctx.exclusively(call).await?;
    Ok(Answer::Void)
}

fn bmv2_member(pipeline: &Pipeline, member: &ProfileMember) -> Member {
    let (action, args) = name_and_args(pipeline, &member.action);
    Member {
        handle: member.id.cast_signed(),
        action,
        args,
    }
}

fn bmv2_group(group: &ProfileGroup) -> Group {
    let members = group.members.iter().map(|(member, _)| member.cast_signed());
    Group {
        handle: group.id.cast_signed(),
        members: members.collect(),
    }
}

async fn members(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let _long = ctx.long_calls.acquire().await;
    let mut members = target.members(&ctx.device).await?;
    members.sort_unstable_by_key(|member| member.id);
    let mut writer = Writer::default();
    for member in &members {
        bmv2_member(&target.pipeline, member).write(&mut writer);
        expect_room(&writer)?;
    }
    Ok(Answer::list(Type::Struct, members.len(), &writer))
}

async fn member(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let id = args.i32(3)?.cast_unsigned();
    let mut members = target.members(&ctx.device).await?.into_iter();
    let Some(member) = members.find(|member| member.id == id) else {
        return refuse(TableCode::InvalidMemberHandle, format!("no member {id}"));
    };
    let member = bmv2_member(&target.pipeline, &member);
    Ok(Answer::structure(&member))
}

async fn groups(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::with_groups(ctx, args)?;
    let _long = ctx.long_calls.acquire().await;
    let groups = target.groups(&ctx.device).await?;
    let mut writer = Writer::default();
    for group in &groups {
        bmv2_group(group).write(&mut writer);
        expect_room(&writer)?;
    }
    Ok(Answer::list(Type::Struct, groups.len(), &writer))
}

async fn group(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::with_groups(ctx, args)?;
    let group = target.group(&ctx.device, args.i32(3)?).await?;
    Ok(Answer::structure(&bmv2_group(&group)))
}
