//! Finds out which fields a part of a program reads and writes, on any path.

use std::collections::BTreeSet;

use dataplane::{
    ActionId, Program,
    engine::ir::{
        CalculationId, CalculationInput, DigestId, Expr, FieldId, HeaderId, Ir, KeyPart, Node,
        NodeId, Primitive,
        accesses::{Accesses, Walk},
    },
};

use super::control;

/// The accesses of a part of a program.
#[derive(Debug, Clone)]
pub(super) struct Uses<'p> {
    ir: &'p Ir,
    pub reads: BTreeSet<FieldId>,
    /// Fields that are read even if their headers are invalid.
    pub unguarded: BTreeSet<FieldId>,
    /// Includes fields of headers that are copied or moved as a whole.
    pub writes: BTreeSet<FieldId>,
    pub digests: BTreeSet<DigestId>,
    /// Headers that become valid or invalid other than by extraction.
    pub validity_writes: BTreeSet<HeaderId>,
}

impl<'p> Uses<'p> {
    fn new(ir: &'p Ir) -> Self {
        Self {
            ir,
            reads: BTreeSet::new(),
            unguarded: BTreeSet::new(),
            writes: BTreeSet::new(),
            digests: BTreeSet::new(),
            validity_writes: BTreeSet::new(),
        }
    }

    /// Returns the accesses of the parser and of the checksums that are verified.
    pub(super) fn of_parser(ir: &'p Ir) -> Self {
        let mut uses = Self::new(ir);
        for state in &ir.parser.states {
            state.ops.iter().for_each(|op| uses.walk().operation(op));
            for part in &state.key {
                if let KeyPart::Value { value, .. } = part {
                    uses.walk().number(value);
                }
            }
        }
        for checksum in ir.checksums.iter().filter(|checksum| checksum.verify) {
            checksum
                .condition
                .iter()
                .for_each(|it| uses.walk().truth(it));
            uses.calculate(checksum.calculation);
            uses.reads.insert(checksum.target);
        }
        uses
    }

    /// Returns the accesses of a control.
    pub(super) fn of_control(program: &'p Program, start: Option<NodeId>) -> Self {
        let ir = program.ir();
        let mut uses = Self::new(ir);
        for node in control::reachable(program, start) {
            match &ir.nodes[node.index()] {
                Node::If { condition, .. } => uses.walk().truth(condition),
                Node::Call { action, .. } => uses.action(*action),
                Node::Table(table) => {
                    let node = &ir.table_nodes[table.index()];
                    for part in &node.key {
                        // The field of an invalid header counts as zero, so this read is guarded.
                        match &part.value {
                            Expr::Field(field) => {
                                uses.reads.insert(*field);
                            }
                            value => uses.walk().number(value),
                        }
                    }
                    if let Some(meter) = &node.meter {
                        uses.writes.insert(meter.result);
                    }
                    let actions = control::actions_of(program, *table);
                    actions.into_iter().for_each(|action| uses.action(action));
                }
            }
        }
        uses
    }

    /// Returns the accesses of the checksums that are updated and of the deparser's statements. The reads of emitted
    /// headers are left out.
    pub(super) fn of_deparser(ir: &'p Ir) -> Self {
        let mut uses = Self::new(ir);
        for checksum in ir.checksums.iter().filter(|checksum| checksum.update) {
            checksum
                .condition
                .iter()
                .for_each(|it| uses.walk().truth(it));
            uses.calculate(checksum.calculation);
            uses.writes.insert(checksum.target);
        }
        let primitives = &ir.deparser.primitives;
        primitives.iter().for_each(|it| uses.walk().primitive(it));
        uses
    }

    /// Returns the accesses of `self` and `other` together.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.reads.extend(&other.reads);
        self.unguarded.extend(&other.unguarded);
        self.writes.extend(&other.writes);
        self.validity_writes.extend(&other.validity_writes);
        self
    }

    fn walk(&mut self) -> Walk<'p, '_, Self> {
        Walk {
            ir: self.ir,
            to: self,
        }
    }

    fn action(&mut self, action: ActionId) {
        let primitives = &self.ir.actions[action.index()].primitives;
        for primitive in primitives {
            self.walk().primitive(primitive);
            if let Primitive::Digest(digest) = primitive {
                self.digests.insert(*digest);
            }
        }
    }

    /// Adds the reads of digests' members, at the end of ingress.
    pub(super) fn with_digests(mut self) -> Self {
        for digest in self.digests.clone() {
            let members = &self.ir.digests[digest.index()].fields;
            members
                .iter()
                .for_each(|(value, _)| self.walk().number(value));
        }
        self
    }

    fn fields(&self, header: HeaderId) -> impl Iterator<Item = FieldId> + use<> {
        self.ir.headers[header.index()].field_ids()
    }
}

impl Accesses for Uses<'_> {
    fn read(&mut self, field: FieldId) {
        self.reads.insert(field);
        self.unguarded.insert(field);
    }

    fn compare(&mut self, header: HeaderId) {
        self.reads.extend(self.fields(header));
    }

    fn copy(&mut self, header: HeaderId) {
        self.reads.extend(self.fields(header));
    }

    fn write(&mut self, field: FieldId) {
        self.writes.insert(field);
    }

    fn write_header(&mut self, header: HeaderId) {
        self.validity_writes.insert(header);
        if let Some(union) = self.ir.headers[header.index()].union {
            self.validity_writes
                .extend(&self.ir.unions[union.index()].members);
        }
        self.writes.extend(self.fields(header));
    }

    fn calculate(&mut self, calculation: CalculationId) {
        for input in &self.ir.calculations[calculation.index()].input {
            match input {
                CalculationInput::Field(field) => {
                    self.reads.insert(*field);
                }
                CalculationInput::Header(header) => self.reads.extend(self.fields(*header)),
                CalculationInput::Constant { .. } | CalculationInput::Payload => {}
            }
        }
    }

    // `mark_to_drop` also writes 0 to the multicast group. That write is left out here, since it never sends a packet
    // to a group.
    fn mark_to_drop(&mut self) {
        self.writes.insert(self.ir.metadata.egress_spec);
    }
}
