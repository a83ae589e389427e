//! Finds out which fields the packet's state (`layout.rs`) must keep, and which headers the deparser may have to write
//! anew.

use std::collections::BTreeSet;

use dataplane::{
    Program,
    engine::ir::{DigestId, FieldId, HeaderId, Ir, Meaning, Moment},
};

use super::{uses::Uses, wire};

/// The fields and headers that the parts of a program need from each other.
#[derive(Debug)]
pub(super) struct Needs<'p> {
    ir: &'p Ir,
    pub egress: Uses<'p>,
    pub deparser: Uses<'p>,
    reads: BTreeSet<FieldId>,
    unguarded: BTreeSet<FieldId>,
    writes: BTreeSet<FieldId>,
    /// Whether the deparser may write headers anew. If so, the state keeps all fields of the headers that it emits.
    pub is_rewritten: bool,
    emitted: BTreeSet<HeaderId>,
    /// Fields that share bytes with a written field.
    shared: BTreeSet<FieldId>,
    shared_in_egress: BTreeSet<FieldId>,
    stale: BTreeSet<FieldId>,
    /// Digests that ingress requests.
    pub digests: BTreeSet<DigestId>,
    /// Fields that parser or ingress writes.
    touched: BTreeSet<FieldId>,
}

/// Returns the header fields that share a byte with one of `fields`.
fn sharing(ir: &Ir, fields: &BTreeSet<FieldId>) -> BTreeSet<FieldId> {
    let headers: BTreeSet<HeaderId> = fields
        .iter()
        .map(|field| ir.fields[field.index()].header)
        .collect();
    let groups = headers
        .into_iter()
        .flat_map(|header| wire::groups(ir, header));
    let groups = groups.filter(|group| group.fields.iter().any(|it| fields.contains(it)));
    groups.flat_map(|group| group.fields).collect()
}

impl<'p> Needs<'p> {
    /// `is_regular`: the parser always extracts headers in the deparser's order, without gaps.
    pub(super) fn new(program: &'p Program, is_regular: bool) -> Self {
        let ir = program.ir();
        let parser = Uses::of_parser(ir);
        let ingress = Uses::of_control(program, ir.ingress).with_digests();
        let egress = Uses::of_control(program, ir.egress);
        let deparser = Uses::of_deparser(ir);
        let all = parser.clone().and(&ingress).and(&egress).and(&deparser);
        let changes_validity = all
            .validity_writes
            .iter()
            .any(|it| !ir.headers[it.index()].metadata);
        let mut reads = all.reads.clone();
        let metadata = &ir.metadata;
        reads.insert(metadata.egress_spec);
        reads.extend(
            [metadata.mcast_grp, metadata.priority]
                .into_iter()
                .flatten(),
        );
        let written_in_egress = &egress.writes | &deparser.writes;
        let digests = ingress.digests.clone();
        let touched = parser.and(&ingress);
        let may_be_stale = |field: &FieldId| {
            let header = ir.fields[field.index()].header;
            let declared = &ir.headers[header.index()];
            // A member of a union becomes invalid when another member is extracted.
            let may_become_invalid =
                touched.validity_writes.contains(&header) || declared.union.is_some();
            !declared.metadata && (may_become_invalid || touched.writes.contains(field))
        };
        let unguarded = &egress.unguarded | &deparser.unguarded;
        let stale = unguarded.into_iter().filter(may_be_stale);
        Self {
            ir,
            stale: stale.collect(),
            digests,
            touched: touched.writes.clone(),
            shared: sharing(ir, &all.writes),
            shared_in_egress: sharing(ir, &written_in_egress),
            egress,
            deparser,
            reads,
            unguarded: all.unguarded,
            writes: all.writes,
            is_rewritten: changes_validity || !is_regular,
            emitted: ir.deparser.order.iter().copied().collect(),
        }
    }

    /// Whether the packet's state keeps a field: something reads the field, or the deparser may have to write the field
    /// into the frame.
    pub(super) fn is_needed(&self, field: FieldId) -> bool {
        let header = self.ir.fields[field.index()].header;
        let in_frame = self.emitted.contains(&header);
        self.reads.contains(&field)
            || in_frame && (self.is_rewritten || self.shared.contains(&field))
    }

