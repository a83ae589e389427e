//! Where the metadata are that the target reads and writes, and the field lists that it keeps.

use std::ops::Range;

use dataplane::engine::ir::{FieldId, FieldListId, Ir};

use crate::{
    layout::{Layout, WORD_BYTES},
    wire,
};

/// A field of metadata in the vector, or one that a program leaves out or never reads: it is not
/// written, and reads as 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataSlot {
    word: u32,
    /// None where there is no field.
    words: u32,
    /// The bits of a number that a field of one word without a sign takes; 0 in any other.
    mask: u64,
    bits: u32,
    signed: bool,
}

impl MetadataSlot {
    const NONE: Self = Self {
        word: 0,
        words: 0,
        mask: 0,
        bits: 0,
        signed: false,
    };

    fn new(field: FieldId, layout: &Layout) -> Self {
        let slot = layout.field(field);
        Self {
            word: slot.offset / WORD_BYTES,
            words: slot.words,
            bits: slot.bits,
            signed: slot.signed,
            mask: match slot.bits {
                bits @ 1..=64 if slot.words == 1 && !slot.signed => u64::MAX >> (64 - bits),
                _ => 0,
            },
        }
    }

    fn range(&self) -> Range<usize> {
        self.word as usize..(self.word + self.words) as usize
    }

    /// The low 64 bits.
    #[inline]
    pub(crate) fn get(&self, vector: &[u64]) -> u64 {
        match self.words {
            0 => 0,
            _ => vector[self.word as usize],
        }
    }

    /// Writes a number, cut to the field's width.
    #[inline]
    pub(crate) fn set(&self, vector: &mut [u64], number: u64) {
        self.set_to(vector, || number);
    }

    /// Writes a number that is computed where somebody reads it.
    #[inline]
    pub(crate) fn set_to(&self, vector: &mut [u64], number: impl FnOnce() -> u64) {
        if self.mask != 0 {
            vector[self.word as usize] = number() & self.mask;
        } else if self.words != 0 {
            self.set_words(vector, number());
        }
    }

    #[cold]
    fn set_words(&self, vector: &mut [u64], number: u64) {
        let words = &mut vector[self.range()];
        words.fill(0);
        if let Some(low) = words.first_mut() {
            *low = number;
        }
        wire::wrap(words, self.bits, self.signed);
    }
}

/// Where they all are.
#[derive(Debug, Clone)]
pub(crate) struct MetadataSlots {
    pub egress_spec: MetadataSlot,
    pub ingress_port: MetadataSlot,
    pub egress_port: MetadataSlot,
    pub instance_type: MetadataSlot,
    pub packet_length: MetadataSlot,
    pub ingress_global_timestamp: MetadataSlot,
    pub egress_global_timestamp: MetadataSlot,
    pub nanoseconds_inside: MetadataSlot,
    pub mcast_grp: MetadataSlot,
    pub egress_rid: MetadataSlot,
    pub parser_error: MetadataSlot,
    pub checksum_error: MetadataSlot,
    pub priority: MetadataSlot,
    pub qid: MetadataSlot,
    /// None where nobody reads one of them.
    pub queueing: Option<QueueingSlots>,
    /// Some header has a varbit field.
    pub has_variable: bool,
}

/// The fields of the queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueingSlots {
    pub enq_timestamp: MetadataSlot,
    pub enq_qdepth: MetadataSlot,
    pub deq_timedelta: MetadataSlot,
    pub deq_qdepth: MetadataSlot,
}

impl QueueingSlots {
    fn is_read(&self) -> bool {
        let all = [
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
        ];
        all.iter().any(|slot| slot.words != 0)
    }
}

