//! Which fields a part of a program reads and writes, whatever way a packet takes. A place that is
//! found at run time counts for every field that it may be.

use std::collections::BTreeSet;

use dataplane::{
    ActionId, Program,
    engine::ir::{
        BoolExpr, CalculationId, CalculationInput, Expr, FieldId, HeaderExpr, HeaderId, Ir,
        KeyPart, Node, NodeId, ParserOp, Place, Primitive, UnionExpr,
    },
};

use super::{control, instances};

/// What a part of a program does.
#[derive(Debug, Clone)]
pub(super) struct Uses<'p> {
    ir: &'p Ir,
    /// Fields that something reads.
    pub reads: BTreeSet<FieldId>,
    /// Those that are read whether their headers are valid or not.
    pub unguarded: BTreeSet<FieldId>,
    /// Fields that something writes, moving whole headers included.
    pub writes: BTreeSet<FieldId>,
    /// Headers that become valid or invalid outside of extraction.
    pub turned: BTreeSet<HeaderId>,
}

impl<'p> Uses<'p> {
    fn new(ir: &'p Ir) -> Self {
        Self {
            ir,
            reads: BTreeSet::new(),
            unguarded: BTreeSet::new(),
            writes: BTreeSet::new(),
            turned: BTreeSet::new(),
        }
    }

    /// Of the parser and the checksums that are verified.
    pub(super) fn of_parser(ir: &'p Ir) -> Self {
        let mut uses = Self::new(ir);
        for state in &ir.parser.states {
            state.ops.iter().for_each(|op| uses.operation(op));
            for part in &state.key {
                if let KeyPart::Value { value, .. } = part {
                    uses.number(value);
                }
            }
        }
        for checksum in ir.checksums.iter().filter(|checksum| checksum.verify) {
            checksum.condition.iter().for_each(|it| uses.truth(it));
            uses.calculation(checksum.calculation);
            uses.reads.insert(checksum.target);
        }
        uses
    }

