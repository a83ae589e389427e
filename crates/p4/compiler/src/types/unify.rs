//! Makes arguments fit the types of parameters: infers type arguments, and adds implicit casts (P4_16 language
//! specification 1.2.5, section 8.11).

use std::collections::HashMap;
use std::rc::Rc;

use super::Type;
use super::check::{Checker, Signature, SignatureParameter};
use super::const_eval::{fits, wrap};
use crate::ir::{Direction, Expr, ExprKind};
use crate::spelling::counted;

pub type Bindings = HashMap<Rc<str>, Type>;

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
        Type::List(inner) => Type::List(Box::new(substitute(inner, bindings))),
        Type::Tuple(items) => Type::Tuple(all(items)),
        Type::Extern(id, items) => Type::Extern(*id, all(items)),
        Type::ControlKind(id, items) => Type::ControlKind(*id, all(items)),
        Type::ParserKind(id, items) => Type::ParserKind(*id, all(items)),
        Type::Package(id, items) => Type::Package(*id, all(items)),
        _ => ty.clone(),
    }
}

/// The direction as it is written before a parameter's type.
fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::None => "",
        Direction::In => "in ",
        Direction::Out => "out ",
        Direction::InOut => "inout ",
    }
}

/// Whether a type contains a type parameter or `_`; the code calls such a type open.
pub fn is_open(ty: &Type) -> bool {
    match ty {
        Type::Variable(_) | Type::DontCare => true,
        Type::Stack(inner, _) | Type::Set(inner) | Type::List(inner) => is_open(inner),
        Type::Tuple(items)
        | Type::Extern(_, items)
        | Type::ControlKind(_, items)
        | Type::ParserKind(_, items)
        | Type::Package(_, items) => items.iter().any(is_open),
        _ => false,
    }
}

/// Whether two types are the same; a type parameter, `_` or [`Type::Poison`] equals every type.
fn agree(left: &Type, right: &Type) -> bool {
    let all = |left: &[Type], right: &[Type]| {
        left.is_empty()
            || right.is_empty()
            || (left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| agree(left, right)))
    };
    match (left, right) {
        (Type::Variable(_) | Type::DontCare | Type::Poison, _)
        | (_, Type::Variable(_) | Type::DontCare | Type::Poison) => true,
        (Type::Package(a, left), Type::Package(b, right))
        | (Type::Extern(a, left), Type::Extern(b, right))
        | (Type::ControlKind(a, left), Type::ControlKind(b, right))
        | (Type::ParserKind(a, left), Type::ParserKind(b, right)) => a == b && all(left, right),
        (Type::Tuple(left), Type::Tuple(right)) => left.len() == right.len() && all(left, right),
        (Type::Stack(left, a), Type::Stack(right, b)) => a == b && agree(left, right),
        (Type::List(left), Type::List(right)) => agree(left, right),
        _ => left == right,
    }
}

