//! Makes a native engine for each program that a switch loads.

use dataplane::{
    Digest, DropReason,
    engine::{
        CloneCopies, Clones, EgressInput, EgressOutcome, Engine, EngineFactory, Frame,
        IngressInput, IngressOutcome, Interpreted, PacketHandle, State,
    },
    interpret::InterpreterFactory,
};

use crate::{engine::Native, options::NativeOptions, program::NativeProgram};

#[derive(Debug, Clone, Copy, Default)]
pub struct NativeFactory {
    pub options: NativeOptions,
}

impl EngineFactory for NativeFactory {
    fn name(&self) -> &'static str {
        "native"
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        match NativeProgram::compile(state, self.options) {
            Ok(program) => Box::new(Native::new(state, program, self.options.fanout_fusion)),
            Err(error) => Box::new(Whole {
                engine: InterpreterFactory.load(state),
                reason: error.to_string(),
            }),
        }
    }
}

/// The interpreter, which runs the whole program if the program cannot be compiled.
struct Whole {
    engine: Box<dyn Engine>,
    reason: String,
}

macro_rules! as_the_interpreter {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $result:ty)?;)*) => {$(
        fn $name(&mut self, $($arg: $ty),*) $(-> $result)? {
            self.engine.$name($($arg),*)
        }
    )*};
}

impl Engine for Whole {
    as_the_interpreter! {
        fn receive(frame: &[u8]) -> PacketHandle;
        fn ingress(state: &mut State, input: &IngressInput, packet: PacketHandle) -> IngressOutcome;
        fn parse(state: &mut State, input: &IngressInput, packet: PacketHandle);
        fn digest(state: &mut State, packet: PacketHandle) -> Digest;
        fn clone_ingress(
            state: &mut State,
            input: &IngressInput,
            packet: PacketHandle,
            copies: CloneCopies
        ) -> Clones;
        fn replicate(packet: PacketHandle, copies: u32);
        fn resubmit(packet: PacketHandle);
        fn egress(state: &mut State, input: &EgressInput, packet: PacketHandle) -> EgressOutcome;
        fn clone_egress(state: &mut State, packet: PacketHandle, copies: CloneCopies) -> Clones;
        fn deparse(state: &mut State, packet: PacketHandle) -> Result<usize, DropReason>;
        fn recirculate(packet: PacketHandle);
        fn discard(packet: PacketHandle);
    }

    fn frame(&self, packet: PacketHandle) -> Frame<'_> {
        self.engine.frame(packet)
    }

    fn interpreted(&self) -> Vec<Interpreted> {
        vec![Interpreted {
            place: "program".to_owned(),
            reason: self.reason.clone(),
        }]
    }
}
