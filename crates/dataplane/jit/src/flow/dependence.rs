//! Traces what values depend on, back to the fields and header validities that a packet has when a control begins.

use std::{collections::BTreeMap, rc::Rc};

use dataplane::{
    TableId,
    engine::ir::{
        AnyStack, BoolExpr, Expr, FieldId, HeaderExpr, HeaderId, Ir, Place, Primitive, instances,
    },
};

/// The highest number of variables that a value is traced back to. The inputs of a value that depends on more variables
/// count as unknown.
const VARIABLES_MAX: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Variable {
    Field(FieldId),
    Valid(HeaderId),
    /// The entry that a table found.
    Found(TableId),
}

/// The variables that a value is a function of; `None` if they are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inputs(Option<Rc<[Variable]>>);

impl Inputs {
    pub(crate) fn nothing() -> Self {
        Self(Some([].into()))
    }

    pub(crate) fn anything() -> Self {
        Self(None)
    }

    pub(crate) fn of(variable: Variable) -> Self {
        Self(Some([variable].into()))
    }

    /// The variables, sorted; `None` if they are not known.
    pub(crate) fn variables(&self) -> Option<&[Variable]> {
        self.0.as_deref()
    }

    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        let (Some(ours), Some(theirs)) = (&self.0, &other.0) else {
            return Self(None);
        };
        if theirs.iter().all(|it| ours.binary_search(it).is_ok()) {
            return self.clone();
        }
        let mut all = [&**ours, &**theirs].concat();
        all.sort_unstable();
        all.dedup();
        Self((all.len() <= VARIABLES_MAX).then(|| all.into()))
    }
}

/// The values of variables at a point of a control, as functions of their values when the control began. A variable
/// that is not in the map still holds its first value.
#[derive(Debug, Clone)]
pub(crate) struct Values<'p> {
    ir: &'p Ir,
    written: BTreeMap<Variable, Inputs>,
    /// The variables that decide whether a packet comes to this point.
    pub reached: Inputs,
}

impl<'p> Values<'p> {
    pub(crate) fn new(ir: &'p Ir) -> Self {
        Self {
            ir,
            written: BTreeMap::new(),
            reached: Inputs::nothing(),
        }
    }

    /// Merges the values of another path to this point.
    pub(crate) fn join(&mut self, other: &Self) {
        for (variable, theirs) in &other.written {
            let ours = self.variable(*variable);
            self.written.insert(*variable, ours.and(theirs));
        }
        let kept: Vec<Variable> = self.written.keys().copied().collect();
        for variable in kept {
            if !other.written.contains_key(&variable) {
                let both = self.variable(variable).and(&self.first(variable));
                self.written.insert(variable, both);
            }
        }
        self.reached = self.reached.and(&other.reached);
    }

