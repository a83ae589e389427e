//! Finds the values that derive from the parameters and registers that the program declares `@secret`. Traces and logs
//! hide these values.
//!
//! The analysis ignores paths and order: a field is secret if a secret is copied or computed into it anywhere, and the
//! indices of an array are secret if a secret is part of an index of this array anywhere. The following do not count as
//! secret: the path that a packet takes, the contents of frames and digests that leave, the port, and the length.

use super::{
    Array, CalculationId, CalculationInput, Checksum, Expr, FieldId, HeaderId, Ir, ParserOp,
    PayloadExternId, Primitive, Secrets,
    accesses::{Accesses, Walk},
};
use crate::{RegisterId, program::ParamInfo};

impl Secrets {
    pub(crate) fn of(ir: &Ir, params: &[&[ParamInfo]]) -> Secrets {
        let registers = (0..).map(RegisterId).zip(&ir.registers);
        let registers = registers.filter(|(_, register)| register.is_secret);
        let mut secrets = Secrets {
            registers: registers.map(|(id, _)| id).collect(),
            ..Secrets::default()
        };
        let has_parameter = params
            .iter()
            .any(|of_one| of_one.iter().any(|it| it.is_secret));
        if secrets.registers.is_empty() && !has_parameter {
            return secrets;
        }
        // The loop ends, because the sets only grow and are bounded by the program.
        loop {
            let before = secrets.size();
            for (action, params) in ir.actions.iter().zip(params) {
                for primitive in &action.primitives {
                    secrets.follow(ir, params, |walk| walk.primitive(primitive));
                    secrets.follow_choices(ir, params, primitive);
                }
            }
            for op in ir.parser.states.iter().flat_map(|state| &state.ops) {
                secrets.follow(ir, &[], |walk| walk.operation(op));
                if let ParserOp::Primitive(primitive) = op {
                    secrets.follow_choices(ir, &[], primitive);
                }
            }
            for primitive in &ir.deparser.primitives {
                secrets.follow(ir, &[], |walk| walk.primitive(primitive));
                secrets.follow_choices(ir, &[], primitive);
            }
            for checksum in ir.checksums.iter().filter(|it| it.update) {
                secrets.follow(ir, &[], |walk| {
                    walk.to.calculate(checksum.calculation);
                    walk.to.write(checksum.target);
                });
            }
            if secrets.size() == before {
                return secrets;
            }
        }
    }

    pub(crate) fn has_field(&self, field: FieldId) -> bool {
        self.fields.contains(&field)
    }

    pub(crate) fn has_register(&self, register: RegisterId) -> bool {
        self.registers.contains(&register)
    }

    /// Whether some call passes a secret in this argument.
    pub(crate) fn has_payload_argument(&self, of: PayloadExternId, place: usize) -> bool {
        self.payload_arguments.contains(&(of, place))
    }

    /// Whether an expression, in an action with these parameters, contains a secret.
    pub(crate) fn are_in(&self, ir: &Ir, params: &[ParamInfo], expr: &Expr) -> bool {
        let mut flow = Flow::new(self, ir, params);
        Walk { ir, to: &mut flow }.number(expr);
        flow.is_secret
    }

    /// Whether a secret selects a cell of an array.
    pub(crate) fn choose_in(&self, array: Array) -> bool {
        self.indexed.contains(&array)
    }

    pub(crate) fn choose_sessions(&self) -> bool {
        self.are_in_sessions
    }

    /// Whether a checksum holds a secret or covers one.
    pub(crate) fn are_in_checksum(&self, ir: &Ir, checksum: &Checksum) -> bool {
        let mut flow = Flow::new(self, ir, &[]);
        flow.read(checksum.target);
        flow.calculate(checksum.calculation);
        flow.is_secret
    }

    fn size(&self) -> usize {
        let n_chosen = self.indexed.len() + usize::from(self.are_in_sessions);
        self.fields.len() + self.registers.len() + self.payload_arguments.len() + n_chosen
    }

