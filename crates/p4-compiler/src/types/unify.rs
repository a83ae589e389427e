//! Which type fits where: inference of type arguments, and implicit casts (P4_16 1.2.5, 8.11).

use std::collections::HashMap;
use std::rc::Rc;

use super::Type;
use super::check::Checker;
use super::const_eval::{fits, wrap};
use crate::ir::{Expr, ExprKind};

/// What type parameters stand for.
pub type Bindings = HashMap<Rc<str>, Type>;

/// Replaces the bound type parameters.
pub fn substitute(ty: &Type, bindings: &Bindings) -> Type {
    let all = |items: &[Type]| {
        items
            .iter()
            .map(|item| substitute(item, bindings))
            .collect()
    };
    match ty {
        Type::Variable(name) => bindings.get(name).cloned().unwrap_or_else(|| ty.clone()),
        Type::Stack(element, size) => Type::Stack(Box::new(substitute(element, bindings)), *size),
        Type::Set(inner) => Type::Set(Box::new(substitute(inner, bindings))),
        Type::Tuple(items) => Type::Tuple(all(items)),
        Type::Extern(id, items) => Type::Extern(*id, all(items)),
        Type::ControlKind(id, items) => Type::ControlKind(*id, all(items)),
        Type::ParserKind(id, items) => Type::ParserKind(*id, all(items)),
        Type::Package(id, items) => Type::Package(*id, all(items)),
        _ => ty.clone(),
    }
}

/// Whether a type parameter is still inside.
pub fn is_open(ty: &Type) -> bool {
    match ty {
        Type::Variable(_) | Type::DontCare => true,
        Type::Stack(inner, _) | Type::Set(inner) => is_open(inner),
        Type::Tuple(items)
        | Type::Extern(_, items)
        | Type::ControlKind(_, items)
        | Type::ParserKind(_, items)
        | Type::Package(_, items) => items.iter().any(is_open),
        _ => false,
    }
}

