//! Parts of the reference interpreter, for engines that cannot compile some statement, expression or parser state: the
//! engine converts the packet to the interpreter's form, has the interpreter run that part, and converts the packet
//! back.

use std::sync::Arc;

pub use super::{
    InterpreterFactory, control_flow::Pass, packet::Requests, parser::Cursor, phv::Phv,
};

use super::control_flow;
use crate::{
    Program, TableId,
    engine::State,
    match_action::{EntryIndex, Tables},
    program::ir::BoolExpr,
    value::Int,
};

/// The parts of a packet that a pass uses.
#[derive(Debug)]
pub struct Carried<'a> {
    /// Header and metadata values.
    pub phv: &'a mut Phv,
    /// The bytes after the parsed headers.
    pub payload: &'a [u8],
    /// What primitives asked the architecture to do after the control.
    pub requests: &'a mut Requests,
    /// The value of `packet_length` in egress.
    pub packet_length: &'a mut i64,
    /// The packet's length for counters and meters.
    pub ingress_bytes: usize,
    /// Arguments of the running action.
    pub args: Arc<[Int]>,
}

impl State {
    /// The interpreter's view of a packet.
    pub fn pass<'a>(&'a mut self, carried: Carried<'a>) -> Pass<'a> {
        let (_, _, pass) = self.split(carried);
        pass
    }

    /// Looks up the packet's key with the interpreter; returns the entry that is hit, or `None` on a miss.
    pub fn hit(&mut self, table: TableId, carried: Carried<'_>) -> Option<EntryIndex> {
        let (program, tables, pass) = self.split(carried);
        let info = program.tables.get(table.index())?;
        control_flow::lookup(tables, &pass, table, info)
    }

    /// Returns the interpreter's view of a packet, and separately the program and the tables.
    pub(crate) fn split<'a>(
        &'a mut self,
        carried: Carried<'a>,
    ) -> (&'a Program, &'a mut Tables, Pass<'a>) {
        let pass = Pass {
            ir: &self.program.ir,
            action_infos: &self.program.actions,
            phv: carried.phv,
            externs: &mut self.externs,
            tracer: &mut self.tracer,
            table_counters: &mut self.counters.tables,
            payload: carried.payload,
            requests: carried.requests,
            packet_length: carried.packet_length,
            ingress_bytes: carried.ingress_bytes,
            now: self.now,
            args: carried.args,
            exited: false,
            failed: None,
        };
        (&self.program, &mut self.tables, pass)
    }
}

impl Pass<'_> {
    /// Evaluates a condition.
    pub fn truth(&self, condition: &BoolExpr) -> bool {
        self.scope().truth(condition)
    }
}