    /// Whether every variable depends on the same inputs in `self` and in `other`.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.written == other.written && self.reached == other.reached
    }

    /// Whether a variable still holds its first value.
    pub(crate) fn is_untouched(&self, variable: Variable) -> bool {
        !self.written.contains_key(&variable)
    }

    pub(crate) fn variable(&self, variable: Variable) -> Inputs {
        match self.written.get(&variable) {
            Some(inputs) => inputs.clone(),
            None => self.first(variable),
        }
    }

    /// The inputs of a variable that nothing has written. Timestamps and queueing metadata differ from packet to
    /// packet, so they count as unknown inputs.
    fn first(&self, variable: Variable) -> Inputs {
        let Variable::Field(field) = variable else {
            return Inputs::of(variable);
        };
        let metadata = &self.ir.metadata;
        let queueing = metadata.queueing().map(|queueing| {
            [
                queueing.enq_timestamp,
                queueing.enq_qdepth,
                queueing.deq_timedelta,
                queueing.deq_qdepth,
            ]
        });
        let times = [
            metadata.ingress_global_timestamp,
            metadata.egress_global_timestamp,
            metadata.nanoseconds_inside,
        ];
        let varies = times.contains(&Some(field))
            || queueing.is_some_and(|fields| fields.contains(&field))
            || self.ir.fields[field.index()].variable;
        if varies {
            Inputs::anything()
        } else {
            Inputs::of(variable)
        }
    }

    fn valid(&self, header: HeaderId) -> Inputs {
        if self.ir.headers[header.index()].metadata {
            Inputs::nothing()
        } else {
            self.variable(Variable::Valid(header))
        }
    }

    /// The inputs of a number. `args` are the inputs of the action's arguments.
    pub(crate) fn number(&self, expr: &Expr, args: &Inputs) -> Inputs {
        match expr {
            Expr::Const(_) => Inputs::nothing(),
            Expr::Field(field) => self.variable(Variable::Field(*field)),
            Expr::ValidBit(header) => self.valid(*header),
            Expr::Param(_) => args.clone(),
            Expr::Arithmetic(_, left, right) => {
                self.number(left, args).and(&self.number(right, args))
            }
            Expr::Complement(operand) => self.number(operand, args),
            Expr::Choose { condition, yes, no } => {
                let chosen = self.number(yes, args).and(&self.number(no, args));
                chosen.and(&self.truth(condition, args))
            }
            Expr::FromBool(condition) => self.truth(condition, args),
            Expr::Access { .. }
            | Expr::Register { .. }
            | Expr::LastStackIndex(_)
            | Expr::StackSize(_) => Inputs::anything(),
        }
    }

    pub(crate) fn truth(&self, condition: &BoolExpr, args: &Inputs) -> Inputs {
        match condition {
            BoolExpr::Const(_) => Inputs::nothing(),
            BoolExpr::Compare(_, left, right) => {
                self.number(left, args).and(&self.number(right, args))
            }
            BoolExpr::SameHeader(HeaderExpr::Header(left), HeaderExpr::Header(right)) => {
                let both = [*left, *right].into_iter();
                both.fold(Inputs::nothing(), |all, header| {
                    all.and(&self.header(header))
                })
            }
            BoolExpr::SameBool(left, right)
            | BoolExpr::And(left, right)
            | BoolExpr::Or(left, right) => self.truth(left, args).and(&self.truth(right, args)),
            BoolExpr::Not(operand) => self.truth(operand, args),
            BoolExpr::Valid(HeaderExpr::Header(header)) => self.valid(*header),
            BoolExpr::FromNumber(number) => self.number(number, args),
            BoolExpr::Choose { condition, yes, no } => {
                let chosen = self.truth(yes, args).and(&self.truth(no, args));
                chosen.and(&self.truth(condition, args))
            }
            BoolExpr::SameHeader(..)
            | BoolExpr::SameUnion(..)
            | BoolExpr::Valid(_)
            | BoolExpr::ValidUnion(_) => Inputs::anything(),
        }
    }

    fn header(&self, header: HeaderId) -> Inputs {
        let fields = self.ir.headers[header.index()].field_ids();
        fields.fold(self.valid(header), |all, field| {
            all.and(&self.variable(Variable::Field(field)))
        })
    }

    /// Makes a variable depend on `value` and on the variables that decide whether a packet comes to this point. If the
    /// variable may stay unwritten (not `surely`), it also depends on its inputs so far.
    fn write(&mut self, variable: Variable, value: &Inputs, surely: bool) {
        let mut value = value.and(&self.reached);
        if !surely {
            value = value.and(&self.variable(variable));
        }
        self.written.insert(variable, value);
    }

    /// Makes a field depend on anything.
    pub(crate) fn lose(&mut self, field: FieldId) {
        self.write(Variable::Field(field), &Inputs::anything(), true);
    }

    fn lose_header(&mut self, header: HeaderId) {
        self.write(Variable::Valid(header), &Inputs::anything(), true);
        for field in self.ir.headers[header.index()].field_ids() {
            self.lose(field);
        }
    }

    /// Writes a header's validity, and with it the validity of the other members of the header's union.
    fn write_valid(&mut self, header: HeaderId, value: &Inputs, surely: bool) {
        self.write(Variable::Valid(header), value, surely);
        if let Some(union) = self.ir.headers[header.index()].union {
            for member in &self.ir.unions[union.index()].members {
                if *member != header {
                    self.write(Variable::Valid(*member), value, false);
                }
            }
        }
    }

    fn store(&mut self, to: &Place, value: &Inputs, surely: bool) {
        match to {
            Place::Field(field) => self.write(Variable::Field(*field), value, surely),
            Place::Access { header, offset } => {
                let fields = instances::fields(self.ir, header, *offset).into_iter();
                fields.for_each(|field| self.lose(field));
            }
            Place::RegisterCell { .. } => {}
        }
    }

    /// Updates the values of the variables that a primitive writes. `surely` says that the primitive runs for every
    /// packet that comes to this point of the control.
    pub(crate) fn primitive(&mut self, primitive: &Primitive, args: &Inputs, surely: bool) {
        let ir = self.ir;
        match primitive {
            Primitive::Assign { to, from } => {
                let value = self.number(from, args);
                self.store(to, &value, surely);
            }
            Primitive::AssignVariable { to, .. } => self.lose(*to),
            Primitive::AssignHeader {
                to: HeaderExpr::Header(to),
                from: HeaderExpr::Header(from),
            } => self.assign_header(*to, *from, surely),
            Primitive::AssignHeader { to, .. } => {
                for header in instances::headers(ir, to) {
                    self.lose_member(header);
                }
            }
            Primitive::AddHeader(HeaderExpr::Header(header)) => {
                // Only an invalid header's fields become zero.
                let was = self.valid(*header);
                for field in ir.headers[header.index()].field_ids() {
                    self.write(Variable::Field(field), &was, false);
                }
                self.write_valid(*header, &was, surely);
            }
            Primitive::RemoveHeader(HeaderExpr::Header(header)) => {
                self.write(Variable::Valid(*header), &Inputs::nothing(), surely);
            }
            Primitive::AddHeader(header) | Primitive::RemoveHeader(header) => {
                for header in instances::headers(ir, header) {
                    self.lose_member(header);
                }
            }
            Primitive::MarkToDrop => {
                let fields = [Some(ir.metadata.egress_spec), ir.metadata.mcast_grp];
                for field in fields.into_iter().flatten() {
                    self.write(Variable::Field(field), &Inputs::nothing(), surely);
                }
            }
            Primitive::RegisterRead { to, .. }
            | Primitive::ExecuteMeter { to, .. }
            | Primitive::Hash { to, .. }
            | Primitive::Random { to, .. } => self.store(to, &Inputs::anything(), true),
            Primitive::AssignUnion { to, .. } => {
                self.lose_headers(&instances::members(ir, instances::unions(ir, to)));
            }
            Primitive::AssignStack { to, .. } => self.lose_stack(*to),
            Primitive::Push(stack, _) | Primitive::Pop(stack, _) => self.lose_stack(*stack),
            // These primitives do not write to the packet. Before adding a new primitive here, check what it writes:
            // after an untraced write, the cache gives packets entries that their lookups would not find.
            Primitive::NoOp
            | Primitive::Jump(_)
            | Primitive::JumpIfZero(..)
            | Primitive::Exit
            | Primitive::RegisterWrite { .. }
            | Primitive::Count { .. }
            | Primitive::Digest(_)
            | Primitive::Truncate(_)
            | Primitive::Check(..)
            | Primitive::Log { .. }
            | Primitive::Clone { .. }
            | Primitive::ChangePayload { .. }
            | Primitive::Resubmit(_)
            | Primitive::Recirculate(_) => {}
        }
    }

    fn lose_headers(&mut self, headers: &[HeaderId]) {
        headers.iter().for_each(|header| self.lose_header(*header));
    }

    fn lose_stack(&mut self, stack: AnyStack) {
        self.lose_headers(&instances::within(self.ir, stack));
    }

    /// Records that a header, and the validity of its union's other members, may depend on anything.
    fn lose_member(&mut self, header: HeaderId) {
        self.lose_header(header);
        self.write_valid(header, &Inputs::anything(), true);
    }

    fn assign_header(&mut self, to: HeaderId, from: HeaderId, surely: bool) {
        let ir = self.ir;
        let valid = self.valid(from);
        let pairs = ir.headers[to.index()]
            .field_ids()
            .zip(ir.headers[from.index()].field_ids());
        for (target, source) in pairs {
            // The fields of an invalid header are not copied.
            let value = self.variable(Variable::Field(source)).and(&valid);
            self.write(Variable::Field(target), &value, false);
        }
        self.write_valid(to, &valid, surely);
    }
}
