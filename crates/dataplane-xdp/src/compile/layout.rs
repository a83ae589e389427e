//! Where a packet's state is in its scratch memory. Fields have whole words of 8 bytes, the lowest first,
//! in host order; signed ones are sign-extended.

use dataplane::engine::ir::{
    AnyStack, CalculationInput, FieldId, HeaderId, Ir, StackId, UnionStackId,
};

use crate::image::{Heap, TableLayout};

/// Bytes at most: a value of a per-processor map, and offsets of instructions, are not larger.
const BYTES_MAX: u32 = 32 * 1024 - 8;

/// Words beside the fields, by what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Word {
    /// The port that the frame came by.
    Port,
    /// The port that the packet leaves by.
    OutPort,
    /// When the frame came, in nanoseconds since the machine has started.
    Arrival,
    /// The group whose copies are a stream; 0 of what has none.
    Stream,
    /// Bytes of the frame as it came.
    IngressBytes,
    /// `packet_length` as egress will see it.
    PacketLength,
    /// Bytes that the parser consumed.
    Consumed,
    /// A position that is not constant: of what is written, or put together.
    Cursor,
    /// Bytes before the parser's position that are not constant: what has variable width.
    Moved,
    /// The number of the parser's error.
    ParserError,
    /// 1 where a checksum was wrong.
    ChecksumError,
    /// 1 where the headers in the frame are not those that are valid, in the deparser's order.
    Irregular,
    /// 1 more than the position of the digest that was asked for last.
    Digest,
    /// 1 after `exit`.
    Exited,
    /// How the packet ends.
    End,
    /// Why it is dropped.
    Reason,
    /// Bytes of the frame that leaves.
    SentBytes,
    /// The last packet's number of those that this processor replicated. It survives packets.
    Serial,
    /// The number of the packet that a copy is of. It is not the last one's where a processor has taken
    /// several packets before their copies leave.
    CopySerial,
    /// A group's fan-out.
    FanOut,
    /// A group's replicas.
    Replicas,
    /// Where a processor is in a packet's copies, by port: serial and position. They survive packets.
    Places,
}

/// Bytes of a hash's input at most, with the zeros behind it.
const BUFFER_BYTES_MAX: u32 = 512;

/// Room for the input of the program's longest hash, a byte more for each of its parts, and zeros behind it.
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

/// The layout of a packet's state.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Bytes in all.
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
    /// Entries of the journal at most: tables, and places that count.
    pub(super) const JOURNAL_MAX: u32 = 512;

    /// With so many words for a digest's message.
    ///
    /// # Errors
    /// It is too large.
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

    /// A word.
    pub(super) fn word(&self, word: Word) -> i16 {
        (self.words + 8 * word as u32) as i16
    }

    /// A word of a field.
    pub(super) fn field(&self, field: FieldId, word: u32) -> i16 {
        (self.fields[field.index()] + 8 * word) as i16
    }

    /// The word of 4 bytes with a header's validity, and its bit there.
    pub(super) fn valid(&self, header: HeaderId) -> (i16, u32) {
        ((self.valid + 4 * (header.0 / 32)) as i16, header.0 % 32)
    }

    /// The words of 4 bytes of all validities: where they are now and where the parser left them.
    pub(super) fn valid_words(&self) -> impl Iterator<Item = (i16, i16)> {
        let (valid, parsed) = (self.valid, self.parsed);
        (0..self.n_valid_words)
            .map(move |word| ((valid + 4 * word) as i16, (parsed + 4 * word) as i16))
    }

    /// Where a header began in the frame.
    pub(super) fn offset(&self, header: HeaderId) -> i16 {
        (self.offsets + 8 * header.0) as i16
    }

    /// The `nextIndex` of a stack.
    pub(super) fn next_index(&self, stack: AnyStack) -> i16 {
        let position = match stack {
            AnyStack::Headers(stack) => stack.0,
            AnyStack::Unions(stack) => self.n_stacks + stack.0,
        };
        (self.next + 8 * position) as i16
    }

    /// Every stack.
    pub(super) fn stacks(&self) -> impl Iterator<Item = AnyStack> + use<> {
        let headers = (0..self.n_stacks).map(|stack| AnyStack::Headers(StackId(stack)));
        let unions = (0..self.n_union_stacks).map(|stack| AnyStack::Unions(UnionStackId(stack)));
        headers.chain(unions)
    }

    /// Where the input of a hash is put together.
    pub(super) fn buffer(&self) -> i16 {
        self.buffer as i16
    }

    /// Bytes of that.
    pub(super) fn buffer_bytes(&self) -> u32 {
        self.buffer_bytes
    }

    /// A byte of the digest's message.
    pub(super) fn message(&self, at: u32) -> i16 {
        (self.message + at) as i16
    }

    /// An entry of the journal, of 4 bytes.
    pub(super) fn journal(&self, entry: u32) -> i16 {
        (self.journal + 4 * entry) as i16
    }
}
