//! The layout of a packet's state in the scratch memory. Fields take whole words of 8 bytes, lowest first, in host
//! order; signed fields are sign-extended.

use dataplane::engine::ir::{
    AnyStack, CalculationInput, FieldId, HeaderId, Ir, StackId, UnionStackId,
};

use crate::image::{Heap, TableLayout};

/// The largest state, in bytes. A value of a per-CPU map and an instruction's offset can be no larger.
const BYTES_MAX: u32 = 32 * 1024 - 8;

/// The words of the state that hold no field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Word {
    /// The port that received the frame.
    Port,
    /// The port that the packet leaves by.
    OutPort,
    /// Arrival time, `CLOCK_MONOTONIC` in nanoseconds.
    Arrival,
    /// The packet's multicast group; 0 without a group. Latencies are counted for each stream, and the copies to one
    /// group are one stream.
    Stream,
    /// Length of the frame as received.
    IngressBytes,
    /// `packet_length` as egress will see it.
    PacketLength,
    /// Bytes that the parser has consumed.
    Consumed,
    /// A position in bytes that is known only at run time: where to write or to assemble next.
    Cursor,
    /// How many bytes before the parser's position belong to fields of variable width or to skipped parts of variable
    /// width.
    Moved,
    ParserError,
    /// 1 if a checksum was wrong.
    ChecksumError,
    /// 1 if the headers in the frame are not exactly the valid headers in the deparser's order.
    Irregular,
    /// Position of the last requested digest in the list of all digests, plus 1; 0 if none was requested.
    Digest,
    Exited,
    End,
    Reason,
    /// Length of the leaving frame.
    SentBytes,
    /// Serial number of the last packet that this processor replicated. The next packet does not clear this word.
    Serial,
    /// Serial number of the packet that a copy belongs to. Differs from `Serial` if the processor has handled several
    /// packets before their copies leave.
    CopySerial,
    FanOut,
    Replicas,
    /// For each port, the last copy's serial number and position in the array of instances. The next packet does not
    /// clear these words.
    Places,
}

/// The longest input of a hash, including the zeros after the input.
const BUFFER_BYTES_MAX: u32 = 512;

/// Size of the buffer: the input of the program's longest hash, each part rounded up to bytes, and 8 zeros after the
/// input.
fn buffer_bytes(ir: &Ir) -> u32 {
    let bits = |input: &CalculationInput| match input {
        CalculationInput::Field(field) => ir.fields[field.index()].bits,
        CalculationInput::Header(header) => ir.headers[header.index()].fixed_bits,
        CalculationInput::Constant { bits, .. } => *bits,
        CalculationInput::Payload => 0,
    };
    let calculations = ir.calculations.iter();
    let bytes = calculations.map(|it| it.input.iter().map(|it| bits(it).div_ceil(8)).sum::<u32>());
    let longest = bytes
        .max()
        .map_or(0, |bytes| (bytes + 8).next_multiple_of(8));
    longest.min(BUFFER_BYTES_MAX)
}

#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub bytes: u32,
    words: u32,
    valid: u32,
    parsed: u32,
    offsets: u32,
    next: u32,
    fields: Vec<u32>,
    n_stacks: u32,
    n_union_stacks: u32,
    n_valid_words: u32,
    journal: u32,
    message: u32,
    buffer: u32,
    buffer_bytes: u32,
}

impl Layout {
    /// The most entries of the journal (the counters that a packet increments): one for each table and for each
    /// statement that counts.
    pub(super) const JOURNAL_MAX: u32 = 512;

    /// `message_words` is the size of the longest digest message in words.
    ///
    /// # Errors
    /// The state is too large.
    pub(super) fn new(ir: &Ir, message_words: u32) -> Result<Self, String> {
        let mut at = 0_u32;
        let mut take = |words: u32| {
            let from = at;
            at = at.saturating_add(8 * words);
            from
        };
        let words = take(Word::Places as u32 + Heap::N_PORTS);
        let journal = take(Self::JOURNAL_MAX / 2);
        let message = take(message_words);
        let n_valid_words = (ir.headers.len() as u32).div_ceil(32).max(1);
        let parsed = take(n_valid_words.div_ceil(2));
        let offsets = take(ir.headers.len() as u32);
        let valid = take(n_valid_words.div_ceil(2));
        let next = take((ir.stacks.len() + ir.union_stacks.len()) as u32);
        let fields = ir.fields.iter();
        let fields = fields
            .map(|field| take(TableLayout::words(field.bits)))
            .collect();
        let buffer_bytes = buffer_bytes(ir);
        let buffer = take(buffer_bytes / 8);
        if at > BYTES_MAX {
            return Err(format!(
                "its headers and metadata take {at} bytes, expected at most {BYTES_MAX}"
            ));
        }
        Ok(Self {
            bytes: at,
            words,
            valid,
            parsed,
            offsets,
            next,
            fields,
            n_stacks: ir.stacks.len() as u32,
            n_union_stacks: ir.union_stacks.len() as u32,
            n_valid_words,
            journal,
            message,
            buffer,
            buffer_bytes,
        })
    }

    pub(super) fn word(&self, word: Word) -> i16 {
        (self.words + 8 * word as u32) as i16
    }

    pub(super) fn field(&self, field: FieldId, word: u32) -> i16 {
        (self.fields[field.index()] + 8 * word) as i16
    }

    /// Returns the offset of the 4-byte word that holds a header's validity bit, and the bit's number in that word.
    pub(super) fn valid(&self, header: HeaderId) -> (i16, u32) {
        ((self.valid + 4 * (header.0 / 32)) as i16, header.0 % 32)
    }

    /// Returns the offsets of the 4-byte words that hold the validity bits, in pairs: first the word with the current
    /// bits, then the word with the bits as the parser left them.
    pub(super) fn valid_words(&self) -> impl Iterator<Item = (i16, i16)> {
        let (valid, parsed) = (self.valid, self.parsed);
        (0..self.n_valid_words)
            .map(move |word| ((valid + 4 * word) as i16, (parsed + 4 * word) as i16))
    }

    /// Returns where a header's position in the frame is stored.
    pub(super) fn offset(&self, header: HeaderId) -> i16 {
        (self.offsets + 8 * header.0) as i16
    }

    pub(super) fn next_index(&self, stack: AnyStack) -> i16 {
        let position = match stack {
            AnyStack::Headers(stack) => stack.0,
            AnyStack::Unions(stack) => self.n_stacks + stack.0,
        };
        (self.next + 8 * position) as i16
    }

    pub(super) fn stacks(&self) -> impl Iterator<Item = AnyStack> + use<> {
        let headers = (0..self.n_stacks).map(|stack| AnyStack::Headers(StackId(stack)));
        let unions = (0..self.n_union_stacks).map(|stack| AnyStack::Unions(UnionStackId(stack)));
        headers.chain(unions)
    }

    /// Returns the offset of the buffer for a hash's input.
    pub(super) fn buffer(&self) -> i16 {
        self.buffer as i16
    }

    pub(super) fn buffer_bytes(&self) -> u32 {
        self.buffer_bytes
    }

    pub(super) fn message(&self, at: u32) -> i16 {
        (self.message + at) as i16
    }

    /// Returns the offset of an entry of the journal; an entry has 4 bytes.
    pub(super) fn journal(&self, entry: u32) -> i16 {
        (self.journal + 4 * entry) as i16
    }
}
