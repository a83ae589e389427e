//! Implements a good client, which checks that the switch always answers and that the state never contains forbidden
//! values.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_bench::controller::{self, Client, DEVICE_ID};
use control_bench::process::Place;
use control_bench::{Result, raw};
use p4runtime_client::bytestring::number;
use p4runtime_client::entities::entity;
use p4runtime_client::{Object, P4InfoIndex};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CapabilitiesRequest, Entity, TableEntry, ValueSetEntry,
};
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;
use p4runtime_proto::reprise::v1::{DrainRequest, GetCountersRequest};
use tonic::{Code, Status};

use crate::racers::CELLS;
use crate::{PLACE, Shared};

/// How long an answer may take, including a new connection. Thousands of calls compete, and the machine may have other
/// work.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(20);
/// The longest time in which the switch may receive no frame.
const FRAMES_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Watched {
    n_answers: u64,
    n_connections: u64,
    n_tokens: u64,
    longest: Duration,
}

/// Makes calls until the end. Returns a summary.
pub(crate) async fn watch(shared: Arc<Shared>) -> String {
    let mut watched = Watched::default();
    let untouched = untouched(&shared.grammars[1].index);
    let mut frames = (0, Instant::now());
    while !shared.is_over() {
        let began = Instant::now();
        let looked = async {
            while let Err(status) = look(&shared, &untouched, &mut watched, &mut frames).await {
                // The switch closed the connection to make room, or it had no room for the call.
                shared.count(format!("good client, {:?}", status.code()));
                tokio::time::sleep(PAUSE).await;
            }
        };
        if tokio::time::timeout(ANSWER_MAX, looked).await.is_err() {
            shared.broken(format!(
                "a good client had no answer for {} s",
                ANSWER_MAX.as_secs()
            ));
        }
        if frames.1.elapsed() > FRAMES_MAX {
            shared.broken(format!(
                "the switch received no frame for more than {} s",
                FRAMES_MAX.as_secs()
            ));
        }
        watched.longest = watched.longest.max(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    format!(
        "a good client: {} rounds of calls, the longest took {} ms, {} connections; {} tokens seen",
        watched.n_answers,
        watched.longest.as_millis(),
        watched.n_connections,
        watched.n_tokens
    )
}

/// Returns the ids of the tables, action profiles and value sets of the second program, which nobody writes.
fn untouched(index: &P4InfoIndex) -> HashSet<u32> {
    let kinds = [Object::Table, Object::ActionProfile, Object::ValueSet];
    let all = kinds.into_iter().flat_map(|kind| index.preambles(kind));
    all.map(|it| it.id).collect()
}

/// Makes some rounds of calls on a new connection.
async fn look(
    shared: &Shared,
    untouched: &HashSet<u32>,
    watched: &mut Watched,
    frames: &mut (u64, Instant),
) -> std::result::Result<(), Status> {
    let channel = raw::connect(PLACE).await;
    let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
    watched.n_connections += 1;
    let mut client = raw::client(&channel);
    // There are several rounds, so that connecting takes only a small part of the time.
    for _ in 0..10 {
        client.capabilities(CapabilitiesRequest::default()).await?;
        tokens(shared, &mut client, watched).await?;
        strangers(shared, &mut client, untouched).await?;
        let mut switch = SwitchClient::new(channel.clone());
        let counters = switch
            .get_counters(GetCountersRequest {
                device_id: DEVICE_ID,
            })
            .await?;
        let received = counters.into_inner().packets.map_or(0, |it| it.received);
        if received > frames.0 {
            *frames = (received, Instant::now());
        }
        watched.n_answers += 1;
        if shared.is_over() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Reads, with one request, the tokens that the controllers of `racers` write into two register cells, and checks the
/// tokens.
async fn tokens(
    shared: &Shared,
    client: &mut Client,
    watched: &mut Watched,
) -> std::result::Result<(), Status> {
    let wanted = CELLS.map(|cell| shared.race.cell(cell, None));
    let found = match found(client, wanted.to_vec()).await {
        // A program that was set over Thrift has no P4Info. A mutated program may lack the register.
        Err(status) if is_without(&status) => return Ok(()),
        found => found?,
    };
    let values = found.iter().filter_map(|entity| match &entity.entity {
        Some(Kind::RegisterEntry(cell)) => match cell.data.as_ref()?.data.as_ref()? {
            Data::Bitstring(value) => number(value),
            _ => None,
        },
        _ => None,
    });
    let values: Vec<u64> = values.collect();
    let [one, other] = values[..] else {
        return Ok(());
    };
    if one != other {
        shared.broken(format!(
            "two cells that are always written together differ: {one:#x} and {other:#x}"
        ));
    }
    if one != 0 {
        watched.n_tokens += 1;
    }
    if one != 0 && shared.race.sees(one) {
        shared.broken(format!(
            "token {one:#x} was read, although its write was refused"
        ));
    }
    Ok(())
}

fn is_without(status: &Status) -> bool {
    use Code::{Aborted, FailedPrecondition, InvalidArgument, NotFound, OutOfRange, Unknown};
    let without = [
        FailedPrecondition,
        NotFound,
        InvalidArgument,
        OutOfRange,
        Aborted,
    ];
    without.contains(&status.code()) || status.code() == Unknown && !status.details().is_empty()
}

/// Checks that the second program's own tables have no entries, since nobody writes these tables.
async fn strangers(
    shared: &Shared,
    client: &mut Client,
    untouched: &HashSet<u32>,
) -> std::result::Result<(), Status> {
    let wanted = [
        Kind::TableEntry(TableEntry::default()),
        Kind::ActionProfileMember(ActionProfileMember::default()),
        Kind::ActionProfileGroup(ActionProfileGroup::default()),
        Kind::ValueSetEntry(ValueSetEntry::default()),
    ];
    let wanted = wanted.map(entity);
    let found = match found(client, wanted.to_vec()).await {
        Err(status) if is_without(&status) => return Ok(()),
        found => found?,
    };
    for entity in found {
        let (id, is_empty) = match &entity.entity {
            Some(Kind::TableEntry(entry)) => (entry.table_id, false),
            Some(Kind::ActionProfileMember(member)) => (member.action_profile_id, false),
            Some(Kind::ActionProfileGroup(group)) => (group.action_profile_id, false),
            Some(Kind::ValueSetEntry(set)) => (set.value_set_id, set.members.is_empty()),
            _ => continue,
        };
        if untouched.contains(&id) && !is_empty {
            shared.broken(format!("written for another program: {entity:?}"));
        }
    }
    Ok(())
}

async fn found(
    client: &mut Client,
    entities: Vec<Entity>,
) -> std::result::Result<Vec<Entity>, Status> {
    let mut found = Vec::new();
    controller::read(client, entities, |part| found.extend(part)).await?;
    Ok(found)
}

pub(crate) async fn drain() -> Result<()> {
    let place: Place = PLACE;
    // The switch must also answer a new client.
    let mut client = controller::connect(place).await?;
    client.capabilities(CapabilitiesRequest::default()).await?;
    let mut switch = SwitchClient::new(raw::connect(place).await?);
    let drained = switch.drain(DrainRequest {
        device_id: DEVICE_ID,
    });
    tokio::time::timeout(ANSWER_MAX, drained)
        .await
        .map_err(|_| "a drain does not end")??;
    Ok(())
}
