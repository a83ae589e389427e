//! Reduces the number of parser states and transitions.
//!
//! Removes unreachable states. Bypasses a state that does nothing and leads to one other state. If a state has exactly
//! one predecessor, and this predecessor always leads to the state, appends the state to the predecessor. Removes a
//! `select` whose cases all lead to one state, a transition that an earlier transition with the same value hides, and a
//! transition with the same target as the default transition right after it. This is sound because operations keep
//! their order, and a key is removed only if reading it cannot end the parser (`lookahead` bits may be missing). A
//! cycle of states stays a cycle, though perhaps of fewer states, so that it makes more rounds before the parser gives
//! up. Value sets stay known to the control plane.

use std::collections::{HashMap, HashSet};

use bmv2_json::{ParseState, Parser, Program, Transition};

use super::effect::may_fail;

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

/// Whether a transition compares with a value from the program; a value set is filled at run time.
fn is_value(transition: &Transition) -> bool {
    matches!(transition.kind.as_deref(), None | Some("hexstr"))
}

/// Returns the successor to which a state always leads; `None` if the successor depends on the packet.
fn only_next(state: &ParseState) -> Option<Option<&String>> {
    match state.transitions.as_slice() {
        [only] if is_default(only) && !state.transition_key.iter().any(may_fail) => {
            Some(only.next_state.as_ref())
        }
        _ => None,
    }
}

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

/// Redirects transitions past states that do nothing.
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
    let ends = ends(&shortcuts);
    let mut moved = false;
    let states = parser.parse_states.iter_mut();
    for arrow in states.flat_map(|state| &mut state.transitions) {
        if let Some(end) = arrow.next_state.as_deref().and_then(|name| ends.get(name))
            && end.as_deref() != arrow.next_state.as_deref()
        {
            arrow.next_state.clone_from(end);
            moved = true;
        }
    }
    if let Some(Some(end)) = ends.get(parser.init_state.as_str())
        && *end != parser.init_state
    {
        parser.init_state.clone_from(end);
        moved = true;
    }
    moved
}

/// Returns, for each state that does nothing, the state to which it finally leads. States that do nothing may form a
/// cycle. They all lead to one state of the cycle, which then leads to itself.
fn ends(shortcuts: &HashMap<String, Option<String>>) -> HashMap<&str, Option<String>> {
    let mut ends: HashMap<&str, Option<String>> = HashMap::new();
    for start in shortcuts.keys() {
        let mut path: Vec<&str> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut at = Some(start.as_str());
        let end = loop {
            let Some(name) = at else { break None };
            if let Some(known) = ends.get(name) {
                break known.clone();
            }
            let Some(next) = shortcuts.get(name) else {
                break Some(name.to_owned());
            };
            if let Some(place) = places.get(name) {
                break path[*place..].iter().min().map(|least| (*least).to_owned());
            }
            places.insert(name, path.len());
            path.push(name);
            at = next.as_deref();
        };
        for name in path {
            ends.insert(name, end.clone());
        }
    }
    ends
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
    // A state with a value set stays, because only this state describes the value set's members.
    let filling = parser.parse_states.iter().filter(fills);
    let mut open: Vec<String> = filling.map(|state| state.name.clone()).collect();
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

/// Joins each state with its successor if the successor has no other predecessor.
fn merge(parser: &mut Parser) -> bool {
    let mut entries: HashMap<String, usize> = HashMap::from([(parser.init_state.clone(), 1)]);
    for next in parser
        .parse_states
        .iter()
        .flat_map(|state| &state.transitions)
        .filter_map(|arrow| arrow.next_state.clone())
    {
        *entries.entry(next).or_default() += 1;
    }
    let states = parser.parse_states.iter().enumerate();
    let places: HashMap<String, usize> =
        states.map(|(at, state)| (state.name.clone(), at)).collect();
    let mut gone = vec![false; parser.parse_states.len()];
    for at in 0..parser.parse_states.len() {
        while !gone[at] {
            let state = &parser.parse_states[at];
            let next = only_next(state).flatten();
            let next = next.filter(|next| entries.get(*next) == Some(&1) && **next != state.name);
            let Some(other) = next.and_then(|next| places.get(next)).copied() else {
                break;
            };
            let behind = &mut parser.parse_states[other];
            let (ops, transitions, key) = (
                std::mem::take(&mut behind.parser_ops),
                std::mem::take(&mut behind.transitions),
                std::mem::take(&mut behind.transition_key),
            );
            let state = &mut parser.parse_states[at];
            state.parser_ops.extend(ops);
            (state.transitions, state.transition_key) = (transitions, key);
            gone[other] = true;
        }
    }
    let mut at = 0;
    parser.parse_states.retain(|_| {
        at += 1;
        !gone[at - 1]
    });
    gone.contains(&true)
}
