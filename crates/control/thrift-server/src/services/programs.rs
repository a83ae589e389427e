//! Reads, swaps and resets the program. A loaded program becomes the saved pipeline, which P4Runtime has too: calls
//! refer to the loaded program as soon as it is loaded, and packets use it after the swap.

use std::sync::Arc;

use control::{Exclusive, Pipeline};
use dataplane::{ControlErrorKind, Program};
use md5::{Digest, Md5};
use serde_json::Value;

use super::expect_context;
use crate::call::{Answer, Answered, Refusal};
use crate::context::Context;
use crate::notifications::Swap;
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, IdCode, SwapCode};
use bmv2_thrift::message::SwitchInfo;

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_load_new_config" => load(ctx, args).await,
        "bm_swap_configs" => swap(ctx).await,
        "bm_reset_state" => reset(ctx).await,
        "bm_get_config" => config(ctx),
        "bm_get_config_md5" => config_md5(ctx),
        "bm_get_id_from_name" => id_from_name(ctx, args),
        "bm_mgmt_get_info" => Ok(info(ctx)),
        _ => return None,
    })
}

async fn load(ctx: &Context, args: Args<'_>) -> Answered {
    let text = args.text(1)?;
    let externs = ctx.device.payload_signatures();
    let program = Program::from_json_str_with(text, &externs);
    let program = program.map_err(|error| Refusal::internal(error.to_string()))?;
    let checked = ctx.device.check(program, ())?.with_json(text.as_bytes());
    let call = |exclusive: Exclusive| async move {
        let is_saved = exclusive
            .device()
            .pipeline()
            .is_ok_and(|pipeline| pipeline.is_saved());
        if is_saved {
            let message = "a program waits for bm_swap_configs already";
            return Err(Exception::new(SwapCode::OngoingSwap, message).into());
        }
        exclusive.save(checked).done().await?;
        Ok(())
    };
    ctx.exclusively(call).await?;
    ctx.notifications.swap(Swap::Loaded);
    Ok(Answer::Void)
}

async fn swap(ctx: &Context) -> Answered {
    let call = |exclusive: Exclusive| async move {
        let ready = exclusive.ready_saved().await.map_err(|error| match error {
            control::Error::Refused(error) if error.kind == ControlErrorKind::NotFound => {
                let message = "no program was loaded by bm_load_new_config";
                Exception::new(SwapCode::NoOngoingSwap, message).into()
            }
            other => Refusal::from(other),
        })?;
        exclusive.commit(ready).done().await?;
        Ok(())
    };
    ctx.notifications.swap(Swap::Requested);
    ctx.exclusively(call).await?;
    ctx.notifications.swap(Swap::Completed);
    Ok(Answer::Void)
}

/// Sets the same program again, in its initial state.
async fn reset(ctx: &Context) -> Answered {
    let call = |exclusive: Exclusive| async move {
        if let Some(pipeline) = exclusive.device().committed() {
            let ready = exclusive.ready(pipeline.checked().clone()).await?;
            exclusive.commit(ready).done().await?;
        }
        Ok(())
    };
    ctx.exclusively(call).await?;
    Ok(Answer::Void)
}

/// The program's BMv2 JSON. Empty without a program.
fn text(ctx: &Context) -> Arc<[u8]> {
    let config = |pipeline: Arc<Pipeline>| Arc::clone(pipeline.config());
    ctx.device.pipeline().map(config).unwrap_or_default()
}

fn config(ctx: &Context) -> Answered {
    Ok(Answer::Bytes(text(ctx).to_vec()))
}

fn config_md5(ctx: &Context) -> Answered {
    Ok(Answer::Bytes(Md5::digest(text(ctx)).to_vec()))
}

/// Returns where BMv2 JSON lists the objects of a resource type: the name of the list, and whether each element of
/// `pipelines` has such a list. If not, the list is at the top level. Returns `None` for an unknown type.
fn place(resource: i32) -> Option<(&'static str, bool)> {
    Some(match resource {
        0 => ("tables", true),
        1 => ("action_profiles", true),
        2 => ("counter_arrays", false),
        3 => ("meter_arrays", false),
        4 => ("register_arrays", false),
        5 => ("learn_lists", false),
        _ => return None,
    })
}

/// Finds an id in the BMv2 JSON. No other call uses these ids.
fn id_from_name(ctx: &Context, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let (resource, name) = (args.i32(2)?, args.text(3)?);
    let Some((list, is_of_pipelines)) = place(resource) else {
        let message = format!("expected a resource type of 0 to 5, found {resource}");
        return Err(Exception::new(IdCode::InvalidType, message).into());
    };
    let json: Value = serde_json::from_slice(&text(ctx)).unwrap_or_default();
    let found = if is_of_pipelines {
        let mut pipelines = json["pipelines"].as_array().into_iter().flatten();
        pipelines.find_map(|pipeline| id_in(&pipeline[list], name))
    } else {
        id_in(&json[list], name)
    };
    match found {
        Some(id) => Ok(Answer::I32(id)),
        None => {
            let message = format!("the program has no \"{name}\" among its {list}");
            Err(Exception::new(IdCode::InvalidName, message).into())
        }
    }
}

fn id_in(list: &Value, name: &str) -> Option<i32> {
    let mut all = list.as_array()?.iter();
    let found = all.find(|it| it["name"] == name)?;
    i32::try_from(found["id"].as_i64()?).ok()
}

/// Reports the device id, the Thrift port and the notification address. There are no sockets for events or a
/// debugger.
fn info(ctx: &Context) -> Answer {
    Answer::structure(&SwitchInfo {
        device_id: i64::try_from(ctx.config.device_id).unwrap_or(i64::MAX),
        thrift_port: ctx.config.port.into(),
        sockets: [ctx.config.notifications.clone(), None, None],
    })
}
