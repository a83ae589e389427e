//! Commands of simple_switch: queues, mirroring sessions, clocks.

use bmv2_thrift::Call;
use bmv2_thrift::message::MirroringSession;

use super::Typed;
use crate::error::{Done, Error};
use crate::session::{Session, say};
use crate::value::decimal;

fn integer<T: TryFrom<num_bigint::BigInt>>(text: &str, name: &str) -> Result<T, Error> {
    let bad = || Error::input(format!("Bad format for {name}, expected integer"));
    let number = decimal(text).ok_or_else(bad)?;
    T::try_from(number).map_err(|_| bad())
}

/// Parses the optional port after the value.
fn port(words: &[&str]) -> Result<Option<i32>, Error> {
    let port = words.get(1);
    port.map(|port| integer(port, "egress_port")).transpose()
}

pub fn queue_depth(session: &mut Session, typed: &Typed<'_>) -> Done {
    let words = typed.at_least(1)?;
    let depth: i32 = integer(words[0], "nb_pkts")?;
    let call = match port(words)? {
        Some(port) => Call::new("set_egress_queue_depth").i32(port),
        None => Call::new("set_all_egress_queue_depths"),
    };
    session.simple_switch(call.i32(depth))?;
    Ok(())
}

pub fn queue_rate(session: &mut Session, typed: &Typed<'_>) -> Done {
    let words = typed.at_least(1)?;
    let rate: i64 = integer(words[0], "rate_pps")?;
    let call = match port(words)? {
        Some(port) => Call::new("set_egress_queue_rate").i32(port),
        None => Call::new("set_all_egress_queue_rates"),
    };
    session.simple_switch(call.i64(rate))?;
    Ok(())
}

fn add(session: &mut Session, id: i32, to: &MirroringSession) -> Done {
    let call = Call::new("mirroring_session_add").i32(id).structure(to);
    session.simple_switch(call)?;
    Ok(())
}

pub fn mirroring_add(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [id, port] = typed.exactly()?;
    let (id, port) = (integer(id, "mirror_id")?, integer(port, "egress_port")?);
    let (port, group) = (Some(port), None);
    add(session, id, &MirroringSession { port, group })
}

pub fn mirroring_add_mc(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [id, group] = typed.exactly()?;
    let (id, group) = (integer(id, "mirror_id")?, integer(group, "mgrp")?);
    let (port, group) = (None, Some(group));
    add(session, id, &MirroringSession { port, group })
}

pub fn mirroring_delete(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [id] = typed.exactly()?;
    let call = Call::new("mirroring_session_delete").i32(integer(id, "mirror_id")?);
    session.simple_switch(call)?;
    Ok(())
}

pub fn mirroring_get(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [id] = typed.exactly()?;
    let call = Call::new("mirroring_session_get").i32(integer(id, "mirror_id")?);
    let to: MirroringSession = session.simple_switch(call)?.structure()?;
    let shown = |number: Option<i32>| number.map_or("None".into(), |it| it.to_string());
    let (port, group) = (shown(to.port), shown(to.group));
    Ok(say!(
        session,
        "MirroringSessionConfig(port={port}, mgid={group})"
    )?)
}

fn time(session: &mut Session, call: &'static str) -> Done {
    let answer = session.simple_switch(Call::new(call))?;
    let micros = answer.result(|args, id| args.i64(id))?;
    Ok(say!(session, "{micros}")?)
}

pub fn time_elapsed(session: &mut Session, _: &Typed<'_>) -> Done {
    time(session, "get_time_elapsed_us")
}

pub fn time_since_epoch(session: &mut Session, _: &Typed<'_>) -> Done {
    time(session, "get_time_since_epoch_us")
}
