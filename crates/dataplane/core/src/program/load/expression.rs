//! Operands and expressions, with their types checked.

use bmv2_json::{Expression, Operand, Operation, Value};

use super::{At, Load, index_u32};
use crate::{
    RegisterId, limits,
    program::ir::{
        AnyStack, Arithmetic, BoolExpr, Comparison, Expr, HeaderExpr, HeaderId, Place, StackId,
        UnionExpr, UnionId, UnionStackId,
    },
    value::{self, Int},
};

/// BMv2's hidden validity field of every header.
const VALID_FIELD: &str = "$valid$";

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

impl At<'_, '_> {
    pub(super) fn number(&self, value: &Value) -> Load<Expr> {
        self.as_number(self.typed(value, 0)?)
    }

    pub(super) fn truth(&self, value: &Value) -> Load<BoolExpr> {
        self.as_truth(self.typed(value, 0)?)
    }

    pub(super) fn header_expr(&self, value: &Value) -> Load<HeaderExpr> {
        self.as_header(self.typed(value, 0)?)
    }

    pub(super) fn union_expr(&self, value: &Value) -> Load<UnionExpr> {
        self.as_union(self.typed(value, 0)?)
    }

    pub(super) fn stack(&self, value: &Value) -> Load<AnyStack> {
        self.as_stack(self.typed(value, 0)?)
    }

    pub(super) fn place(&self, value: &Value) -> Load<Place> {
        match self.number(value)? {
            Expr::Field(field) => Ok(Place::Field(field)),
            Expr::Access { header, offset } => Ok(Place::Access {
                header: *header,
                offset,
            }),
            Expr::Register { register, index } => Ok(Place::RegisterCell {
                register,
                index: *index,
            }),
            other => self.fail(format!("expected something to assign to, found {other:?}")),
        }
    }

    pub(super) fn typed(&self, value: &Value, depth: usize) -> Load<Typed> {
        let max = limits::EXPRESSION_DEPTH_MAX;
        if depth > max {
            return self.fail(format!("expression nested deeper than {max}"));
        }
        let number = |expr| Ok(Typed::Number(expr));
        match value {
            Value::Field((header, field)) => number(self.field_expr(header, field)?),
            Value::Hexstr(text) => number(Expr::Const(self.hex(text)?)),
            Value::Bool(truth) => Ok(Typed::Bool(BoolExpr::Const(*truth))),
            Value::Local(index) | Value::RuntimeData(index) => number(self.param(*index)?),
            Value::Header(name) => Ok(Typed::Header(HeaderExpr::Header(self.header(name)?))),
            Value::HeaderStack(name) => {
                Ok(Typed::Stack(AnyStack::Headers(self.header_stack(name)?)))
            }
            Value::HeaderUnion(name) => {
                let id = self.find(&self.loader.names.unions, "header union", name)?;
                Ok(Typed::Union(UnionExpr::Union(id)))
            }
            Value::HeaderUnionStack(name) => {
                Ok(Typed::Stack(AnyStack::Unions(self.union_stack(name)?)))
            }
            Value::StackField((stack, field)) => {
                let id = self.header_stack(stack)?;
                let element = self.loader.ir.stacks[id.index()].elements[0];
                let offset = self.field_offset(element, field)?;
                number(Expr::Access {
                    header: Box::new(HeaderExpr::Element {
                        stack: id,
                        index: Box::new(Expr::LastStackIndex(AnyStack::Headers(id))),
                    }),
                    offset,
                })
            }
            Value::UnionStackField((stack, member, field)) => {
                number(self.union_stack_field(stack, member, field)?)
            }
            Value::Register((array, index)) => {
                let register = self.register(array)?;
                self.loader.operands.borrow_mut().insert(register);
                let index = self.as_number(self.typed(index, depth + 1)?)?;
                number(Expr::Register {
                    register,
                    index: Box::new(index),
                })
            }
            Value::Expression(expression) => match &**expression {
                Expression::Value(inner) => self.typed(inner, depth + 1),
                Expression::Op(operation) => self.operation(operation, depth + 1),
            },
            other => self.fail(format!("expected an operand, found {other:?}")),
        }
    }

