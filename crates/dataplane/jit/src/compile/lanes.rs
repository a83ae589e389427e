//! Turns scalar assignments into vector operations. If assignments of an action do the same to four sets of 32-bit
//! fields, for example compute a hash with four different keys, they become operations on vectors with four lanes of 32
//! bits.
//!
//! A *group* is four consecutive blocks of assignments of the same form: the other blocks have the same assignments as
//! the first block, but with other fields, and no block reads or writes what another block writes. So it does not
//! matter whether the blocks run one after the other or side by side. A *run* is a sequence of consecutive groups. From
//! one group to the next, fields stay in vectors. At the end of the run, the code writes back each field that anything
//! else may read.
//!
//! A lane holds the lowest 32 bits of a number. Every field that is assigned has 32 bits. A shift to the right needs
//! all bits of its operand, so it becomes a lane operation only if the operand fits into 32 bits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cranelift_codegen::ir::{ConstantData, InstBuilder, Type, Value, types};
use dataplane::engine::ir::{
    Arithmetic, Expr, FieldId, Int, Place, Primitive,
    range::{Range, constant_amount},
};

use super::{Emit, Names};
use crate::usage::Usage;

const LANES: usize = 4;
const LANE_BITS: u32 = 32;
const VECTOR: Type = types::I32X4;
/// The highest number of assignments in one block.
const BLOCK_MAX: usize = 16;
/// The least number of steps (vector assignments) in a run. A shorter run saves less time than it takes to fill and
/// empty the vectors.
const RUN_MIN: usize = 8;

/// One field for each lane.
type Fields = [FieldId; LANES];

