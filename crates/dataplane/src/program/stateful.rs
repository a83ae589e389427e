//! What a program lets one packet leave for the next.
//!
//! Switches that run one program side by side, each with a part of the packets, are as good as one
//! switch if no packet finds what another has left. Counters do not matter: no program reads them, and
//! they add up.

use super::{
    Program,
    ir::{ParserOp, Place, Primitive},
};
use crate::RegisterId;

impl Program {
    /// The registers that packets both write and read, and the meters, by kind and name: `register
    /// "seen"`. What packets write and no packet reads is for the controller.
    pub fn kept_between_packets(&self) -> Vec<String> {
        let ir = self.ir();
        let registers = ir.registers.iter().zip((0..).map(RegisterId));
        let kept = registers
            .filter(|(register, id)| register.is_operand || self.is_read_by_packets(*id))
            .filter(|(_, id)| self.is_written_by_packets(*id));
        let mut kept: Vec<String> = kept
            .map(|(register, _)| format!("register \"{}\"", register.name))
            .collect();
        let direct = ir.table_nodes.iter().filter_map(|node| node.meter.as_ref());
        let meters = ir.meters.iter().map(|meter| meter.name.as_str());
        let meters = meters.chain(direct.map(|meter| meter.name.as_str()));
        kept.extend(meters.map(|name| format!("meter \"{name}\"")));
        kept
    }

    fn is_read_by_packets(&self, register: RegisterId) -> bool {
        self.any_primitive(
            |primitive| matches!(primitive, Primitive::RegisterRead { register: of, .. } if *of == register),
        )
    }

    fn is_written_by_packets(&self, register: RegisterId) -> bool {
        let ir = self.ir();
        let is_cell = |place: &Place| matches!(place, Place::RegisterCell { register: of, .. } if *of == register);
        let writes = |primitive: &Primitive| match primitive {
            Primitive::RegisterWrite { register: to, .. } => *to == register,
            primitive => primitive.written_place().is_some_and(is_cell),
        };
        let mut parser = ir.parser.states.iter().flat_map(|state| &state.ops);
        self.any_primitive(writes)
            || parser.any(|op| match op {
                ParserOp::Set { to, .. } | ParserOp::SetLookahead { to, .. } => is_cell(to),
                _ => false,
            })
    }

    /// Whether an action, the deparser or the parser has a primitive of a kind.
    fn any_primitive(&self, is_wanted: impl Fn(&Primitive) -> bool) -> bool {
        let ir = self.ir();
        let actions = ir.actions.iter().flat_map(|action| &action.primitives);
        let mut parser = ir.parser.states.iter().flat_map(|state| &state.ops);
        actions.chain(&ir.deparser.primitives).any(&is_wanted)
            || parser.any(|op| matches!(op, ParserOp::Primitive(primitive) if is_wanted(primitive)))
    }
}