    pub(super) fn header(&self, name: &str) -> Load<HeaderId> {
        self.find(&self.loader.names.headers, "header", name)
    }

    pub(super) fn header_stack(&self, name: &str) -> Load<StackId> {
        self.find(&self.loader.names.stacks, "header stack", name)
    }

    pub(super) fn union_stack(&self, name: &str) -> Load<UnionStackId> {
        let stacks = &self.loader.names.union_stacks;
        self.find(stacks, "header union stack", name)
    }

    pub(super) fn register(&self, name: &str) -> Load<RegisterId> {
        self.find(&self.loader.names.registers, "register array", name)
    }

    pub(super) fn field_expr(&self, header: &str, field: &str) -> Load<Expr> {
        if field == VALID_FIELD {
            return Ok(Expr::ValidBit(self.header(header)?));
        }
        Ok(Expr::Field(self.field(header, field)?))
    }

    fn field_offset(&self, header: HeaderId, field: &str) -> Load<u32> {
        let header = &self.loader.ir.headers[header.index()];
        let id = self.field(&header.name, field)?;
        Ok(id.0 - header.fields.start)
    }

    /// Position of a member in a header union.
    pub(super) fn member_offset(&self, union: UnionId, member: &str) -> Load<u32> {
        let members = &self.loader.names.union_members[&union];
        let position = members.iter().position(|name| *name == member);
        let error = || self.error(format!("the header union has no member \"{member}\""));
        position.map(index_u32).ok_or_else(error)
    }

    fn union_stack_field(&self, stack: &str, member: &str, field: &str) -> Load<Expr> {
        let stack = self.union_stack(stack)?;
        let union = self.loader.ir.union_stacks[stack.index()].elements[0];
        let member = self.member_offset(union, member)?;
        let header = self.loader.ir.unions[union.index()].members[member as usize];
        let union = UnionExpr::Element {
            stack,
            index: Box::new(Expr::LastStackIndex(AnyStack::Unions(stack))),
        };
        let (offset, field) = (member, self.field_offset(header, field)?);
        Ok(Expr::Access {
            header: Box::new(HeaderExpr::Member { union, offset }),
            offset: field,
        })
    }

    fn operation(&self, operation: &Operation, depth: usize) -> Load<Typed> {
        let op = operation.op.as_str();
        match op {
            "?" => return self.choice(operation, depth),
            "access_field" => return self.access_field(operation, depth),
            "access_union_header" => {
                let union = self.as_union(self.left(operation, depth)?)?;
                let offset = self.right_index(operation)?;
                self.check_member(&union, offset)?;
                return Ok(Typed::Header(HeaderExpr::Member { union, offset }));
            }
            _ => {}
        }
        if let Some(comparison) = comparison(op) {
            let left = self.left(operation, depth)?;
            let right = self.right(operation, depth)?;
            return self.compare(comparison, left, right);
        }
        if let Some(arithmetic) = arithmetic(op) {
            // Unary plus and minus have no left operand.
            let left = if operation.left.is_none() && matches!(op, "+" | "-") {
                Expr::Const(Int::ZERO)
            } else {
                self.as_number(self.left(operation, depth)?)?
            };
            let right = self.as_number(self.right(operation, depth)?)?;
            if let (
                Arithmetic::TwoCompMod | Arithmetic::SaturateUnsigned | Arithmetic::SaturateSigned,
                Expr::Const(bits),
            ) = (arithmetic, &right)
            {
                let bits = u32::try_from(bits).unwrap_or(u32::MAX);
                self.context.check_width(&format!("\"{op}\""), bits)?;
            }
            return Ok(Typed::Number(Expr::Arithmetic(
                arithmetic,
                Box::new(left),
                Box::new(right),
            )));
        }
        self.other_operation(operation, depth)
    }