    /// Whether the copies' program keeps a field of the frame.
    pub(super) fn is_needed_in_egress(&self, field: FieldId) -> bool {
        self.is_read_in_egress(field)
            || self.shared_in_egress.contains(&field)
            || self.changes_validity_in_egress()
    }

    /// Returns the field that selects the queue, if parser or ingress may write it.
    pub(super) fn priority(&self) -> Option<FieldId> {
        let priority = self.ir.metadata.priority;
        priority.filter(|priority| self.touched.contains(priority))
    }

    /// Whether a copy must carry a metadata field to egress: egress reads the field, and the field may be nonzero.
    pub(super) fn travels(&self, field: FieldId) -> bool {
        let header = self.ir.fields[field.index()].header;
        let is_written_at = |moment: Moment| {
            let mut written = self.ir.metadata.written_at(moment).iter();
            written.any(|(_, other)| *other == field)
        };
        let before = [Moment::Arrival, Moment::Parser, Moment::Parsed];
        let has_queue = Some(field) == self.priority()
            && self.metadata(Moment::Egress, Meaning::Queue).is_some();
        self.ir.headers[header.index()].metadata
            && (self.is_read_in_egress(field) || has_queue)
            && !is_written_at(Moment::Egress)
            && (self.touched.contains(&field) || before.into_iter().any(is_written_at))
    }

    /// Whether a field must start as zero: something may read it before it is written. Only an expression reads a field
    /// of a header without checking the header's validity.
    pub(super) fn is_cleared(&self, field: FieldId) -> bool {
        let header = self.ir.fields[field.index()].header;
        let is_metadata = self.ir.headers[header.index()].metadata;
        self.is_needed(field) && (is_metadata || self.unguarded.contains(&field))
    }

    /// Whether a field must start as zero in a copy: something may read it before it is written.
    pub(super) fn is_cleared_in_egress(&self, field: FieldId) -> bool {
        let header = self.ir.fields[field.index()].header;
        if self.ir.headers[header.index()].metadata {
            let is_verdict = field == self.ir.metadata.egress_spec;
            is_verdict || self.is_read_in_egress(field) && !self.travels(field)
        } else {
            self.is_needed_in_egress(field) && self.unguarded.contains(&field)
        }
    }

    pub(super) fn ir(&self) -> &'p Ir {
        self.ir
    }

    pub(super) fn is_emitted(&self, header: HeaderId) -> bool {
        self.emitted.contains(&header)
    }

    /// Whether an expression of egress may read this field although ingress has left the field's header invalid. The
    /// value that the expression then reads is not in the frame.
    pub(super) fn is_stale(&self, field: FieldId) -> bool {
        self.stale.contains(&field)
    }

    /// Whether anything may change a field between parser and deparser.
    pub(super) fn is_written(&self, field: FieldId) -> bool {
        self.writes.contains(&field)
    }

    /// Whether egress, or the deparser after it, changes a field.
    pub(super) fn is_written_in_egress(&self, field: FieldId) -> bool {
        self.egress.writes.contains(&field) || self.deparser.writes.contains(&field)
    }

    /// Whether egress, or the deparser after it, makes headers valid or invalid.
    pub(super) fn changes_validity_in_egress(&self) -> bool {
        let egress = self.egress.validity_writes.iter();
        egress
            .chain(&self.deparser.validity_writes)
            .any(|header| !self.ir.headers[header.index()].metadata)
    }

    /// Whether egress, or the deparser after it, reads a field.
    pub(super) fn is_read_in_egress(&self, field: FieldId) -> bool {
        self.egress.reads.contains(&field) || self.deparser.reads.contains(&field)
    }

    /// Whether a packet may go to a multicast group. It may if a statement other than `mark_to_drop` writes the group.
    pub(super) fn may_multicast(&self) -> bool {
        let group = self.ir.metadata.mcast_grp;
        group.is_some_and(|group| self.touched.contains(&group))
    }

    /// Returns the metadata field with this meaning that the target writes at `moment`, if something reads the field.
    pub(super) fn metadata(&self, moment: Moment, meaning: Meaning) -> Option<FieldId> {
        let mut written = self.ir.metadata.written_at(moment).iter();
        let (_, field) = written.find(|(other, _)| *other == meaning)?;
        self.is_needed(*field).then_some(*field)
    }
}
