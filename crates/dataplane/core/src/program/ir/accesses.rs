//! The fields and headers that statements and expressions of a program may read and write, on any path of a packet. A
//! header selected at run time counts as every header that it may be.

use super::{
    AnyStack, BoolExpr, CalculationId, Expr, FieldId, HeaderExpr, HeaderId, Ir, ParserOp, Place,
    Primitive, UnionExpr, instances,
};
use crate::RegisterId;

/// Receives the accesses: [`Walk`] calls each method for the kind of access that the comment of the method names.
pub trait Accesses {
    /// An expression reads a field, whether or not its header is valid.
    fn read(&mut self, field: FieldId);

    /// A header is compared with another.
    fn compare(&mut self, header: HeaderId);

    /// A header is copied as a whole.
    fn copy(&mut self, header: HeaderId);

    /// A single field is written.
    fn write(&mut self, field: FieldId);

    /// A header is written as a whole, or its validity changes.
    fn write_header(&mut self, header: HeaderId);

    /// An argument of the action is read.
    fn argument(&mut self, _place: usize) {}

    /// A register cell is read.
    fn read_register(&mut self, _register: RegisterId) {}

    /// A register cell is written.
    fn write_register(&mut self, _register: RegisterId) {}

    /// A hash is computed; its input is not reported.
    fn calculate(&mut self, _calculation: CalculationId) {}

    /// The packet is marked to drop.
    fn mark_to_drop(&mut self) {}
}

/// Walks statements and expressions, and reports their accesses.
pub struct Walk<'p, 'a, A: ?Sized> {
    /// The program of the statements and expressions.
    pub ir: &'p Ir,
    /// The receiver of the accesses.
    pub to: &'a mut A,
}

impl<A: Accesses + ?Sized> Walk<'_, '_, A> {
    /// Returns the headers that an expression may select, and reports what the expression's index reads.
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

    /// Returns the members of all unions that an expression may select, and reports what the expression's index reads.
    fn members(&mut self, union: &UnionExpr) -> Vec<HeaderId> {
        self.found_by(union);
        instances::members(self.ir, instances::unions(self.ir, union))
    }

    fn copy_within(&mut self, stack: AnyStack) {
        let headers = instances::within(self.ir, stack).into_iter();
        headers.for_each(|header| self.to.copy(header));
    }

    fn field_at(&self, header: HeaderId, offset: u32) -> FieldId {
        self.ir.headers[header.index()].field_at(offset)
    }

    /// Walks a numeric expression.
    pub fn number(&mut self, expr: &Expr) {
        match expr {
            Expr::Param(place) => self.to.argument(*place),
            Expr::Const(_) | Expr::ValidBit(_) | Expr::LastStackIndex(_) | Expr::StackSize(_) => {}
            Expr::Field(field) => self.to.read(*field),
            Expr::Access { header, offset } => {
                for header in self.headers(header) {
                    let field = self.field_at(header, *offset);
                    self.to.read(field);
                }
            }
            Expr::Register { register, index } => {
                self.number(index);
                self.to.read_register(*register);
            }
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

    /// Walks a condition.
    pub fn truth(&mut self, expr: &BoolExpr) {
        match expr {
            BoolExpr::Const(_) => {}
            BoolExpr::Compare(_, left, right) => {
                self.number(left);
                self.number(right);
            }
            BoolExpr::SameHeader(left, right) => {
                for header in [left, right].map(|it| self.headers(it)).concat() {
                    self.to.compare(header);
                }
            }
            BoolExpr::SameUnion(left, right) => {
                for header in [left, right].map(|it| self.members(it)).concat() {
                    self.to.compare(header);
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
            Place::Field(field) => self.to.write(*field),
            Place::Access { header, offset } => {
                for header in self.headers(header) {
                    let field = self.field_at(header, *offset);
                    self.to.write(field);
                }
            }
            Place::RegisterCell { register, index } => {
                self.number(index);
                self.to.write_register(*register);
            }
        }
    }

    /// Walks a parser statement.
    pub fn operation(&mut self, op: &ParserOp) {
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

    /// Walks a statement.
    pub fn primitive(&mut self, primitive: &Primitive) {
        match primitive {
            Primitive::MarkToDrop => self.to.mark_to_drop(),
            Primitive::Assign { to, from } => {
                self.number(from);
                self.write(to);
            }
            Primitive::AssignVariable { to, from } => {
                self.to.read(*from);
                self.write(&Place::Field(*to));
            }
            Primitive::JumpIfZero(value, _) | Primitive::Truncate(value) => self.number(value),
            Primitive::Clone { session, .. } => self.number(session),
            Primitive::ChangePayload { args, .. } => self.arguments(args),
            Primitive::RegisterRead {
                to,
                register,
                index,
            } => {
                self.number(index);
                self.to.read_register(*register);
                self.write(to);
            }
            Primitive::ExecuteMeter { to, index, .. } => {
                self.number(index);
                self.write(to);
            }
            Primitive::RegisterWrite {
                register,
                index,
                value,
            } => {
                self.number(index);
                self.number(value);
                self.to.write_register(*register);
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
                self.to.calculate(*calculation);
                self.write(to);
            }
            Primitive::Random { to, low, high } => {
                self.number(low);
                self.number(high);
                self.write(to);
            }
            Primitive::Check(condition, _) => self.truth(condition),
            Primitive::AssignHeader { .. }
            | Primitive::AddHeader(_)
            | Primitive::RemoveHeader(_)
            | Primitive::AssignUnion { .. }
            | Primitive::AssignStack { .. }
            | Primitive::Push(..)
            | Primitive::Pop(..) => self.header_primitive(primitive),
            Primitive::NoOp
            | Primitive::Jump(_)
            | Primitive::Exit
            | Primitive::Digest(_)
            | Primitive::Log { .. }
            | Primitive::Resubmit(_)
            | Primitive::Recirculate(_) => {}
        }
    }

    /// Walks a statement that copies headers or changes their validity.
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
            _ => {}
        }
    }

    fn arguments(&mut self, args: &[(Expr, u32)]) {
        args.iter().for_each(|(arg, _)| self.number(arg));
    }

    fn move_whole(&mut self, to: &[HeaderId], from: &[HeaderId]) {
        from.iter().for_each(|header| self.to.copy(*header));
        to.iter().for_each(|header| self.to.write_header(*header));
    }
}
