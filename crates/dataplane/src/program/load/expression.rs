//! Operands and expressions, with their types checked.

use bmv2_json::{Expression, Operand, Operation, Value};

use super::{Context, Load, Loader, index_u32};
use crate::{
    RegisterId, limits,
    program::ir::{
        AnyStack, Arithmetic, BoolExpr, Comparison, Expr, HeaderExpr, HeaderId, Place, UnionExpr,
        UnionId,
    },
    value::{self, Int},
};

/// The header field that BMv2 adds to every header: its validity.
const VALID_FIELD: &str = "$valid$";

/// An expression of whatever type.
#[derive(Debug)]
pub(super) enum Typed {
    Number(Expr),
    Bool(BoolExpr),
    Header(HeaderExpr),
    Union(UnionExpr),
    Stack(AnyStack),
}

impl Typed {
    fn kind(&self) -> &'static str {
        match self {
            Typed::Number(_) => "a number",
            Typed::Bool(_) => "a truth value",
            Typed::Header(_) => "a header",
            Typed::Union(_) => "a header union",
            Typed::Stack(_) => "a stack",
        }
    }
}

impl Loader<'_> {
    pub(super) fn number(&self, context: &Context, value: &Value) -> Load<Expr> {
        as_number(context, self.typed(context, value, 0)?)
    }

    pub(super) fn truth(&self, context: &Context, value: &Value) -> Load<BoolExpr> {
        as_truth(context, self.typed(context, value, 0)?)
    }

    pub(super) fn header_expr(&self, context: &Context, value: &Value) -> Load<HeaderExpr> {
        as_header(context, self.typed(context, value, 0)?)
    }

    pub(super) fn union_expr(&self, context: &Context, value: &Value) -> Load<UnionExpr> {
        as_union(context, self.typed(context, value, 0)?)
    }

    pub(super) fn stack(&self, context: &Context, value: &Value) -> Load<AnyStack> {
        as_stack(context, self.typed(context, value, 0)?)
    }

    /// Something that can be assigned to.
    pub(super) fn place(&self, context: &Context, value: &Value) -> Load<Place> {
        match self.number(context, value)? {
            Expr::Field(field) => Ok(Place::Field(field)),
            Expr::Access { header, offset } => Ok(Place::Access {
                header: *header,
                offset,
            }),
            Expr::LastField { stack, offset } => Ok(Place::LastField { stack, offset }),
            Expr::Register { register, index } => Ok(Place::RegisterCell {
                register,
                index: *index,
            }),
            other => context.fail(format!("expected something to assign to, found {other:?}")),
        }
    }

    pub(super) fn typed(&self, context: &Context, value: &Value, depth: usize) -> Load<Typed> {
        if depth > limits::EXPRESSION_DEPTH_MAX {
            return context.fail(format!(
                "expression nested deeper than {}",
                limits::EXPRESSION_DEPTH_MAX
            ));
        }
        let number = |expr| Ok(Typed::Number(expr));
        match value {
            Value::Field((header, field)) => number(self.field_expr(context, header, field)?),
            Value::Hexstr(text) => number(Expr::Const(hex(context, text)?)),
            Value::Bool(truth) => Ok(Typed::Bool(BoolExpr::Const(*truth))),
            Value::Local(index) | Value::RuntimeData(index) => number(param(context, *index)?),
            Value::Header(name) => {
                let id = context.find(&self.names.headers, "header", name)?;
                Ok(Typed::Header(HeaderExpr::Header(id)))
            }
            Value::HeaderStack(name) => {
                let id = context.find(&self.names.stacks, "header stack", name)?;
                Ok(Typed::Stack(AnyStack::Headers(id)))
            }
            Value::HeaderUnion(name) => {
                let id = context.find(&self.names.unions, "header union", name)?;
                Ok(Typed::Union(UnionExpr::Union(id)))
            }
            Value::HeaderUnionStack(name) => {
                let id = context.find(&self.names.union_stacks, "header union stack", name)?;
                Ok(Typed::Stack(AnyStack::Unions(id)))
            }
            Value::StackField((stack, field)) => {
                let id = context.find(&self.names.stacks, "header stack", stack)?;
                let element = self.ir.stacks[id.index()].elements[0];
                let offset = self.field_offset(context, element, field)?;
                number(Expr::LastField { stack: id, offset })
            }
            Value::UnionStackField((stack, member, field)) => {
                number(self.union_stack_field(context, stack, member, field)?)
            }
            Value::Register((array, index)) => {
                let register = self.register(context, array)?;
                self.operands.borrow_mut().insert(register);
                let index = as_number(context, self.typed(context, index, depth + 1)?)?;
                number(Expr::Register {
                    register,
                    index: Box::new(index),
                })
            }
            Value::Expression(expression) => match &**expression {
                Expression::Value(inner) => self.typed(context, inner, depth + 1),
                Expression::Op(operation) => self.operation(context, operation, depth + 1),
            },
            other => context.fail(format!("expected an operand, found {other:?}")),
        }
    }

    pub(super) fn register(&self, context: &Context, name: &str) -> Load<RegisterId> {
        context.find(&self.names.registers, "register array", name)
    }

    fn field_expr(&self, context: &Context, header: &str, field: &str) -> Load<Expr> {
        if field == VALID_FIELD {
            let id = context.find(&self.names.headers, "header", header)?;
            return Ok(Expr::ValidBit(id));
        }
        Ok(Expr::Field(self.field(context, header, field)?))
    }

    fn field_offset(&self, context: &Context, header: HeaderId, field: &str) -> Load<u32> {
        let header = &self.ir.headers[header.index()];
        let id = self.field(context, &header.name, field)?;
        Ok(id.0 - header.fields.start)
    }

    /// Position of a member in the unions of a union stack.
    pub(super) fn member_offset(
        &self,
        context: &Context,
        union: UnionId,
        member: &str,
    ) -> Load<u32> {
        let names = self
            .names
            .union_members
            .get(&union)
            .map_or(&[][..], |names| names);
        match names.iter().position(|name| *name == member) {
            Some(position) => Ok(index_u32(position)),
            None => context.fail(format!("the header union has no member \"{member}\"")),
        }
    }

    fn union_stack_field(
        &self,
        context: &Context,
        stack: &str,
        member: &str,
        field: &str,
    ) -> Load<Expr> {
        let id = context.find(&self.names.union_stacks, "header union stack", stack)?;
        let union = self.ir.union_stacks[id.index()].elements[0];
        let member = self.member_offset(context, union, member)?;
        let header = self.ir.unions[union.index()].members[member as usize];
        let offset = self.field_offset(context, header, field)?;
        Ok(Expr::UnionLastField {
            stack: id,
            member,
            offset,
        })
    }

    fn operation(&self, context: &Context, operation: &Operation, depth: usize) -> Load<Typed> {
        let op = operation.op.as_str();
        match op {
            "?" => return self.choice(context, operation, depth),
            "access_field" => return self.access_field(context, operation, depth),
            "access_union_header" => {
                let union = as_union(context, self.left(context, operation, depth)?)?;
                let offset = right_index(context, operation)?;
                self.check_member(context, &union, offset)?;
                return Ok(Typed::Header(HeaderExpr::Member { union, offset }));
            }
            _ => {}
        }
        if let Some(comparison) = comparison(op) {
            let left = self.left(context, operation, depth)?;
            let right = self.right(context, operation, depth)?;
            return compare(context, comparison, left, right);
        }
        if let Some(arithmetic) = arithmetic(op) {
            // Unary plus and minus have no left operand.
            let left = if operation.left.is_none() && matches!(op, "+" | "-") {
                Expr::Const(Int::ZERO)
            } else {
                as_number(context, self.left(context, operation, depth)?)?
            };
            let right = as_number(context, self.right(context, operation, depth)?)?;
            if let (
                Arithmetic::TwoCompMod | Arithmetic::SaturateUnsigned | Arithmetic::SaturateSigned,
                Expr::Const(bits),
            ) = (arithmetic, &right)
            {
                let bits = u32::try_from(bits).unwrap_or(u32::MAX);
                super::declarations::check_width(context, &format!("\"{op}\""), bits)?;
            }
            return Ok(Typed::Number(Expr::Arithmetic(
                arithmetic,
                Box::new(left),
                Box::new(right),
            )));
        }
        self.other_operation(context, operation, depth)
    }

    fn other_operation(
        &self,
        context: &Context,
        operation: &Operation,
        depth: usize,
    ) -> Load<Typed> {
        let left = || self.left(context, operation, depth);
        let right = || self.right(context, operation, depth);
        let truth = |expr| Ok(Typed::Bool(expr));
        match operation.op.as_str() {
            "and" => truth(BoolExpr::And(
                Box::new(as_truth(context, left()?)?),
                Box::new(as_truth(context, right()?)?),
            )),
            "or" => truth(BoolExpr::Or(
                Box::new(as_truth(context, left()?)?),
                Box::new(as_truth(context, right()?)?),
            )),
            "not" => truth(BoolExpr::Not(Box::new(as_truth(context, right()?)?))),
            "valid" => truth(BoolExpr::Valid(as_header(context, right()?)?)),
            "valid_union" => truth(BoolExpr::ValidUnion(as_union(context, right()?)?)),
            "d2b" => truth(BoolExpr::FromNumber(as_number(context, right()?)?)),
            "b2d" => Ok(Typed::Number(Expr::FromBool(Box::new(as_truth(
                context,
                right()?,
            )?)))),
            "~" => Ok(Typed::Number(Expr::Complement(Box::new(as_number(
                context,
                right()?,
            )?)))),
            "last_stack_index" => Ok(Typed::Number(Expr::LastStackIndex(as_stack(
                context,
                right()?,
            )?))),
            "size_stack" => Ok(Typed::Number(Expr::StackSize(as_stack(context, right()?)?))),
            "dereference_stack" | "dereference_header_stack" | "dereference_union_stack" => {
                let index = Box::new(as_number(context, right()?)?);
                Ok(match as_stack(context, left()?)? {
                    AnyStack::Headers(stack) => Typed::Header(HeaderExpr::Element { stack, index }),
                    AnyStack::Unions(stack) => Typed::Union(UnionExpr::Element { stack, index }),
                })
            }
            other => context.fail(format!("unknown operation \"{other}\"")),
        }
    }

    fn choice(&self, context: &Context, operation: &Operation, depth: usize) -> Load<Typed> {
        let condition = self.operand(context, "cond", operation.cond.as_ref(), depth)?;
        let condition = Box::new(as_truth(context, condition)?);
        let yes = self.left(context, operation, depth)?;
        let no = self.right(context, operation, depth)?;
        if let (Typed::Bool(_), Typed::Bool(_)) = (&yes, &no) {
            let (yes, no) = (
                Box::new(as_truth(context, yes)?),
                Box::new(as_truth(context, no)?),
            );
            return Ok(Typed::Bool(BoolExpr::Choose { condition, yes, no }));
        }
        let (yes, no) = (
            Box::new(as_number(context, yes)?),
            Box::new(as_number(context, no)?),
        );
        Ok(Typed::Number(Expr::Choose { condition, yes, no }))
    }

    fn access_field(&self, context: &Context, operation: &Operation, depth: usize) -> Load<Typed> {
        let header = as_header(context, self.left(context, operation, depth)?)?;
        let offset = right_index(context, operation)?;
        let fields = &self.ir.headers[self.example_of(&header).index()].fields;
        if offset >= fields.end - fields.start {
            return context.fail(format!(
                "field {offset} of a header with {} fields",
                fields.end - fields.start
            ));
        }
        if let HeaderExpr::Header(id) = header {
            return Ok(Typed::Number(Expr::Field(
                self.ir.headers[id.index()].field_at(offset),
            )));
        }
        Ok(Typed::Number(Expr::Access {
            header: Box::new(header),
            offset,
        }))
    }

    fn check_member(&self, context: &Context, union: &UnionExpr, offset: u32) -> Load {
        let members = self.ir.unions[self.example_union(union).index()]
            .members
            .len();
        if offset as usize >= members {
            return context.fail(format!("member {offset} of a union with {members} members"));
        }
        Ok(())
    }

    /// A header of the type that the expression gives.
    pub(super) fn example_of(&self, header: &HeaderExpr) -> HeaderId {
        match header {
            HeaderExpr::Header(id) => *id,
            HeaderExpr::Element { stack, .. } => self.ir.stacks[stack.index()].elements[0],
            HeaderExpr::Member { union, offset } => {
                self.ir.unions[self.example_union(union).index()].members[*offset as usize]
            }
        }
    }

    pub(super) fn example_union(&self, union: &UnionExpr) -> UnionId {
        match union {
            UnionExpr::Union(id) => *id,
            UnionExpr::Element { stack, .. } => self.ir.union_stacks[stack.index()].elements[0],
        }
    }

    fn left(&self, context: &Context, operation: &Operation, depth: usize) -> Load<Typed> {
        self.operand(context, "left", operation.left.as_ref(), depth)
    }

    fn right(&self, context: &Context, operation: &Operation, depth: usize) -> Load<Typed> {
        self.operand(context, "right", operation.right.as_ref(), depth)
    }

    fn operand(
        &self,
        context: &Context,
        which: &str,
        operand: Option<&Operand>,
        depth: usize,
    ) -> Load<Typed> {
        match operand {
            Some(Operand::Value(value)) => self.typed(context, value, depth),
            Some(Operand::Index(index)) => context.fail(format!(
                "operand \"{which}\": expected an object, found {index}"
            )),
            None => context.fail(format!("operand \"{which}\" is missing")),
        }
    }
}

