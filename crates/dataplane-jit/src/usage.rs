//! How often a program's code reads and writes each field: every place in the text counts once,
//! whatever way a packet takes. A place that is found at run time counts for every field that it may
//! be.

use dataplane::engine::ir::{
    AnyStack, BoolExpr, CalculationInput, Expr, FieldId, HeaderExpr, HeaderId, Ir, KeyPart, Node,
    ParserOp, Place, Primitive, UnionExpr,
};

use crate::instances;

/// Accesses of one field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accesses {
    /// Expressions, keys of tables, arrows of the parser, digests.
    pub reads: u32,
    /// Assignments of the field alone.
    pub writes: u32,
    /// Assignments of its header as a whole, what makes it valid included.
    pub moves: u32,
    /// Reads with others: of its header as a whole, by a calculation.
    pub copies: u32,
}

impl Accesses {
    /// Whether something reads the field.
    pub(crate) fn is_read(self) -> bool {
        self.reads + self.copies > 0
    }
}

/// Accesses of all fields.
pub(crate) struct Usage<'p> {
    ir: &'p Ir,
    of: Vec<Accesses>,
}

impl<'p> Usage<'p> {
    /// Counts what parser and deparser do beside extracting and emitting, and the controls.
    pub(crate) fn of_program(ir: &'p Ir) -> Self {
        let mut usage = Self::of_controls(ir);
        for state in &ir.parser.states {
            state.ops.iter().for_each(|op| usage.operation(op));
            for part in &state.key {
                if let KeyPart::Value { value, .. } = part {
                    usage.number(value);
                }
            }
        }
        for primitive in &ir.deparser.primitives {
            usage.primitive(primitive);
        }
        for checksum in &ir.checksums {
            checksum.condition.iter().for_each(|it| usage.truth(it));
        }
        for (expr, _) in ir.digests.iter().flat_map(|digest| &digest.fields) {
            usage.number(expr);
        }
        usage
    }

    /// The same, with what checksums, hashes and selectors are computed over.
    pub(crate) fn of_everything(ir: &'p Ir) -> Self {
        let mut usage = Self::of_program(ir);
        let selectors = ir.action_profiles.iter();
        let selectors = selectors.filter_map(|profile| profile.selector.as_ref());
        for input in ir.calculations.iter().chain(selectors) {
            for part in &input.input {
                match part {
                    CalculationInput::Field(field) => usage.copy(*field),
                    CalculationInput::Header(header) => usage.copy_from(*header),
                    CalculationInput::Constant { .. } | CalculationInput::Payload => {}
                }
            }
        }
        for checksum in &ir.checksums {
            usage.copy(checksum.target);
        }
        usage
    }

    /// Counts what one operation of the parser does.
    pub(crate) fn of_operation(ir: &'p Ir, op: &ParserOp) -> Self {
        let mut usage = Self::of_nothing(ir);
        usage.operation(op);
        usage
    }

