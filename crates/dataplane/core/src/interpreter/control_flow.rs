//! The reference interpreter of controls and actions, written to be easy to read. It defines the semantics; every
//! faster engine must agree with it, packet for packet.

use std::sync::Arc;

use super::{
    calculation::input_bytes, expression::Scope, packet::Requests, phv::Phv, trace::field_value,
};
use crate::{
    ActionId, CounterId, CounterValue, DropReason, MeterId, Nanos, TableCounters, TableId,
    externs::{Externs, payload::PayloadCall},
    match_action::{EntryIndex, Tables},
    program::{
        ActionInfo, HIDDEN, ParamInfo, Program, TableInfo,
        ir::{
            Array, BoolExpr, CalculationId, Expr, FieldId, HeaderExpr, HeaderId, Ir, NextNode,
            Node, NodeId, PayloadExternId, Place, Primitive,
        },
    },
    trace::{self, TraceIndex, TraceKind, TraceValue, Tracer},
    value::{self, Int},
};

/// The state that primitives read and write during one pass of one packet through ingress or egress.
pub struct Pass<'a> {
    pub(crate) ir: &'a Ir,
    pub(crate) action_infos: &'a [ActionInfo],
    /// Header and metadata values.
    pub phv: &'a mut Phv,
    pub(crate) externs: &'a mut Externs,
    pub(crate) tracer: &'a mut Tracer,
    pub(crate) table_counters: &'a mut [TableCounters],
    /// The bytes after the parsed headers.
    pub payload: &'a [u8],
    /// What primitives asked the architecture to do after the control.
    pub requests: &'a mut Requests,
    /// The value of `packet_length` in egress.
    pub packet_length: &'a mut i64,
    /// The packet's length for counters and meters.
    pub ingress_bytes: usize,
    pub(crate) now: Nanos,
    /// Arguments of the running action.
    pub args: Arc<[Int]>,
    /// Whether the control has ended early.
    pub exited: bool,
    /// Why the packet ended, if a failed `assert` or `assume` or the limit on rounds of a loop ended it.
    pub failed: Option<DropReason>,
}

enum Flow {
    Next,
    Jump(usize),
    Stop,
}

