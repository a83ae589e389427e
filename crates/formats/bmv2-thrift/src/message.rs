//! The structures of the services.

use crate::wire::Type;
use crate::wire::write::Writer;
use crate::{Args, ArgsError};

/// A structure that both ends of a connection read and write.
pub trait Structure: Sized {
    fn write(&self, writer: &mut Writer);

    /// Reads all fields. A missing field is zero.
    ///
    /// # Errors
    /// A field has another type.
    fn read(args: Args<'_>) -> Result<Self, ArgsError>;
}

/// Reads a list of structures.
///
/// # Errors
/// The field, or one within it, has another type.
pub fn read_all<T: Structure>(args: Args<'_>, id: i16) -> Result<Vec<T>, ArgsError> {
    args.all_fields(id)?.into_iter().map(T::read).collect()
}

/// The match of one key field. Values have as many bytes as the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchParam {
    Exact(Vec<u8>),
    /// The value and the prefix length.
    Lpm(Vec<u8>, i32),
    /// The value and the mask.
    Ternary(Vec<u8>, Vec<u8>),
    /// Whether a header is valid.
    Valid(bool),
    /// The first and the last value.
    Range(Vec<u8>, Vec<u8>),
    /// Only the type number, if no match follows the number or if the number is unknown.
    None(i32),
}

impl MatchParam {
    /// BMv2's type number. The match is in the structure's field whose id is this number plus 2.
    pub fn type_number(&self) -> i32 {
        match self {
            Self::Exact(_) => 0,
            Self::Lpm(..) => 1,
            Self::Ternary(..) => 2,
            Self::Valid(_) => 3,
            Self::Range(..) => 4,
            Self::None(found) => *found,
        }
    }
}

impl Structure for MatchParam {
    fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::I32).i32(self.type_number());
        let field = |writer: &mut Writer, id| {
            writer.field(id, Type::Struct);
        };
        match self {
            Self::Exact(value) => {
                field(writer, 2);
                writer.field(1, Type::Bytes).bytes(value);
            }
            Self::Lpm(value, prefix_len) => {
                field(writer, 3);
                writer.field(1, Type::Bytes).bytes(value);
                writer.field(2, Type::I32).i32(*prefix_len);
            }
            Self::Ternary(one, other) | Self::Range(one, other) => {
                let is_ternary = matches!(self, Self::Ternary(..));
                field(writer, if is_ternary { 4 } else { 6 });
                writer.field(1, Type::Bytes).bytes(one);
                writer.field(2, Type::Bytes).bytes(other);
            }
            Self::Valid(is_valid) => {
                field(writer, 5);
                writer.field(1, Type::Bool).bool(*is_valid);
            }
            Self::None(_) => return writer.stop(),
        }
        writer.stop();
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        let of = args.i32(1)?;
        let field = match of {
            0..=4 => args.fields(of as i16 + 2)?,
            _ => None,
        };
        let Some(inner) = field else {
            return Ok(Self::None(of));
        };
        let bytes = |id| inner.bytes(id).map(<[u8]>::to_vec);
        Ok(match of {
            0 => Self::Exact(bytes(1)?),
            1 => Self::Lpm(bytes(1)?, inner.i32(2)?),
            2 => Self::Ternary(bytes(1)?, bytes(2)?),
            3 => Self::Valid(inner.bool(1)?),
            _ => Self::Range(bytes(1)?, bytes(2)?),
        })
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// The lowest number wins. Answers have -1 for tables without priorities.
    pub priority: Option<i32>,
}

