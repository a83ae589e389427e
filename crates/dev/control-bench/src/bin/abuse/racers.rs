//! Runs controllers that connect, compete to be primary, write, set pipelines, and disconnect without notice.
//!
//! The required condition is that no controller's write is carried out while a controller with a higher election id is
//! connected. Each write puts a unique token into two cells of a register. Nobody may ever read the token of a refused
//! write, and the two cells must always be equal.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_bench::Result;
use control_bench::controller::{Controller, DEVICE_ID, arbitration};
use control_bench::program::Program;
use fastrand::Rng;
use p4runtime_client::bytestring::bytes;
use p4runtime_client::entities::{entity, modify};
use p4runtime_client::objects::Array;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_response::Update as Response;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{Entity, Index, P4Data, RegisterEntry, Uint128, WriteRequest};
use tonic::{Code, Status};

use crate::{PLACE, Shared};

/// The cells with the tokens.
pub(crate) const CELLS: [i64; 2] = [5, 6];
/// The upper half of the racers' election ids. Random messages do not contain this value by chance. A message with a
/// higher id would prevent all racers from becoming primary.
const SECRET: u64 = 0x5bd1_e995_9d1b_899f;
/// A token consists of the racer's number and, in this many lower bits, the number of the token.
const TOKEN_BITS: u32 = 40;

