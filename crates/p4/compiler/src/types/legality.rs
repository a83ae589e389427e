//! Checks rules about types that go beyond the types of expressions: the types of parameters, variables and arguments,
//! and the operands of comparisons and divisions. Also checks that a parser can end (P4_16 language specification
//! 1.2.5, sections 6.8, 7.2, 8, 12, 13, 14).

use std::collections::HashMap;

use num_traits::{Signed as _, Zero as _};

use super::Type;
use super::check::{Checker, Place};
use crate::ir::{
    BinaryOp, Builtin, Callee, Direction, Expr, ExprKind, InstanceKind, Parser, StructKind, Target,
    Transition, name_annotation,
};
use crate::source::Span;
use crate::spelling::wrong_count;
use crate::syntax::ast;

impl Checker<'_> {
    /// Checks a parameter's type: a type without values at run time cannot be copied in or out.
    pub fn legal_parameter(&mut self, parameter: &ast::Parameter, ty: &Type) {
        if let Type::Extern(id, given) = ty
            && given.len() != self.externs[*id].type_parameters.len()
        {
            let wanted = self.externs[*id].type_parameters.len();
            let name = &self.program.extern_names[*id];
            let message = wrong_count(name, "type ", wanted, given.len());
            self.sink
                .error("E0402", parameter.ty.span, message)
                .help("a parameter's type is written as a whole");
        }
        if parameter.direction == Direction::None {
            return;
        }
        let copied = !matches!(
            ty,
            Type::Extern(..)
                | Type::String
                | Type::Int
                | Type::MatchKind
                | Type::Control(_)
                | Type::Parser(_)
                | Type::ControlKind(..)
                | Type::ParserKind(..)
                | Type::Package(..)
        );
        if !copied {
            let message = format!(
                "a parameter of type {} cannot have a direction",
                self.program.type_name(ty)
            );
            self.sink
                .error("E0422", parameter.name.span, message)
                .help("leave `in`, `out` or `inout` out: it is known at compile time");
        }
    }

    pub fn legal_action_parameters(&mut self, parameters: &[usize]) {
        self.legal_parameter_names(parameters);
        for id in parameters {
            let var = &self.program.vars[*id];
            let is_data = !matches!(
                var.ty,
                Type::Extern(..)
                    | Type::String
                    | Type::Int
                    | Type::Control(_)
                    | Type::Parser(_)
                    | Type::ControlKind(..)
                    | Type::ParserKind(..)
                    | Type::Package(..)
            );
            if is_data || var.direction != Direction::None {
                continue;
            }
            let message = format!(
                "an action's parameter cannot have the type {}",
                self.program.type_name(&var.ty)
            );
            self.sink
                .error("E0422", var.span, message)
                .help("an action reaches instances of its control by their names");
        }
    }

    /// Checks that no two parameters of an action have the same control-plane name. This name is the `@name` or, if
    /// there is none, the parameter's own name.
    fn legal_parameter_names(&mut self, parameters: &[usize]) {
        let mut firsts: HashMap<String, Span> = HashMap::new();
        for id in parameters {
            let var = &self.program.vars[*id];
            let own = name_annotation(&var.annotations);
            let name = own.unwrap_or_else(|| var.name.to_string());
            let first = *firsts.entry(name.clone()).or_insert(var.span);
            // Another check reports two parameters that have the same name in the source.
            if first != var.span && !var.annotations.is_empty() {
                let message = format!("two parameters have the control plane's name `{name}`");
                self.sink
                    .error("E0702", var.span, message)
                    .note_at(first, "the other one")
                    .help("give one of them another @name");
            }
        }
    }

    /// Reports parameters whose type is a control, a parser or a package, none of which is a value. There is one
    /// exception: a constructor parameter may have a control or parser type that is declared without a body
    /// (`control C(...);`).
    pub fn legal_block_parameters(&mut self, apply: &[usize], constructor: &[usize]) {
        for (id, is_constructor) in apply
            .iter()
            .map(|id| (id, false))
            .chain(constructor.iter().map(|id| (id, true)))
        {
            let var = &self.program.vars[*id];
            let problem = match var.ty {
                Type::Control(_) | Type::Parser(_) => true,
                Type::Package(..) => true,
                Type::ControlKind(..) | Type::ParserKind(..) => !is_constructor,
                _ => false,
            };
            if problem && var.direction == Direction::None {
                let message = format!("a parameter cannot be {}", self.program.type_name(&var.ty));
                self.sink.error("E0436", var.span, message).help(
                    "give it to the constructor, by a type without a body: `control C(...);`",
                );
            }
        }
    }

    pub fn legal_variable(&self, ty: &Type) -> bool {
        !matches!(
            ty,
            Type::Int
                | Type::String
                | Type::Void
                | Type::List(_)
                | Type::Extern(..)
                | Type::Control(_)
                | Type::Parser(_)
                | Type::ControlKind(..)
                | Type::ParserKind(..)
                | Type::Package(..)
                | Type::MatchKind
        )
    }

    /// Rejects an instance of a control or parser at top level: only controls, parsers and packages contain such
    /// instances.
    pub fn legal_at_top(&mut self, id: usize, name: &ast::Ident) {
        let what = match self.program.instances[id].kind {
            InstanceKind::Control(_) => "control",
            InstanceKind::Parser(_) => "parser",
            _ => return,
        };
        let message = format!("a {what} cannot be instantiated outside of controls and parsers");
        self.sink
            .error("E0304", name.span, message)
            .help("write it as an argument of the package, or in the control that applies it");
    }

    /// Checks requirements of a call beyond the callee's signature.
    pub fn legal_call(&mut self, call: Expr) -> Expr {
        let ExprKind::Call(inner) = &call.kind else {
            return call;
        };
        match &inner.callee {
            Callee::ExternFunction(name, types) => {
                if &**name == "verify" && !matches!(self.place, Place::Parser | Place::Top) {
                    self.sink
                        .error(
                            "E0309",
                            call.span,
                            "`verify` can be called only in a parser",
                        )
                        .help("use `if` and `exit`, or `assert`");
                }
                // The argument of `recirculate`, `resubmit` and `clone3` says which fields are kept. A number as the
                // argument keeps no field, whatever its width; another check warns of such an argument.
                let keeps_fields = matches!(&**name, "recirculate" | "resubmit" | "clone3");
                if !(keeps_fields && matches!(types[..], [Type::Int])) {
                    self.inferred(types, false, call.span);
                }
                self.no_objects(&inner.arguments.clone());
            }
            Callee::Function(_) => self.no_objects(&inner.arguments.clone()),
            Callee::ExternMethod(object, name) => {
                if let Type::Extern(id, _) = object.ty {
                    let extern_name = self.program.extern_names[id].clone();
                    let arguments = inner.arguments.clone();
                    let (name, ty) = (name.clone(), call.ty.clone());
                    self.packet_call(&extern_name, &name, &arguments, &ty, call.span);
                }
            }
            Callee::Builtin(Builtin::PushFront | Builtin::PopFront, _) => {
                if let Some(Some(count)) = inner.arguments.first() {
                    self.legal_count(count);
                }
            }
            _ => {}
        }
        call
    }

    /// Checks that the number of elements by which a stack is pushed or popped is known and not negative.
    fn legal_count(&mut self, count: &Expr) {
        match &count.kind {
            ExprKind::Int(number) if number.is_negative() => {
                let message = format!("a stack cannot be pushed or popped by {number} elements");
                self.sink
                    .error("E0503", count.span, message)
                    .help("`push_front` and `pop_front` are each other's opposite");
            }
            ExprKind::Int(_) | ExprKind::Poison => {}
            _ => {
                self.sink
                    .error(
                        "E0502",
                        count.span,
                        "how far a stack is pushed or popped must be known at compile time",
                    )
                    .help("use a number or a constant");
            }
        }
    }

    /// A signature as messages print it: names with directions and types.
    pub fn shape(&self, signature: &super::check::Signature) -> String {
        let parameter = |parameter: &super::check::SignatureParameter| {
            let direction = match parameter.direction {
                Direction::None => "",
                Direction::In => "in ",
                Direction::Out => "out ",
                Direction::InOut => "inout ",
            };
            let ty = self.program.type_name(&parameter.ty);
            format!("{direction}{ty} {}", parameter.name)
        };
        let parameters: Vec<String> = signature.parameters.iter().map(parameter).collect();
        format!("{}({})", signature.name, parameters.join(", "))
    }

    pub fn legal_result(&mut self, returns: &Type, method: &ast::Method) {
        if let (Type::Int, Some(written)) = (returns, &method.returns) {
            self.sink
                .error("E0404", written.span, "a method cannot return int")
                .help("give a width: bit<W> or int<W>");
        }
    }

    /// Rejects controls, parsers and packages, which are not values, as arguments.
    fn no_objects(&mut self, arguments: &[Option<Expr>]) {
        let object = arguments.iter().flatten().find(|argument| {
            matches!(
                argument.ty,
                Type::Control(_) | Type::Parser(_) | Type::Package(..)
            )
        });
        if let Some(object) = object {
            let message = format!(
                "an argument cannot be {}",
                self.program.type_name(&object.ty)
            );
            self.sink.error("E0436", object.span, message);
        }
    }

    /// Whether a cast to or from a type that is declared with `type` is legal. Only casts from and to its underlying
    /// type are legal, and casts from a number without a width.
    pub fn legal_newtype_cast(&self, to: &Type, from: &Type) -> bool {
        let below = |ty: &Type| match ty {
            Type::Newtype(id) => Some(self.program.newtypes[*id].ty.clone()),
            _ => None,
        };
        match (below(to), below(from)) {
            (None, None) => true,
            (to_below, from_below) => {
                to_below.as_ref() == Some(from)
                    || from_below.as_ref() == Some(to)
                    || matches!(from, Type::Int)
            }
        }
    }

    /// Rejects type arguments for something that is not generic.
    pub fn no_type_arguments(&mut self, types: &[ast::Type], whose: &str) {
        if let Some(first) = types.first() {
            self.sink
                .error(
                    "E0402",
                    first.span,
                    format!("{whose} has no type parameters"),
                )
                .help("leave `<...>` out");
        }
    }

    pub fn no_arguments(
        &mut self,
        types: &[ast::Type],
        arguments: &[ast::Argument],
        method: &ast::Ident,
    ) {
        self.no_type_arguments(types, &format!("`{}`", method.name));
        if let Some(first) = arguments.first() {
            let message = format!("`{}` takes no arguments", method.name);
            self.sink.error("E0416", first.span, message);
        }
    }

    /// Checks that a value set's elements are data of a known width, and that their number is known.
    pub fn legal_value_set(&mut self, decl: &ast::ValueSet, ty: &Type, size: &Expr) {
        let is_data = !matches!(
            ty,
            Type::Int | Type::String | Type::Void | Type::Extern(..) | Type::Varbit(_)
        );
        if !is_data {
            let message = format!("a value set cannot hold {}", self.program.type_name(ty));
            self.sink
                .error("E0404", decl.ty.span, message)
                .help("it holds bit<W>, int<W>, bool, an enum, or a struct of these");
        }
        if is_data && self.program.width(ty) == Some(0) {
            let message = "a value set cannot hold values of 0 bits";
            self.sink.error("E0404", decl.ty.span, message);
        }
        if !self.is_constant(size) {
            self.sink
                .error(
                    "E0502",
                    size.span,
                    "a value set's size is known at compile time",
                )
                .help("use a number or a constant");
        }
    }

    pub fn legal_element(&mut self, ty: &Type, span: Span) {
        let is_data = !matches!(
            ty,
            Type::Extern(..)
                | Type::Control(_)
                | Type::Parser(_)
                | Type::ControlKind(..)
                | Type::ParserKind(..)
                | Type::Package(..)
                | Type::Void
        );
        if !is_data {
            let message = format!("a tuple cannot hold {}", self.program.type_name(ty));
            self.sink.error("E0404", span, message);
        }
    }

    /// Rejects a type argument that contains the generic type that it is given to; the resulting type would have no
    /// size.
    pub fn contains_itself(&mut self, name: &str, arguments: &[Type], span: Span) -> bool {
        let generic = format!("{name}<");
        let inside = arguments
            .iter()
            .any(|argument| self.program.type_name(argument).contains(&generic));
        if inside {
            let message = format!("`{name}` is given itself as a type argument");
            self.sink.error("E0435", span, message);
        }
        inside
    }

    /// Whether values can have the types inferred for type parameters. Reports the first of these types that no value
    /// can have.
    pub fn inferred(&mut self, types: &[Type], is_constructor: bool, span: Span) -> bool {
        for ty in types {
            let why = match ty {
                Type::Int => "the number has no width, and nothing else gives a width",
                Type::RecordOf(_) => "nothing says which struct `{...}` makes",
                Type::DontCare if is_constructor => "no argument says what it is",
                _ => continue,
            };
            self.sink
                .error(
                    "E0429",
                    span,
                    format!("cannot infer a type argument: {why}"),
                )
                .help("write a width (`8w5`), a cast, or the type: `f<bit<8>>(...)`");
            return false;
        }
        true
    }

    fn packet_call(
        &mut self,
        extern_name: &str,
        method: &str,
        arguments: &[Option<Expr>],
        ty: &Type,
        span: Span,
    ) {
        match (extern_name, method, arguments) {
            ("packet_in", "extract", [Some(header), rest @ ..]) => {
                self.extract_argument(header, !rest.is_empty());
            }
            ("packet_in", "lookahead", _) => {
                let fixed = match ty {
                    Type::Poison | Type::Variable(_) | Type::DontCare => true,
                    ty => self.program.width(ty).is_some(),
                };
                if !fixed {
                    let message = format!(
                        "lookahead needs a type of fixed size, not {}",
                        self.program.type_name(ty)
                    );
                    self.sink.error("E0428", span, message);
                }
            }
            ("packet_out", "emit", [Some(value)]) => {
                let below = self.program.underlying(&value.ty);
                let emitted = matches!(
                    below,
                    Type::Struct(_) | Type::Stack(..) | Type::Poison | Type::Variable(_)
                ) || matches!(below, Type::ListOf(_) | Type::Tuple(_));
                if !emitted {
                    let message = format!(
                        "emit takes headers, found {}",
                        self.program.type_name(&value.ty)
                    );
                    self.sink
                        .error("E0428", value.span, message)
                        .help("make it a field of a header");
                }
            }
            _ => {}
        }
    }

    fn extract_argument(&mut self, header: &Expr, has_size: bool) {
        let id = match header.ty {
            Type::Struct(id) if self.program.structs[id].kind == StructKind::Header => id,
            Type::Poison | Type::DontCare | Type::Variable(_) => return,
            _ => {
                let name = self.program.type_name(&header.ty);
                let help = if matches!(header.ty, Type::Stack(..)) {
                    "extract one element: `stack.next`"
                } else {
                    "a struct is extracted header by header"
                };
                self.sink
                    .error(
                        "E0421",
                        header.span,
                        format!("extract takes a header, found {name}"),
                    )
                    .help(help);
                return;
            }
        };
        let decl = &self.program.structs[id];
        let varbit = decl
            .fields
            .iter()
            .find(|field| matches!(field.ty, Type::Varbit(_)))
            .map(|field| field.span);
        let name = decl.name.clone();
        let second = decl
            .fields
            .iter()
            .filter(|field| matches!(field.ty, Type::Varbit(_)))
            .nth(1)
            .map(|field| field.span);
        if let (Some(first), Some(second)) = (varbit, second) {
            self.sink
                .error(
                    "E0434",
                    header.span,
                    format!("header {name} has more than one varbit field"),
                )
                .note_at(first, "the first one")
                .note_at(second, "another one: where it begins cannot be known")
                .help("split the header in two");
            return;
        }
        match (varbit, has_size) {
            (Some(field), false) => {
                self.sink
                    .error(
                        "E0421",
                        header.span,
                        format!("header {name} has a varbit field: its size is needed"),
                    )
                    .note_at(field, "this field")
                    .help("give its bits as second argument: `extract(h, size)`");
            }
            (None, true) => {
                self.sink
                    .error(
                        "E0421",
                        header.span,
                        format!("header {name} has no varbit field that could have this size"),
                    )
                    .help("leave the second argument out");
            }
            _ => {}
        }
    }

    /// Whether `==` and `!=` are defined for these operands; reports an error if they are not.
    pub fn legal_comparison(&mut self, left: &Expr, right: &Expr, span: Span) -> bool {
        let problem = match &left.ty {
            Type::Extern(..) | Type::Control(_) | Type::Parser(_) | Type::Package(..) => {
                "instances have no value".to_owned()
            }
            Type::ControlKind(..) | Type::ParserKind(..) => "instances have no value".to_owned(),
            Type::Void => "nothing is returned here".to_owned(),
            Type::ApplyResult(_) => "the result of `apply` has no value".to_owned(),
            Type::ActionRun(_) => "`action_run` stands only in a `switch`".to_owned(),
            Type::ListOf(_) | Type::RecordOf(_)
                if matches!(right.ty, Type::ListOf(_) | Type::RecordOf(_)) =>
            {
                "these lists have no type".to_owned()
            }
            _ => return true,
        };
        self.sink
            .error(
                "E0430",
                span,
                format!("these cannot be compared: {problem}"),
            )
            .note_at(left.span, format!("a {}", self.program.type_name(&left.ty)));
        false
    }

    /// Checks the operands of `/` and `%`, which are defined only for non-negative numbers.
    pub fn legal_division(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) {
        if !matches!(op, BinaryOp::Div | BinaryOp::Mod) {
            return;
        }
        let what = if op == BinaryOp::Div {
            "division"
        } else {
            "modulo"
        };
        let signed = matches!(
            self.program.underlying(&left.ty),
            Type::Bits { signed: true, .. }
        );
        let negative =
            |expr: &Expr| matches!(&expr.kind, ExprKind::Int(value) if value.is_negative());
        if signed {
            let message = format!(
                "{what} is not defined for {}",
                self.program.type_name(&left.ty)
            );
            self.sink
                .error("E0431", span, message)
                .help("cast the operands to bit<W> where they are not negative");
        } else if negative(left) || negative(right) {
            self.sink.error(
                "E0431",
                span,
                format!("{what} is not defined for negative numbers"),
            );
        } else if matches!(&right.kind, ExprKind::Int(value) if value.is_zero())
            && !matches!(left.kind, ExprKind::Int(_))
        {
            self.sink.error("E0501", span, format!("{what} by zero"));
        }
    }

    /// Reports a parser that can never end, which would drop every packet.
    pub fn reaches_end(&mut self, parser: &Parser) {
        let mut seen = vec![false; parser.states.len()];
        let mut open = vec![parser.start];
        while let Some(at) = open.pop() {
            let Some(state) = parser.states.get(at) else {
                return;
            };
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let targets: Vec<&Target> = match &state.transition {
                Transition::To(target) => vec![target],
                Transition::Select(_, cases) => {
                    let all = |keys: &[Expr]| {
                        keys.iter()
                            .all(|key| matches!(key.kind, ExprKind::DontCare))
                    };
                    if !cases.iter().any(|(keys, ..)| all(keys)) {
                        // The parser ends for a value that no case matches.
                        return;
                    }
                    cases.iter().map(|(_, target, _)| target).collect()
                }
            };
            for target in targets {
                match target {
                    Target::State(next) => open.push(*next),
                    _ => return,
                }
            }
        }
        let message = format!(
            "parser `{}` never reaches `accept` or `reject`",
            parser.name
        );
        self.sink
            .error("E0314", parser.span, message)
            .help("let one of its states go to `accept`");
    }
}
