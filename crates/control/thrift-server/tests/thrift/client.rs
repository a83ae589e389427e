//! A client: converts values to arguments and answers to values.

use std::time::Duration;

use bmv2_thrift::wire::read::{self, Fields, Message, Value};
use bmv2_thrift::wire::scan::Scan;
use bmv2_thrift::wire::write::Writer;
use bmv2_thrift::wire::{Kind, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any step takes: a test that waits so long has failed.
pub const TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub enum Arg {
    Bool(bool),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    Bytes(Vec<u8>),
    Struct(Vec<(i16, Arg)>),
    List(Type, Vec<Arg>),
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::Bytes(text.into())
    }
}

impl From<i32> for Arg {
    fn from(value: i32) -> Self {
        Self::I32(value)
    }
}

/// The arguments of a call.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { vec![$($crate::client::Arg::from($arg)),*] };
}
pub(crate) use args;

impl Arg {
    fn of(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::I16(_) => Type::I16,
            Self::I32(_) => Type::I32,
            Self::I64(_) => Type::I64,
            Self::Double(_) => Type::Double,
            Self::Bytes(_) => Type::Bytes,
            Self::Struct(_) => Type::Struct,
            Self::List(..) => Type::List,
        }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Bool(value) => writer.bool(*value),
            Self::I16(value) => writer.encoded(&value.to_be_bytes()),
            Self::I32(value) => writer.i32(*value),
            Self::I64(value) => writer.i64(*value),
            Self::Double(value) => writer.double(*value),
            Self::Bytes(value) => writer.bytes(value),
            Self::Struct(fields) => write_fields(writer, fields),
            Self::List(of, values) => {
                writer.list(*of, values.len());
                values.iter().for_each(|value| value.write(writer));
            }
        }
    }
}

fn write_fields(writer: &mut Writer, fields: &[(i16, Arg)]) {
    for (id, arg) in fields {
        arg.write(writer.field(*id, arg.of()));
    }
    writer.stop();
}

/// A list of strings.
pub fn all_bytes(values: &[&[u8]]) -> Arg {
    let values = values.iter().map(|value| Arg::Bytes(value.to_vec()));
    Arg::List(Type::Bytes, values.collect())
}

/// An exact match.
pub fn exact(value: &[u8]) -> Arg {
    let key = Arg::Struct(vec![(1, Arg::Bytes(value.to_vec()))]);
    Arg::Struct(vec![(1, 0.into()), (2, key)])
}

pub fn lpm(value: &[u8], prefix_len: i32) -> Arg {
    let key = Arg::Struct(vec![
        (1, Arg::Bytes(value.to_vec())),
        (2, prefix_len.into()),
    ]);
    Arg::Struct(vec![(1, 1.into()), (3, key)])
}

pub fn ternary(value: &[u8], mask: &[u8]) -> Arg {
    let pair = [(1, value), (2, mask)].map(|(id, it)| (id, Arg::Bytes(it.to_vec())));
    Arg::Struct(vec![(1, 2.into()), (4, Arg::Struct(pair.to_vec()))])
}

pub fn range(low: &[u8], high: &[u8]) -> Arg {
    let pair = [(1, low), (2, high)].map(|(id, it)| (id, Arg::Bytes(it.to_vec())));
    Arg::Struct(vec![(1, 4.into()), (6, Arg::Struct(pair.to_vec()))])
}

pub fn key(fields: Vec<Arg>) -> Arg {
    Arg::List(Type::Struct, fields)
}

/// The rates of a meter, in units per microsecond, and its bursts.
pub fn rates(rates: &[(f64, i32)]) -> Arg {
    let rates = rates
        .iter()
        .map(|(rate, burst)| Arg::Struct(vec![(1, Arg::Double(*rate)), (2, Arg::I32(*burst))]));
    Arg::List(Type::Struct, rates.collect())
}

/// The value of a counter, as an argument of a call.
pub fn counts(bytes: i64, packets: i64) -> Arg {
    Arg::Struct(vec![(1, Arg::I64(bytes)), (2, Arg::I64(packets))])
}

/// Reads the bytes and packets from the value of a counter in an answer.
pub fn counted(read: &Fields) -> (i64, i64) {
    match (read.get(1), read.get(2)) {
        (Some(Value::I64(bytes)), Some(Value::I64(packets))) => (*bytes, *packets),
        other => panic!("expected two numbers, found {other:?}"),
    }
}

/// The arguments of `bm_mt_add_entry` for an entry that sends frames for host `dst` to `port`.
pub fn to_port(dst: u8, port: u8) -> Vec<Arg> {
    entry("forward_to", dst, &[&[0, port]])
}

/// The arguments of `bm_mt_add_entry` for an entry that runs an action for frames to host `dst`.
pub fn entry(action: &str, dst: u8, params: &[&[u8]]) -> Vec<Arg> {
    let action = format!("EntitiesIngress.{action}");
    let key = key(vec![exact(&crate::harness::mac(dst))]);
    args![
        0,
        "EntitiesIngress.forward",
        key,
        &*action,
        all_bytes(params),
        priority(0)
    ]
}

