//! Computes the paths through the parser before code is generated. A path consists of visits: states, each at a
//! position in the frame at which it may begin. So positions are constants, loops over header stacks are unrolled, and
//! the positions of headers are known.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dataplane::engine::ir::{
    AnyStack, Expr, ExtractTarget, HeaderId, Ir, ParserOp, Primitive, State, StateId,
};

/// The most bytes that a packet's headers may have, not counting parts of variable width. Packets with longer headers are
/// punted.
pub(super) const HEADER_BYTES_MAX: u32 = 1024;
/// The most bytes that all parts of variable width in a frame's headers may have together. Packets with more such bytes
/// are punted.
pub(super) const VARIABLE_BYTES_MAX: u32 = 2048;

/// A parser state at one position in the frame at which it may begin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Visit {
    pub state: StateId,
    /// The position in bytes from the frame's beginning, not counting parts of variable width.
    pub at: u32,
    /// `nextIndex` of each stack that is not empty.
    pub next: BTreeMap<(bool, u32), u32>,
    /// Whether the parser has skipped something, extracted in an order other than the deparser's, or made a header
    /// valid or invalid other than by its extraction.
    pub is_irregular: bool,
    /// Whether a part of the frame before this state has variable width. The actual position is then `at` plus that
    /// width.
    pub is_moved: bool,
}

/// Returns the key under which `Visit::next` holds a stack.
pub(super) fn stack_key(stack: AnyStack) -> (bool, u32) {
    match stack {
        AnyStack::Headers(stack) => (false, stack.0),
        AnyStack::Unions(stack) => (true, stack.0),
    }
}

#[derive(Debug, Default)]
pub(super) struct Paths {
    is_cut: bool,
    /// In order of discovery, the start state first.
    pub visits: Vec<Visit>,
    /// Where each header may begin.
    offsets: BTreeMap<HeaderId, BTreeSet<u32>>,
    /// Headers that may begin after a part of variable width.
    moved: BTreeSet<HeaderId>,
    /// Whether the parser extracts or skips parts of variable width.
    pub has_variable: bool,
    /// Whether the headers that are valid after the parser are always those that it extracted, in the deparser's order,
    /// without gaps.
    pub is_regular: bool,
    /// For each visit, whether the headers extracted up to the visit's end are out of the deparser's order or have
    /// gaps.
    ends_irregular: Vec<bool>,
    /// Whether some visit was walked before all headers that may precede it were known, so that any visit may be
    /// irregular.
    is_unsure: bool,
    /// For each visit, the visits that may follow.
    next: Vec<Vec<usize>>,
    /// Transitions, as pairs of visits, by which the parser would loop for ever.
    back: BTreeSet<(usize, usize)>,
}

/// The state of a walk through a visit's statements.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    pub at: u32,
    pub next: BTreeMap<(bool, u32), u32>,
    pub is_irregular: bool,
    pub is_moved: bool,
    /// Each emitted header's position in the deparser's order.
    emitted: BTreeMap<HeaderId, usize>,
}

/// The effect of a statement on a walk.
pub(super) enum Step {
    /// Extracts a header that begins at this position.
    Extracts(HeaderId, u32),
    /// Extracts a header with a field of variable width.
    ExtractsVariable(HeaderId, u32),
    /// Skips a number of bytes that is not constant.
    SkipsVariable,
    /// Extracts into a full stack.
    StackFull,
    /// Skips a constant number of bytes.
    Skips,
    /// Leaves the position in the frame unchanged.
    Stays,
    /// Cannot be compiled, for this reason.
    Unknown(&'static str),
}

impl Walk {
    pub(super) fn new(ir: &Ir, visit: &Visit) -> Self {
        let order = ir.deparser.order.iter().enumerate();
        Self {
            at: visit.at,
            next: visit.next.clone(),
            is_irregular: visit.is_irregular,
            is_moved: visit.is_moved,
            emitted: order
                .map(|(position, header)| (*header, position))
                .collect(),
        }
    }

    pub(super) fn next_of(&self, stack: AnyStack) -> u32 {
        self.next.get(&stack_key(stack)).copied().unwrap_or(0)
    }

