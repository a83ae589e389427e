//! Assignments and calls as straight-line code; inlining of functions and actions.

use bmv2_json::Value;
use num_bigint::BigInt;

use super::expression::has_call;
use super::place::{Place, hex, operation, parameter, plain_hex};
use super::{Binding, Lower};
use crate::ir::{
    self, BinaryOp, Builtin, Call, Callee, Direction, Expr, ExprKind, Statement, StatementKind,
    VarId,
};
use crate::limits;
use crate::source::Span;
use crate::types::Type;
use crate::types::const_eval::mask;

impl Lower<'_> {
    /// `place = value` for a scalar; a bool's value is a truth value.
    pub fn store(&mut self, place: &Place, value: Value, span: Span) {
        let (target, ty) = self.read_raw(place);
        let value = match &ty {
            Some(ty) if self.is_bool(ty) => super::expression::as_data(value),
            _ => value,
        };
        let op = if matches!(ty, Some(Type::Varbit(_))) {
            "assign_VL"
        } else {
            "assign"
        };
        // A place that is computed is wrapped as a value is; simple fields are not.
        self.emit(op, vec![parameter(target), parameter(value)], span);
    }

    /// `place = expression`, for every type.
    pub fn assign(&mut self, place: &Place, expr: &Expr) {
        let expr = &self.resolve(expr);
        let span = expr.span;
        match place {
            Place::Members(members) => self.assign_members(members, expr),
            Place::Header { .. } | Place::Element { .. } | Place::Last { .. } => {
                self.assign_header(place, expr)
            }
            Place::Union { .. } | Place::Stack { .. } => match self.place(expr) {
                Some(source) => self.copy(place, &source, span),
                None => self.assign_elements(place, expr),
            },
            _ if matches!(expr.ty, Type::Varbit(_)) => match self.place(expr) {
                Some(source) => self.copy(place, &source, span),
                None => self.unsupported(span, "this varbit value"),
            },
            _ => {
                let value = self.value(expr);
                self.store(place, value, span);
            }
        }
    }

    fn assign_elements(&mut self, place: &Place, expr: &Expr) {
        let (
            Place::Stack {
                name,
                element: Type::Struct(id),
                ..
            },
            ExprKind::List(items),
        ) = (place, &expr.kind)
        else {
            return self.unsupported(expr.span, "this assignment");
        };
        for (at, item) in items.iter().enumerate() {
            let element = Place::Header {
                name: format!("{name}[{at}]"),
                id: *id,
            };
            self.assign(&element, item);
        }
    }

    fn assign_members(&mut self, members: &[Place], expr: &Expr) {
        if let ExprKind::Mux(condition, yes, no) = &expr.kind {
            let whole = Place::Members(members.to_vec());
            return self.assign_either(&whole, condition, yes, no);
        }
        let ExprKind::List(items) = &expr.kind else {
            match self.place(expr) {
                Some(source) => self.copy(&Place::Members(members.to_vec()), &source, expr.span),
                None => self.unsupported(expr.span, "this value of a struct"),
            }
            return;
        };
        // `s = {s.b, s.a}`: everything is read before anything is written.
        let whole = Place::Members(members.to_vec());
        let reads_itself = items.len() > 1 && items.iter().any(|item| self.reads(item, &whole));
        if !reads_itself {
            members
                .iter()
                .zip(items)
                .for_each(|(member, item)| self.assign(member, item));
            return;
        }
        let temps: Vec<Place> = items
            .iter()
            .map(|item| {
                let temp = self.temp("tmp", &item.ty, item.span);
                self.assign(&temp, item);
                temp
            })
            .collect();
        members
            .iter()
            .zip(&temps)
            .for_each(|(member, temp)| self.copy(member, temp, expr.span));
    }

    fn assign_either(&mut self, place: &Place, condition: &Expr, yes: &Expr, no: &Expr) {
        let value = self.value(condition);
        self.branch(
            value,
            condition.span,
            |lower| lower.assign(place, yes),
            |lower| lower.assign(place, no),
        );
    }

    /// Whether an expression reads a place.
    fn reads(&mut self, expr: &Expr, place: &Place) -> bool {
        if matches!(
            expr.kind,
            ExprKind::Var(_) | ExprKind::Field(..) | ExprKind::Index(..)
        ) && !has_call(expr)
        {
            return self
                .place(expr)
                .is_some_and(|source| self.overlap(&source, place));
        }
        let mut parts = Vec::new();
        super::expression::map_operands(&expr.kind, &mut |inner| {
            parts.push(inner.clone());
            inner.clone()
        });
        parts.iter().any(|part| self.reads(part, place))
    }

    fn assign_header(&mut self, place: &Place, expr: &Expr) {
        let (target, _) = self.read_raw(place);
        match &expr.kind {
            ExprKind::InvalidHeader => {
                self.emit("remove_header", vec![parameter(target)], expr.span)
            }
            ExprKind::List(items) => {
                let fields = self.header_members(place);
                self.emit("add_header", vec![parameter(target)], expr.span);
                self.assign_members(
                    &fields,
                    &Expr {
                        kind: ExprKind::List(items.clone()),
                        ..expr.clone()
                    },
                );
            }
            ExprKind::Mux(condition, yes, no) => self.assign_either(place, condition, yes, no),
            _ => match self.place(expr) {
                Some(source) => self.copy(place, &source, expr.span),
                None => self.unsupported(expr.span, "this value of a header"),
            },
        }
    }

    fn header_members(&mut self, place: &Place) -> Vec<Place> {
        let (id, count) = match place {
            Place::Header { id, .. } | Place::Element { id, .. } | Place::Last { id, .. } => {
                (*id, self.program.structs[*id].fields.len())
            }
            _ => return Vec::new(),
        };
        (0..count)
            .filter_map(|index| self.member_of(place.clone(), id, index))
            .collect()
    }

    fn member_of(&mut self, place: Place, id: usize, index: usize) -> Option<Place> {
        // The same rule as for `header.field` in the source.
        let ty = Type::Struct(id);
        let base = self.hold(place, ty, Span::default());
        let kind = ExprKind::Field(Box::new(base), index);
        let ty = self.program.structs[id].fields[index].ty.clone();
        self.place(&Expr {
            kind,
            ty,
            span: Span::default(),
        })
    }

    /// `target = source`, both places of one type.
    pub fn copy(&mut self, target: &Place, source: &Place, span: Span) {
        match (target, source) {
            (Place::Members(targets), Place::Members(sources)) => {
                targets
                    .iter()
                    .zip(sources)
                    .for_each(|(target, source)| self.copy(target, source, span));
            }
            (Place::Union { .. }, _) => self.copy_whole("assign_union", target, source, span),
            (Place::Stack { element, .. }, _) if self.program.is_union(element) => {
                self.copy_whole("assign_union_stack", target, source, span)
            }
            (Place::Stack { .. }, _) => {
                self.copy_whole("assign_header_stack", target, source, span)
            }
            (Place::Header { .. } | Place::Element { .. } | Place::Last { .. }, _) => {
                self.copy_whole("assign_header", target, source, span)
            }
            _ => {
                let value = self.read(source);
                self.store(target, value, span);
            }
        }
    }

    fn copy_whole(&mut self, op: &str, target: &Place, source: &Place, span: Span) {
        let (target, source) = (self.read_raw(target).0, self.read_raw(source).0);
        self.emit(op, vec![parameter(target), parameter(source)], span);
    }

    /// `left = right` as it stands in the source; the left side may be a slice.
    pub fn assign_statement(&mut self, left: &Expr, right: &Expr, span: Span) {
        let right = &Expr {
            span,
            ..self.resolve(right)
        };
        if let ExprKind::Slice(inner, high, low) = &left.kind {
            return self.assign_slice(inner, *high, *low, right, span);
        }
        match self.place(left) {
            Some(place) => self.assign(&place, right),
            None => self.unsupported(left.span, "an assignment to this"),
        }
    }

    fn assign_slice(&mut self, inner: &Expr, high: u32, low: u32, right: &Expr, span: Span) {
        let width = self.program.width(&inner.ty).unwrap_or(high + 1);
        let bits = (mask(high - low + 1)) << low;
        let keep: BigInt = mask(width) ^ &bits;
        let value = self.data(right);
        // A slice of a slice is written through the inner one.
        let old = self.value(inner);
        let kept = operation("&", Some(old), Some(hex(&keep, width)));
        let shifted = if low == 0 {
            value
        } else {
            operation("<<", Some(value), Some(plain_hex(u64::from(low))))
        };
        let new = operation("&", Some(shifted), Some(hex(&bits, width)));
        let merged = operation("|", Some(kept), Some(new));
        let merged = self.clamp_signed(merged, &inner.ty);
        if let ExprKind::Slice(outer, outer_high, outer_low) = &inner.kind {
            let temp = self.temp("tmp", &inner.ty, span);
            self.store(&temp, merged, span);
            let value = self.hold(temp, inner.ty.clone(), span);
            self.assign_slice(outer, *outer_high, *outer_low, &value, span);
            return;
        }
        match self.place(inner) {
            Some(place) => self.store(&place, merged, span),
            None => self.unsupported(span, "an assignment to this"),
        }
    }

    fn clamp_signed(&self, value: Value, ty: &Type) -> Value {
        match self.program.underlying(ty) {
            Type::Bits { signed: true, .. } => self.clamp(value, ty),
            _ => value,
        }
    }

    /// A call whose result is used as an operand.
    pub fn call_value(&mut self, expr: &Expr) -> Value {
        let ExprKind::Call(call) = &expr.kind else {
            return plain_hex(0);
        };
        match &call.callee {
            Callee::Builtin(Builtin::IsValid, object) => self.validity(object),
            Callee::Function(id) => self.function_value(*id, &call.arguments, expr.span),
            Callee::ExternMethod(object, method) => self.extern_method_value(object, method, expr),

            _ => {
                self.unsupported(expr.span, "this call in an expression");
                plain_hex(0)
            }
        }
    }

    fn validity(&mut self, object: &Expr) -> Value {
        match self.place(object) {
            Some(Place::Header { name, .. }) => operation(
                "d2b",
                None,
                Some(Value::Field((name, "$valid$".to_owned()))),
            ),
            Some(Place::Union { name, .. }) => {
                operation("valid_union", None, Some(Value::HeaderUnion(name)))
            }
            Some(place @ (Place::Element { .. } | Place::Last { .. })) => {
                let (header, _) = self.read_raw(&place);
                operation("valid", None, Some(header))
            }
            _ => {
                self.unsupported(object.span, "isValid() of this");
                Value::Bool(false)
            }
        }
    }

    /// A call whose result is a struct, header or the like.
    pub fn call_place(&mut self, expr: &Expr) -> Option<Place> {
        let ExprKind::Call(call) = &expr.kind else {
            return None;
        };
        match &call.callee {
            Callee::Function(id) => {
                let result = self.temp(
                    "ret",
                    &self.program.functions[*id].returns.clone(),
                    expr.span,
                );
                self.inline_function(*id, &call.arguments, Some(result.clone()), expr.span);
                Some(result)
            }
            Callee::ExternMethod(_, method) if &**method == "lookahead" => {
                self.lookahead(&expr.ty, expr.span)
            }
            _ => None,
        }
    }

    fn function_value(&mut self, id: usize, arguments: &[Option<Expr>], span: Span) -> Value {
        let function = &self.program.functions[id];
        // A body that is one `return` needs no storage for its result.
        if let Some((StatementKind::Return(Some(result)), rest)) = function
            .body
            .split_last()
            .map(|(last, rest)| (&last.kind, rest))
            && !rest.iter().any(contains_return)
            && function.parameters.iter().all(|id| {
                matches!(
                    self.program.vars[*id].direction,
                    Direction::In | Direction::None
                )
            })
        {
            let (result, rest) = (result.clone(), rest.to_vec());
            let mut value = plain_hex(0);
            self.with_arguments(&function.parameters, arguments, true, span, |lower| {
                lower.statements(&rest);
                let resolved = lower.resolve(&result);
                value = lower.value(&resolved);
            });
            return value;
        }
        let result = self.temp("ret", &function.returns.clone(), span);
        self.inline_function(id, arguments, Some(result.clone()), span);
        self.read(&result)
    }

    fn inline_function(
        &mut self,
        id: usize,
        arguments: &[Option<Expr>],
        result: Option<Place>,
        span: Span,
    ) {
        let function = &self.program.functions[id];
        self.with_arguments(&function.parameters, arguments, true, span, |lower| {
            let end = lower.new_label();
            let outer = lower.return_to.replace((end, result));
            lower.statements(&function.body);
            lower.return_to = outer;
            lower.set_label(end);
        });
    }

    fn inline_action(&mut self, id: usize, arguments: &[Option<Expr>], span: Span) {
        let action = &self.program.actions[id];
        self.with_arguments(&action.parameters, arguments, false, span, |lower| {
            let end = lower.new_label();
            let outer = lower.return_to.replace((end, None));
            lower.statements(&action.body);
            lower.return_to = outer;
            lower.set_label(end);
        });
    }

    /// Binds parameters, runs the body as straight-line code, copies out.
    ///
    /// `isolated`: the body reaches nothing of the caller but its parameters (a function, not an
    /// action), so that what it only reads need not be copied.
    fn with_arguments(
        &mut self,
        parameters: &[VarId],
        arguments: &[Option<Expr>],
        isolated: bool,
        span: Span,
        body: impl FnOnce(&mut Self),
    ) {
        if self.depth >= limits::INLINE_DEPTH {
            self.sink.error(
                "E0603",
                span,
                format!("calls are nested more than {} deep", limits::INLINE_DEPTH),
            );
            return;
        }
        let writes = parameters.iter().any(|id| {
            matches!(
                self.program.vars[*id].direction,
                Direction::Out | Direction::InOut
            )
        });
        let mut copies: Vec<(Place, Place)> = Vec::new();
        let mut bound = Vec::new();
        for (parameter, argument) in parameters.iter().zip(arguments) {
            let binding = self.bind_argument(
                *parameter,
                argument.as_ref(),
                isolated && !writes,
                &mut copies,
            );
            bound.push((*parameter, binding));
        }
        let saved: Vec<(VarId, Option<Binding>)> = bound
            .into_iter()
            .map(|(id, binding)| (id, self.env.insert(id, binding)))
            .collect();
        let straight = std::mem::replace(&mut self.straight, true);
        // A function's variables are nobody's in particular: they have no control in their names.
        let path = self.path.clone();
        if isolated {
            self.path.clear();
        }
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.path = path;
        self.straight = straight;
        for (target, source) in copies {
            self.copy(&target, &source, span);
        }
        for (id, before) in saved {
            if let Some(before) = before {
                self.env.insert(id, before);
            }
        }
    }

    fn bind_argument(
        &mut self,
        parameter: VarId,
        argument: Option<&Expr>,
        by_value: bool,
        copies: &mut Vec<(Place, Place)>,
    ) -> Binding {
        let var = &self.program.vars[parameter];
        let Some(argument) = argument else {
            return Binding::Place(self.temp(&var.name, &var.ty, var.span));
        };
        let argument = self.resolve(argument);
        if let Some(object) = self.object(&argument) {
            return Binding::Object(object);
        }
        match var.direction {
            Direction::In | Direction::None => self.bind_input(var, &argument, by_value),
            Direction::Out | Direction::InOut => {
                let local = self.temp(&var.name, &var.ty, var.span);
                if let ExprKind::Slice(..) = argument.kind {
                    self.unsupported(argument.span, "a slice as an `out` or `inout` argument");
                    return Binding::Place(local);
                }
                let Some(place) = self.place(&argument) else {
                    self.unsupported(argument.span, "this argument");
                    return Binding::Place(local);
                };
                if var.direction == Direction::InOut {
                    self.copy(&local, &place, argument.span);
                } else {
                    self.invalidate(&local, argument.span);
                }
                copies.push((place, local.clone()));
                Binding::Place(local)
            }
        }
    }

    fn bind_input(&mut self, var: &ir::Var, argument: &Expr, by_value: bool) -> Binding {
        let is_constant = matches!(
            argument.kind,
            ExprKind::Int(_)
                | ExprKind::Bool(_)
                | ExprKind::Str(_)
                | ExprKind::Error(_)
                | ExprKind::Member(..)
        );
        if is_constant {
            return Binding::Constant(argument.clone());
        }
        let scalar = !matches!(
            self.program.underlying(&var.ty),
            Type::Struct(_)
                | Type::Tuple(_)
                | Type::Stack(..)
                | Type::Varbit(_)
                | Type::Variable(_)
        );
        if by_value && scalar {
            let value = self.value(argument);
            if matches!(value, Value::Field(_) | Value::Local(_) | Value::Hexstr(_)) {
                return Binding::Value(value);
            }
            let temp = self.temp(&var.name, &var.ty, var.span);
            self.store(&temp, value, argument.span);
            return Binding::Place(temp);
        }
        if by_value && let Some(place) = self.place(argument) {
            return Binding::Place(place);
        }
        let temp = self.temp(&var.name, &argument.ty.clone(), var.span);
        self.assign(&temp, argument);
        Binding::Place(temp)
    }

    /// What an `out` parameter is at the start: its headers are invalid.
    pub fn invalidate(&mut self, place: &Place, span: Span) {
        for leaf in self.leaves(place) {
            match &leaf {
                Place::Header { name, .. } => {
                    self.emit("remove_header", vec![Value::Header(name.clone())], span)
                }
                Place::Stack {
                    element: Type::Struct(id),
                    size,
                    name,
                } if self.program.is_header(&Type::Struct(*id)) => {
                    for at in 0..*size {
                        self.emit(
                            "remove_header",
                            vec![Value::Header(format!("{name}[{at}]"))],
                            span,
                        );
                    }
                }
                Place::Union { name, id } => {
                    let members: Vec<String> = self.program.structs[*id]
                        .fields
                        .iter()
                        .map(|field| format!("{name}.{}", field.name))
                        .collect();
                    members.into_iter().for_each(|member| {
                        self.emit("remove_header", vec![Value::Header(member)], span)
                    });
                }
                _ => {}
            }
        }
    }

    /// A call that stands as a statement, in straight-line code.
    pub fn call_statement(&mut self, expr: &Expr) {
        let ExprKind::Call(call) = &expr.kind else {
            return;
        };
        let Call { callee, arguments } = &**call;
        match callee {
            Callee::Function(id) => {
                let returns = self.program.functions[*id].returns.clone();
                let result = (returns != Type::Void).then(|| self.temp("ret", &returns, expr.span));
                self.inline_function(*id, arguments, result, expr.span);
            }
            Callee::Action(id) => {
                self.called_action(*id);
                self.inline_action(*id, arguments, expr.span);
            }
            Callee::ExternFunction(name, types) => {
                self.extern_function(name, types, arguments, expr.span)
            }
            Callee::ExternMethod(object, method) => {
                self.extern_method(object, method, arguments, expr.span)
            }
            Callee::Builtin(builtin, object) => {
                self.builtin(*builtin, object, arguments, expr.span)
            }
            Callee::ApplyTable(_) | Callee::ApplyBlock(_) => {
                self.unsupported(expr.span, "apply() here")
            }
        }
    }

    fn builtin(&mut self, builtin: Builtin, object: &Expr, arguments: &[Option<Expr>], span: Span) {
        let Some(place) = self.place(object) else {
            return self.unsupported(span, "a method of this");
        };
        let (target, _) = self.read_raw(&place);
        let mut parameters = vec![parameter(target)];
        let op = match builtin {
            Builtin::SetValid => "add_header",
            Builtin::SetInvalid => "remove_header",
            Builtin::PushFront => "push",
            Builtin::PopFront => "pop",
            Builtin::IsValid => return,
        };
        if let Some(Some(count)) = arguments.first() {
            let count = self.resolve(count);
            match &count.kind {
                ExprKind::Int(value) => parameters.push(hex(value, 8)),
                _ => drop(self.sink.error(
                    "E0502",
                    count.span,
                    "the number of elements must be known at compile time",
                )),
            }
        }
        self.emit(op, parameters, span);
    }

    /// Statements as straight-line code or, in a control's apply block, as nodes.
    pub fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        let span = statement.span;
        match &statement.kind {
            StatementKind::Declare(id, Some(init)) if !self.straight => {
                let init = self.hoist(init);
                self.declare(*id, Some(&init));
            }
            StatementKind::Declare(id, init) => self.declare(*id, init.as_ref()),
            StatementKind::Block(inner) => self.statements(inner),
            StatementKind::Assign(left, right) if self.straight || !applies_table(right) => {
                self.assign_statement(left, right, span)
            }
            StatementKind::Call(call) if self.straight || !applies(call) => {
                self.call_statement(call)
            }
            _ if !self.straight => self.control_statement(statement),
            StatementKind::If(condition, yes, no) => {
                let condition = self.resolve(condition);
                match condition.kind {
                    ExprKind::Bool(true) => self.statements(yes),
                    ExprKind::Bool(false) => self.statements(no),
                    _ => {
                        let value = self.value(&condition);
                        self.branch(
                            value,
                            span,
                            |lower| lower.statements(yes),
                            |lower| lower.statements(no),
                        );
                    }
                }
            }
            StatementKind::SwitchValue(subject, cases) => {
                self.switch_straight(subject, cases, span)
            }
            StatementKind::Return(value) => {
                let Some((label, result)) = self.return_to.clone() else {
                    return;
                };
                if let (Some(value), Some(result)) = (value, result) {
                    self.assign(&result, value);
                }
                self.jump(label, span);
            }
            StatementKind::Exit => {
                self.emit("exit", Vec::new(), span);
                self.jump(self.exit_to, span);
            }
            StatementKind::SwitchAction(..)
            | StatementKind::Assign(..)
            | StatementKind::Call(_) => self.unsupported(span, "this statement here"),
        }
    }

    pub fn declare(&mut self, id: VarId, init: Option<&Expr>) {
        let var = &self.program.vars[id];
        let base = if self.path.is_empty() {
            var.name.to_string()
        } else {
            format!("{}.{}", self.path, var.name)
        };
        let place = self.temp(&base, &var.ty, var.span);
        self.env.insert(id, Binding::Place(place.clone()));
        match init {
            Some(init) => self.assign(&place, init),
            None => self.invalidate(&place, var.span),
        }
    }

    /// `subject == label` for any of a case's labels.
    pub fn case_condition(&mut self, subject: &Expr, labels: &[Option<Expr>]) -> Option<Value> {
        let equal = |lower: &mut Self, label: &Expr| {
            let (left, right) = (Box::new(subject.clone()), Box::new(label.clone()));
            lower.value(&Expr {
                kind: ExprKind::Binary(BinaryOp::Eq, left, right),
                ty: Type::Bool,
                span: label.span,
            })
        };
        let tests: Option<Vec<Value>> = labels
            .iter()
            .map(|label| label.as_ref().map(|label| equal(self, label)))
            .collect();
        tests?
            .into_iter()
            .reduce(|a, b| operation("or", Some(a), Some(b)))
    }

    /// Cases with the default last, since it holds only where no label does.
    pub fn ordered_cases(
        cases: &[(Vec<Option<Expr>>, Vec<Statement>)],
    ) -> Vec<(Vec<Option<Expr>>, Vec<Statement>)> {
        let is_default =
            |case: &(Vec<Option<Expr>>, Vec<Statement>)| case.0.iter().any(Option::is_none);
        let mut out: Vec<_> = cases
            .iter()
            .filter(|case| !is_default(case))
            .cloned()
            .collect();
        out.extend(cases.iter().filter(|case| is_default(case)).cloned());
        out
    }

    fn switch_straight(
        &mut self,
        subject: &Expr,
        cases: &[(Vec<Option<Expr>>, Vec<Statement>)],
        span: Span,
    ) {
        let subject = self.stable(subject);
        let ordered = Self::ordered_cases(cases);
        self.switch_rest(&subject, &ordered, span);
    }

    fn switch_rest(
        &mut self,
        subject: &Expr,
        cases: &[(Vec<Option<Expr>>, Vec<Statement>)],
        span: Span,
    ) {
        let Some(((labels, body), rest)) = cases.split_first() else {
            return;
        };
        match self.case_condition(subject, labels) {
            Some(condition) => self.branch(
                condition,
                span,
                |lower| lower.statements(body),
                |lower| lower.switch_rest(subject, rest, span),
            ),
            None => self.statements(body),
        }
    }

    /// An expression that keeps its value: a variable that holds it.
    pub fn stable(&mut self, expr: &Expr) -> Expr {
        let expr = self.resolve(expr);
        let temp = self.temp("switch", &expr.ty, expr.span);
        self.assign(&temp, &expr);
        self.hold(temp, expr.ty, expr.span)
    }
}

fn contains_return(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(_) => true,
        StatementKind::Block(inner) => inner.iter().any(contains_return),
        StatementKind::If(_, yes, no) => yes.iter().chain(no).any(contains_return),
        StatementKind::SwitchValue(_, cases) => {
            cases.iter().flat_map(|(_, body)| body).any(contains_return)
        }
        StatementKind::SwitchAction(_, cases) => {
            cases.iter().flat_map(|(_, body)| body).any(contains_return)
        }
        _ => false,
    }
}

/// Whether a table's application stands inside an expression.
pub fn applies_table(expr: &Expr) -> bool {
    if let ExprKind::Hit(..) = expr.kind {
        return true;
    }
    let mut found = false;
    super::expression::map_operands(&expr.kind, &mut |inner| {
        found |= applies_table(inner);
        inner.clone()
    });
    found
}

fn applies(call: &Expr) -> bool {
    match &call.kind {
        ExprKind::Call(call) => {
            matches!(call.callee, Callee::ApplyTable(_) | Callee::ApplyBlock(_))
                || call.arguments.iter().flatten().any(applies_table)
        }
        other => matches!(other, ExprKind::Hit(..)),
    }
}