    fn other_operation(&self, operation: &Operation, depth: usize) -> Load<Typed> {
        let left = || self.left(operation, depth);
        let right = || self.right(operation, depth);
        let boxed = |typed: Load<Typed>| self.as_truth(typed?).map(Box::new);
        let truth = |expr| Ok(Typed::Bool(expr));
        let number = |expr| Ok(Typed::Number(expr));
        match operation.op.as_str() {
            "and" => truth(BoolExpr::And(boxed(left())?, boxed(right())?)),
            "or" => truth(BoolExpr::Or(boxed(left())?, boxed(right())?)),
            "not" => truth(BoolExpr::Not(boxed(right())?)),
            "valid" => truth(BoolExpr::Valid(self.as_header(right()?)?)),
            "valid_union" => truth(BoolExpr::ValidUnion(self.as_union(right()?)?)),
            "d2b" => truth(BoolExpr::FromNumber(self.as_number(right()?)?)),
            "b2d" => number(Expr::FromBool(boxed(right())?)),
            "~" => number(Expr::Complement(Box::new(self.as_number(right()?)?))),
            "last_stack_index" => number(Expr::LastStackIndex(self.as_stack(right()?)?)),
            "size_stack" => number(Expr::StackSize(self.as_stack(right()?)?)),
            "dereference_stack" | "dereference_header_stack" | "dereference_union_stack" => {
                let index = Box::new(self.as_number(right()?)?);
                Ok(match self.as_stack(left()?)? {
                    AnyStack::Headers(stack) => Typed::Header(HeaderExpr::Element { stack, index }),
                    AnyStack::Unions(stack) => Typed::Union(UnionExpr::Element { stack, index }),
                })
            }
            other => self.fail(format!("unknown operation \"{other}\"")),
        }
    }

    fn choice(&self, operation: &Operation, depth: usize) -> Load<Typed> {
        let condition = self.operand("cond", operation.cond.as_ref(), depth)?;
        let condition = Box::new(self.as_truth(condition)?);
        let yes = self.left(operation, depth)?;
        let no = self.right(operation, depth)?;
        if let (Typed::Bool(_), Typed::Bool(_)) = (&yes, &no) {
            let (yes, no) = (Box::new(self.as_truth(yes)?), Box::new(self.as_truth(no)?));
            return Ok(Typed::Bool(BoolExpr::Choose { condition, yes, no }));
        }
        let (yes, no) = (
            Box::new(self.as_number(yes)?),
            Box::new(self.as_number(no)?),
        );
        Ok(Typed::Number(Expr::Choose { condition, yes, no }))
    }

    fn access_field(&self, operation: &Operation, depth: usize) -> Load<Typed> {
        let header = self.as_header(self.left(operation, depth)?)?;
        let offset = self.right_index(operation)?;
        let example = &self.loader.ir.headers[self.loader.ir.example_of(&header).index()];
        let n_fields = example.fields.end - example.fields.start;
        if offset >= n_fields {
            return self.fail(format!("field {offset} of a header with {n_fields} fields"));
        }
        Ok(Typed::Number(match header {
            HeaderExpr::Header(_) => Expr::Field(example.field_at(offset)),
            header => Expr::Access {
                header: Box::new(header),
                offset,
            },
        }))
    }

    fn check_member(&self, union: &UnionExpr, offset: u32) -> Load {
        let members = self.loader.ir.members_of(union).len();
        if offset as usize >= members {
            return self.fail(format!("member {offset} of a union with {members} members"));
        }
        Ok(())
    }

    fn left(&self, operation: &Operation, depth: usize) -> Load<Typed> {
        self.operand("left", operation.left.as_ref(), depth)
    }

    fn right(&self, operation: &Operation, depth: usize) -> Load<Typed> {
        self.operand("right", operation.right.as_ref(), depth)
    }

