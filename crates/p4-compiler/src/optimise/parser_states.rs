//! Parser states: fewer of them, with fewer transitions.
//!
//! Unreachable states are removed. A state that does nothing and leads to one other state is
//! bypassed. A state with exactly one predecessor, which always leads to it, is appended to that
//! predecessor. A `select` whose ways are all the same is removed. So is a transition that an
//! earlier one with the same value hides, or that leads where the following default leads. It is
//! sound because operations keep their order, and a key is removed only if reading it cannot end
//! the parser (`lookahead` bits may be missing). A cycle of states stays a cycle, though it takes
//! fewer steps to the limit at which the parser gives up. Value sets stay known to the control
//! plane.

use std::collections::{HashMap, HashSet};

use bmv2_json::{ParseState, Parser, Program, Transition};

use super::effect::may_fail;

/// Runs the pass; whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let mut changed = false;
    for parser in &mut program.parsers {
        while round(parser) {
            changed = true;
        }
    }
    changed
}

fn round(parser: &mut Parser) -> bool {
    let mut changed = false;
    for state in &mut parser.parse_states {
        changed |= arrows(state);
    }
    changed |= pass_by(parser);
    changed |= unreached(parser);
    changed | merge(parser)
}

fn is_default(transition: &Transition) -> bool {
    match transition.kind.as_deref() {
        Some("default") => true,
        None | Some("hexstr") => matches!(transition.value.as_deref(), None | Some("default")),
        _ => false,
    }
}

/// Whether an arrow looks for a value that the program fixes; a value set is filled at run time.
fn is_value(transition: &Transition) -> bool {
    matches!(transition.kind.as_deref(), None | Some("hexstr"))
}

/// Where a state always leads; none where that depends on the packet.
fn only_next(state: &ParseState) -> Option<Option<&String>> {
    match state.transitions.as_slice() {
        [only] if is_default(only) && !state.transition_key.iter().any(may_fail) => {
            Some(only.next_state.as_ref())
        }
        _ => None,
    }
}

/// Takes needless arrows away.
fn arrows(state: &mut ParseState) -> bool {
    let before = state.transitions.len();
    let mut seen = HashSet::new();
    state.transitions.retain(|arrow| {
        let case = (
            is_default(arrow),
            arrow.kind.clone(),
            arrow.value.clone(),
            arrow.mask.clone(),
        );
        // Behind a default nothing is looked at, which `is_default` alone says.
        seen.insert(case)
    });
    if let Some(default) = state.transitions.pop() {
        if is_default(&default) {
            while state.transitions.last().is_some_and(|last| {
                is_value(last) && !is_default(last) && last.next_state == default.next_state
            }) {
                state.transitions.pop();
            }
        }
        state.transitions.push(default);
    }
    let has_key = !state.transition_key.is_empty();
    let needless = has_key && only_next(state).is_some();
    if needless {
        state.transition_key.clear();
    }
    needless || state.transitions.len() != before
}

/// Leads arrows past states that do nothing.
fn pass_by(parser: &mut Parser) -> bool {
    let mut shortcuts: HashMap<String, Option<String>> = HashMap::new();
    for state in &parser.parse_states {
        if let Some(next) = only_next(state)
            && state.parser_ops.is_empty()
            && next != Some(&state.name)
        {
            shortcuts.insert(state.name.clone(), next.cloned());
        }
    }
    let mut moved = false;
    let arrows = parser
        .parse_states
        .iter_mut()
        .flat_map(|state| &mut state.transitions);
    for arrow in arrows {
        if let Some(name) = &arrow.next_state
            && let Some(next) = shortcuts.get(name)
            && next.as_ref() != Some(name)
        {
            // One step a round: a cycle of such states shrinks to one that leads to itself.
            arrow.next_state.clone_from(next);
            moved = true;
        }
        if moved {
            break;
        }
    }
    if !moved && let Some(Some(next)) = shortcuts.get(&parser.init_state) {
        parser.init_state.clone_from(next);
        moved = true;
    }
    moved
}

fn unreached(parser: &mut Parser) -> bool {
    let by_name: HashMap<&str, &ParseState> = parser
        .parse_states
        .iter()
        .map(|state| (state.name.as_str(), state))
        .collect();
    let mut reached: HashSet<String> = HashSet::new();
    let fills = |state: &&ParseState| {
        let kinds = state.transitions.iter().map(|arrow| arrow.kind.as_deref());
        kinds.into_iter().any(|kind| kind == Some("parse_vset"))
    };
    // A state describes the members of its value sets.
    let telling = parser.parse_states.iter().filter(fills);
    let mut open: Vec<String> = telling.map(|state| state.name.clone()).collect();
    open.push(parser.init_state.clone());
    while let Some(name) = open.pop() {
        if let Some(state) = by_name
            .get(name.as_str())
            .filter(|_| !reached.contains(&name))
        {
            let next = state.transitions.iter();
            open.extend(next.filter_map(|arrow| arrow.next_state.clone()));
        }
        reached.insert(name);
    }
    let before = parser.parse_states.len();
    parser
        .parse_states
        .retain(|state| reached.contains(&state.name));
    parser.parse_states.len() != before
}

/// Joins a state with a successor that has no other predecessor; one pair at a time.
fn merge(parser: &mut Parser) -> bool {
    let mut entries: HashMap<&str, usize> = HashMap::from([(parser.init_state.as_str(), 1)]);
    for next in parser
        .parse_states
        .iter()
        .flat_map(|state| &state.transitions)
        .filter_map(|arrow| arrow.next_state.as_deref())
    {
        *entries.entry(next).or_default() += 1;
    }
    let pair = parser
        .parse_states
        .iter()
        .enumerate()
        .find_map(|(at, state)| {
            let next = only_next(state)??;
            let alone = entries.get(next.as_str()) == Some(&1) && *next != state.name;
            let other = parser.parse_states.iter().position(|it| it.name == *next)?;
            alone.then_some((at, other))
        });
    let Some((at, other)) = pair else {
        return false;
    };
    let behind = parser.parse_states[other].clone();
    let state = &mut parser.parse_states[at];
    state.parser_ops.extend(behind.parser_ops);
    state.transitions = behind.transitions;
    state.transition_key = behind.transition_key;
    parser.parse_states.remove(other);
    true
}