impl Structure for Options {
    fn write(&self, writer: &mut Writer) {
        if let Some(priority) = self.priority {
            writer.field(1, Type::I32).i32(priority);
        }
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        let priority = args.has(1).then(|| args.i32(1)).transpose()?;
        Ok(Self { priority })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ActionEntry {
    #[default]
    Empty,
    /// An action with arguments.
    Call(String, Vec<Vec<u8>>),
    /// The handle of an action profile's member.
    Member(i32),
    /// The handle of an action profile's group.
    Group(i32),
}

fn write_call(writer: &mut Writer, name: &str, args: &[Vec<u8>]) {
    writer.field(2, Type::Bytes).bytes(name.as_bytes());
    writer.field(3, Type::List).list(Type::Bytes, args.len());
    args.iter().for_each(|arg| writer.bytes(arg));
}

fn read_call(args: Args<'_>) -> Result<(String, Vec<Vec<u8>>), ArgsError> {
    let data = args.all_bytes(3)?.into_iter();
    Ok((args.text(2)?.to_owned(), data.map(<[u8]>::to_vec).collect()))
}

impl Structure for ActionEntry {
    fn write(&self, writer: &mut Writer) {
        let of = match self {
            Self::Empty => 0,
            Self::Call(..) => 1,
            Self::Member(_) => 2,
            Self::Group(_) => 3,
        };
        writer.field(1, Type::I32).i32(of);
        match self {
            Self::Empty => {}
            Self::Call(name, args) => write_call(writer, name, args),
            Self::Member(handle) => writer.field(4, Type::I32).i32(*handle),
            Self::Group(handle) => writer.field(5, Type::I32).i32(*handle),
        }
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        Ok(match args.i32(1)? {
            1 => {
                let (name, args) = read_call(args)?;
                Self::Call(name, args)
            }
            2 => Self::Member(args.i32(4)?),
            3 => Self::Group(args.i32(5)?),
            _ => Self::Empty,
        })
    }
}

/// The idle timeout and last hit of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The entry is idle after this time without a hit.
    pub timeout_ms: i32,
    pub since_hit_ms: i32,
}

impl Structure for Life {
    fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::I32).i32(self.timeout_ms);
        writer.field(2, Type::I32).i32(self.since_hit_ms);
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        Ok(Self {
            timeout_ms: args.i32(1)?,
            since_hit_ms: args.i32(2)?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// One match for each field.
    pub key: Vec<MatchParam>,
    pub options: Options,
    /// The handle is unsigned, although its type is signed.
    pub handle: i32,
    pub action: ActionEntry,
    /// Set only for entries with an idle timeout.
    pub life: Option<Life>,
}

impl Structure for Entry {
    fn write(&self, writer: &mut Writer) {
        writer
            .field(1, Type::List)
            .list(Type::Struct, self.key.len());
        self.key.iter().for_each(|param| param.write(writer));
        self.options.write(writer.field(2, Type::Struct));
        writer.field(3, Type::I32).i32(self.handle);
        self.action.write(writer.field(4, Type::Struct));
        if let Some(life) = self.life {
            life.write(writer.field(5, Type::Struct));
        }
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        let options = args.fields(2)?.map(Options::read).transpose()?;
        let action = args.fields(4)?.map(ActionEntry::read).transpose()?;
        Ok(Self {
            key: read_all(args, 1)?,
            options: options.unwrap_or_default(),
            handle: args.i32(3)?,
            action: action.unwrap_or_default(),
            life: args.fields(5)?.map(Life::read).transpose()?,
        })
    }
}

/// A member of an action profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub handle: i32,
    /// The action's name.
    pub action: String,
    pub args: Vec<Vec<u8>>,
}

impl Structure for Member {
    fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::I32).i32(self.handle);
        write_call(writer, &self.action, &self.args);
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        let handle = args.i32(1)?;
        let (action, args) = read_call(args)?;
        Ok(Self {
            handle,
            action,
            args,
        })
    }
}

/// A group of an action profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub handle: i32,
    /// The members' handles.
    pub members: Vec<i32>,
}

impl Structure for Group {
    fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::I32).i32(self.handle);
        writer
            .field(2, Type::List)
            .list(Type::I32, self.members.len());
        self.members.iter().for_each(|member| writer.i32(*member));
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        Ok(Self {
            handle: args.i32(1)?,
            members: args.all_i32(2)?,
        })
    }
}

/// The value of a counter. Both numbers are unsigned in spite of their type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterValue {
    pub bytes: i64,
    pub packets: i64,
}

impl Structure for CounterValue {
    fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::I64).i64(self.bytes);
        writer.field(2, Type::I64).i64(self.packets);
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        Ok(Self {
            bytes: args.i64(1)?,
            packets: args.i64(2)?,
        })
    }
}

/// One rate of a meter. A meter's list has the lowest rate first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeterRate {
    /// Bytes or packets per microsecond.
    pub units_per_micros: f64,
    /// Bytes or packets.
    pub burst: i32,
}