fn right_index(context: &Context, operation: &Operation) -> Load<u32> {
    match operation.right {
        Some(Operand::Index(index)) => Ok(index),
        _ => context.fail(format!(
            "\"{}\": expected a position on the right",
            operation.op
        )),
    }
}

fn param(context: &Context, index: u32) -> Load<Expr> {
    let n_params = context.param_bits.len();
    if index as usize >= n_params {
        return context.fail(format!("parameter {index} of {n_params}"));
    }
    Ok(Expr::Param(index as usize))
}

pub(super) fn hex(context: &Context, text: &str) -> Load<Int> {
    let value = value::from_hex(text);
    value.ok_or_else(|| context.error(format!("expected a hexadecimal number, found \"{text}\"")))
}

fn wrong<T>(context: &Context, expected: &str, found: &Typed) -> Load<T> {
    context.fail(format!("expected {expected}, found {}", found.kind()))
}

fn as_number(context: &Context, typed: Typed) -> Load<Expr> {
    match typed {
        Typed::Number(expr) => Ok(expr),
        Typed::Bool(expr) => Ok(Expr::FromBool(Box::new(expr))),
        other => wrong(context, "a number", &other),
    }
}

fn as_truth(context: &Context, typed: Typed) -> Load<BoolExpr> {
    match typed {
        Typed::Bool(expr) => Ok(expr),
        Typed::Number(expr) => Ok(BoolExpr::FromNumber(expr)),
        other => wrong(context, "a truth value", &other),
    }
}