impl Checker<'_> {
    /// Replaces each bound type parameter in a type by the type that it is bound to, also in the arguments of generic
    /// structs.
    pub fn replace(&mut self, ty: &Type, bindings: &Bindings) -> Type {
        match ty {
            Type::Struct(id) => {
                let Some((decl, arguments)) = self.struct_origins.get(id).cloned() else {
                    return ty.clone();
                };
                let replaced: Vec<Type> = arguments
                    .iter()
                    .map(|argument| self.replace(argument, bindings))
                    .collect();
                if replaced == arguments {
                    ty.clone()
                } else {
                    self.instantiate_struct(&decl, &replaced)
                }
            }
            Type::Stack(element, size) => {
                Type::Stack(Box::new(self.replace(element, bindings)), *size)
            }
            Type::List(element) => Type::List(Box::new(self.replace(element, bindings))),
            Type::Tuple(items) => Type::Tuple(
                items
                    .iter()
                    .map(|item| self.replace(item, bindings))
                    .collect(),
            ),
            other => substitute(other, bindings),
        }
    }

    /// Infers a parameter's type variables from an argument's type.
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
            (Type::Extern(a, left), Type::Extern(b, right))
            | (Type::Package(a, left), Type::Package(b, right))
            | (Type::ControlKind(a, left), Type::ControlKind(b, right))
            | (Type::ParserKind(a, left), Type::ParserKind(b, right))
                if a == b =>
            {
                self.unify_all(left, right, bindings)
            }
            (Type::List(left), Type::List(right)) => self.unify(left, right, bindings),
            (Type::List(left), Type::ListOf(right)) => {
                right
                    .iter()
                    .for_each(|right| self.unify(left, right, bindings));
            }
            (Type::Struct(left), _) => self.unify_struct(*left, argument, bindings),
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

    /// Infers a generic struct's type arguments from another instance of it, or from its fields' values.
    fn unify_struct(&self, struct_id: usize, argument: &Type, bindings: &mut Bindings) {
        let fields = &self.program.structs[struct_id].fields;
        match argument {
            Type::Struct(other) => {
                let origins =
                    (self.struct_origins.get(&struct_id)).zip(self.struct_origins.get(other));
                if let Some(((a, left), (b, right))) = origins
                    && Rc::ptr_eq(a, b)
                {
                    self.unify_all(left, right, bindings);
                }
            }
            Type::ListOf(items) => {
                for (field, found) in fields.iter().zip(items) {
                    self.unify(&field.ty, found, bindings);
                }
            }
            Type::RecordOf(items) => {
                for (name, found) in items {
                    if let Some(field) = fields.iter().find(|field| field.name == *name) {
                        self.unify(&field.ty, found, bindings);
                    }
                }
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
        signature: &Signature,
        arguments: &[Type],
        parameters: &[usize],
        bindings: &mut Bindings,
    ) {
        let required = |wanted: &&SignatureParameter| wanted.default.is_none() && !wanted.optional;
        let n_min = signature.parameters.iter().filter(required).count();
        if parameters.len() < n_min || parameters.len() > signature.parameters.len() {
            // The block has too few or too many parameters, so it is unknown which parameter is which. Nothing is
            // inferred from such a block, because the other blocks are checked against the inferred types, and a wrong
            // type would cause errors in those blocks.
            return;
        }
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

    /// Returns the signature and the type arguments of a block's declared type, and the block's own parameters.
    fn block_parts<'a>(
        &'a self,
        wanted: &'a Type,
        found: &Type,
    ) -> Option<(&'a Signature, &'a [Type], &'a [usize])> {
        match (wanted, found) {
            (Type::ControlKind(id, arguments), Type::Control(control)) => Some((
                &self.control_types[*id],
                arguments,
                &self.program.controls[*control].parameters,
            )),
            (Type::ParserKind(id, arguments), Type::Parser(parser)) => Some((
                &self.parser_types[*id],
                arguments,
                &self.program.parsers[*parser].parameters,
            )),
            _ => None,
        }
    }

    fn block_difference(&self, wanted: &Type, found: &Type) -> Option<String> {
        let (signature, arguments, parameters) = self.block_parts(wanted, found)?;
        if signature.parameters.len() != parameters.len() {
            return Some(format!(
                "it has {}, the architecture declares `{}`",
                counted(parameters.len(), "parameter", "parameters"),
                self.shape(signature)
            ));
        }
        let names = signature.type_parameters.iter().cloned();
        let bindings: Bindings = names.zip(arguments.iter().cloned()).collect();
        let mut pairs = (1..).zip(signature.parameters.iter().zip(parameters));
        pairs.find_map(|(number, (wanted, found))| {
            let found = &self.program.vars[*found];
            let ty = substitute(&wanted.ty, &bindings);
            let differs = wanted.direction != found.direction
                || !(ty == found.ty || is_open(&ty) || found.ty.is_poison());
            differs.then(|| {
                format!(
                    "its parameter {number} is `{}{} {}`, the architecture asks for `{}{}`",
                    direction(found.direction),
                    self.program.type_name(&found.ty),
                    found.name,
                    direction(wanted.direction),
                    self.program.type_name(&ty),
                )
            })
        })
    }

    /// Whether a block has the parameters that its declared type asks for.
    pub fn block_fits(&self, wanted: &Type, found: &Type) -> bool {
        let Some((signature, arguments, parameters)) = self.block_parts(wanted, found) else {
            return false;
        };
        let bindings: Bindings = signature
            .type_parameters
            .iter()
            .cloned()
            .zip(arguments.iter().cloned())
            .collect();
        // Parameters with a default in the architecture may be missing.
        let (given, rest) = signature
            .parameters
            .split_at(parameters.len().min(signature.parameters.len()));
        given.len() == parameters.len()
            && rest
                .iter()
                .all(|wanted| wanted.default.is_some() || wanted.optional)
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

    /// Makes an expression fit a type, with the language's implicit casts.
    pub fn coerce(&mut self, expr: Expr, wanted: &Type) -> Expr {
        let expr = self.close_shift(expr, wanted);
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
            (Type::Default, _) => return self.default_value(wanted, expr.span),
            (Type::Int, Type::Bits { width, signed }) => {
                return self.fit_literal(expr, *width, *signed, wanted);
            }
            // As in p4c, a number without a width fits a type that is declared with `type` and whose underlying type is
            // `bit<W>` or `int<W>`.
            (Type::Int, Type::Newtype(_)) => {
                if let Type::Bits { width, signed } = *self.program.underlying(wanted) {
                    return self.fit_literal(expr, width, signed, wanted);
                }
            }
            (Type::Bits { .. }, Type::Int) => {
                let cast = Expr {
                    span: expr.span,
                    ty: Type::Int,
                    kind: ExprKind::Cast(Box::new(expr)),
                };
                return self.fold(cast);
            }
            (Type::Package(..), Type::Package(..))
            | (Type::Extern(..), Type::Extern(..))
            | (Type::ControlKind(..), Type::ControlKind(..))
            | (Type::ParserKind(..), Type::ParserKind(..))
                if agree(&expr.ty, wanted) =>
            {
                return expr;
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
        let difference = self.block_difference(wanted, &expr.ty);
        let raw = self.sink.error(
            "E0401",
            expr.span,
            format!("expected {wanted_name}, found {found_name}"),
        );
        if let Some(difference) = difference {
            raw.help(difference);
            return;
        }
        match below {
            (Type::Bool, Type::ApplyResult(_)) => {
                raw.help("use `t.apply().hit` or `t.apply().miss`");
            }
            (Type::Bool, Type::Int) => {
                raw.help("a bool is `true` or `false`, not a number");
            }
            (Type::Bool, Type::Bits { width, .. }) if width != 1 => {
                raw.label(found_name).help("compare it: `x != 0`");
            }
            (Type::Bits { width, .. }, Type::Bool) if width != 1 => {
                raw.label(found_name).help("choose a number: `x ? 1 : 0`");
            }
            (
                Type::Bits { width: a, signed },
                Type::Bits {
                    width: b,
                    signed: other,
                },
            ) if a != b && signed != other => {
                raw.label(found_name)
                    .help("convert it with two casts: one changes the width, one the sign");
            }
            (Type::Bits { .. } | Type::Bool, Type::Bits { .. } | Type::Bool | Type::Int) => {
                raw.label(found_name)
                    .help(format!("convert it with `({wanted_name})`"));
            }
            _ => {}
        }
    }

    /// Gives a number without a width the wanted width.
    fn fit_literal(&mut self, expr: Expr, width: u32, signed: bool, wanted: &Type) -> Expr {
        let ExprKind::Int(value) = &expr.kind else {
            return Expr {
                span: expr.span,
                ty: wanted.clone(),
                kind: ExprKind::Cast(Box::new(expr)),
            };
        };
        // `-1` as a `bit<W>` is intended; a positive number that is cut is a mistake.
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
        let ExprKind::List(mut items) = expr.kind else {
            return self.poison_of(wanted, span);
        };
        let open = matches!(items.last(), Some(last) if last.ty == Type::Default);
        if open && names.is_none() {
            items.pop();
        }
        let types: Vec<Type> = match wanted {
            Type::Struct(id) => self.program.structs[*id]
                .fields
                .iter()
                .map(|field| field.ty.clone())
                .collect(),
            Type::Tuple(types) => types.clone(),
            Type::Stack(element, size) => {
                let count = *size as usize;
                vec![(**element).clone(); count]
            }
            Type::List(element) => vec![(**element).clone(); items.len()],
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
        let mut items = match (names, wanted) {
            (Some(names), Type::Struct(id)) => match self.order_fields(*id, &names, items, span) {
                Some(items) => items,
                None => {
                    return self.poison_of(wanted, span);
                }
            },
            _ => items,
        };
        if open && items.len() < types.len() {
            for ty in &types[items.len()..] {
                items.push(self.default_value(ty, span));
            }
        }
        if items.len() != types.len() {
            let message = format!(
                "{} has {}, {} given",
                self.program.type_name(wanted),
                counted(types.len(), "element", "elements"),
                counted(items.len(), "was", "were")
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

    /// Returns the values of `{k = a}` in the order of the struct's fields.
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
        let mut open = false;
        for (name, item) in names.iter().zip(items) {
            if item.ty == Type::Default && &**name == "..." {
                open = true;
                continue;
            }
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
        if open {
            let defaults = self.default_fields(id, span);
            for (slot, default) in slots.iter_mut().zip(defaults) {
                slot.get_or_insert(default);
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
