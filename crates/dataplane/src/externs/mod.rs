//! Stateful objects and computations that a program names.

pub(crate) mod counter;
pub(crate) mod digest;
pub(crate) mod hash;
pub(crate) mod random;
pub(crate) mod register;

use crate::program::ir::Ir;

/// The state of every extern of a program.
#[derive(Debug)]
pub(crate) struct Externs {
    pub registers: register::Registers,
    pub counters: counter::Counters,
    pub random: random::Random,
}

impl Externs {
    pub(crate) fn new(ir: &Ir, random_seed: u64) -> Self {
        Self {
            registers: register::Registers::new(&ir.registers),
            counters: counter::Counters::new(&ir.counters),
            random: random::Random::new(random_seed),
        }
    }
}