fn as_header(context: &Context, typed: Typed) -> Load<HeaderExpr> {
    match typed {
        Typed::Header(expr) => Ok(expr),
        other => wrong(context, "a header", &other),
    }
}

fn as_union(context: &Context, typed: Typed) -> Load<UnionExpr> {
    match typed {
        Typed::Union(expr) => Ok(expr),
        other => wrong(context, "a header union", &other),
    }
}

fn as_stack(context: &Context, typed: Typed) -> Load<AnyStack> {
    match typed {
        Typed::Stack(stack) => Ok(stack),
        other => wrong(context, "a stack", &other),
    }
}

fn comparison(op: &str) -> Option<Comparison> {
    Some(match op {
        "==" | "==h" | "==u" | "==b" => Comparison::Equal,
        "!=" | "!=h" | "!=u" | "!=b" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterEqual,
        _ => return None,
    })
}

fn arithmetic(op: &str) -> Option<Arithmetic> {
    Some(match op {
        "+" => Arithmetic::Add,
        "-" => Arithmetic::Sub,
        "*" => Arithmetic::Mul,
        "/" => Arithmetic::Div,
        "%" => Arithmetic::Mod,
        "<<" => Arithmetic::ShiftLeft,
        ">>" => Arithmetic::ShiftRight,
        "&" => Arithmetic::And,
        "|" => Arithmetic::Or,
        "^" => Arithmetic::Xor,
        "two_comp_mod" => Arithmetic::TwoCompMod,
        "usat_cast" => Arithmetic::SaturateUnsigned,
        "sat_cast" => Arithmetic::SaturateSigned,
        _ => return None,
    })
}