    /// Counts what one expression reads.
    pub(crate) fn of_number(ir: &'p Ir, expr: &Expr) -> Self {
        let mut usage = Self::of_nothing(ir);
        usage.number(expr);
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
            of: vec![Accesses::default(); ir.fields.len()],
        }
    }

    /// Counts what happens between checksum verification and checksum update.
    pub(crate) fn of_controls(ir: &'p Ir) -> Self {
        let mut usage = Self::of_nothing(ir);
        for primitive in ir.actions.iter().flat_map(|action| &action.primitives) {
            usage.primitive(primitive);
        }
        for node in &ir.nodes {
            if let Node::If { condition, .. } = node {
                usage.truth(condition);
            }
        }
        for table in &ir.table_nodes {
            table.key.iter().for_each(|part| usage.number(&part.value));
            if let Some(meter) = &table.meter {
                usage.of[meter.result.index()].writes += 1;
            }
        }
        usage
    }

    /// The accesses of a field.
    pub(crate) fn field(&self, field: FieldId) -> Accesses {
        self.of[field.index()]
    }

    fn read(&mut self, field: FieldId) {
        self.of[field.index()].reads += 1;
    }

    fn read_all(&mut self, header: HeaderId) {
        for field in self.ir.headers[header.index()].field_ids() {
            self.read(field);
        }
    }

    fn move_to(&mut self, header: HeaderId) {
        for field in self.ir.headers[header.index()].field_ids() {
            self.of[field.index()].moves += 1;
        }
    }

    fn copy(&mut self, field: FieldId) {
        self.of[field.index()].copies += 1;
    }

    fn copy_from(&mut self, header: HeaderId) {
        for field in self.ir.headers[header.index()].field_ids() {
            self.copy(field);
        }
    }

    /// The headers that an expression may give; what it finds them by is read.
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

    /// The members of the unions that an expression may give.
    fn members(&mut self, union: &UnionExpr) -> Vec<HeaderId> {
        self.found_by(union);
        instances::members(self.ir, instances::unions(self.ir, union))
    }

    fn copy_within(&mut self, stack: AnyStack) {
        let headers = instances::within(self.ir, stack).into_iter();
        headers.for_each(|header| self.copy_from(header));
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
                for header in [left, right].map(|it| self.members(it)).concat() {
                    self.read_all(header);
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
            BoolExpr::ValidUnion(union) => {
                self.found_by(union);
            }
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
            Place::Field(field) => self.of[field.index()].writes += 1,
            Place::Access { header, offset } => {
                for header in self.headers(header) {
                    let field = self.field_at(header, *offset);
                    self.of[field.index()].writes += 1;
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
            Primitive::NoOp
            | Primitive::Jump(_)
            | Primitive::Exit
            | Primitive::MarkToDrop
            | Primitive::Digest(_)
            | Primitive::Log { .. }
            | Primitive::Resubmit(_)
            | Primitive::Recirculate(_) => {}
            Primitive::Assign { to, from } => {
                self.number(from);
                self.write(to);
            }
            Primitive::AssignVariable { to, from } => {
                self.read(*from);
                self.write(&Place::Field(*to));
            }
            Primitive::JumpIfZero(value, _) | Primitive::Truncate(value) => self.number(value),
            Primitive::Clone { session, .. } => self.number(session),
            Primitive::ChangePayload { args, .. } => self.arguments(args),
            Primitive::RegisterRead { to, index, .. }
            | Primitive::ExecuteMeter { to, index, .. } => {
                self.number(index);
                self.write(to);
            }
            Primitive::RegisterWrite { index, value, .. } => {
                self.number(index);
                self.number(value);
            }
            Primitive::Count { index, .. } => self.number(index),
            Primitive::Hash { to, base, size, .. } => {
                self.number(base);
                self.number(size);
                self.write(to);
            }
            Primitive::Random { to, low, high } => {
                self.number(low);
                self.number(high);
                self.write(to);
            }
            Primitive::Check(condition, _) => self.truth(condition),
            Primitive::AssignHeader { to, from } => {
                let (to, from) = (self.headers(to), self.headers(from));
                self.move_whole(&to, &from);
            }
            Primitive::AddHeader(header) | Primitive::RemoveHeader(header) => {
                let headers = self.headers(header);
                self.move_whole(&headers, &[]);
            }
            Primitive::AssignUnion { to, from } => {
                let (to, from) = (self.members(to), self.members(from));
                self.move_whole(&to, &from);
            }
            Primitive::AssignStack { to, from } => {
                self.copy_within(*from);
                let headers = instances::within(self.ir, *to);
                self.move_whole(&headers, &[]);
            }
            Primitive::Push(stack, count) | Primitive::Pop(stack, count) => {
                self.number(count);
                self.copy_within(*stack);
                let headers = instances::within(self.ir, *stack);
                self.move_whole(&headers, &[]);
            }
        }
    }

    fn arguments(&mut self, args: &[(Expr, u32)]) {
        args.iter().for_each(|(arg, _)| self.number(arg));
    }

    /// What moves whole headers.
    fn move_whole(&mut self, to: &[HeaderId], from: &[HeaderId]) {
        from.iter().for_each(|header| self.copy_from(*header));
        to.iter().for_each(|header| self.move_to(*header));
    }
}
