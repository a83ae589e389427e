//! Commands for multicast groups, their nodes and LAGs.

use std::collections::HashMap;

use bmv2_thrift::Call;
use serde_json::Value;

use super::Typed;
use crate::error::{Done, Error};
use crate::limits::MAP_BITS_MAX;
use crate::options::Pre;
use crate::session::{Session, say};
use crate::value::{decimal, i32_of};

fn expect_pre(session: &Session) -> Done {
    match session.pre {
        Pre::None => Err(Error::input(
            "Cannot execute this command without packet replication engine",
        )),
        _ => Ok(()),
    }
}

fn group(text: &str) -> Result<i32, Error> {
    i32_of(text, "multicast group id")
}

fn node(text: &str) -> Result<i32, Error> {
    i32_of(text, "node handle")
}

pub fn create(session: &mut Session, typed: &Typed<'_>) -> Done {
    expect_pre(session)?;
    let [id] = typed.exactly()?;
    let group = group(id)?;
    say!(session, "Creating multicast group {group}")?;
    session.multicast(Call::in_context("bm_mc_mgrp_create").i32(group))?;
    Ok(())
}

pub fn destroy(session: &mut Session, typed: &Typed<'_>) -> Done {
    expect_pre(session)?;
    let [id] = typed.exactly()?;
    let group = group(id)?;
    say!(session, "Destroying multicast group {group}")?;
    session.multicast(Call::in_context("bm_mc_mgrp_destroy").i32(group))?;
    Ok(())
}

/// Makes a text of bits with a 1 for each of these numbers. The last bit is that of number 0.
fn map(numbers: &[&str], what: &str) -> Result<String, Error> {
    let mut found = Vec::new();
    for text in numbers {
        let number = decimal(text).and_then(|it| usize::try_from(it).ok());
        let number = number.filter(|number| *number < MAP_BITS_MAX);
        let invalid = || Error::input(format!("'{text}' is not a valid {what} number"));
        found.push(number.ok_or_else(invalid)?);
    }
    found.sort_unstable();
    if let Some(pair) = found.windows(2).find(|pair| pair[0] == pair[1]) {
        let number = pair[0];
        return Err(Error::input(format!(
            "Found duplicate {what} number '{number}'"
        )));
    }
    let length = found.last().map_or(0, |highest| highest + 1);
    let digit = |bit| {
        if found.binary_search(&bit).is_ok() {
            '1'
        } else {
            '0'
        }
    };
    Ok((0..length).rev().map(digit).collect())
}

/// Parses ports and, if the replication engine has LAGs, the LAGs after a bar (`|`).
fn maps(session: &Session, words: &[&str]) -> Result<(String, Option<String>), Error> {
    let bar = words.iter().position(|word| *word == "|");
    let (ports, lags) = words.split_at(bar.unwrap_or(words.len()));
    let ports = map(ports, "port")?;
    let lags = match session.pre {
        Pre::SimpleLag => Some(map(lags.get(1..).unwrap_or_default(), "lag")?),
        _ => None,
    };
    Ok((ports, lags))
}

pub fn node_create(session: &mut Session, typed: &Typed<'_>) -> Done {
    expect_pre(session)?;
    let [rid, words @ ..] = typed.at_least(1)? else {
        return Ok(());
    };
    let rid = i32_of(rid, "rid")?;
    let (ports, lags) = maps(session, words)?;
    let call = Call::in_context("bm_mc_node_create").i32(rid).bytes(&ports);
    let call = match &lags {
        None => {
            say!(
                session,
                "Creating node with rid {rid} and with port map {ports}"
            )?;
            call
        }
        Some(lags) => {
            say!(
                session,
                "Creating node with rid {rid} , port map {ports} and lag map {lags}"
            )?;
            call.bytes(lags)
        }
    };
    let handle = session.multicast(call)?.result(|args, id| args.i32(id))?;
    Ok(say!(session, "node was created with handle {handle}")?)
}

pub fn node_update(session: &mut Session, typed: &Typed<'_>) -> Done {
    expect_pre(session)?;
    let [handle, words @ ..] = typed.at_least(2)? else {
        return Ok(());
    };
    let handle = node(handle)?;
    let (ports, lags) = maps(session, words)?;
    let call = Call::in_context("bm_mc_node_update")
        .i32(handle)
        .bytes(&ports);
    let call = match &lags {
        None => {
            say!(session, "Updating node {handle} with port map {ports}")?;
            call
        }
        Some(lags) => {
            say!(
                session,
                "Updating node {handle} with port map {ports} and lag map {lags}"
            )?;
            call.bytes(lags)
        }
    };
    session.multicast(call)?;
    Ok(())
}

