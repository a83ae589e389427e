//! Builds a call, argument by argument.

use crate::message::{Options, Structure};
use crate::wire::write::Writer;
use crate::wire::{Kind, Type};

/// A call's name and arguments. The arguments are numbered from 1 in order.
#[derive(Debug)]
pub struct Call {
    name: &'static str,
    arguments: Writer,
    next: i16,
}

impl Call {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            arguments: Writer::default(),
            next: 1,
        }
    }

    /// A call whose first argument is BMv2's context. There is only context 0.
    pub fn in_context(name: &'static str) -> Self {
        Self::new(name).i32(0)
    }

    /// The call's name without its service.
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn next(&mut self, of: Type) -> &mut Writer {
        let id = self.next;
        self.next += 1;
        self.arguments.field(id, of)
    }

    pub fn bool(mut self, value: bool) -> Self {
        self.next(Type::Bool).bool(value);
        self
    }

    pub fn i16(mut self, value: i16) -> Self {
        self.next(Type::I16).i16(value);
        self
    }

    pub fn i32(mut self, value: i32) -> Self {
        self.next(Type::I32).i32(value);
        self
    }

    pub fn i64(mut self, value: i64) -> Self {
        self.next(Type::I64).i64(value);
        self
    }

    /// Adds a value of Thrift's type `string`: binary data or text.
    pub fn bytes(mut self, value: impl AsRef<[u8]>) -> Self {
        self.next(Type::Bytes).bytes(value.as_ref());
        self
    }

    pub fn all_bytes(mut self, values: &[Vec<u8>]) -> Self {
        let writer = self.next(Type::List).list(Type::Bytes, values.len());
        values.iter().for_each(|value| writer.bytes(value));
        self
    }

    pub fn structure(mut self, value: &impl Structure) -> Self {
        value.write(self.next(Type::Struct));
        self
    }

    pub fn structures(mut self, values: &[impl Structure]) -> Self {
        let writer = self.next(Type::List).list(Type::Struct, values.len());
        values.iter().for_each(|value| value.write(writer));
        self
    }

    /// Adds an entry's options, with this priority.
    pub fn priority(self, priority: i32) -> Self {
        let priority = Some(priority);
        self.structure(&Options { priority })
    }

    /// The bytes of the call, for a multiplexed service.
    pub fn encoded(self, service: &str, number: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.head(&format!("{service}:{}", self.name), Kind::Call, number);
        writer.encoded(self.arguments.written());
        writer.stop();
        writer.into_bytes()
    }
}
