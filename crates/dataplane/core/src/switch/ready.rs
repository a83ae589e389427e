//! Prepares a program apart from the switch, in any thread: loads and compiles the program, and writes its tables.
//! Between two passes, the switch then exchanges its program for the prepared program, which takes as long for a large
//! program as for a small one.
//!
//! Tables, arrays and counters keep their addresses in the swap, so an engine that keeps addresses sees the same state
//! before and after.

use std::mem;
use std::sync::Arc;

use crate::{
    DropReason, Nanos, PayloadSignature, PortId, Program, SwitchConfig, engine::EngineFactory,
    model::PortSet, switch::Switch,
};

/// Prepares programs for a switch, with the switch's configuration at the time of [`Switch::loader`]. A loader can be
/// used in any thread, and in several threads at once.
#[derive(Clone)]
pub struct ProgramLoader {
    config: SwitchConfig,
    factory: Arc<dyn EngineFactory>,
    payloads: Vec<PayloadSignature>,
    ports: Vec<PortId>,
    links_down: PortSet,
    ports_disabled: PortSet,
    /// Whether a trace requires the interpreter.
    is_traced: bool,
    now: Nanos,
}

/// A program with its state and engine. After the swap it holds the program, state and engine that the switch had
/// before, so that they can be freed without delaying packets.
pub struct ReadyProgram {
    /// Holds the program and its state; receives no packets.
    switch: Switch,
    is_traced: bool,
}

impl ProgramLoader {
    /// Prepares a program. Blocks while the engine compiles.
    ///
    /// # Panics
    /// If the program calls an extern that is not registered with the switch.
    pub fn load(&self, program: Program) -> ReadyProgram {
        let config = self.config.clone();
        let mut switch = Switch::with_shared_engine(config, Arc::clone(&self.factory));
        let state = &mut switch.model.state;
        state.payloads.stand_in(&self.payloads);
        for port in &self.ports {
            state.counters.add_port(*port);
        }
        state.links_down = self.links_down;
        state.ports_disabled = self.ports_disabled;
        state.advance(self.now);
        switch.model.set_program(program, &self.config);
        switch.load_engine_as(self.is_traced);
        ReadyProgram {
            switch,
            is_traced: self.is_traced,
        }
    }
}

impl ReadyProgram {
    /// Returns the switch that holds the program. The caller makes control calls on this switch, and the program starts
    /// with what the calls write. Packet generators must not be written here; they belong to the real switch.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }
}

impl Switch {
    /// Makes a switch that forwards nothing and holds a program in its initial state, so that a caller can read the
    /// program's declarations and try writes. The switch uses the reference interpreter.
    pub fn blank(program: Program) -> Self {
        let mut switch = Self::new(SwitchConfig::default());
        let payloads = &program.ir.payload_externs;
        switch.model.state.payloads.stand_in(payloads);
        switch.set_program(program);
        switch
    }

    /// A loader that prepares programs for this switch.
    pub fn loader(&self) -> ProgramLoader {
        let state = &self.model.state;
        ProgramLoader {
            config: self.config.clone(),
            factory: Arc::clone(&self.factory),
            payloads: self.payload_signatures(),
            ports: state.counters.ports().map(|(port, _)| port).collect(),
            links_down: state.links_down,
            ports_disabled: state.ports_disabled,
            is_traced: self.is_interpreted(),
            now: state.now,
        }
    }

    /// Replaces the program, as [`Switch::set_program_as`] does, by a program that this switch's loader prepared.
    /// Afterwards `ready` holds the replaced program, which may take long to free.
    ///
    /// # Panics
    /// If the program calls an extern that is not registered with this switch.
    pub fn set_ready_program(&mut self, ready: &mut ReadyProgram, generation: u64) {
        self.forget_offload_s_program();
        while let Some(common) = self.model.traffic.next_waiting() {
            let state = &mut self.model.state;
            state.tracer.set_packet(0, common.name, common.pass());
            state.count_drop(DropReason::PipelineChanged);
            self.model.leave(&common);
        }
        let was_down = ready.switch.model.state.ports_down();
        self.model.exchange_program(&mut ready.switch.model);
        mem::swap(&mut self.engine, &mut ready.switch.engine);
        self.is_engine_outdated = false;
        if self.is_interpreted() != ready.is_traced {
            // The trace was switched on or off since the loader was made.
            self.load_engine();
        }
        self.generation = generation;
        mem::swap(&mut self.idle_timeouts, &mut ready.switch.idle_timeouts);
        self.notify_ports_down(was_down);
        self.load_offload();
    }
}