pub fn associate(session: &mut Session, typed: &Typed<'_>) -> Done {
    expect_pre(session)?;
    let [id, handle] = typed.exactly()?;
    let (group, node) = (group(id)?, node(handle)?);
    say!(
        session,
        "Associating node {node} to multicast group {group}"
    )?;
    let call = Call::in_context("bm_mc_node_associate");
    session.multicast(call.i32(group).i32(node))?;
    Ok(())
}

pub fn dissociate(session: &mut Session, typed: &Typed<'_>) -> Done {
    expect_pre(session)?;
    let [id, handle] = typed.exactly()?;
    let (group, node) = (group(id)?, node(handle)?);
    say!(
        session,
        "Dissociating node {node} from multicast group {group}"
    )?;
    let call = Call::in_context("bm_mc_node_dissociate");
    session.multicast(call.i32(group).i32(node))?;
    Ok(())
}

pub fn node_destroy(session: &mut Session, typed: &Typed<'_>) -> Done {
    expect_pre(session)?;
    let [handle] = typed.exactly()?;
    let node = node(handle)?;
    say!(session, "Destroying node {node}")?;
    session.multicast(Call::in_context("bm_mc_node_destroy").i32(node))?;
    Ok(())
}

pub fn set_lag(session: &mut Session, typed: &Typed<'_>) -> Done {
    expect_pre(session)?;
    if session.pre != Pre::SimpleLag {
        return Err(Error::input(
            "Cannot execute this command with this type of PRE, SimplePreLAG is required",
        ));
    }
    let [lag, ports @ ..] = typed.at_least(2)? else {
        return Ok(());
    };
    let index = decimal(lag).and_then(|it| i16::try_from(it).ok());
    let index = index.ok_or_else(|| Error::input("Bad format for lag index"))?;
    let ports = map(ports, "lag")?;
    say!(session, "Setting lag membership: {index} <- {ports}")?;
    let call = Call::in_context("bm_mc_set_lag_membership");
    session.multicast(call.i16(index).bytes(&ports))?;
    Ok(())
}

fn items<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}

fn numbers(of: &Value, name: &str) -> String {
    let numbers: Vec<String> = items(of, name).map(Value::to_string).collect();
    numbers.join(", ")
}

pub fn dump(session: &mut Session, _: &Typed<'_>) -> Done {
    expect_pre(session)?;
    let answer = session.multicast(Call::in_context("bm_mc_get_entries"))?;
    let json = answer.result(|args, id| args.bytes(id))?;
    let Ok(json) = serde_json::from_slice::<Value>(json) else {
        return Ok(say!(session, "Exception when retrieving MC entries")?);
    };
    let by_handle = |name: &'static str| {
        let all = items(&json, name);
        all.map(|it| (it["handle"].as_i64(), it))
            .collect::<HashMap<_, _>>()
    };
    let (l1, l2) = (by_handle("l1_handles"), by_handle("l2_handles"));
    say!(session, "==========")?;
    say!(session, "MC ENTRIES")?;
    for group in items(&json, "mgrps") {
        say!(session, "**********")?;
        say!(session, "mgrp({})", group["id"])?;
        for handle in items(group, "l1_handles") {
            let node = l1.get(&handle.as_i64()).copied().unwrap_or(&Value::Null);
            let to = l2.get(&node["l2_handle"].as_i64());
            let to = to.copied().unwrap_or(&Value::Null);
            let (ports, lags) = (numbers(to, "ports"), numbers(to, "lags"));
            let rid = &node["rid"];
            say!(
                session,
                "  -> (L1h={handle}, rid={rid}) -> (ports=[{ports}], lags=[{lags}])"
            )?;
        }
    }
    say!(session, "==========")?;
    say!(session, "LAGS")?;
    match json.get("lags") {
        None => say!(session, "None for this PRE type")?,
        Some(_) => {
            for lag in items(&json, "lags") {
                let ports = numbers(lag, "ports");
                say!(session, "lag({}) -> ports=[{ports}]", lag["id"])?;
            }
        }
    }
    Ok(say!(session, "==========")?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

    use super::map;

    #[test]
    fn ports_are_bits_with_the_lowest_last() {
        assert_eq!(map(&["1", "2"], "port").unwrap(), "110");
        assert_eq!(map(&["4", "0"], "port").unwrap(), "10001");
        assert_eq!(map(&[], "port").unwrap(), "");
        let wrong = |ports: &[&str]| map(ports, "port").unwrap_err().to_string();
        assert_eq!(wrong(&["3", "3"]), "Error: Found duplicate port number '3'");
        assert_eq!(wrong(&["-1"]), "Error: '-1' is not a valid port number");
        assert_eq!(
            wrong(&["99999999"]),
            "Error: '99999999' is not a valid port number"
        );
    }
}
