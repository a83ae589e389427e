//! Implements a Thrift client that waits for each answer, as BMv2's scripts do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bmv2_thrift::wire::read::{self, Fields, Message, Value};
use bmv2_thrift::wire::scan::Scan;
use bmv2_thrift::wire::write::Writer;
use bmv2_thrift::wire::{Kind, Type};

use crate::Result;
use crate::process::Place;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const CHUNK_BYTES: usize = 64 * 1024;

/// The return value of a call, or the code of its exception.
pub type Tried = std::result::Result<Option<Value>, i32>;

pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    number: i32,
}

pub fn call(name: &str, number: i32, arguments: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.head(name, Kind::Call, number);
    writer.encoded(arguments);
    writer.stop();
    writer.into_bytes()
}

/// Returns the arguments of `bm_mt_add_entry` for an exact match, an action with one parameter, and no options.
pub fn entry(table: &str, key: &[u8], action: &str, parameter: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.field(1, Type::I32).i32(0);
    writer.field(2, Type::Bytes).bytes(table.as_bytes());
    writer.field(3, Type::List).list(Type::Struct, 1);
    writer.field(1, Type::I32).i32(0);
    writer.field(2, Type::Struct);
    writer.field(1, Type::Bytes).bytes(key);
    writer.stop();
    writer.stop();
    writer.field(4, Type::Bytes).bytes(action.as_bytes());
    writer
        .field(5, Type::List)
        .list(Type::Bytes, 1)
        .bytes(parameter);
    writer.field(6, Type::Struct);
    writer.stop();
    writer.into_bytes()
}

/// Returns the arguments of a call that has only a table's name as argument.
pub fn of_table(table: &str) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.field(1, Type::I32).i32(0);
    writer.field(2, Type::Bytes).bytes(table.as_bytes());
    writer.into_bytes()
}

impl Client {
    /// # Errors
    /// The switch does not accept the connection.
    pub fn connect(place: Place) -> Result<Self> {
        let stream = TcpStream::connect(place.thrift())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Self {
            stream,
            received: Vec::new(),
            number: 0,
        })
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The connection has ended, or the answer is an exception.
    pub fn call(&mut self, name: &str, arguments: &[u8]) -> Result<Option<Value>> {
        self.try_call(name, arguments)?
            .map_err(|code| format!("{name}: exception {code}").into())
    }

    /// Makes a call. The result may be an exception's code.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn try_call(&mut self, name: &str, arguments: &[u8]) -> Result<Tried> {
        self.number += 1;
        let bytes = call(name, self.number, arguments);
        self.stream.write_all(&bytes)?;
        let answer = self.answer()?;
        if answer.number != self.number {
            return Err(format!("{name}: an answer to call {}", answer.number).into());
        }
        let code = |fields: &Fields, id| match fields.get(id) {
            Some(Value::I32(code)) => *code,
            _ => -1,
        };
        Ok(match (answer.kind, answer.fields.get(1)) {
            (Some(Kind::Reply), Some(Value::Struct(exception))) => Err(code(exception, 1)),
            (Some(Kind::Reply), _) => Ok(answer.fields.get(0).cloned()),
            _ => Err(code(&answer.fields, 2)),
        })
    }

    fn answer(&mut self) -> Result<Message> {
        let mut scan = Scan::default();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            if let Some(length) = scan.length(&self.received)? {
                let rest = self.received.split_off(length);
                let answer = std::mem::replace(&mut self.received, rest);
                return Ok(read::message(&answer)?);
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err("the switch has closed the connection".into()),
                n_bytes => self.received.extend_from_slice(&chunk[..n_bytes]),
            }
        }
    }
}
