//! Lowers parsers: their states with operations and transitions. Sub-parsers become states of the parser that calls
//! them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bmv2_json::{
    Expression, ParseState, ParseVset, Parser, ParserOp, ParserOpParameter, Primitive,
    Transition as JsonTransition, Value,
};
use num_traits::ToPrimitive as _;

use super::headers::Architecture;
use super::place::{Place, parameter};
use super::select::SelectKey;
use super::{Binding, BlockInstance, Lower, Object, Stage, qualify};
use crate::ir::{
    self, Callee, Expr, ExprKind, InstanceKind, Statement, StatementKind, Target, Transition,
};
use crate::limits;
use crate::source::Span;
use crate::types::Type;

/// The JSON names of a parser's states, and where its `accept` leads.
struct Exits {
    names: Vec<String>,
    accept: Option<String>,
}

/// The base name of the states that hold the unreachable code after `break` and `continue`.
pub const UNREACHABLE: &str = "$unreachable";

impl Lower<'_> {
    pub fn lower_parser(&mut self, block: &Rc<BlockInstance>, places: &Architecture) {
        self.stage = Stage::Parser;
        let InstanceKind::Parser(id) = block.kind else {
            return;
        };
        let parser = &self.program.parsers[id];
        let bindings = [
            Binding::Object(Object::Packet),
            Binding::Place(places.headers.clone()),
            Binding::Place(places.metadata.clone()),
            Binding::Place(places.standard.clone()),
        ];
        for (parameter, binding) in parser.parameters.iter().zip(bindings) {
            self.env.insert(*parameter, binding);
        }
        self.code.is_on = true;
        let start = self.run_parser(block, parser, None);
        self.code.is_on = false;
        self.drop_unreachable_states(&start);
        self.json.parsers.push(Parser {
            name: "parser".to_owned(),
            id: 0,
            init_state: start,
            parse_states: std::mem::take(&mut self.states.done),
        });
    }

    /// Lowers all states of a parser whose parameters are bound. Returns the name of the first state.
    fn run_parser(
        &mut self,
        block: &BlockInstance,
        parser: &ir::Parser,
        accept: Option<String>,
    ) -> String {
        for (parameter, binding) in &block.arguments {
            self.env.insert(*parameter, binding.clone());
        }
        let outer = std::mem::replace(&mut self.path, block.path.clone());
        self.enter_instances(&block.path, &parser.instances);
        for id in &parser.value_sets {
            self.value_set(*id);
        }
        let prefix = if accept.is_some() {
            format!("{}_", block.path)
        } else {
            String::new()
        };
        let names: Vec<String> = parser
            .states
            .iter()
            .map(|state| self.fresh(&format!("{prefix}{}", state.name)))
            .collect();
        let exits = Exits { names, accept };
        let mut first = exits.names.get(parser.start).cloned().unwrap_or_default();
        if !parser.variables.is_empty() {
            // The initial values of the parser's variables are set before its first state.
            let start = first;
            first = self.fresh(&format!("{start}_init"));
            self.states.current.clone_from(&first);
            for (id, init) in &parser.variables {
                self.declare(*id, init.as_ref());
            }
            self.drain(parser.span);
            if self.states.ops.is_empty() {
                first = start;
            } else {
                self.end_state(
                    Vec::new(),
                    vec![default_transition(Some(start))],
                    parser.span,
                );
            }
        }
        for (state, name) in parser.states.iter().zip(&exits.names) {
            self.states.current.clone_from(name);
            self.state_statements(&state.statements);
            self.drain(state.span);
            self.transition(&state.transition, &exits, state.span);
        }
        self.path = outer;
        first
    }

    fn value_set(&mut self, id: usize) {
        let set = &self.program.value_sets[id];
        let name = ir::name_annotation(&set.annotations).unwrap_or_else(|| set.name.to_string());
        let name = qualify(&self.path, &name);
        if self.json.parse_vsets.iter().any(|known| known.name == name) {
            return;
        }
        let size = self
            .constant(&set.size)
            .and_then(|size| size.to_u64())
            .unwrap_or(0);
        let Some(compressed_bitwidth) = self.program.width(&set.ty) else {
            self.sink.error(
                "E0604",
                set.span,
                "a value set holds values of a fixed width",
            );
            return;
        };
        let json_id = self.json.parse_vsets.len() as u32;
        let max_size = u32::try_from(size).ok();
        self.json.parse_vsets.push(ParseVset {
            name: name.clone(),
            id: json_id,
            compressed_bitwidth,
            max_size,
        });
        self.resources.value_sets.push((name, id, size));
    }

    pub fn end_state(
        &mut self,
        transition_key: Vec<Value>,
        transitions: Vec<JsonTransition>,
        span: Span,
    ) {
        let state = ParseState {
            name: self.states.current.clone(),
            id: self.states.done.len() as u32,
            parser_ops: std::mem::take(&mut self.states.ops),
            transitions,
            transition_key,
            source_info: self.source_info(span),
        };
        self.states.done.push(state);
    }

    /// Moves the collected primitives into the state's operations.
    pub fn drain(&mut self, span: Span) {
        let primitives = self.take_body();
        if let Some(exit) = primitives.iter().find(|primitive| primitive.op == "exit") {
            self.unsupported(span, &format!("`{}` in a parser", exit.op));
        } else if primitives
            .iter()
            .any(|primitive| primitive.op.starts_with("_jump"))
        {
            self.drain_branches(&primitives, span);
        } else {
            for primitive in primitives {
                self.push_operation(primitive);
            }
        }
    }

    pub fn push_operation(&mut self, primitive: Primitive) {
        let source_info = primitive.source_info.clone();
        let own = match primitive.op.as_str() {
            "assign" => Some("set"),
            "verify" => Some("verify"),
            _ => None,
        };
        let op = if let Some(op) = own {
            let parameters = primitive
                .parameters
                .into_iter()
                .map(ParserOpParameter::Value)
                .collect();
            ParserOp {
                parameters,
                op: op.to_owned(),
                source_info,
            }
        } else {
            ParserOp {
                parameters: vec![ParserOpParameter::Primitive(primitive)],
                op: "primitive".to_owned(),
                source_info,
            }
        };
        self.states.ops.push(op);
    }

    fn operation(&mut self, op: &str, parameters: Vec<Value>, span: Span) {
        self.drain(span);
        for parameter in &parameters {
            self.check_depth(parameter, span);
        }
        let parameters = parameters
            .into_iter()
            .map(ParserOpParameter::Value)
            .collect();
        let source_info = self.source_info(span);
        self.states.ops.push(ParserOp {
            parameters,
            op: op.to_owned(),
            source_info,
        });
    }

    pub fn state_statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Block(inner) => self.state_statements(inner),
                StatementKind::If(condition, yes, no) => {
                    self.state_if(condition, yes, no, statement.span)
                }
                StatementKind::For(whole) => self.state_loop(whole, statement.span),
                StatementKind::Break => self.leave_state_loop(true, statement.span),
                StatementKind::Continue => self.leave_state_loop(false, statement.span),
                StatementKind::Call(Expr {
                    kind: ExprKind::Call(call),
                    ..
                }) if matches!(call.callee, Callee::ApplyBlock(_)) => {
                    if let Callee::ApplyBlock(object) = &call.callee {
                        self.sub_parser(object, &call.arguments, statement.span);
                    }
                }
                _ => self.statements(std::slice::from_ref(statement)),
            }
            self.drain(statement.span);
        }
    }

    /// Splits the state at an `if`: a state for each branch, and one after them.
    fn state_if(&mut self, condition: &Expr, yes: &[Statement], no: &[Statement], span: Span) {
        let condition = self.resolve(condition);
        match condition.kind {
            ExprKind::Bool(true) => return self.state_statements(yes),
            ExprKind::Bool(false) => return self.state_statements(no),
            _ => {}
        }
        let base = self.states.current.clone();
        let (then, otherwise, behind) = (
            self.fresh(&format!("{base}_true")),
            self.fresh(&format!("{base}_false")),
            self.fresh(&format!("{base}_join")),
        );
        self.state_branch(&condition, &then, &otherwise, span);
        for (name, body) in [(then, yes), (otherwise, no)] {
            self.states.current = name;
            self.state_statements(body);
            self.end_state(
                Vec::new(),
                vec![default_transition(Some(behind.clone()))],
                span,
            );
        }
        self.states.current = behind;
    }

    /// Removes the states of code after `break` and `continue`.
    fn drop_unreachable_states(&mut self, start: &str) {
        let by_name: HashMap<&str, &ParseState> = (self.states.done.iter())
            .map(|state| (state.name.as_str(), state))
            .collect();
        let mut reached: HashSet<String> = HashSet::from([start.to_owned()]);
        let mut open = vec![start.to_owned()];
        while let Some(name) = open.pop() {
            let state = by_name.get(name.as_str());
            let nexts = state.iter().flat_map(|state| &state.transitions);
            for next in nexts.filter_map(|transition| transition.next_state.clone()) {
                if reached.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        let made = |name: &str| name.starts_with(UNREACHABLE);
        self.states
            .done
            .retain(|state| reached.contains(&state.name) || !made(&state.name));
        for (at, state) in self.states.done.iter_mut().enumerate() {
            state.id = at as u32;
        }
    }

    fn sub_parser(&mut self, object: &Expr, arguments: &[Option<Expr>], span: Span) {
        let Some(Object::Block(block)) = self.object(object) else {
            return self.unsupported(span, "apply() of this");
        };
        let InstanceKind::Parser(id) = block.kind else {
            return;
        };
        if self.depth >= limits::INLINE_DEPTH {
            self.sink.error(
                "E0603",
                span,
                format!(
                    "parsers are nested more than {} levels deep",
                    limits::INLINE_DEPTH
                ),
            );
            return;
        }
        if !self.has_room(span) {
            return;
        }
        let parser = &self.program.parsers[id];
        let saved = (self.env.clone(), self.instances.clone());
        let copies = self.bind_block(&parser.parameters, arguments, None, span);
        self.drain(span);
        let (caller, ops) = (
            self.states.current.clone(),
            std::mem::take(&mut self.states.ops),
        );
        let behind = self.fresh(&format!("{caller}_cont"));
        self.depth += 1;
        let start = self.run_parser(&block, parser, Some(behind.clone()));
        self.depth -= 1;
        (self.states.current, self.states.ops) = (caller, ops);
        self.end_state(Vec::new(), vec![default_transition(Some(start))], span);
        self.states.current = behind;
        for copy in &copies {
            self.copy_out(copy, span);
        }
        (self.env, self.instances) = saved;
    }

    pub fn packet_method(&mut self, method: &str, arguments: &[Option<Expr>], span: Span) {
        match (method, arguments) {
            ("extract", [target]) => {
                if let Some(target) = self.extracted(target.as_ref(), span) {
                    self.operation("extract", vec![target], span);
                }
            }
            ("extract", [target, Some(length)]) => {
                let Some(target) = self.extracted(target.as_ref(), span) else {
                    return;
                };
                let length = self.resolve(length);
                let length = self.value(&length);
                let length = Value::Expression(Box::new(Expression::Value(length)));
                self.operation("extract_VL", vec![target, length], span);
            }
            ("advance", [Some(bits)]) => {
                let bits = self.resolve(bits);
                let bits = parameter(self.value(&bits));
                self.operation("advance", vec![bits], span);
            }
            // The result of the call is not used.
            ("lookahead" | "length", _) => {}
            _ => self.unsupported(span, &format!("`{method}` here")),
        }
    }

    fn extracted(&mut self, target: Option<&Expr>, span: Span) -> Option<Value> {
        let Some(target) = target else {
            self.unsupported(span, "extract(_)");
            return None;
        };
        match self.place(target) {
            Some(Place::Header { name, .. }) => Some(Value::Regular(name)),
            Some(Place::Next { stack, element }) if self.program.is_header(&element) => {
                Some(Value::Stack(stack))
            }
            Some(Place::NextMember { stack, member, .. }) => {
                Some(Value::UnionStack((stack, member)))
            }
            Some(Place::Element { .. }) => {
                self.sink
                    .error(
                        "E0601",
                        target.span,
                        "simple_switch cannot extract into an element whose index is known at run time only",
                    )
                    .help("use `next`, or `select` on the index and extract into each element");
                None
            }
            _ => {
                self.sink
                    .error("E0421", target.span, "extract takes a header")
                    .help("a struct is extracted header by header");
                None
            }
        }
    }

    pub fn verify(&mut self, arguments: &[Option<Expr>], span: Span) {
        let [Some(condition), Some(error)] = arguments else {
            return;
        };
        let (condition, error) = (self.resolve(condition), self.resolve(error));
        let (condition, error) = (self.value(&condition), self.value(&error));
        self.operation("verify", vec![condition, error], span);
    }

    /// Emits code that reads the packet's next bits, without consuming them, into new storage of this type. Returns the
    /// storage.
    pub fn lookahead(&mut self, ty: &Type, span: Span) -> Option<Place> {
        if self.program.width(ty).is_none() {
            self.unsupported(span, "lookahead of a type without a fixed width");
            return None;
        }
        let place = self.temp("lookahead", ty, span);
        if let Place::Header { name, .. } = &place {
            self.emit("add_header", vec![Value::Header(name.clone())], span);
        }
        let mut offset = 0;
        for field in self.fields(&place) {
            let (target, field_type) = self.read_raw(&field);
            let width = field_type
                .and_then(|ty| self.program.width(&ty))
                .unwrap_or(0);
            if offset > limits::FIELD_BITS_MAX {
                let message = format!("no frame has {offset} bits for a `lookahead`");
                self.sink.error("E0503", span, message);
                return None;
            }
            // A field of 0 bits has nothing to read.
            if width > 0 {
                self.emit(
                    "assign",
                    vec![target, Value::Lookahead((offset, width))],
                    span,
                );
            }
            offset += width;
        }
        Some(place)
    }

    fn target(&mut self, target: &Target, exits: &Exits, span: Span) -> Option<String> {
        match target {
            Target::Accept => exits.accept.clone(),
            Target::Reject => {
                self.sink
                    .warning(
                        "W0613",
                        span,
                        "simple_switch does not drop a packet at `reject`: it goes on to ingress",
                    )
                    .help("use `verify` to set parser_error, and look at it in ingress");
                None
            }
            Target::State(index) => exits.names.get(*index).cloned(),
        }
    }

    fn transition(&mut self, transition: &Transition, exits: &Exits, span: Span) {
        match transition {
            Transition::To(target) => {
                let next = self.target(target, exits, span);
                self.end_state(Vec::new(), vec![default_transition(next)], span);
            }
            Transition::Select(keys, cases) => {
                let resolved: Vec<Expr> = keys.iter().map(|key| self.resolve(key)).collect();
                let n_before = self.n_before_changes(resolved.iter());
                let operands: Vec<Value> = resolved
                    .iter()
                    .enumerate()
                    .map(|(at, key)| self.select_key(key, at < n_before))
                    .collect();
                self.drain(span);
                let keys: Vec<SelectKey> = keys
                    .iter()
                    .map(|key| SelectKey {
                        width: self.program.width(&key.ty).unwrap_or(0),
                        is_signed: self.is_signed(&key.ty),
                    })
                    .collect();
                let mut transitions = Vec::new();
                for (sets, target, case_span) in cases {
                    let next = self.target(target, exits, *case_span);
                    self.case(sets, &keys, next, *case_span, &mut transitions);
                    // A case that matches every key hides the cases after it. The later cases are left out, because
                    // simple_switch would try them before this case.
                    if transitions.last().is_some_and(is_default) {
                        break;
                    }
                }
                self.end_state(operands, transitions, span);
            }
        }
    }
}

fn is_default(transition: &JsonTransition) -> bool {
    transition.kind.as_deref() == Some("default")
}

pub fn default_transition(next_state: Option<String>) -> JsonTransition {
    JsonTransition {
        kind: Some("default".to_owned()),
        value: None,
        mask: None,
        next_state,
    }
}
