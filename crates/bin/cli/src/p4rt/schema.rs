//! What the shell knows of the switch's program: its P4Info or why there is none, and its file.

use std::ops::Deref;

use p4runtime_client::{P4InfoIndex, ValueType};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::with_texts;

use super::words::Atom;

/// A parsed value, or a message for the user: what was expected, what was found, and what to do about it.
pub type Parsed<T> = Result<T, String>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    Pipeline,
    /// The switch has a program that was set without P4Info.
    P4Info,
}

impl Lack {
    pub fn message(self) -> &'static str {
        match self {
            Lack::Pipeline => {
                "the switch has no pipeline yet: load one with `pipeline set PROGRAM.p4`"
            }
            Lack::P4Info => {
                "the switch has a program without P4Info, so nothing has a name: give its P4Info with --p4info FILE, or set a program that has one with `pipeline set PROGRAM.p4`"
            }
        }
    }
}

#[derive(Debug)]
pub struct Schema {
    index: P4InfoIndex,
    pub lack: Option<Lack>,
    /// The file from which this shell loaded the program, if it did.
    pub file: Option<String>,
}

impl Deref for Schema {
    type Target = P4InfoIndex;

    fn deref(&self) -> &P4InfoIndex {
        &self.index
    }
}

impl Schema {
    /// Escapes control characters in the names, so that the author of a P4 program cannot forge lines of output or
    /// control the terminal.
    pub fn new(p4info: &P4Info) -> Schema {
        Schema {
            index: P4InfoIndex::new(with_texts(p4info, printable::line)),
            lack: None,
            file: None,
        }
    }

    pub fn named(self, file: Option<String>) -> Schema {
        Schema { file, ..self }
    }

    /// The schema of a switch from which no P4Info can be read.
    pub fn without(lack: Lack) -> Schema {
        Schema {
            index: P4InfoIndex::absent(lack.message()),
            lack: Some(lack),
            file: None,
        }
    }
}

impl Atom {
    /// Parses a value of a type.
    pub fn bytes(&self, ty: &ValueType) -> Parsed<Vec<u8>> {
        ty.bytes(&self.text, self.is_quoted)
    }
}

/// Finds a name among the names of things that belong to one owner, for example of a table's fields. `kind` has the
/// form `field of table "t"`; messages then contain `field "f" of table "t"`.
pub fn find_of<'n, T: Copy>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = (T, &'n str)>,
) -> Parsed<T> {
    names::find(kind, wanted, names).map_err(|message| match kind.split_once(" of ") {
        Some((what, owner)) => message.replacen(
            &format!("{kind} \"{wanted}\""),
            &format!("{what} \"{wanted}\" of {owner}"),
            1,
        ),
        None => message,
    })
}
