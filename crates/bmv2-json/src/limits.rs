//! The limits of a program that compiler and switch share, so that the one refuses what the other would: each a name, a
//! unit, a reason. And what a program takes of a switch's memory by its declarations.

use crate::{FieldWidth, Header, HeaderType, Program};

/// Cells of one register, counter or meter array: 128 MiB of 64-bit cells; protects from a wrong size in a file.
pub const ARRAY_CELLS_MAX: u32 = 1 << 24;

/// Bits of a field, and of a register's cell: the widest that p4c accepts by default.
pub const FIELD_BITS_MAX: u32 = 65_536;

/// Nested expressions: deeper ones would overflow the stack of whoever evaluates.
pub const EXPRESSION_DEPTH_MAX: usize = 256;

/// Objects and lists inside one another in a file: an expression of [`EXPRESSION_DEPTH_MAX`] takes two for each, and
/// simple_switch reads 1,000.
pub const JSON_DEPTH_MAX: usize = 1_000;

/// Fields of all headers and metadata: each takes 32 bytes of every packet that is inside, and time to clear them.
pub const FIELDS_MAX: usize = 65_536;

/// Bytes of one packet's headers and metadata: as much as [`FIELDS_MAX`] fields of 32 bits take, twice.
pub const HEADER_VECTOR_BYTES_MAX: u64 = 4 << 20;

/// Bytes of a program's arrays, with the header vectors of [`PACKETS_AT_ONCE`] packets: what a small server has to spare
/// for one switch. A switch with workers has them once for each.
pub const PROGRAM_BYTES_MAX: u64 = 2 << 30;

/// Packets whose header vectors count as memory of the program: a receive batch.
pub const PACKETS_AT_ONCE: u64 = 64;

/// Bytes of a field in a packet beside those of a value that is wider than 128 bits.
const FIELD_BYTES: u64 = 32;
/// Bytes of a counter's cell.
const COUNTER_BYTES: u64 = 16;
/// Bytes of a meter's cell, its rates included.
const METER_BYTES: u64 = 128;

/// The memory of a program, in bytes; sums stop at the greatest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Registers, counters and meters.
    pub arrays: u64,
    /// Headers and metadata of one packet.
    pub header_vector: u64,
    /// Fields in it.
    pub fields: usize,
}

impl Memory {
    /// What a program takes.
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

    /// Why no switch takes the program; none where it does.
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

/// Bytes of a register's cell.
fn cell_bytes(bits: u32) -> u64 {
    if bits <= 64 {
        8
    } else {
        FIELD_BYTES + wide_bytes(bits)
    }
}

/// Bytes that a header of this type takes of a packet.
fn header_bytes(header_type: &HeaderType) -> u64 {
    let fields = header_type.fields.iter().map(|field| match field.width {
        FieldWidth::Fixed(bits) => FIELD_BYTES + wide_bytes(bits),
        FieldWidth::Variable => FIELD_BYTES + u64::from(header_type.max_length.unwrap_or(0)),
    });
    // Validity, the varbit field's width, the room on the wire.
    FIELD_BYTES + fields.sum::<u64>()
}
