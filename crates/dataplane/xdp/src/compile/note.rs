//! Writes and reads the note: a record that ingress writes in front of the frame, as XDP metadata, for a packet's
//! copies. It contains what copies need in addition to the headers in their frame. Each copy has the record.

use dataplane::engine::ir::{AnyStack, FieldId, Meaning, Moment};

use super::{
    emit::{Emit, Emitted, Kind, SCRATCH, STACK_VERSION},
    layout::{Layout, Word},
    needs::Needs,
};
use crate::asm::{Alu, Jump, Label, Reg, Size, reg::*};

/// The longest record. A frame's headroom is 256 bytes, some of which the kernel uses to describe the frame.
const BYTES_MAX: u32 = 128;

/// A value of the packet's state.
#[derive(Debug, Clone, Copy)]
enum Item {
    Version,
    /// A word of the state: first where ingress keeps it, then where the program for copies keeps it.
    Word(Word, Word),
    Valid(i16),
    Next(AnyStack),
    Field(FieldId, u32),
}

impl Item {
    /// A word that ingress and copies keep in the same place.
    fn same(word: Word) -> Self {
        Item::Word(word, word)
    }
}

/// The layout of the record.
#[derive(Debug)]
pub(super) struct Note {
    items: Vec<(Item, Size, u32)>,
    bytes: u32,
}

fn size_of(bits: u32) -> Size {
    match bits {
        0..=8 => Size::B1,
        9..=16 => Size::B2,
        17..=32 => Size::B4,
        _ => Size::B8,
    }
}

impl Note {
    /// # Errors
    /// The record would be too long, or copies read a field of a header that the deparser does not emit.
    pub(super) fn new(layout: &Layout, needs: &Needs<'_>) -> Emitted<Self> {
        let ir = needs.ir();
        // The first two items are the frame's arrival time and stream, in the layout `image::Origin`.
        let mut items = vec![
            (Item::same(Word::Arrival), Size::B8),
            (Item::same(Word::Stream), Size::B8),
            (Item::Version, Size::B8),
            (Item::Word(Word::Serial, Word::CopySerial), Size::B4),
            (Item::same(Word::FanOut), Size::B4),
            (Item::same(Word::IngressBytes), Size::B4),
        ];
        if needs
            .metadata(Moment::Egress, Meaning::PacketLength)
            .is_some()
        {
            items.push((Item::same(Word::PacketLength), Size::B4));
        }
        items.extend(
            layout
                .valid_words()
                .map(|(now, _)| (Item::Valid(now), Size::B4)),
        );
        items.extend(layout.stacks().map(|stack| (Item::Next(stack), Size::B1)));
        for position in 0..ir.fields.len() as u32 {
            let field = FieldId(position);
            let declared = &ir.fields[field.index()];
            let is_metadata = ir.headers[declared.header.index()].metadata;
            if !is_metadata && needs.is_read_in_egress(field) && !needs.is_emitted(declared.header)
            {
                return Err(format!(
                    "copies read \"{}\", which does not leave with the packet",
                    declared.name
                ));
            }
            // If the header is valid, the program for copies overwrites the stale value by the value in the copy's
            // frame.
            let is_carried = needs.travels(field) || needs.is_stale(field);
            if !is_carried || declared.bits == 0 {
                continue;
            }
            let words = declared.bits.div_ceil(64);
            for word in 0..words {
                let bits = declared.bits - 64 * word;
                let size = if declared.signed {
                    Size::B8
                } else {
                    size_of(bits)
                };
                items.push((Item::Field(field, word), size));
            }
        }
        items.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        let mut at = 0;
        let mut placed = Vec::new();
        for (item, size) in items {
            placed.push((item, size, at));
            at += size.bytes();
        }
        let bytes = at.next_multiple_of(4);
        if bytes > BYTES_MAX {
            return Err(format!(
                "copies need {bytes} bytes of metadata, expected at most {BYTES_MAX}"
            ));
        }
        Ok(Self {
            items: placed,
            bytes,
        })
    }

    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }
}

impl Emit<'_> {
    /// Writes the record at the address in `R3`. Jumps to `refused` if the record would end after the address in `R4`.
    pub(super) fn write_note(&mut self, note: &Note, refused: Label) {
        self.check_note(note, refused);
        for (item, size, at) in &note.items {
            self.load_item(*item);
            self.asm.store(*size, R3, *at as i16, R1);
        }
    }

    /// Reads the record at the address in `R3`. Jumps to `refused` if the record would end after the address in `R4`.
    pub(super) fn read_note(&mut self, note: &Note, refused: Label) {
        self.check_note(note, refused);
        for (item, size, at) in &note.items {
            self.asm.load(*size, R1, R3, *at as i16);
            self.store_item(*item);
        }
    }

    fn check_note(&mut self, note: &Note, refused: Label) {
        self.asm.mov(R1, R3);
        self.asm.alu_imm(Alu::Add, R1, note.bytes as i32);
        self.asm.jump_if(Jump::Gt, R1, R4, refused);
    }

    fn item_at(&self, item: Item) -> (Size, Reg, i16) {
        match item {
            Item::Version => (Size::B8, R10, STACK_VERSION),
            Item::Word(ingress, copies) => {
                let word = match self.kind {
                    Kind::Ports => ingress,
                    Kind::Copies => copies,
                };
                (Size::B8, SCRATCH, self.layout.word(word))
            }
            Item::Valid(at) => (Size::B4, SCRATCH, at),
            Item::Next(stack) => (Size::B8, SCRATCH, self.layout.next_index(stack)),
            Item::Field(field, word) => (Size::B8, SCRATCH, self.layout.field(field, word)),
        }
    }

    fn load_item(&mut self, item: Item) {
        let (size, base, at) = self.item_at(item);
        self.asm.load(size, R1, base, at);
    }

    fn store_item(&mut self, item: Item) {
        let (size, base, at) = self.item_at(item);
        self.asm.store(size, base, at, R1);
    }
}
