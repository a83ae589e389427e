//! The code of an action: its primitives, with the jumps among them.
//!
//! The pass `jumps` redirects a jump that leads to another jump. It removes jumps to the next primitive, constant
//! conditions, unreachable code, no-ops and copies of a field to itself. It is sound because all other primitives run
//! as before, in the same order. If an action has another jump than `_jump` and `_jump_if_zero`, or a jump that goes
//! back, the pass leaves the action unchanged.

use bmv2_json::{Primitive, Program, Value};
use num_traits::{ToPrimitive as _, Zero as _};

use super::number;

pub fn target(primitive: &Primitive) -> Option<usize> {
    let at = match primitive.op.as_str() {
        "_jump" => 0,
        "_jump_if_zero" => 1,
        _ => return None,
    };
    number::constant(primitive.parameters.get(at)?)?.to_usize()
}

fn set_target(primitive: &mut Primitive, to: usize) {
    if let Some(parameter) = primitive.parameters.last_mut() {
        *parameter = Value::Hexstr(format!("{to:#x}"));
    }
}

pub fn is_jump(primitive: &Primitive) -> bool {
    primitive.op.starts_with("_jump")
}

/// Whether every jump goes forward, at most to the end.
pub fn is_regular(body: &[Primitive]) -> bool {
    body.iter().enumerate().all(|(at, primitive)| {
        !is_jump(primitive)
            || target(primitive).is_some_and(|target| target > at && target <= body.len())
    })
}

/// Removes primitives. A jump to a removed primitive goes to the next primitive that stays.
pub fn remove(body: &mut Vec<Primitive>, dead: &[bool]) -> bool {
    if !dead.contains(&true) {
        return false;
    }
    // For each position: how many of the primitives before it stay.
    let mut before = Vec::with_capacity(dead.len() + 1);
    let mut count = 0;
    for is_dead in dead {
        before.push(count);
        count += usize::from(!is_dead);
    }
    before.push(count);
    let mut position = 0;
    body.retain(|_| {
        position += 1;
        !dead[position - 1]
    });
    for primitive in body.iter_mut().filter(|primitive| is_jump(primitive)) {
        if let Some(to) = target(primitive).and_then(|old| before.get(old).copied()) {
            set_target(primitive, to);
        }
    }
    true
}

/// Appends code; jumps to the end of `first` continue in `second`.
pub fn append(first: &mut Vec<Primitive>, second: &[Primitive]) {
    let offset = first.len();
    first.extend(second.iter().cloned().map(|mut primitive| {
        if is_jump(&primitive)
            && let Some(to) = target(&primitive)
        {
            set_target(&mut primitive, to + offset);
        }
        primitive
    }));
}

/// Returns where a jump to `to` finally leads: follows further jumps at the target.
fn thread(body: &[Primitive], mut to: usize) -> usize {
    // Jumps go forward, so this ends.
    while let Some(next) = body.get(to) {
        match next.op.as_str() {
            "_jump" => match target(next) {
                Some(target) => to = target,
                None => break,
            },
            "no_op" => to += 1,
            _ => break,
        }
    }
    to
}

fn constant_condition(primitive: &Primitive) -> Option<bool> {
    match primitive.parameters.first()? {
        Value::Bool(truth) => Some(*truth),
        value => number::constant(value).map(|value| !value.is_zero()),
    }
}

fn is_self_copy(primitive: &Primitive) -> bool {
    matches!(primitive.op.as_str(), "assign" | "modify_field")
        && matches!(primitive.parameters.as_slice(),
            [to @ Value::Field(_), from] if to == from)
}

fn tidy_once(body: &mut Vec<Primitive>) -> bool {
    let mut changed = false;
    let mut dead = vec![false; body.len()];
    for at in 0..body.len() {
        let Some(old) = target(&body[at]).filter(|_| is_jump(&body[at])) else {
            dead[at] = body[at].op == "no_op" || is_self_copy(&body[at]);
            continue;
        };
        let to = thread(body, old);
        if to != old {
            set_target(&mut body[at], to);
            changed = true;
        }
        let condition = match body[at].op.as_str() {
            "_jump_if_zero" => constant_condition(&body[at]),
            _ => None,
        };
        match condition {
            Some(true) => dead[at] = true,
            Some(false) => {
                body[at].op = "_jump".to_owned();
                body[at].parameters.remove(0);
                changed = true;
            }
            None => {}
        }
        dead[at] |= to == at + 1;
    }
    let reached = reachable(body);
    dead.iter_mut()
        .zip(reached)
        .for_each(|(dead, reached)| *dead |= !reached);
    remove(body, &dead) | changed
}

fn reachable(body: &[Primitive]) -> Vec<bool> {
    let mut reached = vec![false; body.len() + 1];
    reached[0] = true;
    for (at, primitive) in body.iter().enumerate() {
        if !reached[at] {
            continue;
        }
        if primitive.op != "_jump" {
            reached[at + 1] = true;
        }
        if let Some(to) = target(primitive) {
            reached[to] = true;
        }
    }
    reached.truncate(body.len());
    reached
}

pub fn tidy(program: &mut Program) -> bool {
    let mut changed = false;
    for action in &mut program.actions {
        if is_regular(&action.primitives) {
            while tidy_once(&mut action.primitives) {
                changed = true;
            }
        }
    }
    changed
}