/// An expression that each lane computes with its own fields.
#[derive(Debug, PartialEq, Eq)]
enum Number {
    /// The same in all lanes.
    Const(u32),
    Fields(Fields),
    Not(Box<Number>),
    Binary(Binary, Box<Number>, Box<Number>),
    ShiftLeft(Box<Number>, u32),
    ShiftRight(Box<Number>, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binary {
    Add,
    Sub,
    And,
    Or,
    Xor,
}

/// The same assignment in each lane.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    to: Fields,
    from: Number,
}

/// A run (see the top of this file), as the steps of its groups.
#[derive(Debug)]
pub(super) struct Run {
    steps: Vec<Step>,
}

impl Run {
    pub(super) fn len(&self) -> usize {
        LANES * self.steps.len()
    }
}

/// Returns the run that begins with the first of these primitives, if the run is long enough to save time.
pub(super) fn run_of(names: Names<'_>, primitives: &[Primitive]) -> Option<Run> {
    let mut steps = Vec::new();
    while let Some(group) = group_of(names, &primitives[LANES * steps.len()..]) {
        steps.extend(group);
    }
    (steps.len() >= RUN_MIN).then_some(Run { steps })
}

/// Returns the smallest group that begins with the first of these primitives, if there is one.
fn group_of(names: Names<'_>, primitives: &[Primitive]) -> Option<Vec<Step>> {
    (1..=BLOCK_MAX).find_map(|len| {
        let whole = primitives.get(..LANES * len)?;
        let steps: Option<Vec<Step>> = (0..len)
            .map(|at| step_of(names, [0, 1, 2, 3].map(|block| &whole[block * len + at])))
            .collect();
        steps.filter(|steps| are_apart(steps))
    })
}

/// Returns the step that four assignments, one from each block, form together. `None` if they differ in more than their
/// fields, or if vectors cannot compute them.
fn step_of(names: Names<'_>, assignments: [&Primitive; LANES]) -> Option<Step> {
    let assignments = of_each(assignments, |primitive| match primitive {
        Primitive::Assign {
            to: Place::Field(to),
            from,
        } if is_lane(names, *to) => Some((*to, from)),
        _ => None,
    })?;
    Some(Step {
        to: assignments.map(|(to, _)| to),
        from: number_of(names, assignments.map(|(_, from)| from))?,
    })
}

/// Returns the vector expression that computes four expressions at once; `None` if they differ in more than their
/// fields, or if vectors cannot compute them.
fn number_of(names: Names<'_>, exprs: [&Expr; LANES]) -> Option<Number> {
    match exprs[0] {
        Expr::Const(value) => {
            let same = |expr: &Expr| matches!(expr, Expr::Const(other) if other == value);
            exprs.into_iter().all(same).then(|| {
                let low = value.clone() & Int::from(u32::MAX);
                Number::Const(u32::try_from(&low).expect("masked to 32 bits"))
            })
        }
        Expr::Field(_) => {
            let fields = of_each(exprs, |expr| match expr {
                Expr::Field(field) => Some(*field),
                _ => None,
            })?;
            let are_lanes = fields.iter().all(|field| is_lane(names, *field));
            // A field that all lanes share may have any width up to a word.
            let is_one = fields == [fields[0]; LANES] && names.widths.field(fields[0]).words == 1;
            (are_lanes || is_one).then_some(Number::Fields(fields))
        }
        Expr::Complement(_) => {
            let operands = of_each(exprs, |expr| match expr {
                Expr::Complement(operand) => Some(&**operand),
                _ => None,
            })?;
            Some(Number::Not(Box::new(number_of(names, operands)?)))
        }
        Expr::Arithmetic(op, ..) => {
            let operands = of_each(exprs, |expr| match expr {
                Expr::Arithmetic(other, left, right) if other == op => Some((&**left, &**right)),
                _ => None,
            })?;
            let (left, right) = (operands.map(|it| it.0), operands.map(|it| it.1));
            operation_of(names, *op, left, right)
        }
        _ => None,
    }
}

fn operation_of(
    names: Names<'_>,
    op: Arithmetic,
    left: [&Expr; LANES],
    right: [&Expr; LANES],
) -> Option<Number> {
    let operand = |exprs| Some(Box::new(number_of(names, exprs)?));
    let binary = |op| Some(Number::Binary(op, operand(left)?, operand(right)?));
    match op {
        Arithmetic::Add => binary(Binary::Add),
        Arithmetic::Sub => binary(Binary::Sub),
        Arithmetic::And => binary(Binary::And),
        Arithmetic::Or => binary(Binary::Or),
        Arithmetic::Xor => binary(Binary::Xor),
        Arithmetic::ShiftLeft => Some(Number::ShiftLeft(operand(left)?, amount_of(right)?)),
        Arithmetic::ShiftRight => {
            let all = left.into_iter().all(|expr| is_within_lane(names, expr));
            let amount = amount_of(right).filter(|_| all)?;
            Some(Number::ShiftRight(operand(left)?, amount))
        }
        _ => None,
    }
}

/// Applies `of` to each lane. Returns `None` if `of` returns `None` for any lane.
fn of_each<T, U>(lanes: [T; LANES], of: impl Fn(T) -> Option<U>) -> Option<[U; LANES]> {
    let [a, b, c, d] = lanes.map(of);
    Some([a?, b?, c?, d?])
}

/// Whether a lane can hold a field.
fn is_lane(names: Names<'_>, field: FieldId) -> bool {
    let slot = names.widths.field(field);
    slot.bits == LANE_BITS && !slot.signed && !slot.variable
}

fn is_within_lane(names: Names<'_>, expr: &Expr) -> bool {
    let range = names.range(expr);
    range.is_some_and(|range| range.is_within(&Range::field(LANE_BITS, false)))
}

/// Returns the amount of a shift, if it is the same constant below 32 in all lanes.
fn amount_of(amounts: [&Expr; LANES]) -> Option<u32> {
    let [first, others @ ..] = of_each(amounts, constant_amount)?;
    let amount = first.filter(|_| others.iter().all(|other| *other == first))?;
    (amount < LANE_BITS).then_some(amount)
}

impl Number {
    /// Collects the fields that the number reads. A field that is read several times is collected several times.
    fn reads(&self, reads: &mut Vec<Fields>) {
        match self {
            Number::Const(_) => {}
            Number::Fields(fields) => reads.push(*fields),
            Number::Not(operand)
            | Number::ShiftLeft(operand, _)
            | Number::ShiftRight(operand, _) => operand.reads(reads),
            Number::Binary(_, left, right) => {
                left.reads(reads);
                right.reads(reads);
            }
        }
    }
}

impl Step {
    fn reads(&self) -> Vec<Fields> {
        let mut reads = Vec::new();
        self.from.reads(&mut reads);
        reads
    }
}

/// Whether no lane reads or writes a field that another lane writes.
fn are_apart(steps: &[Step]) -> bool {
    let in_lane = |lane: usize| -> [BTreeSet<FieldId>; 2] {
        let written = steps.iter().map(|step| step.to[lane]);
        let read = steps.iter().flat_map(Step::reads);
        let read = read.map(|fields| fields[lane]);
        [written.clone().collect(), written.chain(read).collect()]
    };
    let lanes = [0, 1, 2, 3].map(in_lane);
    let apart =
        |one: usize, other: usize| one == other || lanes[one][0].is_disjoint(&lanes[other][1]);
    (0..LANES).all(|one| (0..LANES).all(|other| apart(one, other)))
}

#[derive(Default)]
struct Vectors {
    of: HashMap<Fields, Value>,
    /// For each field that is in a vector, this vector and the field's lane.
    place: HashMap<FieldId, (Fields, u8)>,
    /// Vectors that were assigned and are not written back, in the order of assignment.
    unwritten: BTreeMap<usize, Fields>,
    n_assigned: usize,
}

impl Vectors {
    fn insert(&mut self, fields: Fields, value: Value) {
        self.of.insert(fields, value);
        for (lane, field) in (0u8..).zip(fields) {
            self.place.insert(field, (fields, lane));
        }
    }