impl Pass<'_> {
    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope {
            ir: self.ir,
            phv: self.phv,
            registers: &self.externs.registers,
            args: &self.args,
        }
    }

    /// Evaluates an expression.
    pub fn number(&self, expr: &Expr) -> Int {
        self.scope().number(expr)
    }

    fn index(&self, expr: &Expr) -> Option<usize> {
        value::as_usize(&self.number(expr))
    }

    fn field_of(&self, place: &Place) -> Option<FieldId> {
        let scope = self.scope();
        match place {
            Place::Field(field) => Some(*field),
            Place::Access { header, offset } => scope.field_of(scope.header(header), *offset),
            Place::RegisterCell { .. } => None,
        }
    }

    /// Writes a value to a place. Does nothing if the place is beyond the end of a stack.
    pub(crate) fn assign(&mut self, place: &Place, value: Int) {
        if let Place::RegisterCell { register, index } = place {
            if let Some(index) = self.index(index) {
                self.externs.registers.set(*register, index, value);
            }
            return;
        }
        let Some(field) = self.field_of(place) else {
            return;
        };
        if !self.tracer.is_on() {
            self.phv.set(self.ir, field, value);
            return;
        }
        let old = field_value(self.ir, self.phv, field);
        self.phv.set(self.ir, field, value);
        let new = field_value(self.ir, self.phv, field).value;
        self.tracer.emit(|| TraceKind::Assign { old, new });
    }

    /// Copies a varbit field with its current width.
    pub(crate) fn assign_variable(&mut self, to: FieldId, from: FieldId) {
        let bits = self.phv.bits(self.ir, from);
        let value = self.phv.get(from).clone();
        self.phv.set_variable(self.ir, to, value, bits);
    }

    fn set_validity(&mut self, header: &HeaderExpr, valid: bool) {
        let Some(header) = self.scope().header(header) else {
            return;
        };
        if self.phv.is_valid(header) == valid {
            return;
        }
        let name = &self.ir.headers[header.index()].name;
        // BMv2 includes added and removed header bytes in the `packet_length` of egress.
        if valid {
            self.phv.clear(self.ir, header);
            self.phv.set_valid(self.ir, header);
            *self.packet_length += self.header_bytes(header);
            self.tracer.emit(|| TraceKind::HeaderAdded(name.into()));
        } else {
            *self.packet_length -= self.header_bytes(header);
            self.phv.set_invalid(self.ir, header);
            self.tracer.emit(|| TraceKind::HeaderRemoved(name.into()));
        }
    }

    fn header_bytes(&self, header: HeaderId) -> i64 {
        i64::try_from(self.phv.header_bytes(self.ir, header))
            .expect("a header is shorter than 2^63 bytes")
    }

    /// Runs one primitive; a jump has no effect.
    pub fn primitive(&mut self, primitive: &Primitive) {
        self.step(primitive);
    }

    fn step(&mut self, primitive: &Primitive) -> Flow {
        match primitive {
            Primitive::NoOp => {}
            Primitive::Assign { to, from } => {
                let value = self.number(from);
                self.assign(to, value);
            }
            Primitive::AssignVariable { to, from } => self.assign_variable(*to, *from),
            Primitive::AssignHeader { to, from } => {
                let (to, from) = (self.scope().header(to), self.scope().header(from));
                match (to, from) {
                    (Some(to), Some(from)) => self.phv.assign_header(self.ir, to, from),
                    (Some(to), None) => self.phv.set_invalid(self.ir, to),
                    (None, _) => {}
                }
            }
            Primitive::AssignUnion { to, from } => {
                let (to, from) = (self.scope().union(to), self.scope().union(from));
                if let (Some(to), Some(from)) = (to, from) {
                    self.phv.assign_union(self.ir, to, from);
                }
            }
            Primitive::AssignStack { to, from } => self.phv.assign_stack(self.ir, *to, *from),
            Primitive::AddHeader(header) => self.set_validity(header, true),
            Primitive::RemoveHeader(header) => self.set_validity(header, false),
            Primitive::Push(stack, count) | Primitive::Pop(stack, count) => {
                let up = matches!(primitive, Primitive::Push(..));
                let count = self.index(count).unwrap_or(usize::MAX);
                self.phv.shift_stack(self.ir, *stack, count, up);
            }
            Primitive::Jump(target) => return Flow::Jump(*target),
            Primitive::JumpIfZero(value, target) => {
                if self.number(value) == Int::ZERO {
                    return Flow::Jump(*target);
                }
            }
            Primitive::Exit => self.exited = true,
            Primitive::Check(condition, reason) => return self.check(condition, *reason),
            other => self.extern_call(other),
        }
        Flow::Next
    }

    fn check(&mut self, condition: &BoolExpr, reason: DropReason) -> Flow {
        if self.scope().truth(condition) {
            return Flow::Next;
        }
        self.failed = Some(reason);
        self.exited = true;
        Flow::Stop
    }

    fn extern_call(&mut self, primitive: &Primitive) {
        match primitive {
            Primitive::MarkToDrop => self.mark_to_drop(),
            Primitive::RegisterRead {
                to,
                register,
                index,
            } => {
                let index = self.index(index);
                let value = index.and_then(|index| self.externs.registers.get(*register, index));
                let array = &self.ir.registers[register.index()];
                let is_secret = self.ir.secrets.has_register(*register);
                let is_index_secret = self.ir.secrets.choose_in(Array::Register(*register));
                self.tracer.emit(|| TraceKind::RegisterRead {
                    cell: trace::named(&array.name, &value.clone().unwrap_or_default(), array.bits)
                        .hidden_if(is_secret || is_index_secret),
                    index: TraceIndex::of(index.filter(|_| value.is_some()), is_index_secret),
                });
                if let Some(value) = value {
                    self.assign(to, value);
                }
            }
            Primitive::RegisterWrite {
                register,
                index,
                value,
            } => {
                let (index, value) = (self.index(index), self.number(value));
                let array = &self.ir.registers[register.index()];
                let is_secret = self.ir.secrets.has_register(*register);
                let is_index_secret = self.ir.secrets.choose_in(Array::Register(*register));
                self.tracer.emit(|| TraceKind::RegisterWrite {
                    cell: trace::named(&array.name, &value, array.bits).hidden_if(is_secret),
                    index: TraceIndex::of(
                        index.filter(|index| *index < array.cells),
                        is_index_secret,
                    ),
                });
                if let Some(index) = index {
                    self.externs.registers.set(*register, index, value);
                }
            }
            Primitive::Count { counter, index } => self.count(*counter, index),
            Primitive::ExecuteMeter { to, meter, index } => {
                self.execute_meter(to, *meter, index);
            }
            Primitive::Hash {
                to,
                base,
                calculation,
                size,
            } => {
                self.hash(to, base, *calculation, size);
            }
            Primitive::Random { to, low, high } => {
                let low = value::low_u64(&self.number(low));
                let high = value::low_u64(&self.number(high));
                if let Some(number) = self.externs.random.between(low, high) {
                    self.assign(to, Int::from(number));
                }
            }
            Primitive::Log { format, args } => {
                if self.tracer.is_on() {
                    let args = args.iter().map(|arg| Some(self.number(arg.as_ref()?)));
                    let args: Vec<Option<Int>> = args.collect();
                    self.tracer.emit(|| TraceKind::Log(fill_in(format, &args)));
                }
            }
            other => self.request(other),
        }
    }

    /// Computes a calculation over the packet's current contents.
    pub fn calculate(&mut self, calculation: CalculationId) -> u64 {
        let declared = &self.ir.calculations[calculation.index()];
        let bytes = input_bytes(self.ir, self.phv, self.payload, declared);
        self.externs.calculate(self.ir, calculation, &bytes)
    }

    fn count(&mut self, counter: CounterId, index: &Expr) {
        let index = self.index(index);
        let array = &self.ir.counters[counter.index()];
        let is_secret = self.ir.secrets.choose_in(Array::Counter(counter));
        self.tracer.emit(|| TraceKind::Count {
            counter: array.name.as_str().into(),
            index: TraceIndex::of(index.filter(|index| *index < array.cells), is_secret),
        });
        let cells = self.externs.counters.cells_mut(counter);
        if let Some(cell) = index.and_then(|index| cells.get_mut(index)) {
            cell.add(CounterValue::packet(self.ingress_bytes));
        }
    }

    /// Runs a meter. An index beyond the end of the array leaves the destination unchanged.
    fn execute_meter(&mut self, to: &Place, meter: MeterId, index: &Expr) {
        let index = self.index(index);
        let meters = &mut self.externs.meters;
        let (now, bytes) = (self.now, self.ingress_bytes);
        let color = index.and_then(|index| meters.execute(meter, index, now, bytes));
        let is_secret = self.ir.secrets.choose_in(Array::Meter(meter));
        self.tracer.emit(|| TraceKind::Meter {
            meter: self.ir.meters[meter.index()].name.as_str().into(),
            index: Some(TraceIndex::of(index, is_secret)),
            color: color.filter(|_| !is_secret),
        });
        if let Some(color) = color {
            self.assign(to, Int::from(color));
        }
    }

    /// Runs a direct meter on a hit, before the action.
    fn execute_direct_meter(&mut self, tables: &mut Tables, table: TableId, entry: EntryIndex) {
        let ir = self.ir;
        let Some(meter) = ir.direct_meter(table) else {
            return;
        };
        let micros = self.externs.meters.micros(self.now);
        let table = &mut tables.tables[table.index()];
        let color = table.color(entry, meter.kind, micros, self.ingress_bytes);
        self.tracer.emit(|| TraceKind::Meter {
            meter: meter.name.as_str().into(),
            index: None,
            color: Some(color),
        });
        self.assign(&Place::Field(meter.result), Int::from(color));
    }

    fn hash(&mut self, to: &Place, base: &Expr, calculation: CalculationId, size: &Expr) {
        let hash = self.calculate(calculation);
        // A size of 0 counts as 1, as in BMv2: the result is the base.
        let size = value::low_u64(&self.number(size)).max(1);
        let base = value::low_u64(&self.number(base));
        self.assign(to, Int::from((hash % size).wrapping_add(base)));
    }

    /// Records a request that is served after the control. The last request of a kind counts, except that of all
    /// `truncate` calls the one with the shortest length counts.
    fn request(&mut self, primitive: &Primitive) {
        match primitive {
            Primitive::Digest(digest) => self.requests.digest = Some(*digest),
            Primitive::Truncate(len) => {
                let len = value::as_usize(&self.number(len)).unwrap_or(usize::MAX);
                let shortest = self.requests.truncate_bytes.unwrap_or(usize::MAX);
                self.requests.truncate_bytes = Some(shortest.min(len));
            }
            Primitive::Clone { session, list } => {
                let session = value::low_u64(&self.number(session));
                let session = session & u64::from(crate::limits::CLONE_SESSION_ID_MAX);
                let session = u32::try_from(session).expect("masked to 15 bits");
                self.requests.clone = Some((session, *list));
            }
            Primitive::Resubmit(list) => self.requests.resubmit = *list,
            Primitive::Recirculate(list) => self.requests.recirculate = *list,
            Primitive::ChangePayload { function, args } => self.change_payload(*function, args),
            _ => {}
        }
    }

    fn change_payload(&mut self, function: PayloadExternId, args: &[(Expr, u32)]) {
        let mut call = PayloadCall {
            function: function.0 + 1,
            ..PayloadCall::NONE
        };
        for (arg, (expr, bits)) in call.args.iter_mut().zip(args) {
            *arg = value::low_u64(&value::wrap(self.number(expr), *bits, false));
        }
        self.requests.payload = Some(call);
        let signature = &self.ir.payload_externs[function.index()];
        self.tracer.emit(|| TraceKind::ChangePayload {
            function: signature.name.as_str().into(),
            args: {
                let args = named_args(&signature.params, &call.args.map(Int::from));
                let is_secret = |place| self.ir.secrets.has_payload_argument(function, place);
                let args = args.into_iter().enumerate();
                args.map(|(place, arg)| arg.hidden_if(is_secret(place)))
                    .collect()
            },
        });
    }

    fn mark_to_drop(&mut self) {
        let metadata = &self.ir.metadata;
        let drop_port = Int::from(self.ir.architecture.drop_port);
        self.assign(&Place::Field(metadata.egress_spec), drop_port);
        if let Some(group) = metadata.mcast_grp {
            self.assign(&Place::Field(group), Int::ZERO);
        }
    }

    /// Runs an action's primitives. The run always ends, because the rounds of loops are limited.
    fn action(&mut self, action: ActionId) {
        let ir = self.ir;
        let primitives = &ir.actions[action.index()].primitives;
        let mut position = 0;
        let mut rounds = 0;
        while let Some(primitive) = primitives.get(position) {
            let lines = &ir.actions[action.index()].lines;
            self.tracer.set_line(|| lines.get(position)?.clone());
            match self.step(primitive) {
                Flow::Next => position += 1,
                Flow::Jump(target) => {
                    rounds += u32::from(target <= position);
                    if rounds > crate::limits::LOOP_ROUNDS_MAX {
                        self.failed = Some(DropReason::LoopLimit);
                        self.exited = true;
                        return;
                    }
                    position = target;
                }
                Flow::Stop => return,
            }
        }
    }

    fn trace_action(&mut self, action: ActionId, args: &[Int]) {
        let info = &self.action_infos[action.index()];
        let line = &self.ir.actions[action.index()].line;
        self.tracer.set_line(|| line.clone());
        self.tracer.emit(|| TraceKind::Action {
            action: info.name.as_str().into(),
            args: named_args(&info.params, args),
        });
    }
}

