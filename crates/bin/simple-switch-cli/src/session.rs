//! The state that commands work on: the switch, its program, standard output.

use std::cell::RefCell;
use std::rc::Rc;

use bmv2_thrift::{Call, service};

use crate::connection::{Answer, Connection, Operation};
use crate::error::{Ended, Error};
use crate::options::Pre;
use crate::output::Output;
use crate::program::Program;

/// The program whose names commands look up; shared with completion.
pub type SharedProgram = Rc<RefCell<Rc<Program>>>;

pub struct Session {
    pub connection: Connection,
    pub pre: Pre,
    pub out: Output,
    pub program: SharedProgram,
    /// Prefix of messages on standard error: the program's name, and the line number if the input is not a terminal.
    pub place: String,
}

macro_rules! say {
    ($session:expr, $($format:tt)*) => {
        $session.out.line(format_args!($($format)*))
    };
}
pub(crate) use say;

impl Session {
    pub fn program(&self) -> Rc<Program> {
        Rc::clone(&self.program.borrow())
    }

    pub fn set_program(&mut self, program: Program) {
        *self.program.borrow_mut() = Rc::new(program);
    }

    pub fn note(&self, note: &str) -> Result<(), Ended> {
        self.out.error_line(format_args!("{}: {note}", self.place))
    }

    pub fn standard(&mut self, call: Call, operation: Operation) -> Result<Answer, Error> {
        self.connection.call(service::STANDARD, call, operation)
    }

    /// Calls an operation on tables or action profiles.
    pub fn table(&mut self, call: Call) -> Result<Answer, Error> {
        self.standard(call, Operation::Table)
    }

    pub fn simple_switch(&mut self, call: Call) -> Result<Answer, Error> {
        let operation = Operation::Mirroring;
        self.connection
            .call(service::SIMPLE_SWITCH, call, operation)
    }

    pub fn multicast(&mut self, call: Call) -> Result<Answer, Error> {
        let service = match self.pre {
            Pre::Simple => service::SIMPLE_PRE,
            Pre::SimpleLag | Pre::None => service::SIMPLE_PRE_LAG,
        };
        self.connection.call(service, call, Operation::Multicast)
    }
}
