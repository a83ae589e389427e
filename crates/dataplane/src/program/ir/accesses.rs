//! What pieces of a program read and write, whatever way a packet takes. A place that is found at run
//! time counts for every field that it may be.

use super::{
    AnyStack, BoolExpr, CalculationId, Expr, FieldId, HeaderExpr, HeaderId, Ir, ParserOp, Place,
    Primitive, UnionExpr, instances,
};
use crate::RegisterId;

/// Takes what is accessed.
pub trait Accesses {
    /// An expression reads a field, its header valid or not.
    fn read(&mut self, field: FieldId);

    /// A header is compared with another one.
    fn compare(&mut self, header: HeaderId);

    /// A header is copied as a whole.
    fn copy(&mut self, header: HeaderId);

    /// A field is written alone.
    fn write(&mut self, field: FieldId);

    /// A header is written as a whole, or becomes valid or invalid.
    fn turn(&mut self, header: HeaderId);

    /// An argument of the action is read.
    fn argument(&mut self, _place: usize) {}

    /// A register's cell is read.
    fn read_register(&mut self, _register: RegisterId) {}

    /// A register's cell is written.
    fn write_register(&mut self, _register: RegisterId) {}

    /// A hash is computed. What it is over is not told.
    fn calculate(&mut self, _calculation: CalculationId) {}

    /// The packet is marked to be dropped.
    fn mark_to_drop(&mut self) {}
}

/// Goes through pieces of a program.
pub struct Walk<'p, 'a, A: ?Sized> {
    /// The program.
    pub ir: &'p Ir,
    /// Who takes it.
    pub to: &'a mut A,
}

impl<A: Accesses + ?Sized> Walk<'_, '_, A> {
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
        headers.for_each(|header| self.to.copy(header));
    }

    fn field_at(&self, header: HeaderId, offset: u32) -> FieldId {
        self.ir.headers[header.index()].field_at(offset)
    }

    /// A number is read.
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

    /// A condition is read.
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

    /// A statement of the parser.
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

    /// A statement.
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

    /// A statement that moves whole headers.
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

    /// What moves whole headers.
    fn move_whole(&mut self, to: &[HeaderId], from: &[HeaderId]) {
        from.iter().for_each(|header| self.to.copy(*header));
        to.iter().for_each(|header| self.to.turn(*header));
    }
}
