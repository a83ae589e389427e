//! Finds the state through which one packet can influence another.
//!
//! Several switches with the same program, each with a share of the packets, behave like one switch only if no packet
//! reads what another packet wrote. Counters do not matter: no program reads them, and a reader can add the counters of
//! all switches.

use super::{
    Program,
    ir::{ParserOp, Place, Primitive, RegisterArray},
};
use crate::RegisterId;

impl Program {
    /// Returns the registers that packets both write and read, and all meters. The text for each is its kind and name,
    /// for example `register "seen"`. Leaves out registers that packets only write, because those are for the
    /// controller.
    pub fn kept_between_packets(&self) -> Vec<String> {
        let ir = self.ir();
        let mut kept: Vec<String> = self.registers_between_packets().map(named).collect();
        let direct = ir.table_nodes.iter().filter_map(|node| node.meter.as_ref());
        let meters = ir.meters.iter().map(|meter| meter.name.as_str());
        let meters = meters.chain(direct.map(|meter| meter.name.as_str()));
        kept.extend(meters.map(|name| format!("meter \"{name}\"")));
        kept
    }

    /// The registers of [`kept_between_packets`](Self::kept_between_packets) that the program declares `@shared`: all
    /// workers (event loops, each with a switch of its own) must use one instance of them.
    pub fn shared_between_packets(&self) -> Vec<String> {
        let registers = self.registers_between_packets();
        let shared = registers.filter(|register| register.is_shared);
        shared.map(named).collect()
    }

    fn registers_between_packets(&self) -> impl Iterator<Item = &RegisterArray> {
        let registers = self.ir().registers.iter().zip((0..).map(RegisterId));
        let kept = registers
            .filter(move |(register, id)| register.is_operand || self.is_read_by_packets(*id))
            .filter(move |(_, id)| self.is_written_by_packets(*id));
        kept.map(|(register, _)| register)
    }

    fn is_read_by_packets(&self, register: RegisterId) -> bool {
        self.any_primitive(
            |primitive| matches!(primitive, Primitive::RegisterRead { register: of, .. } if *of == register),
        )
    }

    /// Whether packets may write cells of this register. If so, the controller cannot know the values of the cells.
    pub fn is_written_by_packets(&self, register: RegisterId) -> bool {
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

    /// Whether an action, the deparser or the parser has a primitive that `is_wanted` accepts.
    fn any_primitive(&self, is_wanted: impl Fn(&Primitive) -> bool) -> bool {
        let ir = self.ir();
        let actions = ir.actions.iter().flat_map(|action| &action.primitives);
        let mut parser = ir.parser.states.iter().flat_map(|state| &state.ops);
        actions.chain(&ir.deparser.primitives).any(&is_wanted)
            || parser.any(|op| matches!(op, ParserOp::Primitive(primitive) if is_wanted(primitive)))
    }
}

fn named(register: &RegisterArray) -> String {
    format!("register \"{}\"", register.name)
}
