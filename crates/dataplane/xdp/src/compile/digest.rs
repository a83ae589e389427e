//! Generates code for digests. The packet's state records which digest the packet requests; only the last request
//! counts. The values of the digest's fields are read at the end of ingress, as in the interpreter. The message with
//! these values is sent once it is certain that the packet is not punted (left to the engine).

use std::collections::BTreeSet;

use dataplane::engine::ir::{DigestId, DigestList, Ir};
use dataplane::limits;

use super::{
    emit::{Emit, Emitted, SCRATCH},
    layout::Word,
};
use crate::{
    asm::{Alu, Helper, Jump, Size, reg::*},
    image::{DigestRecord, Symbol, TableLayout},
};

/// The length of the longest message that can be sent.
const MESSAGE_BYTES_MAX: u32 = 512;
/// The smallest ring. A ring consists of whole pages, and the largest pages have 64 KiB.
const RING_BYTES_MIN: u32 = 1 << 16;
/// The kernel puts a header in front of each message.
const RECORD_HEADER_BYTES: u32 = 8;

fn message_bytes(list: &DigestList) -> u32 {
    let words = list
        .fields
        .iter()
        .map(|(_, bits)| TableLayout::words(*bits));
    words.fold(DigestRecord::MEMBERS, |bytes, words| {
        bytes.saturating_add(words.saturating_mul(8))
    })
}

/// Returns the lengths of these digests' messages, without those that are too long.
fn lengths(ir: &Ir, digests: &BTreeSet<DigestId>) -> impl Iterator<Item = u32> {
    let lists = digests.iter().map(|digest| &ir.digests[digest.index()]);
    lists
        .map(message_bytes)
        .filter(|bytes| *bytes <= MESSAGE_BYTES_MAX)
}

pub(super) fn message_words(ir: &Ir, digests: &BTreeSet<DigestId>) -> u32 {
    lengths(ir, digests).max().unwrap_or(0) / 8
}

/// Returns the size of the ring through which digests leave the kernel; `None` if the program sends no digest. A ring
/// above the minimum size holds at most as many messages as the control plane's queue. So if that queue is empty, no
/// message is lost when the loader moves all messages of the ring into the queue.
pub(super) fn ring_bytes(ir: &Ir, digests: &BTreeSet<DigestId>) -> Option<u32> {
    let shortest = lengths(ir, digests).min()?;
    let bytes = limits::DIGEST_QUEUE_MAX as u32 * (shortest + RECORD_HEADER_BYTES);
    // Rounds down to a power of two.
    let bytes = 1 << (u32::BITS - 1 - bytes.leading_zeros());
    Some(RING_BYTES_MIN.max(bytes))
}

impl Emit<'_> {
    /// Generates code that records that the packet requests a digest. In egress, a request has no effect.
    pub(super) fn ask_for_digest(&mut self, digest: DigestId) -> Emitted<()> {
        if !self.is_in_ingress {
            return Ok(());
        }
        // Generates the message's code only to see whether it can be generated, and discards the code. If it cannot be
        // generated, packets are punted here.
        let (mark, spills) = (self.asm.mark(), self.spills);
        let action = self.action.take();
        let taken = self.take_digest(digest);
        self.action = action;
        self.asm.rollback(mark);
        self.spills = spills;
        taken?;
        self.digests.insert(digest);
        self.set_word(Word::Digest, digest.0 as i32 + 1);
        Ok(())
    }

    /// Clears the request for a digest and the digest's message.
    pub(super) fn clear_digest(&mut self) {
        if !self.digests.is_empty() {
            self.set_word(Word::Digest, 0);
            let at = self.layout.message(DigestRecord::DIGEST);
            self.asm.store_imm(Size::B8, SCRATCH, at, 0);
        }
    }

    /// Makes the requested message, at the end of ingress.
    pub(super) fn take_digests(&mut self) -> Emitted<()> {
        if self.digests.is_empty() {
            return Ok(());
        }
        self.asm.note("a digest?");
        let end = self.asm.label();
        self.load_word(R1, Word::Digest);
        self.asm.jump_if_imm(Jump::Eq, R1, 0, end);
        for digest in self.digests.clone() {
            let other = self.asm.label();
            self.load_word(R1, Word::Digest);
            self.asm
                .jump_if_imm(Jump::Ne, R1, digest.0 as i32 + 1, other);
            self.take_digest(digest)?;
            self.asm.jump(end);
            self.asm.place(other);
        }
        self.asm.place(end);
        Ok(())
    }

    fn take_digest(&mut self, digest: DigestId) -> Emitted<()> {
        let list = &self.ir.digests[digest.index()];
        let bytes = message_bytes(list);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(format!(
                "a digest's message of {bytes} bytes, expected at most {MESSAGE_BYTES_MAX}"
            ));
        }
        let mut at = DigestRecord::MEMBERS;
        for (value, bits) in &list.fields {
            for word in 0..TableLayout::words(*bits) {
                self.word(value, word, R1)?;
                self.wrap(R1, bits - 64 * word, false);
                let to = self.layout.message(at);
                self.asm.store(Size::B8, SCRATCH, to, R1);
                at += 8;
            }
        }
        let to = self.layout.message(DigestRecord::DIGEST);
        self.asm
            .store_imm(Size::B8, SCRATCH, to, digest.0 as i32 + 1);
        Ok(())
    }

    /// Sends the message, if there is one. Counts it as lost if the ring is full.
    pub(super) fn send_digest(&mut self) {
        let Some(ring) = self.memory.digests.filter(|_| !self.digests.is_empty()) else {
            return;
        };
        self.asm.note("the digest to the control plane");
        let (send, end) = (self.asm.label(), self.asm.label());
        let message = self.layout.message(DigestRecord::DIGEST);
        for digest in self.digests.clone() {
            let bytes = message_bytes(&self.ir.digests[digest.index()]);
            self.asm.mov_imm(R3, u64::from(bytes));
            self.asm.load(Size::B8, R1, SCRATCH, message);
            self.asm
                .jump_if_imm(Jump::Eq, R1, digest.0 as i32 + 1, send);
        }
        self.asm.jump(end);
        self.asm.place(send);
        self.asm.symbol(R1, Symbol::Map(ring));
        self.asm.mov(R2, SCRATCH);
        self.asm.alu_imm(Alu::Add, R2, i32::from(message));
        self.asm.mov_imm(R4, 0);
        self.asm.call(Helper::RingbufOutput);
        self.asm.jump_if_imm(Jump::Eq, R0, 0, end);
        let lost = self.memory.counters.digests_lost;
        self.asm.mov_imm(R1, u64::from(lost));
        self.count_packet(Word::IngressBytes);
        self.asm.place(end);
    }
}