impl Checker<'_> {
    /// Learns what the parameter's type variables stand for from an argument's type.
    pub fn unify(&self, parameter: &Type, argument: &Type, bindings: &mut Bindings) {
        match (parameter, argument) {
            (Type::Variable(name), _) => {
                let found = match argument {
                    Type::ListOf(items) => Type::Tuple(items.clone()),
                    Type::DontCare => return,
                    other => other.clone(),
                };
                let better = match bindings.get(name) {
                    None | Some(Type::Int) => true,
                    Some(other) => is_open(other),
                };
                if better {
                    bindings.insert(name.clone(), found);
                }
            }
            (Type::Tuple(left), Type::Tuple(right) | Type::ListOf(right)) => {
                self.unify_all(left, right, bindings)
            }
            (Type::Extern(a, left), Type::Extern(b, right)) if a == b => {
                self.unify_all(left, right, bindings)
            }
            (Type::Stack(left, _), Type::Stack(right, _)) => self.unify(left, right, bindings),
            (Type::ControlKind(id, arguments), Type::Control(control)) => {
                self.unify_block(
                    &self.control_types[*id],
                    arguments,
                    &self.program.controls[*control].parameters,
                    bindings,
                );
            }
            (Type::ParserKind(id, arguments), Type::Parser(parser)) => {
                self.unify_block(
                    &self.parser_types[*id],
                    arguments,
                    &self.program.parsers[*parser].parameters,
                    bindings,
                );
            }
            _ => {}
        }
    }

    fn unify_all(&self, left: &[Type], right: &[Type], bindings: &mut Bindings) {
        for (parameter, argument) in left.iter().zip(right) {
            self.unify(parameter, argument, bindings);
        }
    }

    fn unify_block(
        &self,
        signature: &super::check::Signature,
        arguments: &[Type],
        parameters: &[usize],
        bindings: &mut Bindings,
    ) {
        let mut inner = Bindings::new();
        for (wanted, found) in signature.parameters.iter().zip(parameters) {
            self.unify(&wanted.ty, &self.program.vars[*found].ty, &mut inner);
        }
        for (name, argument) in signature.type_parameters.iter().zip(arguments) {
            if let Some(found) = inner.get(name) {
                self.unify(argument, found, bindings);
            }
        }
    }

    /// Whether a block's parameters are those that its declared type asks for.
    pub fn block_fits(&self, wanted: &Type, found: &Type) -> bool {
        let (signature, arguments, parameters) = match (wanted, found) {
            (Type::ControlKind(id, arguments), Type::Control(control)) => (
                &self.control_types[*id],
                arguments,
                &self.program.controls[*control].parameters,
            ),
            (Type::ParserKind(id, arguments), Type::Parser(parser)) => (
                &self.parser_types[*id],
                arguments,
                &self.program.parsers[*parser].parameters,
            ),
            _ => return false,
        };
        let bindings: Bindings = signature
            .type_parameters
            .iter()
            .cloned()
            .zip(arguments.iter().cloned())
            .collect();
        signature.parameters.len() == parameters.len()
            && signature
                .parameters
                .iter()
                .zip(parameters)
                .all(|(wanted, found)| {
                    let found = &self.program.vars[*found];
                    let ty = substitute(&wanted.ty, &bindings);
                    wanted.direction == found.direction
                        && (ty == found.ty || is_open(&ty) || found.ty.is_poison())
                })
    }

    /// Makes an expression fit a type, with the implicit casts that the language has.
    pub fn coerce(&mut self, expr: Expr, wanted: &Type) -> Expr {
        if expr.ty == *wanted || wanted.is_poison() || matches!(wanted, Type::DontCare) {
            return expr;
        }
        if expr.ty.is_poison() {
            return Expr {
                ty: wanted.clone(),
                ..expr
            };
        }
        match (&expr.ty, wanted) {
            (Type::Int, Type::Bits { width, signed }) => {
                return self.fit_literal(expr, *width, *signed, wanted);
            }
            (Type::Enum(id), _) if self.program.enums[*id].underlying.as_ref() == Some(wanted) => {
                let cast = Expr {
                    span: expr.span,
                    ty: wanted.clone(),
                    kind: ExprKind::Cast(Box::new(expr)),
                };
                return self.fold(cast);
            }
            (Type::ListOf(_) | Type::RecordOf(_), _) => return self.coerce_list(expr, wanted),
            (Type::InvalidHeader, _)
                if self.program.is_header(wanted) || self.program.is_union(wanted) =>
            {
                return Expr {
                    ty: wanted.clone(),
                    ..expr
                };
            }
            (Type::Control(_) | Type::Parser(_), Type::ControlKind(..) | Type::ParserKind(..))
                if self.block_fits(wanted, &expr.ty) =>
            {
                return expr;
            }
            (_, Type::Variable(_)) => return expr,
            _ => {}
        }
        self.mismatch(&expr, wanted);
        Expr {
            kind: ExprKind::Poison,
            ty: wanted.clone(),
            span: expr.span,
        }
    }

    fn mismatch(&mut self, expr: &Expr, wanted: &Type) {
        let (wanted_name, found_name) = (
            self.program.type_name(wanted),
            self.program.type_name(&expr.ty),
        );
        let below = (
            self.program.underlying(wanted).clone(),
            self.program.underlying(&expr.ty).clone(),
        );
        let block = matches!(expr.ty, Type::Control(_) | Type::Parser(_))
            && matches!(wanted, Type::ControlKind(..) | Type::ParserKind(..));
        let raw = self.sink.error(
            "E0401",
            expr.span,
            format!("expected {wanted_name}, found {found_name}"),
        );
        if block {
            raw.help("its parameters differ from those that the architecture declares in number, type or direction");
        } else if let (Type::Bits { .. } | Type::Bool, Type::Bits { .. } | Type::Bool | Type::Int) =
            below
        {
            raw.label(found_name)
                .help(format!("convert it with `({wanted_name})`"));
        }
    }

    /// A number without a width takes the one that is asked for.
    fn fit_literal(&mut self, expr: Expr, width: u32, signed: bool, wanted: &Type) -> Expr {
        let ExprKind::Int(value) = &expr.kind else {
            return Expr {
                span: expr.span,
                ty: wanted.clone(),
                kind: ExprKind::Cast(Box::new(expr)),
            };
        };
        // `-1` as a bit<W> is meant; a positive number that is cut is a mistake.
        let unsigned_fits =
            !signed && num_traits::Signed::is_negative(value) && fits(value, width, true);
        if !fits(value, width, signed) && !unsigned_fits {
            let name = self.program.type_name(wanted);
            let cut = wrap(value, width, signed);
            self.sink.warning(
                "W0405",
                expr.span,
                format!("{value} does not fit {name} and becomes {cut}"),
            );
        }
        let value = wrap(value, width, signed);
        Expr {
            kind: ExprKind::Int(value),
            ty: wanted.clone(),
            span: expr.span,
        }
    }

    fn coerce_list(&mut self, expr: Expr, wanted: &Type) -> Expr {
        let span = expr.span;
        let names: Option<Vec<Rc<str>>> = match &expr.ty {
            Type::RecordOf(fields) => Some(fields.iter().map(|(name, _)| name.clone()).collect()),
            _ => None,
        };
        let ExprKind::List(items) = expr.kind else {
            return self.poison_of(wanted, span);
        };
        let types: Vec<Type> = match wanted {
            Type::Struct(id) => self.program.structs[*id]
                .fields
                .iter()
                .map(|field| field.ty.clone())
                .collect(),
            Type::Tuple(types) => types.clone(),
            Type::Stack(element, size) => {
                vec![(**element).clone(); (*size as usize).min(items.len())]
            }
            _ => {
                let whole = Expr {
                    kind: ExprKind::List(Vec::new()),
                    ty: expr.ty,
                    span,
                };
                self.mismatch(&whole, wanted);
                return self.poison_of(wanted, span);
            }
        };
        let items = match (names, wanted) {
            (Some(names), Type::Struct(id)) => match self.order_fields(*id, &names, items, span) {
                Some(items) => items,
                None => {
                    return self.poison_of(wanted, span);
                }
            },
            _ => items,
        };
        if items.len() != types.len() {
            let message = format!(
                "{} has {} elements, {} were given",
                self.program.type_name(wanted),
                types.len(),
                items.len()
            );
            self.sink.error("E0410", span, message);
            return self.poison_of(wanted, span);
        }
        let items = items
            .into_iter()
            .zip(&types)
            .map(|(item, ty)| self.coerce(item, ty))
            .collect();
        Expr {
            kind: ExprKind::List(items),
            ty: wanted.clone(),
            span,
        }
    }

    /// `{k = a}` in the order of the struct's fields.
    fn order_fields(
        &mut self,
        id: usize,
        names: &[Rc<str>],
        items: Vec<Expr>,
        span: crate::source::Span,
    ) -> Option<Vec<Expr>> {
        let fields: Vec<Rc<str>> = self.program.structs[id]
            .fields
            .iter()
            .map(|field| field.name.clone())
            .collect();
        let mut slots: Vec<Option<Expr>> = vec![None; fields.len()];
        let mut fine = true;
        for (name, item) in names.iter().zip(items) {
            match fields.iter().position(|field| field == name) {
                Some(at) => slots[at] = Some(item),
                None => {
                    let message =
                        format!("{} has no field `{name}`", self.program.structs[id].name);
                    self.sink.error("E0307", item.span, message);
                    fine = false;
                }
            }
        }
        let missing: Vec<&str> = fields
            .iter()
            .zip(&slots)
            .filter(|(_, slot)| slot.is_none())
            .map(|(name, _)| &**name)
            .collect();
        if fine && !missing.is_empty() {
            self.sink.error(
                "E0410",
                span,
                format!("no value for {}", missing.join(", ")),
            );
        }
        if fine {
            slots.into_iter().collect()
        } else {
            None
        }
    }
}