impl MetadataSlots {
    pub(crate) fn new(ir: &Ir, layout: &Layout) -> Self {
        let slot = |field: FieldId| match layout.is_read(field) {
            true => MetadataSlot::new(field, layout),
            false => MetadataSlot::NONE,
        };
        let maybe = |field: Option<FieldId>| field.map_or(MetadataSlot::NONE, slot);
        let metadata = &ir.metadata;
        let queueing = metadata.queueing.map(|queueing| QueueingSlots {
            enq_timestamp: slot(queueing.enq_timestamp),
            enq_qdepth: slot(queueing.enq_qdepth),
            deq_timedelta: slot(queueing.deq_timedelta),
            deq_qdepth: slot(queueing.deq_qdepth),
        });
        Self {
            egress_spec: slot(metadata.egress_spec),
            ingress_port: slot(metadata.ingress_port),
            egress_port: slot(metadata.egress_port),
            instance_type: slot(metadata.instance_type),
            packet_length: slot(metadata.packet_length),
            ingress_global_timestamp: maybe(metadata.ingress_global_timestamp),
            egress_global_timestamp: maybe(metadata.egress_global_timestamp),
            nanoseconds_inside: maybe(metadata.nanoseconds_inside),
            mcast_grp: maybe(metadata.mcast_grp),
            egress_rid: maybe(metadata.egress_rid),
            parser_error: maybe(metadata.parser_error),
            checksum_error: maybe(metadata.checksum_error),
            priority: maybe(metadata.priority),
            // BMv2 writes it with the fields of the queues.
            qid: maybe(metadata.qid.filter(|_| queueing.is_some())),
            queueing: queueing.filter(QueueingSlots::is_read),
            has_variable: ir
                .headers
                .iter()
                .any(|header| header.variable_field.is_some()),
        }
    }
}

/// A varbit field that a list keeps.
#[derive(Debug, Clone, Copy)]
struct Kept {
    slot: MetadataSlot,
    /// Where its width is, in bytes.
    variable_bits: u32,
}

/// The fields of a list.
#[derive(Debug, Clone, Default)]
struct FieldList {
    /// The words of those that are no varbit fields. One by one: what a pass has just written comes
    /// slowly to a load that spans several writes.
    words: Vec<usize>,
    variable: Vec<Kept>,
}

impl FieldList {
    fn add(&mut self, field: FieldId, ir: &Ir, layout: &Layout) {
        let slot = MetadataSlot::new(field, layout);
        let declared = &ir.fields[field.index()];
        if declared.variable {
            let variable_bits = layout.variable_bits(declared.header);
            return self.variable.push(Kept {
                slot,
                variable_bits,
            });
        }
        self.words.extend(slot.range());
    }
}

/// The field lists: what clones, recirculated and resubmitted packets keep.
#[derive(Debug, Clone)]
pub(crate) struct FieldLists {
    lists: Vec<FieldList>,
}

impl FieldLists {
    pub(crate) fn new(ir: &Ir, layout: &Layout) -> Self {
        let lists = ir.field_lists.iter().map(|list| {
            let mut out = FieldList::default();
            let fields = list.fields.iter();
            fields.for_each(|field| out.add(*field, ir, layout));
            out
        });
        Self {
            lists: lists.collect(),
        }
    }

    /// The words of each list; none where one has a varbit field, of which the width counts.
    pub(crate) fn into_words(self) -> Option<Vec<Vec<usize>>> {
        let lists = self.lists.into_iter();
        lists
            .map(|list| list.variable.is_empty().then_some(list.words))
            .collect()
    }

    /// Copies the fields of a list, each cut to the width that it has there.
    pub(crate) fn copy(&self, list: Option<FieldListId>, from: &[u64], to: &mut [u64]) {
        let Some(list) = list.and_then(|list| self.lists.get(list.index())) else {
            return;
        };
        for word in &list.words {
            to[*word] = from[*word];
        }
        for Kept {
            slot,
            variable_bits,
        } in &list.variable
        {
            let range = slot.range();
            to[range.clone()].copy_from_slice(&from[range.clone()]);
            let offset = *variable_bits as usize;
            let bits = to[offset / 8] >> (offset % 8 * 8) & u64::from(u32::MAX);
            let bits = u32::try_from(bits).expect("masked to 32 bits");
            wire::wrap(&mut to[range], bits, slot.signed);
        }
    }
}
