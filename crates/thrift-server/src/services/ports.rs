//! Ports: which there are. They are opened when the switch is started.

use crate::call::{Answer, Answered, Args};
use crate::exception::{Exception, PortCode};
use crate::site::Site;
use crate::wire::Type;
use crate::wire::write::Writer;

fn refuse(what: &str) -> Answered {
    let message =
        format!("{what}: ports are given when the switch is started, with -i PORT@INTERFACE");
    Err(Exception::new(PortCode::Error, message).into())
}

/// Refused.
pub(crate) fn add(args: Args<'_>) -> Answered {
    refuse(&format!("port {}@{}", args.i32(2)?, args.text(1)?))
}

/// Refused.
pub(crate) fn remove(args: Args<'_>) -> Answered {
    refuse(&format!("port {}", args.i32(1)?))
}

/// Every port, its interface, and whether frames can come and leave.
pub(crate) async fn show(site: &Site) -> Answered {
    let answers = site.device.submit(|_, context| context.ports.to_vec());
    let ports = answers.all().await?.into_iter().next().unwrap_or_default();
    let mut writer = Writer::default();
    for port in &ports {
        let name = match port.interface.is_empty() {
            true => &port.name,
            false => &port.interface,
        };
        writer.field(1, Type::I32).i32(port.id.0.into());
        writer.field(2, Type::Bytes).bytes(name.as_bytes());
        writer.field(3, Type::Bool).bool(port.is_up());
        writer
            .field(4, Type::Map)
            .map((Type::Bytes, Type::Bytes), 0);
        writer.stop();
    }
    Ok(Answer::list(Type::Struct, ports.len(), &writer))
}
