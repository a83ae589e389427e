//! Passes over BMv2 JSON that save a switch work and leave packets, tables and registers the same.
//!
//! The passes run after `lower` and before output, and also over another compiler's JSON. [`optimise`] repeats them
//! until nothing changes or a maximum number of rounds is reached. Each file's module doc says why its pass is sound.
//! Two rules hold for all passes. Objects that a control plane can name (tables, their actions and parameters,
//! counters, meters, registers, action profiles, digests, value sets) stay, with their names, and so do source
//! locations. An unknown primitive or operation counts as reading and writing everything.

// Public only for its test in `tests/`: a unit test would compile the library once more.
#[doc(hidden)]
pub mod atoms;
mod code;
mod dead_stores;
mod effect;
mod facts;
mod flow;
mod fold;
mod graph;
mod inline;
mod model;
mod number;
mod parser_states;
mod propagate;
mod unused;
mod walk;
mod written;

use bmv2_json::Program;

use crate::P4Info;
use fold::Folder;
use graph::Visible;

/// For a large program the passes look up each name and number some hundred times, so the hash must be fast.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;

/// Maximum number of rounds over all passes. Each round makes the program smaller; most programs need three to five.
const ROUNDS_MAX: usize = 8;

/// Rounds for a large program. Later rounds cost seconds and only shorten long chains of branches further.
const LARGE_ROUNDS_MAX: usize = 2;
/// Number of branches and actions from which a program counts as large.
const LARGE: usize = 4_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pass {
    /// Computes and simplifies expressions.
    Fold,
    ParserStates,
    /// Replaces a field by the constant that it holds, or by the field from which it was copied, and skips branches
    /// whose condition is known.
    Propagate,
    /// Simplifies jumps inside actions and removes unreachable code.
    Jumps,
    /// Removes temporaries that are read once.
    Inline,
    /// Removes stores of values that are never read.
    DeadStores,
    /// Removes needless branches and nodes from the control graph.
    Flow,
    /// Turns internal tables into direct action calls.
    Calls,
    /// Removes fields, headers and actions that nothing names.
    Unused,
}

impl Pass {
    pub const ALL: &'static [Pass] = &[
        Pass::Fold,
        Pass::ParserStates,
        Pass::Propagate,
        Pass::Jumps,
        Pass::Inline,
        Pass::DeadStores,
        Pass::Flow,
        Pass::Calls,
        Pass::Unused,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Pass::Fold => "fold",
            Pass::ParserStates => "parser-states",
            Pass::Propagate => "propagate",
            Pass::Jumps => "jumps",
            Pass::Inline => "inline",
            Pass::DeadStores => "dead-stores",
            Pass::Flow => "flow",
            Pass::Calls => "calls",
            Pass::Unused => "unused",
        }
    }
}

/// Runs passes over a program until nothing changes, but for at most the number of rounds that its size allows.
///
/// With a P4Info, the control plane sees the tables and actions in it. Without one, a table counts as internal if it
/// has the name and shape that compilers give to their own tables (`tbl_...`, no key, one constant default action).
pub fn optimise(program: &mut Program, p4info: Option<&P4Info>, passes: &[Pass]) {
    let visible = visible(p4info);
    let branches = program.pipelines.iter().map(|it| it.conditionals.len());
    let rounds = match program.actions.len() + branches.sum::<usize>() {
        LARGE.. => LARGE_ROUNDS_MAX,
        _ => ROUNDS_MAX,
    };
    for _ in 0..rounds {
        let mut changed = false;
        for pass in Pass::ALL.iter().filter(|pass| passes.contains(pass)) {
            changed |= match pass {
                Pass::Fold => fold_all(program),
                Pass::ParserStates => parser_states::run(program),
                Pass::Propagate => propagate::run(program, passes),
                Pass::Jumps => code::tidy(program),
                Pass::Inline => inline::run(program, &visible),
                Pass::DeadStores => dead_stores::run(program),
                Pass::Flow => flow::run(program, &visible),
                Pass::Calls => flow::calls(program, &visible),
                Pass::Unused => unused::run(program, &visible),
            };
        }
        if !changed {
            break;
        }
    }
}

fn visible(p4info: Option<&P4Info>) -> Visible {
    let Some(p4info) = p4info else {
        return Visible::default();
    };
    let name = |preamble: Option<&p4runtime_proto::p4::config::v1::Preamble>| {
        preamble.map(|preamble| preamble.name.clone())
    };
    let tables = p4info.tables.iter();
    let actions = p4info.actions.iter();
    Visible {
        tables: Some(tables.filter_map(|it| name(it.preamble.as_ref())).collect()),
        actions: Some(
            actions
                .filter_map(|it| name(it.preamble.as_ref()))
                .collect(),
        ),
    }
}

/// Replaces a value; returns whether the new value differs.
fn put<T: PartialEq>(place: &mut T, value: T) -> bool {
    let differs = *place != value;
    if differs {
        *place = value;
    }
    differs
}

/// Folds every expression; returns whether anything changed.
fn fold_all(program: &mut Program) -> bool {
    let model = model::Model::new(program);
    let mut changed = false;
    for action in &mut program.actions {
        let parameters = propagate::widths(action);
        let folder = Folder {
            model: &model,
            parameters: &parameters,
            facts: None,
            fold: true,
        };
        for primitive in &mut action.primitives {
            changed |= propagate::rewrite(&folder, primitive);
        }
    }
    let folder = Folder {
        model: &model,
        parameters: &[],
        facts: None,
        fold: true,
    };
    for op in program
        .parsers
        .iter_mut()
        .flat_map(|parser| &mut parser.parse_states)
        .flat_map(|state| &mut state.parser_ops)
    {
        changed |= propagate::parser_operands(&folder, op);
    }
    let branches = program
        .pipelines
        .iter_mut()
        .flat_map(|pipeline| &mut pipeline.conditionals)
        .map(|conditional| &mut conditional.expression);
    let checksums = program
        .checksums
        .iter_mut()
        .filter_map(|checksum| checksum.if_cond.as_mut());
    for condition in branches.chain(checksums) {
        let simpler = folder.value(condition);
        changed |= put(condition, simpler);
    }
    changed
}