    /// Marks the destinations of a statement that reads a secret.
    fn follow(
        &mut self,
        ir: &Ir,
        params: &[ParamInfo],
        walk: impl FnOnce(&mut Walk<'_, '_, Flow<'_>>),
    ) {
        let mut flow = Flow::new(self, ir, params);
        walk(&mut Walk { ir, to: &mut flow });
        let (fields, registers) = flow.reached();
        self.fields.extend(fields);
        self.registers.extend(registers);
    }

    /// Marks extern arguments, array indices and clone sessions that contain a secret.
    fn follow_choices(&mut self, ir: &Ir, params: &[ParamInfo], primitive: &Primitive) {
        let (array, index) = match primitive {
            Primitive::ChangePayload { function, args } => {
                let args = (0..).zip(args);
                let secret = args.filter(|(_, (arg, _))| self.are_in(ir, params, arg));
                let secret: Vec<_> = secret.map(|(place, _)| (*function, place)).collect();
                return self.payload_arguments.extend(secret);
            }
            Primitive::Clone { session, .. } => {
                self.are_in_sessions |= self.are_in(ir, params, session);
                return;
            }
            Primitive::RegisterRead {
                register, index, ..
            }
            | Primitive::RegisterWrite {
                register, index, ..
            } => (Array::Register(*register), index),
            Primitive::Count { counter, index } => (Array::Counter(*counter), index),
            Primitive::ExecuteMeter { meter, index, .. } => (Array::Meter(*meter), index),
            _ => return,
        };
        if self.are_in(ir, params, index) {
            self.indexed.insert(array);
        }
    }
}

struct Flow<'a> {
    secrets: &'a Secrets,
    ir: &'a Ir,
    params: &'a [ParamInfo],
    is_secret: bool,
    copied: Vec<HeaderId>,
    written: Vec<HeaderId>,
    fields: Vec<FieldId>,
    registers: Vec<RegisterId>,
}

impl<'a> Flow<'a> {
    fn new(secrets: &'a Secrets, ir: &'a Ir, params: &'a [ParamInfo]) -> Self {
        Flow {
            secrets,
            ir,
            params,
            is_secret: false,
            copied: Vec::new(),
            written: Vec::new(),
            fields: Vec::new(),
            registers: Vec::new(),
        }
    }

    /// The fields and registers that become secret.
    fn reached(self) -> (Vec<FieldId>, Vec<RegisterId>) {
        let mut fields = self.fields_of_headers();
        if !self.is_secret {
            return (fields, Vec::new());
        }
        fields.extend(self.fields);
        (fields, self.registers)
    }

    /// The fields that become secret because a header is copied to a header of the same type, field by field.
    fn fields_of_headers(&self) -> Vec<FieldId> {
        let mut reached = Vec::new();
        for from in self.copied.iter().map(|id| &self.ir.headers[id.index()]) {
            for (offset, field) in (0..).zip(from.field_ids()) {
                if !self.secrets.has_field(field) {
                    continue;
                }
                let to = self.written.iter().map(|id| &self.ir.headers[id.index()]);
                let same = to.filter(|to| to.type_index == from.type_index);
                reached.extend(same.map(|to| to.field_at(offset)));
            }
        }
        reached
    }
}

impl Accesses for Flow<'_> {
    fn read(&mut self, field: FieldId) {
        self.is_secret |= self.secrets.has_field(field);
    }

    fn compare(&mut self, header: HeaderId) {
        let fields = self.ir.headers[header.index()].field_ids();
        fields.for_each(|field| self.read(field));
    }

    fn copy(&mut self, header: HeaderId) {
        self.copied.push(header);
    }

    fn write(&mut self, field: FieldId) {
        self.fields.push(field);
    }

    fn write_header(&mut self, header: HeaderId) {
        self.written.push(header);
    }

    fn argument(&mut self, place: usize) {
        self.is_secret |= self.params.get(place).is_some_and(|it| it.is_secret);
    }

    fn read_register(&mut self, register: RegisterId) {
        self.is_secret |= self.secrets.has_register(register);
    }

    fn write_register(&mut self, register: RegisterId) {
        self.registers.push(register);
    }

    fn calculate(&mut self, calculation: CalculationId) {
        let ir = self.ir;
        for input in &ir.calculations[calculation.index()].input {
            match input {
                CalculationInput::Field(field) => self.read(*field),
                CalculationInput::Header(header) => self.compare(*header),
                CalculationInput::Constant { .. } | CalculationInput::Payload => {}
            }
        }
    }
}
