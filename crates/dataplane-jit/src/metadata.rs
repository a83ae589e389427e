//! Where the metadata are that the target reads and writes, and the field lists that it keeps.

use dataplane::engine::ir::{FieldId, FieldListId, Ir};

use crate::{layout::Layout, wire};

/// A field of metadata in the vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataSlot {
    word: usize,
    words: usize,
    bits: u32,
    signed: bool,
    /// The bits of a number that a field of one word without a sign takes; 0 in any other.
    mask: u64,
}

impl MetadataSlot {
    fn new(field: FieldId, layout: &Layout) -> Self {
        let slot = layout.field(field);
        Self {
            word: slot.offset as usize / 8,
            words: slot.words as usize,
            bits: slot.bits,
            signed: slot.signed,
            mask: match slot.bits {
                bits @ 1..=64 if slot.words == 1 && !slot.signed => u64::MAX >> (64 - bits),
                _ => 0,
            },
        }
    }

    /// The low 64 bits.
    pub(crate) fn get(self, vector: &[u64]) -> u64 {
        vector[self.word]
    }

    /// Writes a number, cut to the field's width.
    #[inline]
    pub(crate) fn set(self, vector: &mut [u64], number: u64) {
        if self.mask != 0 {
            vector[self.word] = number & self.mask;
        } else {
            self.set_words(vector, number);
        }
    }

    #[cold]
    fn set_words(self, vector: &mut [u64], number: u64) {
        let words = &mut vector[self.word..self.word + self.words];
        words.fill(0);
        if let Some(low) = words.first_mut() {
            *low = number;
        }
        wire::wrap(words, self.bits, self.signed);
    }
}

/// Writes a number into a field that the program may have left out.
pub(crate) fn put(slot: Option<MetadataSlot>, vector: &mut [u64], number: u64) {
    if let Some(slot) = slot {
        slot.set(vector, number);
    }
}

/// Where they all are; those that a program leaves out are not written.
#[derive(Debug, Clone)]
pub(crate) struct MetadataSlots {
    pub ingress_port: MetadataSlot,
    pub egress_spec: MetadataSlot,
    pub egress_port: MetadataSlot,
    pub instance_type: MetadataSlot,
    pub packet_length: MetadataSlot,
    pub ingress_global_timestamp: Option<MetadataSlot>,
    pub egress_global_timestamp: Option<MetadataSlot>,
    pub mcast_grp: Option<MetadataSlot>,
    pub egress_rid: Option<MetadataSlot>,
    pub parser_error: Option<MetadataSlot>,
    pub checksum_error: Option<MetadataSlot>,
    pub priority: Option<MetadataSlot>,
    pub qid: Option<MetadataSlot>,
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

impl MetadataSlots {
    pub(crate) fn new(ir: &Ir, layout: &Layout) -> Self {
        let slot = |field| MetadataSlot::new(field, layout);
        let maybe = |field: Option<FieldId>| field.map(slot);
        let metadata = &ir.metadata;
        Self {
            ingress_port: slot(metadata.ingress_port),
            egress_spec: slot(metadata.egress_spec),
            egress_port: slot(metadata.egress_port),
            instance_type: slot(metadata.instance_type),
            packet_length: slot(metadata.packet_length),
            ingress_global_timestamp: maybe(metadata.ingress_global_timestamp),
            egress_global_timestamp: maybe(metadata.egress_global_timestamp),
            mcast_grp: maybe(metadata.mcast_grp),
            egress_rid: maybe(metadata.egress_rid),
            parser_error: maybe(metadata.parser_error),
            checksum_error: maybe(metadata.checksum_error),
            priority: maybe(metadata.priority),
            qid: maybe(metadata.qid),
            queueing: metadata.queueing.map(|queueing| QueueingSlots {
                enq_timestamp: slot(queueing.enq_timestamp),
                enq_qdepth: slot(queueing.enq_qdepth),
                deq_timedelta: slot(queueing.deq_timedelta),
                deq_qdepth: slot(queueing.deq_qdepth),
            }),
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
    /// The words of those that are no varbit fields: the first, and how many in a row.
    runs: Vec<(usize, usize)>,
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
        match self.runs.last_mut() {
            Some((first, n_words)) if *first + *n_words == slot.word => *n_words += slot.words,
            _ => self.runs.push((slot.word, slot.words)),
        }
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

    /// Copies the fields of a list, each cut to the width that it has there.
    pub(crate) fn copy(&self, list: Option<FieldListId>, from: &[u64], to: &mut [u64]) {
        let Some(list) = list.and_then(|list| self.lists.get(list.index())) else {
            return;
        };
        for (first, n_words) in &list.runs {
            if *n_words == 1 {
                to[*first] = from[*first];
            } else {
                let range = *first..first + n_words;
                to[range.clone()].copy_from_slice(&from[range]);
            }
        }
        for Kept {
            slot,
            variable_bits,
        } in &list.variable
        {
            let range = slot.word..slot.word + slot.words;
            to[range.clone()].copy_from_slice(&from[range.clone()]);
            let offset = *variable_bits as usize;
            let bits = to[offset / 8] >> (offset % 8 * 8) & u64::from(u32::MAX);
            let bits = u32::try_from(bits).unwrap_or(u32::MAX);
            wire::wrap(&mut to[range], bits, slot.signed);
        }
    }
}
