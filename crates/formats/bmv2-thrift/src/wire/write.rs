//! Encodes values, calls and answers.

use super::{Failure, Kind, Type, VERSION_1};

/// The encoded values so far.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn n_bytes(&self) -> usize {
        self.0.len()
    }

    pub fn written(&self) -> &[u8] {
        &self.0
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes a field's head. The value must follow.
    pub fn field(&mut self, id: i16, of: Type) -> &mut Self {
        self.0.push(of as u8);
        self.0.extend(id.to_be_bytes());
        self
    }

    /// Writes the end of a structure.
    pub fn stop(&mut self) {
        self.0.push(0);
    }

    pub fn bool(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    pub fn i16(&mut self, value: i16) {
        self.0.extend(value.to_be_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.0.extend(value.to_be_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.0.extend(value.to_be_bytes());
    }

    pub fn double(&mut self, value: f64) {
        self.0.extend(value.to_be_bytes());
    }

    /// Writes a value of Thrift's type `string`: binary data or text.
    pub fn bytes(&mut self, value: &[u8]) {
        self.i32(count(value.len()));
        self.0.extend(value);
    }

    /// Writes a list's head. The values must follow.
    pub fn list(&mut self, of: Type, n_values: usize) -> &mut Self {
        self.0.push(of as u8);
        self.i32(count(n_values));
        self
    }

    /// Writes a map's head. Keys and values must follow alternately.
    pub fn map(&mut self, of: (Type, Type), n_pairs: usize) -> &mut Self {
        self.0.extend([of.0 as u8, of.1 as u8]);
        self.i32(count(n_pairs));
        self
    }

    /// Writes bytes that are already encoded.
    pub fn encoded(&mut self, value: &[u8]) {
        self.0.extend(value);
    }

    /// Writes a message's head. A structure must follow.
    pub fn head(&mut self, name: &str, kind: Kind, number: i32) {
        let version = VERSION_1 | kind as u32;
        self.i32(version.cast_signed());
        self.bytes(name.as_bytes());
        self.i32(number);
    }
}

/// Converts a length or number to Thrift's type. The conversion never saturates: calls and answers are far shorter than
/// 2^31 bytes.
fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// The answer to a call that failed in a way that its service does not declare.
pub fn failure(name: &str, number: i32, failure: &Failure) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.head(name, Kind::Exception, number);
    writer
        .field(1, Type::Bytes)
        .bytes(failure.message.as_bytes());
    writer.field(2, Type::I32).i32(failure.kind as i32);
    writer.stop();
    writer.into_bytes()
}
