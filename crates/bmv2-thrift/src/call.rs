//! A call, written argument after argument.

use crate::message::{Options, Structure};
use crate::wire::write::Writer;
use crate::wire::{Kind, Type};

/// The name of a call with its arguments, which are numbered in their order from 1 on.
#[derive(Debug)]
pub struct Call {
    name: &'static str,
    arguments: Writer,
    next: i16,
}

impl Call {
    /// Without an argument yet.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            arguments: Writer::default(),
            next: 1,
        }
    }

    /// With BMv2's context, of which there is one, as first argument.
    pub fn in_context(name: &'static str) -> Self {
        Self::new(name).i32(0)
    }

    /// Without the service.
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn next(&mut self, of: Type) -> &mut Writer {
        let id = self.next;
        self.next += 1;
        self.arguments.field(id, of)
    }

    /// An argument.
    pub fn bool(mut self, value: bool) -> Self {
        self.next(Type::Bool).bool(value);
        self
    }

    /// An argument.
    pub fn i16(mut self, value: i16) -> Self {
        self.next(Type::I16).i16(value);
        self
    }

    /// An argument.
    pub fn i32(mut self, value: i32) -> Self {
        self.next(Type::I32).i32(value);
        self
    }

    /// An argument.
    pub fn i64(mut self, value: i64) -> Self {
        self.next(Type::I64).i64(value);
        self
    }

    /// An argument, text too.
    pub fn bytes(mut self, value: impl AsRef<[u8]>) -> Self {
        self.next(Type::Bytes).bytes(value.as_ref());
        self
    }

    /// An argument.
    pub fn all_bytes(mut self, values: &[Vec<u8>]) -> Self {
        let writer = self.next(Type::List).list(Type::Bytes, values.len());
        values.iter().for_each(|value| writer.bytes(value));
        self
    }

    /// An argument.
    pub fn structure(mut self, value: &impl Structure) -> Self {
        value.write(self.next(Type::Struct));
        self
    }

    /// An argument.
    pub fn structures(mut self, values: &[impl Structure]) -> Self {
        let writer = self.next(Type::List).list(Type::Struct, values.len());
        values.iter().for_each(|value| value.write(writer));
        self
    }

    /// An entry's options, an argument.
    pub fn priority(self, priority: i32) -> Self {
        let priority = Some(priority);
        self.structure(&Options { priority })
    }

    /// The bytes of the call, of a multiplexed service.
    pub fn encoded(self, service: &str, number: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.head(&format!("{service}:{}", self.name), Kind::Call, number);
        writer.encoded(self.arguments.written());
        writer.stop();
        writer.into_bytes()
    }
}
