//! Lowers calls to primitives; functions and actions are inlined.

use bmv2_json::Value;

use super::copy::CopyOut;
use super::expression::has_call;
use super::place::{Place, hex, operation, parameter, plain_hex};
use super::{Binding, Lower};
use crate::ir::{self, Builtin, Call, Callee, Direction, Expr, ExprKind, StatementKind, VarId};
use crate::limits;
use crate::source::Span;
use crate::types::Type;

impl Lower<'_> {
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
            Some(place @ (Place::Union { .. } | Place::UnionElement { .. })) => {
                let (union, _) = self.read_raw(&place);
                operation("valid_union", None, Some(union))
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

    /// Lowers a call whose result is a struct, a header or another aggregate, and returns where the result is stored.
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
        // A body whose only `return` is its last statement needs no storage for its result.
        if let Some((StatementKind::Return(Some(result)), rest)) = function
            .body
            .split_last()
            .map(|(last, rest)| (&last.kind, rest))
            && !super::statement::contains_return(rest)
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
            let outer = lower.code.return_to.replace((end, result));
            lower.statements(&function.body);
            lower.code.return_to = outer;
            lower.set_label(end);
        });
    }

    fn inline_action(&mut self, id: usize, arguments: &[Option<Expr>], span: Span) {
        let action = &self.program.actions[id];
        self.with_arguments(&action.parameters, arguments, false, span, |lower| {
            let end = lower.new_label();
            let outer = lower.code.return_to.replace((end, None));
            lower.statements(&action.body);
            lower.code.return_to = outer;
            lower.set_label(end);
        });
    }

    /// Binds the parameters, lowers the body to primitives, and copies the results out.
    ///
    /// If `isolated` is set (for a function, not for an action), the body reaches nothing of the caller but its
    /// parameters. Then parameters that the body only reads need no copy.
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
                format!(
                    "calls are nested more than {} levels deep",
                    limits::INLINE_DEPTH
                ),
            );
            return;
        }
        if !self.has_room(span) {
            return;
        }
        let writes = parameters.iter().any(|id| {
            matches!(
                self.program.vars[*id].direction,
                Direction::Out | Direction::InOut
            )
        });
        let mut copies: Vec<CopyOut> = Vec::new();
        let mut bound = Vec::new();
        // A call in one argument may change a value that another argument reads.
        let calls = (arguments.iter().flatten()).any(|argument| self.has_changing_call(argument));
        for (parameter, argument) in parameters.iter().zip(arguments) {
            let binding = self.bind_argument(
                *parameter,
                argument.as_ref(),
                isolated && !writes && !calls,
                &mut copies,
            );
            bound.push((*parameter, binding));
        }
        let saved: Vec<(VarId, Option<Binding>)> = bound
            .into_iter()
            .map(|(id, binding)| (id, self.env.insert(id, binding)))
            .collect();
        let straight = std::mem::replace(&mut self.code.is_on, true);
        // A function's variables belong to no control, so their names contain no control's path.
        let path = self.path.clone();
        if isolated {
            self.path.clear();
        }
        self.depth += 1;
        self.copy_outs.of_calls.push(copies.clone());
        body(self);
        self.copy_outs.of_calls.pop();
        self.depth -= 1;
        self.path = path;
        self.code.is_on = straight;
        for copy in &copies {
            self.copy_out(copy, span);
        }
        for (id, before) in saved {
            if let Some(before) = before {
                self.env.insert(id, before);
            }
        }
    }

    /// Whether a call in the expression may change a stored value. A function with only `in` parameters cannot.
    pub fn has_changing_call(&self, expr: &Expr) -> bool {
        if let ExprKind::Call(call) = &expr.kind
            && let Callee::Function(id) = &call.callee
            && self.program.functions[*id].parameters.iter().all(|id| {
                matches!(
                    self.program.vars[*id].direction,
                    Direction::In | Direction::None
                )
            })
        {
            return (call.arguments.iter().flatten())
                .any(|argument| self.has_changing_call(argument));
        }
        has_call(expr)
    }

    fn bind_argument(
        &mut self,
        parameter: VarId,
        argument: Option<&Expr>,
        by_value: bool,
        copies: &mut Vec<CopyOut>,
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
                let Some(target) = self.write_target(&argument) else {
                    self.unsupported(argument.span, "this argument");
                    return Binding::Place(local);
                };
                if var.direction == Direction::InOut {
                    self.copy_in(&local, &target, &argument);
                } else {
                    self.invalidate(&local, argument.span);
                }
                copies.push(CopyOut {
                    target,
                    source: local.clone(),
                });
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

    /// Gives an `out` parameter its initial value: makes its headers invalid.
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
                // An action that only other actions call becomes a part of them and is not registered.
                if self.action_depth == 0 {
                    self.called_action(*id);
                }
                self.action_depth += 1;
                self.inline_action(*id, arguments, expr.span);
                self.action_depth -= 1;
            }
            Callee::ExternFunction(name, types) => {
                let arguments = self.before_later_calls(name, arguments);
                self.extern_function(name, types, &arguments, expr.span)
            }
            // Nothing reads the value of this `lookahead`, but it must still fail if the packet is too short.
            Callee::ExternMethod(_, method) if &**method == "lookahead" => {
                self.lookahead(&expr.ty, expr.span);
            }
            Callee::ExternMethod(object, method) => {
                let arguments = self.before_later_calls(method, arguments);
                self.extern_method(object, method, &arguments, expr.span)
            }
            Callee::Builtin(builtin, object) => {
                self.builtin(*builtin, object, arguments, expr.span)
            }
            Callee::ApplyTable(_) | Callee::ApplyBlock(_) => {
                self.unsupported(expr.span, "apply() here")
            }
        }
    }

    /// Emits `header.setInvalid()`. If the header is a member of a union, the union becomes invalid (P4_16 language
    /// specification, section 8.20).
    pub fn set_invalid(&mut self, place: &Place, span: Span) {
        let (target, _) = self.read_raw(place);
        self.emit("remove_header", vec![parameter(target)], span);
        self.invalidate_rivals(place, span);
    }

    /// If a header is a member of a union, makes the union's other members invalid.
    pub fn invalidate_rivals(&mut self, place: &Place, span: Span) {
        for rival in self.rivals(place) {
            let (target, _) = self.read_raw(&rival);
            self.emit("remove_header", vec![parameter(target)], span);
        }
    }

    fn builtin(&mut self, builtin: Builtin, object: &Expr, arguments: &[Option<Expr>], span: Span) {
        let Some(place) = self.place(object) else {
            return self.unsupported(span, "a method of this");
        };
        if builtin == Builtin::SetInvalid {
            return self.set_invalid(&place, span);
        }
        let (target, _) = self.read_raw(&place);
        let mut parameters = vec![parameter(target)];
        let op = match builtin {
            Builtin::SetValid => "add_header",
            Builtin::PushFront => "push",
            Builtin::PopFront => "pop",
            Builtin::IsValid | Builtin::SetInvalid => return,
        };
        if let Some(Some(count)) = arguments.first() {
            let count = self.resolve(count);
            match &count.kind {
                // A push or pop by more than the stack's size has the same effect as one by the stack's size.
                ExprKind::Int(value) => {
                    let size = self.elements(&place).len().into();
                    parameters.push(hex(value.min(&size), 8));
                }
                _ => drop(self.sink.error(
                    "E0502",
                    count.span,
                    "the number of elements must be known at compile time",
                )),
            }
        }
        self.emit(op, parameters, span);
    }
}