    /// Moves the walk over a statement.
    pub(super) fn step(&mut self, ir: &Ir, op: &ParserOp) -> Step {
        match op {
            ParserOp::Extract(target) => {
                let Some(header) = self.target(ir, target) else {
                    return Step::StackFull;
                };
                if ir.headers[header.index()].variable_field.is_some() {
                    return Step::Unknown("a header of variable width without its length");
                }
                let at = self.at;
                self.at += ir.headers[header.index()].fixed_bits / 8;
                if let ExtractTarget::Next { stack, .. } = target {
                    *self.next.entry(stack_key(*stack)).or_default() += 1;
                }
                Step::Extracts(header, at)
            }
            ParserOp::ExtractVariable { target, .. } => self.extract_variable(ir, target),
            ParserOp::Advance { bits } => match bits {
                Expr::Const(bits) => match u32::try_from(bits) {
                    Ok(bits) if bits.is_multiple_of(8) && bits / 8 <= HEADER_BYTES_MAX => {
                        self.at += bits / 8;
                        self.is_irregular |= bits > 0;
                        Step::Skips
                    }
                    _ => Step::Unknown("it skips a part of a byte, or more than 1,024 bytes"),
                },
                _ => {
                    (self.is_irregular, self.is_moved) = (true, true);
                    Step::SkipsVariable
                }
            },
            ParserOp::Primitive(
                Primitive::AssignStack { .. } | Primitive::Push(..) | Primitive::Pop(..),
            ) => Step::Unknown("it changes a header stack"),
            ParserOp::Primitive(
                Primitive::AddHeader(_)
                | Primitive::RemoveHeader(_)
                | Primitive::AssignHeader { .. }
                | Primitive::AssignUnion { .. },
            ) => {
                self.is_irregular = true;
                Step::Stays
            }
            _ => Step::Stays,
        }
    }

    fn target(&self, ir: &Ir, target: &ExtractTarget) -> Option<HeaderId> {
        match target {
            ExtractTarget::Header(header) => Some(*header),
            ExtractTarget::Next { stack, member } => {
                ir.element(*stack, *member, self.next_of(*stack) as usize)
            }
        }
    }

    fn extract_variable(&mut self, ir: &Ir, target: &ExtractTarget) -> Step {
        let Some(header) = self.target(ir, target) else {
            return Step::StackFull;
        };
        let declared = &ir.headers[header.index()];
        if declared.field_ids().next_back() != declared.variable_field {
            return Step::Unknown("fields after a field of variable width");
        }
        let at = self.at;
        self.at += declared.fixed_bits / 8;
        self.is_moved = true;
        if let ExtractTarget::Next { stack, .. } = target {
            *self.next.entry(stack_key(*stack)).or_default() += 1;
        }
        Step::ExtractsVariable(header, at)
    }

    /// Returns a header's position in the deparser's order.
    fn position(&self, header: HeaderId) -> Option<usize> {
        self.emitted.get(&header).copied()
    }
}

impl Paths {
    /// Follows all paths, up to `n_visits_max` visits.
    pub(super) fn new(ir: &Ir, n_visits_max: usize) -> Self {
        let mut paths = Self {
            is_regular: true,
            ..Self::default()
        };
        let Some(start) = ir.parser.start else {
            return paths;
        };
        let first = Visit {
            state: start,
            at: 0,
            next: BTreeMap::new(),
            is_irregular: false,
            is_moved: false,
        };
        let mut found = HashMap::new();
        let mut before: Vec<BTreeSet<HeaderId>> = vec![BTreeSet::new()];
        found.insert(first.clone(), 0_usize);
        paths.visits.push(first);
        let mut position = 0;
        while position < paths.visits.len() {
            let visit = paths.visits[position].clone();
            let mut extracted = before[position].clone();
            let mut follows = Vec::new();
            let (is_irregular, after) = paths.walk(ir, &visit, &mut extracted);
            paths.ends_irregular.push(is_irregular);
            for next in after {
                let place = *found.entry(next.clone()).or_insert_with(|| {
                    paths.visits.push(next);
                    before.push(BTreeSet::new());
                    before.len() - 1
                });
                follows.push(place);
                let grows = !extracted.is_subset(&before[place]);
                before[place].extend(&extracted);
                // More headers may precede `place` than its walk assumed, so the order must be checked at run time.
                if grows && place <= position {
                    paths.is_regular = false;
                    paths.is_unsure = true;
                }
            }
            paths.next.push(follows);
            position += 1;
            if paths.visits.len() > n_visits_max {
                paths.cut(position);
                break;
            }
        }
        paths.find_circles();
        paths
    }

