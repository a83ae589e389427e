//! Limits that compiler and switch share, so that the compiler refuses every program that the switch would refuse;
//! and an estimate of the memory that a program's declarations take in a switch.

use crate::{FieldWidth, Header, HeaderType, Program};

/// The highest number of cells of one register, counter or meter array. With this number, 64-bit cells take 128 MiB.
/// The limit catches a wrong size in a file.
pub const ARRAY_CELLS_MAX: u32 = 1 << 24;

/// The largest width of a field or of a register's cell, in bits: the largest width that p4c accepts by default.
pub const FIELD_BITS_MAX: u32 = 65_536;

/// The deepest nesting of expressions. Evaluation is recursive, and deeper nesting would overflow the stack.
pub const EXPRESSION_DEPTH_MAX: usize = 256;

/// The deepest nesting of objects and lists in a JSON file. An expression of [`EXPRESSION_DEPTH_MAX`] levels needs two
/// levels of JSON for each level of the expression. simple_switch reads 1,000 levels of JSON.
pub const JSON_DEPTH_MAX: usize = 1_000;

/// The highest number of fields of all headers and metadata together. Each field takes 32 bytes in every packet inside
/// the switch, and time to clear.
pub const FIELDS_MAX: usize = 65_536;

/// The largest size in bytes of one packet's headers and metadata: twice what [`FIELDS_MAX`] fields of at most 128 bits
/// take.
pub const HEADER_VECTOR_BYTES_MAX: u64 = 4 << 20;

/// The largest size in bytes of a program's arrays plus the header vectors of [`PACKETS_AT_ONCE`] packets: what a small
/// server can spare for one switch. Each worker of a switch takes so much memory of its own.
pub const PROGRAM_BYTES_MAX: u64 = 2 << 30;

/// The number of packets whose header vectors count as memory of the program: one receive batch.
pub const PACKETS_AT_ONCE: u64 = 64;

/// Bytes that a field takes in a header vector; a value wider than 128 bits takes its own bytes in addition.
const FIELD_BYTES: u64 = 32;
const COUNTER_BYTES: u64 = 16;
/// A cell of a meter, with its rates.
const METER_BYTES: u64 = 128;

/// The memory of a program, in bytes. Sums saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All registers, counters and meters.
    pub arrays: u64,
    /// Headers and metadata of one packet.
    pub header_vector: u64,
    /// Number of fields in the header vector.
    pub fields: usize,
}

impl Memory {
    pub fn of(program: &Program) -> Self {
        let registers = program
            .register_arrays
            .iter()
            .map(|array| u64::from(array.size).saturating_mul(cell_bytes(array.bitwidth)));
        let counters = program
            .counter_arrays
            .iter()
            .map(|array| (array.size, COUNTER_BYTES));
        let meters = program
            .meter_arrays
            .iter()
            .map(|array| (array.size, METER_BYTES));
        let sized = counters
            .chain(meters)
            .map(|(size, bytes)| u64::from(size.unwrap_or(0)) * bytes);
        let types = program.header_types.iter();
        let types: std::collections::HashMap<&str, (usize, u64)> = types
            .map(|it| (it.name.as_str(), (it.fields.len(), header_bytes(it))))
            .collect();
        let of_type = |header: &Header| {
            let found = types.get(header.header_type.as_str()).copied();
            found.unwrap_or_default()
        };
        let headers = program.headers.iter().map(of_type);
        Self {
            arrays: registers.chain(sized).fold(0, u64::saturating_add),
            header_vector: headers
                .clone()
                .fold(0, |sum, (_, bytes)| sum.saturating_add(bytes)),
            fields: headers.map(|(fields, _)| fields).sum(),
        }
    }

    /// Returns why no switch accepts the program, or `None`.
    pub fn excess(&self) -> Option<String> {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        if self.fields > FIELDS_MAX {
            let found = self.fields;
            return Some(format!(
                "headers and metadata have {found} fields, expected {FIELDS_MAX} at most"
            ));
        }
        if self.header_vector > HEADER_VECTOR_BYTES_MAX {
            return Some(format!(
                "headers and metadata take {} MiB of each packet's memory, expected {} MiB at most",
                mib(self.header_vector),
                mib(HEADER_VECTOR_BYTES_MAX)
            ));
        }
        let vectors = self.header_vector.saturating_mul(PACKETS_AT_ONCE);
        let total = self.arrays.saturating_add(vectors);
        (total > PROGRAM_BYTES_MAX).then(|| {
            format!(
                "registers, counters, meters and headers take {} MiB of memory together, expected {} MiB at most",
                mib(total),
                mib(PROGRAM_BYTES_MAX)
            )
        })
    }
}

fn wide_bytes(bits: u32) -> u64 {
    if bits > 128 {
        u64::from(bits.div_ceil(8))
    } else {
        0
    }
}

fn cell_bytes(bits: u32) -> u64 {
    if bits <= 64 {
        8
    } else {
        FIELD_BYTES + wide_bytes(bits)
    }
}

/// Bytes that a header takes in a header vector.
fn header_bytes(header_type: &HeaderType) -> u64 {
    let fields = header_type.fields.iter().map(|field| match field.width {
        FieldWidth::Fixed(bits) => FIELD_BYTES + wide_bytes(bits),
        FieldWidth::Variable => FIELD_BYTES + u64::from(header_type.max_length.unwrap_or(0)),
    });
    // The bytes of one more field account for the validity, the varbit field's width and the header's bytes on the
    // wire.
    FIELD_BYTES + fields.sum::<u64>()
}