pub fn priority(priority: i32) -> Arg {
    Arg::Struct(vec![(1, priority.into())])
}

/// The bytes of a call.
pub fn call(name: &str, number: i32, args: &[(i16, Arg)]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.head(name, Kind::Call, number);
    write_fields(&mut writer, args);
    writer.into_bytes()
}

/// Why a call was not carried out: an exception's code or a failure's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    Code(i32),
    Failure(i32),
}

pub struct Client {
    pub stream: TcpStream,
    received: Vec<u8>,
    number: i32,
    /// The service that is called if a call's name contains no service.
    pub service: &'static str,
}

impl Client {
    pub async fn connect(address: std::net::SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            received: Vec::new(),
            number: 0,
            service: "standard",
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next answer. `None` if the connection was closed.
    pub async fn answer(&mut self) -> Option<Message> {
        let receive = async {
            let mut scan = Scan::default();
            loop {
                if let Some(length) = scan.length(&self.received).unwrap() {
                    let rest = self.received.split_off(length);
                    let answer = std::mem::replace(&mut self.received, rest);
                    return Some(read::message(&answer).unwrap());
                }
                if matches!(
                    self.stream.read_buf(&mut self.received).await,
                    Ok(0) | Err(_)
                ) {
                    return None;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, receive)
            .await
            .expect("it is answered")
    }

    /// Makes a call with arguments numbered from 1. Returns the value in the answer, if any.
    pub async fn try_call(&mut self, name: &str, args: Vec<Arg>) -> Result<Option<Value>, Refused> {
        let (service, name) = name.split_once(':').unwrap_or((self.service, name));
        self.number += 1;
        let args: Vec<(i16, Arg)> = (1..).zip(args).collect();
        let call = call(&format!("{service}:{name}"), self.number, &args);
        self.send(&call).await;
        let answer = self.answer().await.expect("it is answered");
        assert_eq!((answer.number, &*answer.name), (self.number, name));
        result(&answer)
    }

    /// Makes a call that must be refused.
    pub async fn refused(&mut self, name: &str, args: Vec<Arg>) -> Refused {
        self.try_call(name, args).await.expect_err(name)
    }

    /// Makes a call that must succeed.
    pub async fn call(&mut self, name: &str, args: Vec<Arg>) -> Option<Value> {
        let result = self.try_call(name, args).await;
        result.unwrap_or_else(|refused| panic!("{name}: {refused:?}"))
    }

    /// Makes a call that returns a number.
    pub async fn number(&mut self, name: &str, args: Vec<Arg>) -> i64 {
        match self.call(name, args).await {
            Some(Value::I32(number)) => number.into(),
            Some(Value::I64(number)) => number,
            other => panic!("{name}: expected a number, found {other:?}"),
        }
    }

    pub async fn fields(&mut self, name: &str, args: Vec<Arg>) -> Fields {
        match self.call(name, args).await {
            Some(Value::Struct(fields)) => fields,
            other => panic!("{name}: expected a struct, found {other:?}"),
        }
    }

    pub async fn list(&mut self, name: &str, args: Vec<Arg>) -> Vec<Value> {
        match self.call(name, args).await {
            Some(Value::List(values)) => values,
            other => panic!("{name}: expected a list, found {other:?}"),
        }
    }

    pub async fn bytes(&mut self, name: &str, args: Vec<Arg>) -> Vec<u8> {
        match self.call(name, args).await {
            Some(Value::Bytes(bytes)) => bytes,
            other => panic!("{name}: expected a string, found {other:?}"),
        }
    }
}

/// Returns the value in an answer, or why the call was refused. Checks that every exception has a reason beside its
/// code.
pub fn result(answer: &Message) -> Result<Option<Value>, Refused> {
    if answer.kind == Some(Kind::Exception) {
        return Err(Refused::Failure(i32_of(&answer.fields, 2)));
    }
    assert_eq!(answer.kind, Some(Kind::Reply));
    if let Some(Value::Struct(exception)) = answer.fields.get(1) {
        assert!(matches!(exception.get(2), Some(Value::Bytes(reason)) if !reason.is_empty()));
        return Err(Refused::Code(i32_of(exception, 1)));
    }
    Ok(answer.fields.get(0).cloned())
}

pub fn i32_of(fields: &Fields, id: i16) -> i32 {
    match fields.get(id) {
        Some(Value::I32(value)) => *value,
        other => panic!("field {id}: expected an i32, found {other:?}"),
    }
}

pub fn struct_of(fields: &Fields, id: i16) -> &Fields {
    match fields.get(id) {
        Some(Value::Struct(fields)) => fields,
        other => panic!("field {id}: expected a struct, found {other:?}"),
    }
}

pub fn as_struct(value: &Value) -> &Fields {
    match value {
        Value::Struct(fields) => fields,
        other => panic!("expected a struct, found {other:?}"),
    }
}
