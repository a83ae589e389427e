//! Externs: stateful objects and calculations that a program declares.

pub(crate) mod bucket;
pub(crate) mod counter;
pub(crate) mod departures;
pub(crate) mod hash;
pub(crate) mod meter;
pub(crate) mod payload;
pub(crate) mod random;
pub(crate) mod register;
pub(crate) mod value_set;

use crate::{
    Nanos,
    program::ir::{CalculationId, Ir},
};

#[derive(Debug)]
pub(crate) struct Externs {
    pub registers: register::Registers,
    pub counters: counter::Counters,
    pub meters: meter::Meters,
    pub value_sets: value_set::ValueSets,
    pub crcs: hash::CustomCrcs,
    pub random: random::Random,
}

impl Externs {
    /// Initialises all externs as declared; meter time starts at `now`.
    pub(crate) fn new(ir: &Ir, random_seed: u64, now: Nanos) -> Self {
        Self {
            registers: register::Registers::new(&ir.registers),
            counters: counter::Counters::new(&ir.counters),
            meters: meter::Meters::new(&ir.meters, now),
            value_sets: value_set::ValueSets::new(&ir.value_sets),
            crcs: hash::CustomCrcs::new(&ir.calculations),
            random: random::Random::new(random_seed),
        }
    }
    pub(crate) fn calculate(&mut self, ir: &Ir, id: CalculationId, bytes: &[u8]) -> u64 {
        let algorithm = ir.calculations[id.index()].algorithm;
        match self.crcs.get(id) {
            Some(crc) => crc.compute(bytes),
            None => algorithm.compute(bytes, &mut self.random),
        }
    }
}