/// The connected controllers, and the tokens of refused writes.
pub(crate) struct Race {
    register: u32,
    /// The highest election id so far. New controllers raise the highest id.
    last: AtomicU64,
    tokens: AtomicU64,
    /// The connected controllers: for each election id, the number of the controller's connection.
    there: Mutex<BTreeMap<u64, u64>>,
    stays: AtomicU64,
    refused: Mutex<HashSet<u64>>,
    seen: Mutex<HashSet<u64>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Race {
    pub(crate) fn new(programs: &[Program]) -> Result<Self> {
        let register = |program: &Program| Array::register(&program.p4info, "slots");
        let mut ids = programs
            .iter()
            .map(|it| register(it).ok().map(|it| it.id()));
        let first = ids.next().flatten().ok_or("no register \"slots\"")?;
        if ids.any(|id| id != Some(first)) {
            return Err("the register \"slots\" has another id in another program".into());
        }
        Ok(Self {
            register: first,
            last: AtomicU64::new(1_000),
            tokens: AtomicU64::new(0),
            there: Mutex::default(),
            stays: AtomicU64::new(0),
            refused: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    /// Returns an election id. The id is usually higher than all ids so far, and sometimes lower.
    fn election_id(&self, rng: &mut Rng) -> Uint128 {
        let highest = self.last.fetch_add(rng.u64(1..4), Ordering::Relaxed) + 4;
        let low = match rng.u8(..3) {
            0 => highest - rng.u64(1..20),
            _ => highest,
        };
        Uint128 { high: SECRET, low }
    }

    /// Records a controller. The function must be called after the controller has connected.
    fn comes(&self, id: Uint128) {
        let stay = self.stays.fetch_add(1, Ordering::Relaxed);
        lock(&self.there).insert(id.low, stay);
    }

    /// Removes a controller. The function must be called before the controller disconnects.
    fn leaves(&self, id: Uint128) {
        lock(&self.there).remove(&id.low);
    }

    /// Returns the connected controllers with higher ids, each with the number of its connection.
    fn above(&self, id: Uint128) -> Vec<(u64, u64)> {
        let there = lock(&self.there);
        there
            .range(id.low + 1..)
            .map(|(id, stay)| (*id, *stay))
            .collect()
    }

    /// Returns whether one of these controllers is still connected by the same connection.
    fn any_stays(&self, above: &[(u64, u64)]) -> bool {
        let there = lock(&self.there);
        above.iter().any(|(id, stay)| there.get(id) == Some(stay))
    }

    fn token(&self, racer: u64) -> u64 {
        let n = self.tokens.fetch_add(1, Ordering::Relaxed) + 1;
        racer << TOKEN_BITS | n & ((1 << TOKEN_BITS) - 1)
    }

    /// Returns a register entry: for a write of `value`, or for a read if there is no value.
    pub(crate) fn cell(&self, index: i64, value: Option<u64>) -> Entity {
        let data = value.map(|value| P4Data {
            data: Some(Data::Bitstring(bytes(value))),
        });
        entity(Kind::RegisterEntry(RegisterEntry {
            register_id: self.register,
            index: Some(Index { index }),
            data,
        }))
    }

    /// Makes a Write of both cells in one batch, which is carried out completely or not at all.
    fn write(&self, election_id: Uint128, token: u64) -> WriteRequest {
        let updates = CELLS.map(|cell| modify(self.cell(cell, Some(token))));
        WriteRequest {
            device_id: DEVICE_ID,
            election_id: Some(election_id),
            updates: updates.to_vec(),
            atomicity: Atomicity::RollbackOnError.into(),
            ..Default::default()
        }
    }

    /// Records that a token was read. Returns true if the write of this token was refused.
    pub(crate) fn sees(&self, token: u64) -> bool {
        lock(&self.seen).insert(token);
        lock(&self.refused).contains(&token)
    }

    fn refuses(&self, token: u64) -> bool {
        lock(&self.refused).insert(token);
        lock(&self.seen).contains(&token)
    }
}

/// Sets the first program and disconnects.
pub(crate) async fn set_first_pipeline(shared: &Shared) -> Result<()> {
    let id = Uint128 {
        high: SECRET,
        low: 1,
    };
    let mut controller = Controller::start(PLACE, id).await?;
    Ok(controller
        .set_pipeline(Action::VerifyAndCommit, &shared.programs[0])
        .await?)
}

pub(crate) async fn race(shared: Arc<Shared>, racer: u64, mut rng: Rng) {
    while !shared.is_over() {
        let id = shared.race.election_id(&mut rng);
        match Controller::start(PLACE, id).await {
            Ok(mut controller) => {
                shared.race.comes(id);
                stay(&shared, racer, &mut controller, &mut rng).await;
                shared.race.leaves(id);
                leave(controller, &mut rng).await;
            }
            // The id is in use, or the switch has no room. The racer tries again.
            Err(_) => shared.count("racers turned away"),
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(..50))).await;
    }
}

async fn leave(mut controller: Controller, rng: &mut Rng) {
    match rng.u8(..3) {
        // Half-closes the stream: continues to read, but sends nothing more.
        0 => {
            drop(controller.requests);
            let end = controller.answers.message();
            let _ = tokio::time::timeout(Duration::from_millis(20), end).await;
        }
        // Gives up being primary, by a lower election id, before it disconnects.
        1 => {
            let down = arbitration(Some(Uint128 { high: 0, low: 1 }));
            let _ = controller.requests.send(down).await;
        }
        _ => drop(controller),
    }
}

async fn stay(shared: &Shared, racer: u64, controller: &mut Controller, rng: &mut Rng) {
    for _ in 0..rng.u8(1..12) {
        if shared.is_over() {
            return;
        }
        match rng.u8(..16) {
            0 => set_pipeline(shared, controller, rng).await,
            1..=3 => write_entries(shared, controller, rng).await,
            _ => write_token(shared, racer, controller, rng).await,
        }
        if rng.bool() {
            let pause = Duration::from_millis(rng.u64(..20));
            let _ = tokio::time::timeout(pause, read_all(controller)).await;
        }
    }
}

/// Reads the stream's messages until an error or the end of the stream.
async fn read_all(controller: &mut Controller) {
    while let Ok(Some(answer)) = controller.answers.message().await {
        if let Some(Response::Error(_)) = answer.update {
            return;
        }
    }
}

/// Usually cancels the call after a random time.
async fn cut_short<T>(
    rng: &mut Rng,
    call: impl Future<Output = std::result::Result<T, Status>>,
) -> std::result::Result<T, Status> {
    if rng.u8(..3) == 0 {
        return call.await;
    }
    let limit = Duration::from_micros(rng.u64(..4_000));
    let done = tokio::time::timeout(limit, call).await;
    done.unwrap_or_else(|_| Err(Status::cancelled("given up")))
}

fn code<T>(answer: &std::result::Result<T, Status>) -> Code {
    answer.as_ref().err().map_or(Code::Ok, Status::code)
}

/// Describes the violation that a call was accepted while one of these controllers with higher ids was connected.
fn accepted(call: &str, id: Uint128, above: &[(u64, u64)]) -> String {
    let ids: Vec<u64> = above.iter().map(|(id, _)| *id).collect();
    format!(
        "the switch accepted {call} from election id {} while a controller with a higher election \
         id was connected: one of {ids:?}",
        id.low
    )
}

async fn write_token(shared: &Shared, racer: u64, controller: &mut Controller, rng: &mut Rng) {
    let race = &shared.race;
    let (id, token) = (controller.election_id, race.token(racer));
    let above = race.above(id);
    let request = race.write(id, token);
    let written = cut_short(rng, controller.client.write(request)).await;
    let code = code(&written);
    shared.count(format!("tokens {code:?}"));
    if code == Code::Ok && race.any_stays(&above) {
        let call = format!("the write of token {token:#x}");
        shared.broken(accepted(&call, id, &above));
    }
    if code == Code::PermissionDenied && race.refuses(token) {
        shared.broken(format!(
            "the write of token {token:#x} was refused, but the token was read"
        ));
    }
}

/// Writes entries of the first program's tables, no matter which program is committed.
async fn write_entries(shared: &Shared, controller: &mut Controller, rng: &mut Rng) {
    let updates = (0..rng.usize(1..40)).filter_map(|_| {
        let update = shared.grammars[0].update(rng);
        let kind = update.entity.as_ref().and_then(|it| it.entity.as_ref());
        // Leave out register cells, which contain the tokens, and groups and sessions, which exist in every program.
        let is_its_own = !matches!(
            kind,
            Some(Kind::RegisterEntry(_) | Kind::PacketReplicationEngineEntry(_))
        );
        is_its_own.then_some(update)
    });
    let request = controller.batch(updates.collect());
    let above = shared.race.above(request.election_id.unwrap_or_default());
    let written = cut_short(rng, controller.client.write(request)).await;
    let code = code(&written);
    shared.count(format!("entries {code:?}"));
    if code == Code::Ok && shared.race.any_stays(&above) {
        let id = controller.election_id;
        shared.broken(accepted("a write of entries", id, &above));
    }
}

async fn set_pipeline(shared: &Shared, controller: &mut Controller, rng: &mut Rng) {
    let action = rng.choice([
        Action::Verify,
        Action::VerifyAndSave,
        Action::VerifyAndCommit,
        Action::VerifyAndCommit,
        Action::Commit,
        Action::ReconcileAndCommit,
    ]);
    let action = action.unwrap_or(Action::Verify);
    let program = &shared.programs[rng.usize(..shared.programs.len())];
    let above = shared.race.above(controller.election_id);
    let set = cut_short(rng, controller.set_pipeline(action, program)).await;
    let code = code(&set);
    shared.count(format!("pipelines {code:?}"));
    if code == Code::Ok && shared.race.any_stays(&above) {
        let call = format!("a pipeline ({action:?})");
        shared.broken(accepted(&call, controller.election_id, &above));
    }
}
