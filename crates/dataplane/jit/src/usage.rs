//! Counts how often a program's code reads and writes each field. Every access in the code counts once, whichever way a
//! packet takes. An access whose field is found at run time counts for every possible field.

use dataplane::engine::ir::{
    CalculationInput, Expr, FieldId, HeaderId, Ir, KeyPart, Node, ParserOp,
    accesses::{Accesses, Walk},
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Reads by expressions, table keys, parser transitions and digests.
    pub reads: u32,
    /// Assignments of the field alone.
    pub writes: u32,
    /// Assignments of the field's whole header, `setValid` included.
    pub moves: u32,
    /// Reads of the field together with others: reads of the whole header, or by a calculation.
    pub copies: u32,
}

impl Counted {
    pub(crate) fn is_read(self) -> bool {
        self.reads + self.copies > 0
    }
}

pub(crate) struct Usage<'p> {
    ir: &'p Ir,
    of: Vec<Counted>,
}

impl<'p> Usage<'p> {
    /// Counts the accesses in controls, and in parser and deparser except those of `extract` and `emit`.
    pub(crate) fn of_program(ir: &'p Ir) -> Self {
        let mut usage = Self::of_controls(ir);
        for state in &ir.parser.states {
            state.ops.iter().for_each(|op| usage.walk().operation(op));
            for part in &state.key {
                if let KeyPart::Value { value, .. } = part {
                    usage.walk().number(value);
                }
            }
        }
        for primitive in &ir.deparser.primitives {
            usage.walk().primitive(primitive);
        }
        for checksum in &ir.checksums {
            checksum
                .condition
                .iter()
                .for_each(|it| usage.walk().truth(it));
        }
        for (expr, _) in ir.digests.iter().flat_map(|digest| &digest.fields) {
            usage.walk().number(expr);
        }
        usage
    }

    /// Counts the accesses that [`Usage::of_program`] counts, and the reads by checksums, hashes and selectors.
    pub(crate) fn of_everything(ir: &'p Ir) -> Self {
        let mut usage = Self::of_program(ir);
        let selectors = ir.action_profiles.iter();
        let selectors = selectors.filter_map(|profile| profile.selector.as_ref());
        for input in ir.calculations.iter().chain(selectors) {
            for part in &input.input {
                match part {
                    CalculationInput::Field(field) => usage.copy_field(*field),
                    CalculationInput::Header(header) => usage.copy(*header),
                    CalculationInput::Constant { .. } | CalculationInput::Payload => {}
                }
            }
        }
        for checksum in &ir.checksums {
            usage.copy_field(checksum.target);
        }
        usage
    }

    pub(crate) fn of_operation(ir: &'p Ir, op: &ParserOp) -> Self {
        let mut usage = Self::of_nothing(ir);
        usage.walk().operation(op);
        usage
    }

    pub(crate) fn of_number(ir: &'p Ir, expr: &Expr) -> Self {
        let mut usage = Self::of_nothing(ir);
        usage.walk().number(expr);
        usage
    }

    /// Counts one assignment of every header.
    pub(crate) fn of_all_fields(ir: &'p Ir) -> Self {
        let mut usage = Self::of_nothing(ir);
        usage.of.iter_mut().for_each(|field| field.moves += 1);
        usage
    }

    fn of_nothing(ir: &'p Ir) -> Self {
        Self {
            ir,
            of: vec![Counted::default(); ir.fields.len()],
        }
    }

    /// Counts the accesses between checksum verification and checksum update: those of the ingress and egress controls.
    pub(crate) fn of_controls(ir: &'p Ir) -> Self {
        let mut usage = Self::of_nothing(ir);
        for primitive in ir.actions.iter().flat_map(|action| &action.primitives) {
            usage.walk().primitive(primitive);
        }
        for node in &ir.nodes {
            if let Node::If { condition, .. } = node {
                usage.walk().truth(condition);
            }
        }
        for table in &ir.table_nodes {
            table
                .key
                .iter()
                .for_each(|part| usage.walk().number(&part.value));
            if let Some(meter) = &table.meter {
                usage.of[meter.result.index()].writes += 1;
            }
        }
        usage
    }

    pub(crate) fn field(&self, field: FieldId) -> Counted {
        self.of[field.index()]
    }

    fn walk(&mut self) -> Walk<'p, '_, Self> {
        Walk {
            ir: self.ir,
            to: self,
        }
    }

    fn copy_field(&mut self, field: FieldId) {
        self.of[field.index()].copies += 1;
    }
}

impl Accesses for Usage<'_> {
    fn read(&mut self, field: FieldId) {
        self.of[field.index()].reads += 1;
    }

    fn compare(&mut self, header: HeaderId) {
        for field in self.ir.headers[header.index()].field_ids() {
            self.read(field);
        }
    }

    fn copy(&mut self, header: HeaderId) {
        for field in self.ir.headers[header.index()].field_ids() {
            self.copy_field(field);
        }
    }

    fn write(&mut self, field: FieldId) {
        self.of[field.index()].writes += 1;
    }

    fn write_header(&mut self, header: HeaderId) {
        for field in self.ir.headers[header.index()].field_ids() {
            self.of[field.index()].moves += 1;
        }
    }
}