fn compare(context: &Context, comparison: Comparison, left: Typed, right: Typed) -> Load<Typed> {
    let same = match (left, right) {
        (Typed::Number(left), Typed::Number(right)) => {
            return Ok(Typed::Bool(BoolExpr::Compare(comparison, left, right)));
        }
        (Typed::Header(left), Typed::Header(right)) => BoolExpr::SameHeader(left, right),
        (Typed::Union(left), Typed::Union(right)) => BoolExpr::SameUnion(left, right),
        (Typed::Bool(left), right @ (Typed::Bool(_) | Typed::Number(_))) => {
            BoolExpr::SameBool(Box::new(left), Box::new(as_truth(context, right)?))
        }
        (left @ Typed::Number(_), Typed::Bool(right)) => {
            BoolExpr::SameBool(Box::new(as_truth(context, left)?), Box::new(right))
        }
        (left, right) => {
            return context.fail(format!(
                "{} cannot be compared with {}",
                left.kind(),
                right.kind()
            ));
        }
    };
    match comparison {
        Comparison::Equal => Ok(Typed::Bool(same)),
        Comparison::NotEqual => Ok(Typed::Bool(BoolExpr::Not(Box::new(same)))),
        other => context.fail(format!("{other:?} compares numbers only")),
    }
}