    fn assign(&mut self, fields: Fields, value: Value) {
        self.insert(fields, value);
        self.unwritten.retain(|_, other| *other != fields);
        self.unwritten.insert(self.n_assigned, fields);
        self.n_assigned += 1;
    }

    /// Returns the vectors that have some of the fields in `fields`, except the vector of exactly these fields.
    fn across(&self, fields: &Fields) -> BTreeSet<Fields> {
        let places = fields.iter().filter_map(|field| self.place.get(field));
        let others = places.map(|(other, _)| *other);
        others.filter(|other| other != fields).collect()
    }

    fn remove(&mut self, fields: &Fields) {
        self.of.remove(fields);
        for field in fields {
            self.place.remove(field);
        }
        self.unwritten.retain(|_, other| other != fields);
    }
}

impl Emit<'_, '_, '_> {
    pub(super) fn lanes(&mut self, run: &Run) {
        let mut vectors = Vectors::default();
        for step in &run.steps {
            let value = self.vector_of(&mut vectors, &step.from);
            for other in vectors.across(&step.to) {
                self.write_lanes(&vectors, &other, &BTreeSet::new());
                vectors.remove(&other);
            }
            vectors.assign(step.to, value);
        }
        let own = self.own_fields(run);
        let unwritten: Vec<Fields> = vectors.unwritten.values().copied().collect();
        for fields in unwritten {
            self.write_lanes(&vectors, &fields, &own);
        }
    }

