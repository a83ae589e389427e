//! Runs constructs (statements, expressions, keys) that have no native code: converts the packet's block to the
//! interpreter's header vector, runs the interpreter, and writes the block back.
#![expect(
    unsafe_code,
    reason = "the payload and the arguments are where generated code has them"
)]

use std::sync::Arc;

use dataplane::{
    ActionId, TableId,
    engine::{
        EntryIndex, PayloadCall, State,
        ir::{BoolExpr, Expr, Int, ParserOp, Primitive},
    },
    interpret::{Carried, Pass, Requests as Asked},
};

use crate::{
    context::{PassContext, Requests},
    packets,
    runtime::{Runtime, World},
    tables::param_slot,
    vector::{self, Vector},
};

/// What the interpreter can run for generated code.
#[derive(Debug, Clone)]
pub(crate) enum Interpretable {
    Primitive(Primitive),
    Condition(BoolExpr),
    /// A number in the key of a parser state.
    Number(Expr),
    Operation(ParserOp),
    Key,
}

#[derive(Debug, Clone)]
pub(crate) struct Construct {
    pub what: Interpretable,
    /// The action that contains the construct, if any. Its parameters define the arguments in a table entry's words.
    pub action: Option<ActionId>,
}

/// The entry whose arguments a construct reads; null if there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments(*const u64);

impl Arguments {
    /// # Safety
    /// `entry` is null or leads to the words of an entry that runs the construct's action. The words stay in place as
    /// long as the returned value lives.
    pub(crate) unsafe fn new(entry: *const u64) -> Self {
        Self(entry)
    }

    fn values(self, runtime: &Runtime, action: Option<ActionId>) -> Arc<[Int]> {
        let info = action.and_then(|action| runtime.program.action_info(action));
        let Some(info) = info.filter(|_| !self.0.is_null()) else {
            return Arc::default();
        };
        let slots = (0..info.params.len()).filter_map(|index| param_slot(info, index));
        slots
            .map(|slot| {
                // SAFETY: the entry runs this action and has words for the action's parameters, see `new`.
                let words = unsafe {
                    std::slice::from_raw_parts(self.0.add(slot.start as usize), slot.len())
                };
                vector::unsigned(words)
            })
            .collect()
    }
}

fn asked(context: &PassContext) -> Asked {
    let PassContext {
        requests,
        payload_call,
        ..
    } = context;
    Asked {
        clone: requests.clone_request(),
        resubmit: Requests::list_of(requests.resubmit),
        recirculate: Requests::list_of(requests.recirculate),
        digest: requests.digest_request(),
        truncate_bytes: requests.truncation(),
        payload: payload_call.is_some().then_some(*payload_call),
    }
}

fn requests(asked: &Asked) -> Requests {
    let (session, list) = asked.clone.unwrap_or_default();
    Requests {
        clone: u32::from(asked.clone.is_some()),
        clone_session: session,
        clone_list: Requests::list_code(list),
        digest: asked.digest.map_or(0, |digest| digest.0 + 1),
        resubmit: Requests::list_code(asked.resubmit),
        recirculate: Requests::list_code(asked.recirculate),
        truncate_bytes: asked
            .truncate_bytes
            .map_or(Requests::WHOLE, |len| len as u64),
    }
}

/// Converts the packet to the interpreter's header vector, calls `run` with it, then writes the changes back to the
/// packet.
fn interpreted<T>(
    world: World<'_>,
    mut vector: Vector,
    args: Arc<[Int]>,
    run: impl FnOnce(&mut State, Carried<'_>) -> T,
) -> T {
    let World {
        context,
        runtime,
        state,
    } = world;
    let program = runtime.program.clone();
    vector.give_phv(&runtime.layout, program.ir(), &mut runtime.phv);
    let mut asked = asked(context);
    // SAFETY: the engine lets the context point to the packet's bytes.
    let pieces = unsafe { packets::pieces(context) };
    let joined;
    let payload = match pieces {
        [[], payload] => payload,
        pieces => {
            joined = pieces.concat();
            &joined
        }
    };
    let carried = Carried {
        phv: &mut runtime.phv,
        payload,
        requests: &mut asked,
        packet_length: &mut context.packet_length,
        ingress_bytes: usize::try_from(context.ingress_bytes).expect("a usize has 64 bits"),
        args,
    };
    let result = run(state, carried);
    context.requests = requests(&asked);
    context.payload_call = asked.payload.unwrap_or(PayloadCall::NONE);
    vector.take_phv(&runtime.layout, program.ir(), &runtime.phv);
    result
}

pub(crate) fn with(
    world: World<'_>,
    vector: Vector,
    (construct, args): (u32, Arguments),
    run: impl FnOnce(&mut Pass<'_>, &Interpretable) -> u64,
) -> u64 {
    let Some(construct) = world.runtime.constructs.get(construct as usize).cloned() else {
        return 0;
    };
    let args = args.values(world.runtime, construct.action);
    interpreted(world, vector, args, |state, carried| {
        run(&mut state.pass(carried), &construct.what)
    })
}

/// Returns the entry that a packet hits, or `None` on a miss. The interpreter computes the key.
pub(crate) fn look_up(world: World<'_>, vector: Vector, table: TableId) -> Option<EntryIndex> {
    let none = Arc::default();
    interpreted(world, vector, none, |state, carried| {
        state.hit(table, carried)
    })
}