fn named_args(params: &[ParamInfo], args: &[Int]) -> Vec<TraceValue> {
    let args = params.iter().zip(args);
    args.map(|(param, arg)| {
        trace::named(&param.name, arg, param.width_bits).hidden_if(param.is_secret)
    })
    .collect()
}

/// Fills in the text of `log_msg` as BMv2 does: each pair of braces takes the next argument, whatever stands between
/// them; `\{` and `\}` are literal braces. A `None` argument is secret.
fn fill_in(format: &str, args: &[Option<Int>]) -> String {
    let (mut out, mut rest, mut args) = (String::new(), format, args.iter());
    while let Some(at) = rest.find(['\\', '{']) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        if let Some(behind) = found.strip_prefix('\\') {
            match behind.strip_prefix(['{', '}']) {
                Some(next) => {
                    out.push_str(&behind[..1]);
                    rest = next;
                }
                None => {
                    out.push('\\');
                    rest = behind;
                }
            }
            continue;
        }
        let end = found
            .char_indices()
            .find(|(at, c)| *c == '}' && !found[..*at].ends_with('\\'));
        match end.and_then(|(end, _)| Some((end, args.next()?))) {
            Some((end, arg)) => {
                match arg {
                    Some(arg) => out.push_str(&arg.to_string()),
                    None => out.push_str(HIDDEN),
                }
                rest = &found[end + 1..];
            }
            None => {
                out.push('{');
                rest = &found[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

pub(crate) fn run(
    program: &Program,
    tables: &mut Tables,
    pass: &mut Pass<'_>,
    start: Option<NodeId>,
) {
    let mut next = start;
    while let Some(id) = next {
        if pass.exited {
            return;
        }
        next = match &program.ir.nodes[id.index()] {
            Node::Table(table) => apply(program, tables, pass, *table),
            Node::If {
                name,
                line,
                condition,
                yes,
                no,
            } => {
                pass.tracer.set_line(|| line.clone());
                let holds = pass.scope().truth(condition);
                pass.tracer.emit(|| TraceKind::Condition {
                    text: name.as_str().into(),
                    holds,
                });
                if holds { *yes } else { *no }
            }
            Node::Call { action, next } => {
                pass.trace_action(*action, &[]);
                pass.action(*action);
                *next
            }
        };
    }
}

pub(crate) fn lookup(
    tables: &mut Tables,
    pass: &Pass<'_>,
    id: TableId,
    info: &TableInfo,
) -> Option<EntryIndex> {
    let scope = pass.scope();
    let key = &pass.ir.table_nodes[id.index()].key;
    tables.lookup(id, info, key.iter().map(|source| scope.key(source)))
}

/// Applies a table; returns the next node of the control.
fn apply(
    program: &Program,
    tables: &mut Tables,
    pass: &mut Pass<'_>,
    id: TableId,
) -> Option<NodeId> {
    let info = &program.tables[id.index()];
    let node = &program.ir.table_nodes[id.index()];
    let hit = lookup(tables, pass, id, info);
    pass.tracer.set_line(|| node.line.clone());
    pass.tracer.emit(|| {
        let (table, ir) = (&tables.tables[id.index()], program.ir());
        let sources = node.key.iter().zip(&info.key);
        let are_secret = sources
            .map(|(source, field)| field.is_secret || ir.secrets.are_in(ir, &[], &source.value));
        let are_secret: Vec<bool> = are_secret.collect();
        let key = tables.last_key(info).into_iter().zip(&are_secret);
        TraceKind::Table {
            table: info.name.as_str().into(),
            key: key.map(|(value, is)| value.hidden_if(*is)).collect(),
            entry: hit.map(|entry| table.describe(info, &are_secret, entry)),
            handle: hit.and_then(|entry| table.handle(entry)),
        }
    });
    if let Some(counters) = pass.table_counters.get_mut(id.index()) {
        match hit {
            Some(_) => counters.hits += 1,
            None => counters.misses += 1,
        }
    }
    if let Some(entry) = hit {
        pass.execute_direct_meter(tables, id, entry);
        let packet = CounterValue::packet(pass.ingress_bytes);
        tables.tables[id.index()].count_hits(entry, packet, pass.now);
    }
    // The selector's hash is computed after the direct meter has written its colour.
    let selector = node.profile.and_then(|profile| pass.ir.selector(profile));
    let hash = || {
        selector.map_or(0, |selector| {
            let bytes = input_bytes(pass.ir, pass.phv, pass.payload, selector);
            let random = &mut pass.externs.random;
            selector.algorithm.compute(&bytes, random)
        })
    };
    let call = tables.call(id, node.profile, hit, hash);
    if let Some(call) = &call {
        pass.trace_action(call.action, &call.args);
        pass.args = call.args.clone();
        pass.action(call.action);
    }
    match &node.next {
        NextNode::HitMiss { hit: yes, miss: no } => hit.map_or(*no, |_| *yes),
        NextNode::PerAction(next) => match call {
            Some(call) => *next.get(position_of(program, info, call.action)?)?,
            None => node.default_next,
        },
    }
}

/// Returns the position of an action in a table's list of actions. If tables share an action profile, a member may have
/// another table's copy of the action; such copies have the same name.
fn position_of(program: &Program, info: &TableInfo, action: ActionId) -> Option<usize> {
    let mut actions = info.actions.iter();
    let position = actions.position(|other| *other == action);
    let name = |action: &ActionId| &program.actions[action.index()].name;
    let by_name = || (info.actions.iter()).position(|other| name(other) == name(&action));
    position.or_else(by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_messages_take_their_arguments_in_order() {
        let args = [Some(Int::from(1)), Some(Int::from(2))];
        assert_eq!(fill_in("a = {}, b = {}", &args), "a = 1, b = 2");
        assert_eq!(fill_in("{} {} {}", &args), "1 2 {}");
        assert_eq!(fill_in("{first}, {:02x}", &args), "1, 2");
        let args = [Some(Int::from(1)), None];
        assert_eq!(fill_in("{first}, {:02x} {}", &args), "1, <secret> {}");
    }

    #[test]
    fn escaped_braces_of_log_messages_are_braces() {
        let args = [Some(Int::from(1))];
        assert_eq!(fill_in(r"\{{}\} \{}", &args), "{1} {}");
        assert_eq!(fill_in(r"a\b \\ {a\}b} \", &args), r"a\b \\ 1 \");
        assert_eq!(fill_in("{ é", &args), "{ é");
    }
}