    fn operand(&self, which: &str, operand: Option<&Operand>, depth: usize) -> Load<Typed> {
        match operand {
            Some(Operand::Value(value)) => self.typed(value, depth),
            Some(Operand::Index(index)) => self.fail(format!(
                "operand \"{which}\": expected an object, found {index}"
            )),
            None => self.fail(format!("operand \"{which}\" is missing")),
        }
    }

    fn right_index(&self, operation: &Operation) -> Load<u32> {
        match operation.right {
            Some(Operand::Index(index)) => Ok(index),
            _ => {
                let op = &operation.op;
                self.fail(format!("\"{op}\": expected a position on the right"))
            }
        }
    }

    fn param(&self, index: u32) -> Load<Expr> {
        let n_params = self.context.param_bits.len();
        if index as usize >= n_params {
            return self.fail(format!(
                "action parameter {index} does not exist: there are {n_params}, counted from 0"
            ));
        }
        Ok(Expr::Param(index as usize))
    }

    pub(super) fn hex(&self, text: &str) -> Load<Int> {
        let value = value::from_hex(text);
        value.ok_or_else(|| self.error(format!("expected a hexadecimal number, found \"{text}\"")))
    }

    fn wrong<T>(&self, expected: &str, found: &Typed) -> Load<T> {
        self.fail(format!("expected {expected}, found {}", found.kind()))
    }

    fn as_number(&self, typed: Typed) -> Load<Expr> {
        match typed {
            Typed::Number(expr) => Ok(expr),
            Typed::Bool(expr) => Ok(Expr::FromBool(Box::new(expr))),
            other => self.wrong("a number", &other),
        }
    }

    fn as_truth(&self, typed: Typed) -> Load<BoolExpr> {
        match typed {
            Typed::Bool(expr) => Ok(expr),
            Typed::Number(expr) => Ok(BoolExpr::FromNumber(expr)),
            other => self.wrong("a truth value", &other),
        }
    }

    fn as_header(&self, typed: Typed) -> Load<HeaderExpr> {
        match typed {
            Typed::Header(expr) => Ok(expr),
            other => self.wrong("a header", &other),
        }
    }

    fn as_union(&self, typed: Typed) -> Load<UnionExpr> {
        match typed {
            Typed::Union(expr) => Ok(expr),
            other => self.wrong("a header union", &other),
        }
    }

    fn as_stack(&self, typed: Typed) -> Load<AnyStack> {
        match typed {
            Typed::Stack(stack) => Ok(stack),
            other => self.wrong("a stack", &other),
        }
    }

    fn compare(&self, comparison: Comparison, left: Typed, right: Typed) -> Load<Typed> {
        let same = match (left, right) {
            (Typed::Number(left), Typed::Number(right)) => {
                return Ok(Typed::Bool(BoolExpr::Compare(comparison, left, right)));
            }
            (Typed::Header(left), Typed::Header(right)) => BoolExpr::SameHeader(left, right),
            (Typed::Union(left), Typed::Union(right)) => BoolExpr::SameUnion(left, right),
            (Typed::Bool(left), right @ (Typed::Bool(_) | Typed::Number(_))) => {
                BoolExpr::SameBool(Box::new(left), Box::new(self.as_truth(right)?))
            }
            (left @ Typed::Number(_), Typed::Bool(right)) => {
                BoolExpr::SameBool(Box::new(self.as_truth(left)?), Box::new(right))
            }
            (left, right) => {
                return self.fail(format!(
                    "{} cannot be compared with {}",
                    left.kind(),
                    right.kind()
                ));
            }
        };
        match comparison {
            Comparison::Equal => Ok(Typed::Bool(same)),
            Comparison::NotEqual => Ok(Typed::Bool(BoolExpr::Not(Box::new(same)))),
            other => self.fail(format!("{other:?} compares numbers only")),
        }
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
