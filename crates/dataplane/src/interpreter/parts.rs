//! The reference interpreter's parts, for an engine that cannot compile a construct: it lays out
//! the packet as the interpreter wants it, has the construct run, and takes the packet back.

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

/// What a pass may touch of a packet.
#[derive(Debug)]
pub struct Carried<'a> {
    /// Headers and metadata.
    pub phv: &'a mut Phv,
    /// What follows the headers.
    pub payload: &'a [u8],
    /// What primitives have asked for.
    pub requests: &'a mut Requests,
    /// What `packet_length` will say in egress.
    pub packet_length: &'a mut i64,
    /// What counters and meters count as the packet's length.
    pub ingress_bytes: usize,
    /// The arguments of the running action.
    pub args: Arc<[Int]>,
}

impl State {
    /// The interpreter's view of a packet.
    pub fn pass<'a>(&'a mut self, carried: Carried<'a>) -> Pass<'a> {
        let (_, _, pass) = self.split(carried);
        pass
    }

    /// The entry that a packet hits, found by the interpreter's own reading of the key.
    pub fn hit(&mut self, table: TableId, carried: Carried<'_>) -> Option<EntryIndex> {
        let (program, tables, pass) = self.split(carried);
        let info = program.tables.get(table.index())?;
        control_flow::lookup(tables, &pass, table, info)
    }

    /// The interpreter's view of a packet, and what it is given apart from that.
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
    /// Whether a condition holds.
    pub fn truth(&self, condition: &BoolExpr) -> bool {
        self.scope().truth(condition)
    }
}
