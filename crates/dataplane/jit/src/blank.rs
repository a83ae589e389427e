//! Finds, when a program is loaded, which parts of a new packet's block (its header vector, [`crate::layout`]) must be
//! made blank (zero, headers invalid): the parts that the program may read before it writes them.
//!
//! Metadata that nobody reads needs no value. Some headers are filled only by the parser, and the parser reads them
//! only after it has extracted them. Such a header is made blank only at the parser's end, and only if the parser did
//! not extract it. The fields of an invalid header matter only to code that reads them without a validity check, since
//! `setValid()` zeroes them. Stacks, unions and headers with varbit fields are made blank before the parser.

use dataplane::engine::ir::{
    ExtractTarget, FieldId, HeaderId, Ir, KeyPart, ParserOp, State, StateId,
};

use crate::{options::NativeOptions, usage::Usage};

/// Which parts of a block must be blank, and when.
#[derive(Debug, Clone)]
pub(crate) struct Blanks {
    /// For each field, whether something reads it.
    is_read: Vec<bool>,
    /// For each header, whether it must be blank before the parser.
    is_early: Vec<bool>,
}

impl Blanks {
    /// Returns the value that makes every field and header blank before the parser.
    pub(crate) fn everything(ir: &Ir) -> Self {
        Self {
            is_read: vec![true; ir.fields.len()],
            is_early: vec![true; ir.headers.len()],
        }
    }

    /// Finds the parts that must be blank because the program may read them before it writes them.
    pub(crate) fn of(ir: &Ir, options: NativeOptions) -> Self {
        if !options.parser_specialisation {
            return Self::everything(ir);
        }
        let usage = Usage::of_everything(ir);
        let ids = (0..).take(ir.fields.len()).map(FieldId);
        let mut is_read: Vec<bool> = ids.map(|field| usage.field(field).is_read()).collect();
        // The traffic manager reads the multicast group, the priority and `egress_spec`.
        let metadata = &ir.metadata;
        let read_by_target = [metadata.mcast_grp, metadata.priority]
            .into_iter()
            .flatten();
        for field in read_by_target.chain([metadata.egress_spec]) {
            is_read[field.index()] = true;
        }
        Self {
            is_read,
            is_early: early(ir),
        }
    }

    pub(crate) fn is_read(&self, field: FieldId) -> bool {
        self.is_read[field.index()]
    }

    pub(crate) fn is_early(&self, header: HeaderId) -> bool {
        self.is_early[header.index()]
    }

    /// The headers that must be made blank after the parser if it did not extract them.
    pub(crate) fn late(&self, ir: &Ir) -> Vec<HeaderId> {
        let headers = (0..).map(HeaderId).zip(&ir.headers);
        let late = headers.filter(|(id, header)| {
            let mut fields = header.field_ids();
            !header.metadata && !self.is_early(*id) && fields.any(|field| self.is_read(field))
        });
        late.map(|(id, _)| id).collect()
    }
}

/// Returns, for each header, whether it must be blank before the parser runs.
fn early(ir: &Ir) -> Vec<bool> {
    let mut early: Vec<bool> = ir
        .headers
        .iter()
        .map(|header| header.variable_field.is_some() || header.union.is_some())
        .collect();
    for element in ir.stacks.iter().flat_map(|stack| &stack.elements) {
        early[element.index()] = true;
    }
    // The fields that a resubmitted or recirculated packet keeps are written before the parser runs.
    for field in ir.field_lists.iter().flat_map(|list| &list.fields) {
        early[ir.fields[field.index()].header.index()] = true;
    }
    let states = &ir.parser.states;
    for (state, extracted) in states.iter().zip(extracted_before(ir)) {
        if let Some(extracted) = extracted {
            look_at(ir, state, extracted, &mut early);
        }
    }
    early
}

/// Returns, for each state, the headers that the parser has extracted on every path to the state; `None` for a state
/// that the parser cannot reach.
fn extracted_before(ir: &Ir) -> Vec<Option<Vec<bool>>> {
    let parser = &ir.parser;
    let mut before: Vec<Option<Vec<bool>>> = vec![None; parser.states.len()];
    let mut work: Vec<StateId> = Vec::new();
    if let Some(start) = parser.start {
        before[start.index()] = Some(vec![false; ir.headers.len()]);
        work.push(start);
    }
    while let Some(id) = work.pop() {
        let state = &parser.states[id.index()];
        let Some(mut after) = before[id.index()].clone() else {
            continue;
        };
        state.ops.iter().for_each(|op| extract(op, &mut after));
        let next = state.transitions.iter().map(|arrow| arrow.next);
        for next in next.chain([state.default]).flatten() {
            let known = &mut before[next.index()];
            let joined: Vec<bool> = match known {
                None => after.clone(),
                Some(known) => known.iter().zip(&after).map(|(a, b)| *a && *b).collect(),
            };
            if known.as_ref() != Some(&joined) {
                *known = Some(joined);
                work.push(next);
            }
        }
    }
    before
}

fn extract(op: &ParserOp, extracted: &mut [bool]) {
    if let ParserOp::Extract(ExtractTarget::Header(header)) = op {
        extracted[header.index()] = true;
    }
}

/// Marks the headers that a state writes, or reads before they are extracted.
fn look_at(ir: &Ir, state: &State, mut extracted: Vec<bool>, early: &mut [bool]) {
    let mut mark = |usage: &Usage<'_>, extracted: &[bool]| {
        for (id, field) in (0..).map(FieldId).zip(&ir.fields) {
            let header = field.header.index();
            let accesses = usage.field(id);
            // A written field no longer has its extracted value, so extraction does not matter.
            let is_written = accesses.writes + accesses.moves > 0;
            early[header] |= is_written || accesses.is_read() && !extracted[header];
        }
    };
    for op in &state.ops {
        if let ParserOp::Primitive(_) = op {
            // A primitive may write any field.
            mark(&Usage::of_all_fields(ir), &extracted);
        }
        mark(&Usage::of_operation(ir, op), &extracted);
        extract(op, &mut extracted);
    }
    for part in &state.key {
        if let KeyPart::Value { value, .. } = part {
            mark(&Usage::of_number(ir, value), &extracted);
        }
    }
}
