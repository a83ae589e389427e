//! The calls of each service. A function implements one call, or a few similar calls.

pub(crate) mod arrays;
pub(crate) mod hashes;
pub(crate) mod learning;
pub(crate) mod meters;
pub(crate) mod multicast;
pub(crate) mod ports;
pub(crate) mod profiles;
pub(crate) mod programs;
pub(crate) mod simple_switch;
pub(crate) mod state;
pub(crate) mod tables;
pub(crate) mod value_sets;

use std::sync::Arc;

use crate::call::{Answered, Refusal};
use crate::context::Context;
use bmv2_thrift::Args;
use bmv2_thrift::wire::{Failure, FailureKind};

/// A service of BMv2, by its name in multiplexed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Standard,
    /// SimplePreLAG, and SimplePre, which has no LAGs. The arguments of both are compatible.
    Multicast,
    SimpleSwitch,
}

impl Service {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "standard" => Self::Standard,
            "simple_pre_lag" | "simple_pre" => Self::Multicast,
            "simple_switch" => Self::SimpleSwitch,
            _ => return None,
        })
    }
}

fn unknown(message: String) -> Refusal {
    let kind = FailureKind::UnknownMethod;
    Refusal::Failed(Failure { kind, message })
}

/// Carries out a call. `name` is `SERVICE:CALL`.
pub(crate) async fn answer(ctx: &Arc<Context>, name: &str, args: Args<'_>) -> Answered {
    let Some((service, call)) = name.split_once(':') else {
        return Err(unknown(format!(
            "expected SERVICE:CALL with the service standard, simple_pre_lag or simple_switch, found \"{name}\""
        )));
    };
    let answered = match Service::of(service) {
        Some(Service::Standard) => standard(ctx, call, args).await,
        Some(Service::Multicast) => multicast::answer(ctx, call, args).await,
        Some(Service::SimpleSwitch) => simple_switch::answer(ctx, call, args).await,
        None => {
            return Err(unknown(format!(
                "expected the service standard, simple_pre_lag or simple_switch, found \"{service}\""
            )));
        }
    };
    answered.unwrap_or_else(|| {
        Err(unknown(format!(
            "the service \"{service}\" has no call \"{call}\""
        )))
    })
}

/// Carries out a call of the service Standard; `None` if the service has no such call.
async fn standard(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    if let Some(answered) = tables::answer(ctx, call, args).await {
        return Some(answered);
    }
    if let Some(answered) = profiles::answer(ctx, call, args).await {
        return Some(answered);
    }
    if let Some(answered) = arrays::answer(ctx, call, args).await {
        return Some(answered);
    }
    if let Some(answered) = meters::answer(ctx, call, args).await {
        return Some(answered);
    }
    if let Some(answered) = value_sets::answer(ctx, call, args).await {
        return Some(answered);
    }
    if let Some(answered) = programs::answer(ctx, call, args).await {
        return Some(answered);
    }
    if let Some(answered) = hashes::answer(ctx, call, args).await {
        return Some(answered);
    }
    match call {
        "bm_dev_mgr_add_port" => Some(ports::add(args)),
        "bm_dev_mgr_remove_port" => Some(ports::remove(args)),
        "bm_dev_mgr_show_ports" => Some(ports::show(ctx).await),
        "bm_serialize_state" => Some(state::serialize(ctx).await),
        _ => learning::answer(ctx, call, args),
    }
}

/// Checks the first argument, BMv2's context. There is only context 0.
pub(crate) fn expect_context(args: Args<'_>) -> Result<(), Refusal> {
    match args.i32(1)? {
        0 => Ok(()),
        found => Err(Refusal::protocol(format!(
            "expected the context 0, found {found}"
        ))),
    }
}