impl Structure for MeterRate {
    fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::Double).double(self.units_per_micros);
        writer.field(2, Type::I32).i32(self.burst);
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        Ok(Self {
            units_per_micros: args.double(1)?,
            burst: args.i32(2)?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    pub port: i32,
    /// Name of the network interface.
    pub interface: String,
    /// Whether the port receives and sends frames.
    pub is_up: bool,
    /// Further properties, as names and values.
    pub extra: Vec<(String, String)>,
}

impl Structure for PortInfo {
    fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::I32).i32(self.port);
        writer
            .field(2, Type::Bytes)
            .bytes(self.interface.as_bytes());
        writer.field(3, Type::Bool).bool(self.is_up);
        writer
            .field(4, Type::Map)
            .map((Type::Bytes, Type::Bytes), self.extra.len());
        for (name, value) in &self.extra {
            writer.bytes(name.as_bytes());
            writer.bytes(value.as_bytes());
        }
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        Ok(Self {
            port: args.i32(1)?,
            interface: args.text(2)?.to_owned(),
            is_up: args.bool(3)?,
            extra: args.text_pairs(4)?,
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchInfo {
    pub device_id: i64,
    /// The TCP port of the Thrift server.
    pub thrift_port: i32,
    /// Addresses of the sockets for notifications, for events and for a debugger.
    pub sockets: [Option<String>; 3],
}

impl Structure for SwitchInfo {
    fn write(&self, writer: &mut Writer) {
        writer.field(1, Type::I64).i64(self.device_id);
        writer.field(2, Type::I32).i32(self.thrift_port);
        for (id, socket) in (3..).zip(&self.sockets) {
            if let Some(socket) = socket {
                writer.field(id, Type::Bytes).bytes(socket.as_bytes());
            }
        }
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        let socket = |id| -> Result<Option<String>, ArgsError> {
            let text = args.has(id).then(|| args.text(id)).transpose()?;
            Ok(text.map(str::to_owned))
        };
        Ok(Self {
            device_id: args.i64(1)?,
            thrift_port: args.i32(2)?,
            sockets: [socket(3)?, socket(4)?, socket(5)?],
        })
    }
}

/// Parameters of a custom 16-bit CRC. Numbers are unsigned in spite of their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc16 {
    /// Polynomial, initial remainder, final XOR value.
    pub numbers: [i16; 3],
    /// Whether the data and the remainder are reflected.
    pub reflected: [bool; 2],
}

impl Structure for Crc16 {
    fn write(&self, writer: &mut Writer) {
        for (id, number) in (1..).zip(self.numbers) {
            writer.field(id, Type::I16).i16(number);
        }
        write_reflected(writer, self.reflected);
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        Ok(Self {
            numbers: [args.i16(1)?, args.i16(2)?, args.i16(3)?],
            reflected: [args.bool(4)?, args.bool(5)?],
        })
    }
}

/// Parameters of a custom 32-bit CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc32 {
    /// Polynomial, initial remainder, final XOR value.
    pub numbers: [i32; 3],
    /// Whether the data and the remainder are reflected.
    pub reflected: [bool; 2],
}

impl Structure for Crc32 {
    fn write(&self, writer: &mut Writer) {
        for (id, number) in (1..).zip(self.numbers) {
            writer.field(id, Type::I32).i32(number);
        }
        write_reflected(writer, self.reflected);
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        Ok(Self {
            numbers: [args.i32(1)?, args.i32(2)?, args.i32(3)?],
            reflected: [args.bool(4)?, args.bool(5)?],
        })
    }
}

fn write_reflected(writer: &mut Writer, reflected: [bool; 2]) {
    for (id, is_reflected) in (4..).zip(reflected) {
        writer.field(id, Type::Bool).bool(is_reflected);
    }
    writer.stop();
}

/// Where a mirroring session sends copies: a port, a multicast group, or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MirroringSession {
    pub port: Option<i32>,
    pub group: Option<i32>,
}

impl Structure for MirroringSession {
    fn write(&self, writer: &mut Writer) {
        for (id, to) in [(1, self.port), (2, self.group)] {
            if let Some(to) = to {
                writer.field(id, Type::I32).i32(to);
            }
        }
        writer.stop();
    }

    fn read(args: Args<'_>) -> Result<Self, ArgsError> {
        let number = |id| args.has(id).then(|| args.i32(id)).transpose();
        Ok(Self {
            port: number(1)?,
            group: number(2)?,
        })
    }
}