    /// Returns the fields that need not be written back. These are fields of the program's own metadata that the run
    /// writes before it reads them and that nothing else reads.
    fn own_fields(&self, run: &Run) -> BTreeSet<FieldId> {
        let ir = self.ir();
        let mut own = BTreeSet::new();
        let mut early = BTreeSet::new();
        let mut n_reads: HashMap<FieldId, u32> = HashMap::new();
        for step in &run.steps {
            for field in step.reads().into_iter().flatten() {
                *n_reads.entry(field).or_default() += 1;
                if !own.contains(&field) {
                    early.insert(field);
                }
            }
            own.extend(step.to);
        }
        let everywhere = Usage::of_everything(ir);
        let lists = ir.field_lists.iter().flat_map(|list| &list.fields);
        let kept: BTreeSet<FieldId> = lists.copied().collect();
        let header_of = |field: FieldId| ir.fields[field.index()].header;
        let targets = header_of(ir.metadata.egress_spec);
        own.retain(|field| {
            let accesses = everywhere.field(*field);
            let here = n_reads.get(field).copied().unwrap_or_default();
            let header = header_of(*field);
            let is_ours = ir.headers[header.index()].metadata && header != targets;
            let is_read_here = accesses.copies == 0 && accesses.reads == here;
            is_ours && is_read_here && !early.contains(field) && !kept.contains(field)
        });
        own
    }

    fn vector_of(&mut self, vectors: &mut Vectors, number: &Number) -> Value {
        match number {
            Number::Const(value) => {
                let bytes = [value.to_le_bytes(); LANES].concat();
                let constant = self.b.func.dfg.constants.insert(ConstantData::from(bytes));
                self.b.ins().vconst(VECTOR, constant)
            }
            Number::Fields(fields) => self.vector_of_fields(vectors, *fields),
            Number::Not(operand) => {
                let operand = self.vector_of(vectors, operand);
                self.b.ins().bnot(operand)
            }
            Number::ShiftLeft(operand, amount) => {
                let operand = self.vector_of(vectors, operand);
                let amount = self.constant32(*amount);
                self.b.ins().ishl(operand, amount)
            }
            Number::ShiftRight(operand, amount) => {
                let operand = self.vector_of(vectors, operand);
                let amount = self.constant32(*amount);
                self.b.ins().ushr(operand, amount)
            }
            Number::Binary(op, left, right) => {
                let left = self.vector_of(vectors, left);
                let right = self.vector_of(vectors, right);
                match op {
                    Binary::Add => self.b.ins().iadd(left, right),
                    Binary::Sub => self.b.ins().isub(left, right),
                    Binary::And => self.b.ins().band(left, right),
                    Binary::Or => self.b.ins().bor(left, right),
                    Binary::Xor => self.b.ins().bxor(left, right),
                }
            }
        }
    }

    fn vector_of_fields(&mut self, vectors: &mut Vectors, fields: Fields) -> Value {
        if let Some(value) = vectors.of.get(&fields) {
            return *value;
        }
        let first = self.lane_word(vectors, fields[0]);
        if fields == [fields[0]; LANES] {
            return self.b.ins().splat(VECTOR, first);
        }
        let mut value = self.b.ins().scalar_to_vector(VECTOR, first);
        for (lane, field) in (0u8..).zip(fields).skip(1) {
            let word = self.lane_word(vectors, field);
            value = self.b.ins().insertlane(value, word, lane);
        }
        if fields
            .iter()
            .all(|field| !vectors.place.contains_key(field))
        {
            vectors.insert(fields, value);
        }
        value
    }

    /// The lowest 32 bits of a field, from a vector or from the packet's block (its header vector).
    fn lane_word(&mut self, vectors: &Vectors, field: FieldId) -> Value {
        if let Some((fields, lane)) = vectors.place.get(&field) {
            let value = vectors.of[fields];
            return self.b.ins().extractlane(value, *lane);
        }
        let word = self.field_word(field, 0);
        self.b.ins().ireduce(types::I32, word)
    }

    /// Writes the assigned fields of a vector back, except those in `but`.
    fn write_lanes(&mut self, vectors: &Vectors, fields: &Fields, but: &BTreeSet<FieldId>) {
        if !vectors.unwritten.values().any(|other| other == fields) {
            return;
        }
        for (lane, field) in (0u8..).zip(*fields) {
            if but.contains(&field) {
                self.forget_word(field, 0);
                continue;
            }
            let word = self.b.ins().extractlane(vectors.of[fields], lane);
            let word = self.b.ins().uextend(types::I64, word);
            self.put_field_word(field, 0, word);
        }
    }
}
