//! The service SimpleSwitch: mirroring sessions, queues, clocks.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use control::{ClientData, Operation, Update};
use dataplane::{ControlErrorKind, Mirror, PortId, Queues, Switch};

use crate::call::{Answer, Answered, Refusal, declared};
use crate::context::Context;
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, MirrorCode};
use bmv2_thrift::message::{MirroringSession, Structure};

/// The number that a successful call returns if BMv2 declares no exceptions for the call.
const SUCCESS: i32 = 0;

const NS_PER_US: u64 = 1_000;

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "mirroring_mapping_add" => mapping_add(ctx, args).await,
        "mirroring_mapping_delete" => mapping_delete(ctx, args).await,
        "mirroring_mapping_get_egress_port" => mapping_port(ctx, args).await,
        "mirroring_session_add" => session_add(ctx, args).await,
        "mirroring_session_delete" => session_delete(ctx, args).await,
        "mirroring_session_get" => session_get(ctx, args).await,
        "set_egress_priority_queue_depth" => depth(ctx, args, Some(1), Some(2), 3).await,
        "set_egress_queue_depth" => depth(ctx, args, Some(1), None, 2).await,
        "set_all_egress_queue_depths" => depth(ctx, args, None, None, 1).await,
        "set_egress_priority_queue_rate" => rate(ctx, args, Some(1), Some(2), 3).await,
        "set_egress_queue_rate" => rate(ctx, args, Some(1), None, 2).await,
        "set_all_egress_queue_rates" => rate(ctx, args, None, None, 1).await,
        "get_time_elapsed_us" => elapsed(ctx).await,
        "get_time_since_epoch_us" => Ok(Answer::I64(since_epoch())),
        _ => return None,
    })
}

fn code(_: ControlErrorKind) -> MirrorCode {
    MirrorCode::SessionNotFound
}

/// Reads the id of a session, which is in field 1.
fn session(args: Args<'_>) -> Result<u32, Refusal> {
    Ok(args.i32(1)?.cast_unsigned())
}

/// The port with this number. A number of more than 16 bits becomes the highest port number, which the data plane
/// refuses as invalid.
fn port(found: i32) -> PortId {
    PortId(u16::try_from(found).unwrap_or(u16::MAX))
}

async fn mirror(ctx: &Context, session: u32, mirror: Mirror) -> Answered {
    let operation = Operation::Mirror(session, mirror);
    let result = ctx.write(ctx.pipeline()?, operation).await?;
    result.map_err(declared(code))?;
    Ok(Answer::Void)
}

/// Converts the outcome to 1 for success and 0 for an exception, as BMv2 does for these calls.
fn as_number(answered: Answered) -> Answered {
    match answered {
        Ok(_) => Ok(Answer::I32(1)),
        Err(Refusal::Declared(_)) => Ok(Answer::I32(0)),
        Err(failed) => Err(failed),
    }
}

async fn mapping_add(ctx: &Context, args: Args<'_>) -> Answered {
    let to_port = Mirror {
        port: Some(port(args.i32(2)?)),
        group: None,
    };
    as_number(mirror(ctx, session(args)?, to_port).await)
}

async fn mapping_delete(ctx: &Context, args: Args<'_>) -> Answered {
    as_number(session_delete(ctx, args).await)
}

async fn mapping_port(ctx: &Context, args: Args<'_>) -> Answered {
    let found = mirrored(ctx, session(args)?).await?;
    let port = found.and_then(|mirror| mirror.port);
    Ok(Answer::I32(port.map_or(-1, |port| port.0.into())))
}

async fn session_add(ctx: &Context, args: Args<'_>) -> Answered {
    let session = session(args)?;
    let config = args.fields(2)?.map(MirroringSession::read).transpose()?;
    let config = config.unwrap_or_default();
    let to = Mirror {
        port: config.port.map(port),
        group: config.group.map(i32::cast_unsigned),
    };
    mirror(ctx, session, to).await
}

async fn session_delete(ctx: &Context, args: Args<'_>) -> Answered {
    let delete = Operation::CloneSession(Update::Delete(session(args)?), ClientData::default());
    let result = ctx.write(ctx.pipeline()?, delete).await?;
    result.map_err(declared(code))?;
    Ok(Answer::Void)
}

async fn mirrored(ctx: &Context, session: u32) -> Result<Option<Mirror>, Refusal> {
    let pipeline = ctx.pipeline()?;
    ctx.read_first(&pipeline, move |switch| switch.mirrored(session))
        .await
}

async fn session_get(ctx: &Context, args: Args<'_>) -> Answered {
    let session = session(args)?;
    let Some(mirror) = mirrored(ctx, session).await? else {
        let message = format!("no mirroring session {session}");
        return Err(Exception::new(MirrorCode::SessionNotFound, message).into());
    };
    Ok(Answer::structure(&MirroringSession {
        port: mirror.port.map(|port| port.0.into()),
        group: mirror.group.map(u32::cast_signed),
    }))
}

/// The queues that a call selects. `port_field` and `queue` are the numbers of the fields with the port and the
/// priority.
fn queues(args: Args<'_>, port_field: Option<i16>, queue: Option<i16>) -> Result<Queues, Refusal> {
    let field = |id: Option<i16>| id.map(|id| args.i32(id)).transpose();
    let queue = field(queue)?.map(|queue| usize::try_from(queue).unwrap_or(usize::MAX));
    Ok(Queues {
        port: field(port_field)?.map(port),
        queue,
    })
}

async fn depth(
    ctx: &Context,
    args: Args<'_>,
    port: Option<i16>,
    queue: Option<i16>,
    value: i16,
) -> Answered {
    let queues = queues(args, port, queue)?;
    let n_packets = usize::try_from(args.i32(value)?.cast_unsigned()).unwrap_or(usize::MAX);
    set_queues(ctx, move |switch| {
        switch.set_egress_queue_depth(queues, n_packets)
    })
    .await
}

/// Sets the rate of queues. A rate of 0 means no limit. Several workers, each with its own queues, would exceed a rate
/// together, so rates need a switch with one worker.
async fn rate(
    ctx: &Context,
    args: Args<'_>,
    port: Option<i16>,
    queue: Option<i16>,
    value: i16,
) -> Answered {
    let queues = queues(args, port, queue)?;
    let rate = Some(args.i64(value)?.cast_unsigned()).filter(|rate| *rate > 0);
    let n_workers = ctx.device.n_workers();
    if rate.is_some() && n_workers > 1 {
        return Err(Refusal::internal(format!(
            "a queue's rate needs a switch with one worker, this one has {n_workers}"
        )));
    }
    set_queues(ctx, move |switch| {
        switch.set_egress_queue_rate(queues, rate)
    })
    .await
}

async fn set_queues(
    ctx: &Context,
    set: impl Fn(&mut Switch) -> Result<(), dataplane::ControlError> + Send + Sync + 'static,
) -> Answered {
    let answers = ctx.device.submit(move |_, context| set(context.switch));
    let results: Result<(), _> = answers.all().await?.into_iter().collect();
    match results {
        Ok(()) => Ok(Answer::I32(SUCCESS)),
        Err(error) => Err(Refusal::internal(error.message)),
    }
}

/// The current time of the clock from which packets get their timestamps.
async fn elapsed(ctx: &Context) -> Answered {
    let answers = ctx.device.submit(|_, context| context.now);
    let now = answers.all().await?.into_iter().max().unwrap_or_default();
    Ok(Answer::I64(
        i64::try_from(now / NS_PER_US).unwrap_or(i64::MAX),
    ))
}

fn since_epoch() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
