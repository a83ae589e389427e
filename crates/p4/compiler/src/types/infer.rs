//! Finds the types of expressions (P4_16 language specification 1.2.5, section 8).

use num_bigint::BigInt;
use num_traits::{Signed as _, ToPrimitive as _};

use super::Type;
use super::check::Checker;
use super::part_slice::PartSlice;
use super::scope::{Symbol, nearest};
use crate::ir::{Direction, Expr, ExprKind, StackProperty};
use crate::source::Span;
use crate::syntax::ast;

impl Checker<'_> {
    pub fn poison(&self, span: Span) -> Expr {
        Expr {
            kind: ExprKind::Poison,
            ty: Type::Poison,
            span,
        }
    }

    /// Returns an expression of this type that stands in for a value with a reported error.
    pub fn poison_of(&self, ty: &Type, span: Span) -> Expr {
        Expr {
            kind: ExprKind::Poison,
            ty: ty.clone(),
            span,
        }
    }

    pub fn expr(&mut self, expr: &ast::Expr) -> Expr {
        let span = expr.span;
        let make = |kind, ty| Expr { kind, ty, span };
        match &*expr.kind {
            ast::ExprKind::Int(value, written) => self.literal(value, written.width, span),
            ast::ExprKind::Bool(value) => make(ExprKind::Bool(*value), Type::Bool),
            ast::ExprKind::Str(text) => make(ExprKind::Str(text.clone()), Type::String),
            ast::ExprKind::Name(name, global) => self.name(name, *global),
            ast::ExprKind::DontCare => make(ExprKind::DontCare, Type::DontCare),
            ast::ExprKind::Invalid => make(ExprKind::InvalidHeader, Type::InvalidHeader),
            ast::ExprKind::Member(base, member) => self.member(base, member, span),
            ast::ExprKind::Index(base, index) => self.index(base, index, span),
            ast::ExprKind::Slice(base, high, low) => self.slice(base, high, low, span),
            ast::ExprKind::PartSlice(base, start, width) => self.part_slice(PartSlice {
                base,
                start,
                width,
                span,
            }),
            ast::ExprKind::Unary(op, inner) => self.unary(*op, inner, span),
            ast::ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.expr(left), self.expr(right));
                self.binary(*op, left, right, span)
            }
            ast::ExprKind::Mux(condition, yes, no) => self.mux(condition, yes, no, span),
            ast::ExprKind::Cast(ty, inner) => self.cast(ty, inner, span),
            ast::ExprKind::Call(callee, types, arguments) => {
                let call = self.call(callee, types, arguments, span);
                self.legal_call(call)
            }
            ast::ExprKind::List(items) => {
                let items: Vec<Expr> = items.iter().map(|item| self.expr(item)).collect();
                let types = items.iter().map(|item| item.ty.clone()).collect();
                make(ExprKind::List(items), Type::ListOf(types))
            }
            ast::ExprKind::Struct(pairs, dots) => {
                let mut items: Vec<Expr> =
                    pairs.iter().map(|(_, value)| self.expr(value)).collect();
                let mut types: Vec<_> = pairs
                    .iter()
                    .zip(&items)
                    .map(|((name, _), item)| (name.name.clone(), item.ty.clone()))
                    .collect();
                if *dots {
                    types.push(("...".into(), Type::Default));
                    items.push(make(ExprKind::DontCare, Type::Default));
                }
                make(ExprKind::List(items), Type::RecordOf(types))
            }
            ast::ExprKind::Range(..) | ast::ExprKind::Mask(..) => {
                self.sink.error("E0411", span, "a range or mask stands only in `select`, in a table's entries and in value sets");
                self.poison(span)
            }
            ast::ExprKind::Type(_) => {
                self.sink
                    .error("E0303", span, "a type stands where a value is needed");
                self.poison(span)
            }
            ast::ExprKind::Dots => make(ExprKind::DontCare, Type::Default),
        }
    }

    fn literal(&mut self, value: &BigInt, width: Option<(u32, bool)>, span: Span) -> Expr {
        let kind = ExprKind::Int(value.clone());
        let Some((width, signed)) = width else {
            return Expr {
                kind,
                ty: Type::Int,
                span,
            };
        };
        let plain = Expr {
            kind,
            ty: Type::Int,
            span,
        };
        self.coerce(plain, &Type::Bits { width, signed })
    }

    fn name(&mut self, name: &ast::Ident, global: bool) -> Expr {
        let span = name.span;
        let make = |kind, ty| Expr { kind, ty, span };
        match self.scopes.lookup(&name.name, global).cloned() {
            Some(Symbol::Var(id)) => {
                let ty = self.program.vars[id].ty.clone();
                make(ExprKind::Var(id), ty)
            }
            Some(Symbol::Const(value)) => Expr { span, ..value },
            Some(Symbol::Instance(id)) => {
                let ty = self.instance_type(id);
                make(ExprKind::Instance(id), ty)
            }
            Some(Symbol::ValueSet(id)) => {
                let ty = Type::Set(Box::new(self.program.value_sets[id].ty.clone()));
                make(ExprKind::ValueSet(id), ty)
            }
            Some(Symbol::Broken) => self.poison(span),
            // Inside a table, the table's own name is declared as the type `void`.
            Some(Symbol::Type(Type::Void)) => {
                let message = format!("`{}` is the table itself here", name.name);
                self.sink
                    .error("E0308", span, message)
                    .help("a table hides what has its name outside; give one of them another name");
                self.poison(span)
            }
            Some(other) => {
                let raw = self
                    .sink
                    .error("E0308", span, format!("`{}` is not a value", name.name));
                if matches!(other, Symbol::Control(_) | Symbol::Parser(_)) {
                    raw.help(format!("`{}()` makes an instance of it", name.name));
                } else if matches!(other, Symbol::Action(_)) {
                    raw.help(format!(
                        "an action is called by its name: `{}()`",
                        name.name
                    ));
                }
                self.poison(span)
            }
            None => {
                let kinds = &self.match_kinds;
                if let Some(at) = kinds.iter().position(|kind| *kind == name.name) {
                    return make(ExprKind::Int(at.into()), Type::MatchKind);
                }
                self.unknown("value", name);
                self.poison(span)
            }
        }
    }

    pub fn instance_type(&self, id: usize) -> Type {
        use crate::ir::InstanceKind;
        match &self.program.instances[id].kind {
            InstanceKind::Extern(id, arguments) => Type::Extern(*id, arguments.clone()),
            InstanceKind::Control(id) => Type::Control(*id),
            InstanceKind::Parser(id) => Type::Parser(*id),
            InstanceKind::Package(id, arguments) => Type::Package(*id, arguments.clone()),
        }
    }

    /// Checks `Enum.member` and `error.Member`; `None` if the base is not a type.
    fn type_member(&mut self, base: &ast::Expr, member: &ast::Ident, span: Span) -> Option<Expr> {
        let ty = match &*base.kind {
            ast::ExprKind::Type(ty) => self.resolve_type(ty),
            ast::ExprKind::Name(name, global) => match self.scopes.lookup(&name.name, *global) {
                Some(Symbol::Type(ty)) => ty.clone(),
                _ => return None,
            },
            _ => return None,
        };
        let found = match &ty {
            Type::Error => {
                let at = self
                    .program
                    .errors
                    .iter()
                    .position(|name| *name == member.name);
                at.map(|at| ExprKind::Error(at as u32))
            }
            Type::Enum(id) => {
                let at = self.program.enums[*id]
                    .members
                    .iter()
                    .position(|(name, _)| *name == member.name);
                at.map(|at| match self.program.enums[*id].underlying {
                    Some(_) => ExprKind::Int(self.program.enums[*id].members[at].1.clone()),
                    None => ExprKind::Member(*id, at),
                })
            }
            Type::Poison => return Some(self.poison(span)),
            _ => None,
        };
        if let Some(kind) = found {
            return Some(Expr { kind, ty, span });
        }
        let names: Vec<_> = match &ty {
            Type::Error => self.program.errors.clone(),
            Type::Enum(id) => self.program.enums[*id]
                .members
                .iter()
                .map(|(name, _)| name.clone())
                .collect(),
            _ => Vec::new(),
        };
        let similar = nearest(&member.name, names.iter().map(|name| &**name));
        let message = format!(
            "{} has no member `{}`",
            self.program.type_name(&ty),
            member.name
        );
        self.sink
            .error("E0307", member.span, message)
            .did_you_mean(member.span, similar);
        Some(self.poison(span))
    }

    fn member(&mut self, base: &ast::Expr, member: &ast::Ident, span: Span) -> Expr {
        if let Some(found) = self.type_member(base, member, span) {
            return found;
        }
        let base = self.expr(base);
        let name = &*member.name;
        match base.ty.clone() {
            Type::Poison => self.poison(span),
            Type::Struct(id) => {
                let fields = &self.program.structs[id].fields;
                if let Some(at) = fields.iter().position(|field| &*field.name == name) {
                    let ty = fields[at].ty.clone();
                    return self.fold(Expr {
                        kind: ExprKind::Field(Box::new(base), at),
                        ty,
                        span,
                    });
                }
                if self.sink.is_unreliable(name) {
                    return self.poison(span);
                }
                let similar = nearest(name, fields.iter().map(|field| &*field.name));
                let message = format!("{} has no field `{name}`", self.program.structs[id].name);
                let is_header = self.program.is_header(&base.ty) || self.program.is_union(&base.ty);
                let raw = self.sink.error("E0307", member.span, message);
                if is_header && name == "valid" {
                    raw.help("call `isValid()`");
                } else if is_header && matches!(name, "isValid" | "setValid" | "setInvalid") {
                    raw.suggest(
                        member.span,
                        format!("{name}()"),
                        "it is a method: write the parentheses",
                    );
                } else {
                    raw.did_you_mean(member.span, similar);
                }
                self.poison(span)
            }
            Type::Stack(element, size) => self.stack_member(base, &element, size, member, span),
            Type::ApplyResult(_) if matches!(name, "hit" | "miss") => Expr {
                kind: ExprKind::Hit(Box::new(base), name == "hit"),
                ty: Type::Bool,
                span,
            },
            Type::ApplyResult(table) if name == "action_run" => Expr {
                ty: Type::ActionRun(table),
                span,
                ..base
            },
            other => {
                let message = format!("{} has no member `{name}`", self.program.type_name(&other));
                self.sink.error("E0307", member.span, message);
                self.poison(span)
            }
        }
    }

    fn stack_member(
        &mut self,
        base: Expr,
        element: &Type,
        size: u32,
        member: &ast::Ident,
        span: Span,
    ) -> Expr {
        let (property, ty) = match &*member.name {
            "next" => (StackProperty::Next, element.clone()),
            "last" => (StackProperty::Last, element.clone()),
            "lastIndex" => (StackProperty::LastIndex, Type::bits(32)),
            "size" => {
                return Expr {
                    kind: ExprKind::Int(size.into()),
                    ty: Type::bits(32),
                    span,
                };
            }
            other => {
                self.sink
                    .error(
                        "E0307",
                        member.span,
                        format!("a header stack has no member `{other}`"),
                    )
                    .help("it has next, last, lastIndex, size, push_front and pop_front");
                return self.poison(span);
            }
        };
        if self.place != super::check::Place::Parser {
            let message = format!("`{}` stands only in a parser", member.name);
            self.sink
                .error("E0309", member.span, message)
                .help("outside a parser, index the stack with a number");
        }
        Expr {
            kind: ExprKind::Stack(Box::new(base), property),
            ty,
            span,
        }
    }

    fn index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let (base, index) = (self.expr(base), self.expr(index));
        let at = match &index.kind {
            ExprKind::Int(value) => Some(value.clone()),
            _ => None,
        };
        let (ty, size) = match &base.ty {
            Type::Stack(element, size) => ((**element).clone(), *size as usize),
            Type::Tuple(items) | Type::ListOf(items) => {
                if at.is_none() {
                    self.sink.error(
                        "E0412",
                        index.span,
                        "a tuple's index must be known at compile time",
                    );
                }
                let found = at
                    .as_ref()
                    .and_then(|at| at.to_usize())
                    .and_then(|at| items.get(at))
                    .cloned();
                (found.unwrap_or(Type::Poison), items.len())
            }
            Type::List(element) => match &base.kind {
                ExprKind::List(items) => ((**element).clone(), items.len()),
                _ => ((**element).clone(), usize::MAX),
            },
            Type::Poison => return self.poison(span),
            other => {
                let message = format!("{} cannot be indexed", self.program.type_name(other));
                let is_number = matches!(self.program.underlying(other), Type::Bits { .. });
                let raw = self.sink.error("E0412", span, message);
                if let (true, Some(at)) = (is_number, &at) {
                    raw.help(format!("a bit of a number is a slice: `[{at}:{at}]`"));
                }
                return self.poison(span);
            }
        };
        if let Some(at) = at
            && (at.is_negative() || at >= BigInt::from(size))
        {
            self.sink.error(
                "E0504",
                index.span,
                format!(
                    "the index {at} is outside of 0 to {}",
                    size.saturating_sub(1)
                ),
            );
            return self.poison(span);
        }
        let index = if matches!(index.ty, Type::Int) {
            self.coerce(index, &Type::bits(32))
        } else {
            index
        };
        if !index.ty.is_poison() && !matches!(self.program.underlying(&index.ty), Type::Bits { .. })
        {
            self.mismatch_operand(&index, "an index is a number");
        }
        self.fold(Expr {
            kind: ExprKind::Index(Box::new(base), Box::new(index)),
            ty,
            span,
        })
    }

    pub fn mismatch_operand(&mut self, found: &Expr, why: &str) {
        let message = format!("{why}, found {}", self.program.type_name(&found.ty));
        self.sink.error("E0401", found.span, message);
    }

    fn slice(&mut self, base: &ast::Expr, high: &ast::Expr, low: &ast::Expr, span: Span) -> Expr {
        let base = self.expr(base);
        let high_value = self.constant_int(high, "the slice's high bit");
        let low_value = self.constant_int(low, "the slice's low bit");
        let width = match self.program.underlying(&base.ty) {
            Type::Bits { width, .. } => *width,
            Type::Poison => return self.poison(span),
            _ => {
                self.mismatch_operand(&base, "a slice is taken from bit<W> or int<W>");
                return self.poison(span);
            }
        };
        let bounds = high_value
            .as_ref()
            .zip(low_value.as_ref())
            .and_then(|(high, low)| high.to_u32().zip(low.to_u32()));
        match bounds {
            Some((high, low)) if low <= high && high < width => {
                let kind = ExprKind::Slice(Box::new(base), high, low);
                self.fold(Expr {
                    kind,
                    ty: Type::bits(high - low + 1),
                    span,
                })
            }
            Some((high, low)) => {
                self.sink
                    .error(
                        "E0504",
                        span,
                        format!("the slice [{high}:{low}] is not within the {width} bits"),
                    )
                    .help(if low > high {
                        "the high bit comes first".to_owned()
                    } else {
                        format!("its bits are {} to 0", width.saturating_sub(1))
                    });
                self.poison(span)
            }
            None => {
                if high_value.is_some() && low_value.is_some() {
                    self.sink.error(
                        "E0504",
                        span,
                        "a slice's bounds are not negative and not beyond the number's bits",
                    );
                }
                self.poison(span)
            }
        }
    }

    /// Whether the expression is an l-value that can be written; reports an error if not.
    pub fn check_writable(&mut self, expr: &Expr) -> bool {
        let Some(problem) = self.why_not_writable(expr) else {
            return true;
        };
        self.sink
            .error("E0415", expr.span, problem)
            .help("only variables, `out` and `inout` parameters, their fields and slices can");
        false
    }

    /// Returns why the expression cannot be written; `None` if it is an l-value that can be written.
    pub fn why_not_writable(&self, expr: &Expr) -> Option<String> {
        match &expr.kind {
            ExprKind::Poison => None,
            ExprKind::Var(id) => {
                let var = &self.program.vars[*id];
                match (var.is_parameter, var.direction) {
                    (false, _) | (_, Direction::Out | Direction::InOut) => None,
                    (_, Direction::In) => Some(format!(
                        "`{}` is an `in` parameter and cannot be written",
                        var.name
                    )),
                    (_, Direction::None) => Some(format!(
                        "`{}` is a parameter without direction and cannot be written",
                        var.name
                    )),
                }
            }
            ExprKind::Field(inner, _) | ExprKind::Slice(inner, ..) => self.why_not_writable(inner),
            ExprKind::Index(inner, _) if matches!(inner.ty, Type::Stack(..) | Type::Tuple(_)) => {
                self.why_not_writable(inner)
            }
            ExprKind::Stack(inner, StackProperty::Next) => self.why_not_writable(inner),
            // P4_16 1.2.5, section 8.18: unlike `next`, `last` is never an l-value.
            ExprKind::Stack(_, StackProperty::Last) => {
                Some("`last` of a stack can be read, not written".to_owned())
            }
            _ => Some("this cannot be written".to_owned()),
        }
    }
}