    /// Removes visits that were found but not walked, because the headers that they extract are unknown.
    fn cut(&mut self, n_walked: usize) {
        self.is_cut = n_walked < self.visits.len();
        self.visits.truncate(n_walked);
        for next in &mut self.next {
            next.retain(|place| *place < n_walked);
        }
    }

    /// Finds the transitions that close loops, depth first.
    fn find_circles(&mut self) {
        let mut is_entered = vec![false; self.visits.len()];
        let mut is_open = is_entered.clone();
        let mut stack = vec![(0, 0)];
        is_entered[0] = true;
        is_open[0] = true;
        while let Some((visit, position)) = stack.pop() {
            let Some(next) = self.next[visit].get(position).copied() else {
                is_open[visit] = false;
                continue;
            };
            stack.push((visit, position + 1));
            if is_open[next] {
                self.back.insert((visit, next));
            } else if !is_entered[next] {
                is_entered[next] = true;
                is_open[next] = true;
                stack.push((next, 0));
            }
        }
    }

    /// Whether the parser would loop for ever by this transition.
    pub(super) fn is_back(&self, from: usize, to: usize) -> bool {
        self.back.contains(&(from, to))
    }

    /// Walks through a visit. Returns whether it is irregular at its end ([`Visit::is_irregular`]), and the visits that
    /// may follow.
    fn walk(
        &mut self,
        ir: &Ir,
        visit: &Visit,
        extracted: &mut BTreeSet<HeaderId>,
    ) -> (bool, Vec<Visit>) {
        let state = &ir.parser.states[visit.state.index()];
        let mut walk = Walk::new(ir, visit);
        for op in &state.ops {
            let was_moved = walk.is_moved;
            match walk.step(ir, op) {
                Step::Extracts(header, at) | Step::ExtractsVariable(header, at) => {
                    let own = walk.position(header);
                    let is_behind = extracted.iter().all(|other| walk.position(*other) < own);
                    // If another member of the header's union was extracted, that member is still in the frame, but
                    // becomes invalid.
                    let union = |header: HeaderId| ir.headers[header.index()].union;
                    let is_exclusive = union(header).is_some()
                        && extracted.iter().any(|other| union(*other) == union(header));
                    if own.is_none() || !is_behind || is_exclusive {
                        walk.is_irregular = true;
                    }
                    extracted.insert(header);
                    self.offsets.entry(header).or_default().insert(at);
                    if was_moved {
                        self.moved.insert(header);
                    }
                }
                Step::StackFull | Step::Unknown(_) => return (walk.is_irregular, Vec::new()),
                Step::Skips | Step::SkipsVariable | Step::Stays => {}
            }
            self.has_variable |= walk.is_moved;
            if walk.is_irregular {
                self.is_regular = false;
            }
        }
        if walk.at > HEADER_BYTES_MAX {
            return (walk.is_irregular, Vec::new());
        }
        let next = successors(state)
            .map(|state| Visit {
                state,
                at: walk.at,
                next: walk.next.clone(),
                is_irregular: walk.is_irregular,
                is_moved: walk.is_moved,
            })
            .collect();
        (walk.is_irregular, next)
    }

    /// Whether the headers extracted up to a visit's end are out of the deparser's order or have gaps.
    pub(super) fn ends_irregular(&self, visit: usize) -> bool {
        self.ends_irregular.get(visit) == Some(&true)
    }

    /// Whether the extracted headers may be out of order or have gaps although [`Paths::ends_irregular`] is false.
    pub(super) fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Returns where a header begins, if that is constant.
    pub(super) fn offset(&self, header: HeaderId) -> Option<u32> {
        if self.moved.contains(&header) {
            return None;
        }
        let offsets = self.offsets.get(&header)?;
        match offsets.len() {
            1 => offsets.first().copied(),
            _ => None,
        }
    }

    /// Whether there were too many visits. If so, packets that need a visit beyond the limit are punted.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

pub(super) fn successors(state: &State) -> impl Iterator<Item = StateId> + '_ {
    let next = state.transitions.iter().map(|transition| transition.next);
    next.chain([state.default]).flatten()
}