    /// Of a control.
    pub(super) fn of_control(program: &'p Program, start: Option<NodeId>) -> Self {
        let ir = program.ir();
        let mut uses = Self::new(ir);
        for node in control::reachable(program, start) {
            match &ir.nodes[node.index()] {
                Node::If { condition, .. } => uses.truth(condition),
                Node::Call { action, .. } => uses.action(*action),
                Node::Table(table) => {
                    let node = &ir.table_nodes[table.index()];
                    for part in &node.key {
                        // A field of an invalid header counts as zero.
                        match &part.value {
                            Expr::Field(field) => {
                                uses.reads.insert(*field);
                            }
                            value => uses.number(value),
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

    /// Of the checksums that are updated and of the deparser, emitting aside.
    pub(super) fn of_deparser(ir: &'p Ir) -> Self {
        let mut uses = Self::new(ir);
        for checksum in ir.checksums.iter().filter(|checksum| checksum.update) {
            checksum.condition.iter().for_each(|it| uses.truth(it));
            uses.calculation(checksum.calculation);
            uses.writes.insert(checksum.target);
        }
        let primitives = &ir.deparser.primitives;
        primitives.iter().for_each(|it| uses.primitive(it));
        uses
    }

    /// Both.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.reads.extend(&other.reads);
        self.unguarded.extend(&other.unguarded);
        self.writes.extend(&other.writes);
        self.turned.extend(&other.turned);
        self
    }

    fn action(&mut self, action: ActionId) {
        let primitives = &self.ir.actions[action.index()].primitives;
        primitives.iter().for_each(|it| self.primitive(it));
    }

    fn calculation(&mut self, calculation: CalculationId) {
        for input in &self.ir.calculations[calculation.index()].input {
            match input {
                CalculationInput::Field(field) => {
                    self.reads.insert(*field);
                }
                CalculationInput::Header(header) => self.read_all(*header),
                CalculationInput::Constant { .. } | CalculationInput::Payload => {}
            }
        }
    }

    fn read_all(&mut self, header: HeaderId) {
        let fields = self.ir.headers[header.index()].field_ids();
        self.reads.extend(fields);
    }

    fn read(&mut self, field: FieldId) {
        self.reads.insert(field);
        self.unguarded.insert(field);
    }

    fn headers(&mut self, header: &HeaderExpr) -> Vec<HeaderId> {
        match header {
            HeaderExpr::Element { index, .. } => self.number(index),
            HeaderExpr::Member { union, .. } => self.found_by(union),
            HeaderExpr::Header(_) => {}
        }
        instances::headers(self.ir, header)
    }

    fn found_by(&mut self, union: &UnionExpr) {
        if let UnionExpr::Element { index, .. } = union {
            self.number(index);
        }
    }

    fn field_at(&self, header: HeaderId, offset: u32) -> FieldId {
        self.ir.headers[header.index()].field_at(offset)
    }

    fn number(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(_)
            | Expr::Param(_)
            | Expr::ValidBit(_)
            | Expr::LastStackIndex(_)
            | Expr::StackSize(_) => {}
            Expr::Field(field) => self.read(*field),
            Expr::Access { header, offset } => {
                for header in self.headers(header) {
                    self.read(self.field_at(header, *offset));
                }
            }
            Expr::Register { index, .. } => self.number(index),
            Expr::Arithmetic(_, left, right) => {
                self.number(left);
                self.number(right);
            }
            Expr::Complement(operand) => self.number(operand),
            Expr::Choose { condition, yes, no } => {
                self.truth(condition);
                self.number(yes);
                self.number(no);
            }
            Expr::FromBool(operand) => self.truth(operand),
        }
    }

    fn truth(&mut self, expr: &BoolExpr) {
        match expr {
            BoolExpr::Const(_) => {}
            BoolExpr::Compare(_, left, right) => {
                self.number(left);
                self.number(right);
            }
            BoolExpr::SameHeader(left, right) => {
                for header in [left, right].map(|it| self.headers(it)).concat() {
                    self.read_all(header);
                }
            }
            BoolExpr::SameUnion(left, right) => {
                for union in [left, right] {
                    self.found_by(union);
                    let members = instances::members(self.ir, union);
                    members.into_iter().for_each(|it| self.read_all(it));
                }
            }
            BoolExpr::SameBool(left, right)
            | BoolExpr::And(left, right)
            | BoolExpr::Or(left, right) => {
                self.truth(left);
                self.truth(right);
            }
            BoolExpr::Not(operand) => self.truth(operand),
            BoolExpr::Valid(header) => {
                self.headers(header);
            }
            BoolExpr::ValidUnion(union) => self.found_by(union),
            BoolExpr::FromNumber(operand) => self.number(operand),
            BoolExpr::Choose { condition, yes, no } => {
                self.truth(condition);
                self.truth(yes);
                self.truth(no);
            }
        }
    }

    fn write(&mut self, place: &Place) {
        match place {
            Place::Field(field) => {
                self.writes.insert(*field);
            }
            Place::Access { header, offset } => {
                for header in self.headers(header) {
                    self.writes.insert(self.field_at(header, *offset));
                }
            }
            Place::RegisterCell { index, .. } => self.number(index),
        }
    }

    fn operation(&mut self, op: &ParserOp) {
        match op {
            ParserOp::Extract(_) => {}
            ParserOp::ExtractVariable { bits, .. } | ParserOp::Advance { bits } => {
                self.number(bits);
            }
            ParserOp::Set { to, from } => {
                self.number(from);
                self.write(to);
            }
            ParserOp::SetLookahead { to, .. } => self.write(to),
            ParserOp::Verify { condition, error } => {
                self.truth(condition);
                self.number(error);
            }
            ParserOp::Primitive(primitive) => self.primitive(primitive),
        }
    }

    fn primitive(&mut self, primitive: &Primitive) {
        match primitive {
            Primitive::Assign { to, from } => {
                self.number(from);
                self.write(to);
            }
            Primitive::AssignVariable { to, from } => {
                self.reads.insert(*from);
                self.writes.insert(*to);
            }
            Primitive::JumpIfZero(value, _) => self.number(value),
            Primitive::RegisterRead { to, index, .. } => {
                self.number(index);
                self.write(to);
            }
            Primitive::RegisterWrite { index, value, .. } => {
                self.number(index);
                self.number(value);
            }
            Primitive::Count { index, .. } => self.number(index),
            Primitive::Hash {
                to,
                base,
                size,
                calculation,
            } => {
                self.number(base);
                self.number(size);
                self.calculation(*calculation);
                self.write(to);
            }
            Primitive::Random { to, low, high } => {
                self.number(low);
                self.number(high);
                self.write(to);
            }
            Primitive::Check(condition, _) => self.truth(condition),
            // That it takes the packet out of its group is no way into one.
            Primitive::MarkToDrop => {
                self.writes.insert(self.ir.metadata.egress_spec);
            }
            other => self.header_primitive(other),
        }
    }

    /// What moves headers as a whole. Of all others nothing is left but a punt, or a line in a trace.
    fn header_primitive(&mut self, primitive: &Primitive) {
        match primitive {
            Primitive::AssignHeader { to, from } => {
                let (to, from) = (self.headers(to), self.headers(from));
                self.move_whole(&to, &from);
            }
            Primitive::AddHeader(header) | Primitive::RemoveHeader(header) => {
                let headers = self.headers(header);
                self.move_whole(&headers, &[]);
            }
            Primitive::AssignUnion { to, from } => {
                self.found_by(to);
                self.found_by(from);
                let to = instances::members(self.ir, to);
                self.move_whole(&to, &instances::members(self.ir, from));
            }
            Primitive::AssignStack { to, from } => {
                let to = instances::within(self.ir, *to);
                self.move_whole(&to, &instances::within(self.ir, *from));
            }
            Primitive::Push(stack, count) | Primitive::Pop(stack, count) => {
                self.number(count);
                let headers = instances::within(self.ir, *stack);
                self.move_whole(&headers, &headers);
            }
            _ => {}
        }
    }

    /// What moves whole headers.
    fn move_whole(&mut self, to: &[HeaderId], from: &[HeaderId]) {
        from.iter().for_each(|header| self.read_all(*header));
        for header in to {
            self.turned.insert(*header);
            if let Some(union) = self.ir.headers[header.index()].union {
                self.turned.extend(&self.ir.unions[union.index()].members);
            }
            let fields = self.ir.headers[header.index()].field_ids();
            self.writes.extend(fields);
        }
    }
}
