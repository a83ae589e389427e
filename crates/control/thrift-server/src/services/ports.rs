//! Lists the ports. Calls that add or remove a port are refused, since only the command line opens ports.

use crate::call::{Answer, Answered};
use crate::context::Context;
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, PortCode};
use bmv2_thrift::message::PortInfo;

fn refuse(what: &str, instead: &str) -> Answered {
    let message = format!(
        "{what}: ports are given when the switch is started, with -i PORT@INTERFACE; {instead}"
    );
    Err(Exception::new(PortCode::Error, message).into())
}

/// Refuses to add a port, whatever the arguments are.
pub(crate) fn add(args: Args<'_>) -> Answered {
    refuse(
        &format!("port {}@{}", args.i32(2)?, args.text(1)?),
        "an interface may be removed and added again under its name",
    )
}

/// Refuses to remove a port, whatever the arguments are.
pub(crate) fn remove(args: Args<'_>) -> Answered {
    refuse(
        &format!("port {}", args.i32(1)?),
        "gNMI's config/enabled disables a port and enables it again",
    )
}

pub(crate) async fn show(ctx: &Context) -> Answered {
    let answers = ctx.device.submit(|_, context| context.ports.to_vec());
    let ports = answers.all().await?.into_iter().next().unwrap_or_default();
    let ports = ports.iter().map(|port| PortInfo {
        port: port.id.0.into(),
        interface: if port.interface.is_empty() {
            port.name.clone()
        } else {
            port.interface.clone()
        },
        is_up: port.is_up(),
        extra: Vec::new(),
    });
    Ok(Answer::structures(&ports.collect::<Vec<_>>()))
}
