//! The packet header vector: field values and header validity.

use crate::{
    program::ir::{AnyStack, FieldId, HeaderId, Ir, UnionId},
    value::{self, Int},
};

/// Field values and header validity of one packet.
#[derive(Debug, Clone, Default)]
pub struct Phv {
    values: Vec<Int>,
    valid: Vec<bool>,
    /// Current width of each header's varbit field.
    variable_bits: Vec<u32>,
    /// `nextIndex` of header stacks, then of header union stacks.
    next_index: Vec<usize>,
    n_stacks: usize,
}

impl Phv {
    /// Makes a vector in which all fields are zero and only metadata is valid.
    pub fn new(ir: &Ir) -> Self {
        Self {
            values: vec![Int::ZERO; ir.fields.len()],
            valid: ir.headers.iter().map(|header| header.metadata).collect(),
            variable_bits: vec![0; ir.headers.len()],
            next_index: vec![0; ir.stacks.len() + ir.union_stacks.len()],
            n_stacks: ir.stacks.len(),
        }
    }

    /// Returns a lower bound of the memory that the vector takes, in bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        self.values.len() * size_of::<Int>()
    }

    /// Whether the vector is a default value, made without a program.
    pub(crate) fn is_without_fields(&self) -> bool {
        self.values.is_empty()
    }

    /// Resets to the state after `new`, without allocating.
    pub fn reset(&mut self, ir: &Ir) {
        // Most values are zero already, and an assignment to an `Int` costs a function call.
        for value in self.values.iter_mut().filter(|value| !value.is_zero()) {
            *value = Int::ZERO;
        }
        for (valid, header) in self.valid.iter_mut().zip(&ir.headers) {
            *valid = header.metadata;
        }
        self.variable_bits.fill(0);
        self.next_index.fill(0);
    }

    /// Copies another vector; allocates only for large values.
    pub(crate) fn copy_from(&mut self, other: &Phv) {
        self.values.resize_with(other.values.len(), || Int::ZERO);
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            match other.is_zero() {
                true if value.is_zero() => {}
                true => *value = Int::ZERO,
                false => value.clone_from(other),
            }
        }
        self.valid.clone_from(&other.valid);
        self.variable_bits.clone_from(&other.variable_bits);
        self.next_index.clone_from(&other.next_index);
    }

    pub(crate) fn reset_metadata(&mut self, ir: &Ir) {
        for header in ir.headers.iter().filter(|header| header.metadata) {
            for field in header.field_ids() {
                self.values[field.index()] = Int::ZERO;
            }
        }
    }

    /// The value of a field, whether or not its header is valid.
    pub fn get(&self, field: FieldId) -> &Int {
        &self.values[field.index()]
    }

    /// The current width of a field.
    pub fn bits(&self, ir: &Ir, field: FieldId) -> u32 {
        let field = &ir.fields[field.index()];
        if field.variable {
            self.variable_bits[field.header.index()]
        } else {
            field.bits
        }
    }

    /// Writes a field, truncated to its width.
    pub fn set(&mut self, ir: &Ir, field: FieldId, value: Int) {
        let bits = self.bits(ir, field);
        self.values[field.index()] = value::wrap(value, bits, ir.fields[field.index()].signed);
    }

    /// Sets the width and value of a varbit field.
    pub fn set_variable(&mut self, ir: &Ir, field: FieldId, value: Int, bits: u32) {
        self.variable_bits[ir.fields[field.index()].header.index()] = bits;
        self.set(ir, field, value);
    }

    /// Whether a header is valid.
    pub fn is_valid(&self, header: HeaderId) -> bool {
        self.valid[header.index()]
    }

    /// The current width of a header's varbit field.
    pub fn variable_bits(&self, header: HeaderId) -> u32 {
        self.variable_bits[header.index()]
    }

    /// Sets the validity of a header, without effect on its union.
    pub fn put_validity(&mut self, header: HeaderId, valid: bool) {
        self.valid[header.index()] = valid;
    }

    /// Makes a header valid and the other members of its union invalid.
    pub(crate) fn set_valid(&mut self, ir: &Ir, header: HeaderId) {
        if let Some(union) = ir.headers[header.index()].union {
            for member in &ir.unions[union.index()].members {
                self.valid[member.index()] = false;
            }
        }
        self.valid[header.index()] = true;
    }

    pub(crate) fn set_invalid(&mut self, ir: &Ir, header: HeaderId) {
        if !ir.headers[header.index()].metadata {
            self.valid[header.index()] = false;
        }
    }

    fn set_union_invalid(&mut self, ir: &Ir, union: UnionId) {
        for member in &ir.unions[union.index()].members {
            self.set_invalid(ir, *member);
        }
    }

    pub(crate) fn is_union_valid(&self, ir: &Ir, union: UnionId) -> bool {
        let mut members = ir.unions[union.index()].members.iter();
        members.any(|member| self.is_valid(*member))
    }

    pub(crate) fn clear(&mut self, ir: &Ir, header: HeaderId) {
        for field in ir.headers[header.index()].field_ids() {
            self.values[field.index()] = Int::ZERO;
        }
        self.variable_bits[header.index()] = 0;
    }

    pub(crate) fn header_bytes(&self, ir: &Ir, header: HeaderId) -> usize {
        let fixed = ir.headers[header.index()].fixed_bits;
        ((fixed + self.variable_bits[header.index()]) / 8) as usize
    }

    /// Copies a header of the same type, including its validity.
    pub(crate) fn assign_header(&mut self, ir: &Ir, to: HeaderId, from: HeaderId) {
        if !self.is_valid(from) {
            self.set_invalid(ir, to);
            return;
        }
        self.set_valid(ir, to);
        if to != from {
            self.copy_fields(ir, to, from);
        }
    }

    fn copy_fields(&mut self, ir: &Ir, to: HeaderId, from: HeaderId) {
        self.variable_bits[to.index()] = self.variable_bits[from.index()];
        let (to, from) = (&ir.headers[to.index()], &ir.headers[from.index()]);
        for (to, from) in to.field_ids().zip(from.field_ids()) {
            self.values[to.index()] = self.values[from.index()].clone();
        }
    }

    pub(crate) fn assign_union(&mut self, ir: &Ir, to: UnionId, from: UnionId) {
        if to == from {
            return;
        }
        let members = &ir.unions[to.index()].members;
        self.set_union_invalid(ir, to);
        for (to, from) in members.iter().zip(&ir.unions[from.index()].members) {
            if self.is_valid(*from) {
                self.assign_header(ir, *to, *from);
            }
        }
    }

    /// The stack's `nextIndex`.
    pub fn next_index(&self, stack: AnyStack) -> usize {
        self.next_index[self.stack_slot(stack)]
    }

    /// Sets the stack's `nextIndex`.
    pub fn set_next_index(&mut self, stack: AnyStack, index: usize) {
        let slot = self.stack_slot(stack);
        self.next_index[slot] = index;
    }

    fn stack_slot(&self, stack: AnyStack) -> usize {
        match stack {
            AnyStack::Headers(stack) => stack.index(),
            AnyStack::Unions(stack) => self.n_stacks + stack.index(),
        }
    }

    /// Copies a stack of the same type and size.
    pub(crate) fn assign_stack(&mut self, ir: &Ir, to: AnyStack, from: AnyStack) {
        let next = self.next_index(from);
        self.set_next_index(to, next);
        for position in 0..ir.stack_size(to) {
            self.move_element(ir, (to, position), Some((from, position)));
        }
    }

    /// Runs `push_front` if `up`, else `pop_front`, by `count` elements; new elements are invalid. See section 8.18 of
    /// the P4-16 language specification 1.2.5.
    pub(crate) fn shift_stack(&mut self, ir: &Ir, stack: AnyStack, count: usize, up: bool) {
        let size = ir.stack_size(stack);
        let next = self.next_index(stack);
        let new_next = if up {
            next.saturating_add(count).min(size)
        } else {
            next.saturating_sub(count)
        };
        self.set_next_index(stack, new_next);
        let count = count.min(size);
        for step in 0..size {
            let (to, from) = if up {
                (size - 1 - step, (size - 1 - step).checked_sub(count))
            } else {
                (step, Some(step + count))
            };
            let from = from.filter(|from| *from < size);
            self.move_element(ir, (stack, to), from.map(|from| (stack, from)));
        }
    }

    /// Copies the element `from` to a stack element; if `from` is `None`, makes that stack element invalid.
    fn move_element(
        &mut self,
        ir: &Ir,
        (stack, to): (AnyStack, usize),
        from: Option<(AnyStack, usize)>,
    ) {
        match stack {
            AnyStack::Headers(stack) => {
                let to = ir.stacks[stack.index()].elements[to];
                match from.and_then(|(stack, from)| ir.element(stack, 0, from)) {
                    Some(from) => self.assign_header(ir, to, from),
                    None => self.set_invalid(ir, to),
                }
            }
            AnyStack::Unions(stack) => {
                let to = ir.union_stacks[stack.index()].elements[to];
                match from {
                    Some((AnyStack::Unions(stack), from)) => {
                        self.assign_union(ir, to, ir.union_stacks[stack.index()].elements[from]);
                    }
                    _ => self.set_union_invalid(ir, to),
                }
            }
        }
    }
}
