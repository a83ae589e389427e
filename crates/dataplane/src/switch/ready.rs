//! A program that is made ready beside the switch: loaded, compiled by the engine, and written to, in any thread.
//! The switch exchanges it for its own between two passes, which takes the same time however large the program is.
//!
//! Tables, arrays and counters keep their places in memory when they go from one state to the other, and the
//! state's identity goes with them. So an engine that keeps addresses is that of the same state before and after.

use std::mem;
use std::sync::Arc;

use crate::{
    DropReason, Nanos, PayloadSignature, PortId, Program, SwitchConfig, engine::EngineFactory,
    model::PortSet, switch::Switch,
};

/// Makes programs ready for a switch as it was when [`Switch::loader`] was called. For any thread, and more than one
/// at once.
#[derive(Clone)]
pub struct ProgramLoader {
    config: SwitchConfig,
    factory: Arc<dyn EngineFactory>,
    payloads: Vec<PayloadSignature>,
    ports: Vec<PortId>,
    links_down: PortSet,
    ports_disabled: PortSet,
    /// The interpreter takes the engine's place, since somebody listens to a trace.
    is_traced: bool,
    now: Nanos,
}

/// A program with its state and its engine; or what a switch has had before, to be freed where nobody waits.
pub struct ReadyProgram {
    /// No packet comes to it.
    switch: Switch,
    is_traced: bool,
}

impl ProgramLoader {
    /// Makes a program ready. This takes as long as the engine takes to compile it.
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
    /// For control calls: what is written here the program has from its beginning. Generators are the switch's and
    /// not the program's, and are not to be written here.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }
}

impl Switch {
    /// A switch that forwards nothing, with a program as it begins: to read what that declares, and to try what can be
    /// written to it. The reference interpreter would run it.
    pub fn blank(program: Program) -> Self {
        let mut switch = Self::new(SwitchConfig::default());
        let payloads = &program.ir.payload_externs;
        switch.model.state.payloads.stand_in(payloads);
        switch.set_program(program);
        switch
    }

    /// What makes programs ready for this switch.
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

    /// As [`Switch::set_program_as`], of a program that was made ready by this switch's loader. Afterwards `ready` has
    /// what it takes the place of, which may take long to free.
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
            // Somebody has begun to listen, or listens no more, since the loader was made.
            self.load_engine();
        }
        self.generation = generation;
        mem::swap(&mut self.idle_timeouts, &mut ready.switch.idle_timeouts);
        self.tell_ports_down(was_down);
        self.load_offload();
    }
}
