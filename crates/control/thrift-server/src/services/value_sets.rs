//! Parser value sets. BMv2's members are values without masks; BMv2 treats the parts of a key as one number.

use std::sync::Arc;

use control::{Exclusive, Operation, Pipeline};
use dataplane::{ControlErrorKind, MatchField, ValueSetId};

use super::expect_context;
use crate::call::{Answer, Answered, Refusal, declared};
use crate::context::{Context, read_first, write_all};
use crate::values::{canonical, cut, join, split};
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, ValueSetCode};
use bmv2_thrift::wire::Type;

type Members = Vec<Vec<MatchField>>;

/// A function that adds a value, removes a value, or removes all values. Its last argument has the widths of the
/// value's parts.
type Change = fn(&mut Members, &[u8], &[u32]);

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_parse_vset_add" => change(ctx, args, add).await,
        "bm_parse_vset_remove" => change(ctx, args, remove).await,
        "bm_parse_vset_clear" => change(ctx, args, |members, _, _| members.clear()).await,
        "bm_parse_vset_get" => get(ctx, args).await,
        _ => return None,
    })
}

fn find(ctx: &Context, args: Args<'_>) -> Result<(Arc<Pipeline>, ValueSetId), Refusal> {
    expect_context(args)?;
    let (pipeline, name) = (ctx.pipeline()?, args.text(2)?);
    let set = pipeline.program().value_set(name);
    let set = set.ok_or_else(|| {
        Exception::new(
            ValueSetCode::InvalidName,
            format!("no value set \"{name}\""),
        )
    })?;
    Ok((pipeline, set))
}

/// Adds a value. Like BMv2, accepts a value that the set already has.
fn add(members: &mut Members, value: &[u8], parts: &[u32]) {
    if members.iter().all(|member| number(member, parts) != value) {
        let fields = split(value, parts).into_iter().map(canonical);
        members.push(fields.map(MatchField::Exact).collect());
    }
}

fn remove(members: &mut Members, value: &[u8], parts: &[u32]) {
    members.retain(|member| number(member, parts) != value);
}

async fn change(ctx: &Context, args: Args<'_>, change: Change) -> Answered {
    let (pipeline, set) = find(ctx, args)?;
    let value = args.bytes(3)?.to_vec();
    let call = move |exclusive: Exclusive| async move {
        let read = move |switch: &dataplane::Switch| switch.value_set(set);
        let mut members = read_first(exclusive.device(), &pipeline, read).await?;
        let parts = pipeline.program().value_set_parts(set);
        change(&mut members, &cut(&value, parts.iter().sum()), parts);
        let set = Operation::ValueSet(set, members);
        let written = write_all(exclusive, &pipeline, vec![set]).await?;
        written.map_err(declared(|_: ControlErrorKind| ValueSetCode::Error))
    };
    ctx.exclusively(call).await?;
    Ok(Answer::Void)
}

/// The value of a match without its mask or prefix length; only P4Runtime writes these.
fn value_of(field: &MatchField) -> &[u8] {
    match field {
        MatchField::Exact(value)
        | MatchField::Optional(Some(value))
        | MatchField::Ternary { value, .. }
        | MatchField::Lpm { value, .. }
        | MatchField::Range { low: value, .. } => value,
        MatchField::Optional(None) => &[],
    }
}

fn number(member: &[MatchField], parts: &[u32]) -> Vec<u8> {
    let values: Vec<&[u8]> = member.iter().map(value_of).collect();
    join(&values, parts)
}

async fn get(ctx: &Context, args: Args<'_>) -> Answered {
    let (pipeline, set) = find(ctx, args)?;
    let members = ctx
        .read_first(&pipeline, move |switch| switch.value_set(set))
        .await?;
    let parts = pipeline.program().value_set_parts(set);
    Ok(Answer::encoded(Type::List, |writer| {
        writer.list(Type::Bytes, members.len());
        for member in members {
            writer.bytes(&number(&member, parts));
        }
    }))
}
