//! Configuration and acknowledgement of digests, which `notifications` publishes by nanomsg.

use std::time::Duration;

use super::expect_context;
use crate::call::{Answer, Answered, Refusal};
use crate::context::Context;
use crate::notifications::NoSuchList;
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, LearnCode};

pub(crate) fn answer(ctx: &Context, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_learning_ack" => acknowledge(ctx, args),
        "bm_learning_ack_buffer" => acknowledge_buffer(ctx, args),
        "bm_learning_set_timeout" => set_timeout(ctx, args),
        "bm_learning_set_buffer_size" => set_buffer_size(ctx, args),
        _ => return None,
    })
}

fn acknowledge(ctx: &Context, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let (list, buffer, samples) = (args.i32(2)?, args.i64(3)?, args.all_i32(4)?);
    let pipeline = ctx.pipeline()?;
    let notifications = &ctx.notifications;
    let done = notifications.with_lists(&pipeline, |lists| {
        lists.acknowledge(list, buffer.cast_unsigned(), Some(&samples))
    });
    done.map(|()| Answer::Void)
        .map_err(|error| no_list(&error, list))
}

fn acknowledge_buffer(ctx: &Context, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let (list, buffer) = (args.i32(2)?, args.i64(3)?);
    let pipeline = ctx.pipeline()?;
    let done = ctx.notifications.with_lists(&pipeline, |lists| {
        lists.acknowledge(list, buffer.cast_unsigned(), None)
    });
    done.map(|()| Answer::Void)
        .map_err(|error| no_list(&error, list))
}

/// Sets how long a sample waits for further samples. If the timeout is 0, a sample waits until the buffer is full.
fn set_timeout(ctx: &Context, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let (list, timeout_ms) = (args.i32(2)?, args.i32(3)?);
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| negative("timeout", timeout_ms))?;
    let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
    let pipeline = ctx.pipeline()?;
    let notifications = &ctx.notifications;
    let done = notifications.with_lists(&pipeline, |lists| lists.set_timeout(list, timeout));
    done.map(|()| Answer::Void)
        .map_err(|error| no_list(&error, list))
}

fn set_buffer_size(ctx: &Context, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let (list, samples) = (args.i32(2)?, args.i32(3)?);
    let samples_max = usize::try_from(samples).map_err(|_| negative("buffer size", samples))?;
    let pipeline = ctx.pipeline()?;
    let done = ctx
        .notifications
        .with_lists(&pipeline, |lists| lists.set_samples_max(list, samples_max));
    done.map(|()| Answer::Void)
        .map_err(|error| no_list(&error, list))
}

fn no_list(NoSuchList: &NoSuchList, list: i32) -> Refusal {
    let message = format!("the program has no learn list {list}");
    Exception::new(LearnCode::InvalidListId, message).into()
}

fn negative(what: &str, found: i32) -> Refusal {
    let message = format!("expected a {what} from 0, found {found}");
    Exception::new(LearnCode::Error, message).into()
}
