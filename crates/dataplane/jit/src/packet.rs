//! The packet pool of the native engine, and the bytes that packets carry.
//!
//! A packet's frame consists of two pieces: its *head*, whose bytes belong to this packet alone, and its *payload*,
//! which is a part of a buffer that clones and replicas share. A new frame has no head; the deparser writes one, and
//! never touches the payload. The first [`Packet::consumed`] bytes of a parsed packet are in its header vector (other
//! files call the vector the packet's block). The bytes after them are the packet's *rest*.
//!
//! Packets and buffers are reused last in, first out, so that the packets and buffers of a burst stay in the cache.
//! [`crate::layout`] defines what the vector's words mean.
#![expect(
    unsafe_code,
    reason = "a payload is found without a look at its buffer, pass by pass"
)]

use std::ptr;

use dataplane::engine::{PacketHandle, PayloadIds};

use crate::context::Requests;

/// Generated code may read this many bytes after the end of a piece of a frame, and may write this many bytes after the
/// end of a head. These bytes are not part of the frame. They are needed because generated code moves eight bytes at a
/// time.
pub(crate) const SLACK_BYTES: usize = 16;

/// The size of a buffer in bytes. An Ethernet frame with its tags and `SLACK_BYTES` fit into it.
const BUFFER_BYTES: usize = 2048;

/// The size of a cache line. Frames begin on a cache line in a buffer, and also in the memory of the port that they are
/// copied to. So no load crosses a line when they are copied.
const LINE_BYTES: usize = 64;

/// The highest number of spare buffers for longer frames. Further buffers are freed, so that a burst of long frames
/// does not keep its memory for ever.
const SPARE_LONG_BUFFERS_MAX: usize = 256;

/// The highest number of spare packets that keep their memory: twice the number of replicas of the largest multicast
/// group.
const SPARE_PACKETS_MAX: usize = 16_384;

/// Memory for the bytes of a received frame, or of a payload that an extern has written.
#[derive(Default)]
struct Buffer {
    memory: Box<[u8]>,
    /// Offset of the bytes in `memory`.
    start: usize,
    users: u32,
}

impl Buffer {
    fn new(len: usize) -> Self {
        let memory: Box<[u8]> = vec![0; len + LINE_BYTES].into();
        Self {
            start: memory.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES),
            memory,
            users: 0,
        }
    }

    fn len(&self) -> usize {
        self.memory.len().saturating_sub(LINE_BYTES)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

/// One packet's part of a buffer.
#[derive(Clone, Copy)]
struct Payload {
    buffer: u32,
    /// The first byte. The bytes stay in place and nobody writes them as long as the buffer has users, of which this
    /// packet is one.
    first: *const u8,
    len: usize,
    /// Identifies the bytes of the buffer as long as the buffer has users.
    id: u64,
}

// SAFETY: the bytes belong to the pool that the packet is in, and go with it from thread to thread.
unsafe impl Send for Payload {}

impl Default for Payload {
    fn default() -> Self {
        Self {
            buffer: 0,
            first: ptr::NonNull::dangling().as_ptr(),
            len: 0,
            id: 0,
        }
    }
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes are there, see `first`.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }

    /// Removes `bytes` bytes at the beginning, or all bytes if there are fewer.
    fn skip(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len);
        // SAFETY: the new pointer is at most one byte behind the last byte.
        self.first = unsafe { self.first.add(bytes) };
        self.len -= bytes;
    }
}

/// A packet: bytes, header vector, and its state between passes. Aligned to a cache line: a value across two lines is
/// slow to read just after it was written.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// The header vector, as [`crate::layout::Layout`] lays it out.
    pub vector: Box<[u64]>,
    head: Vec<u8>,
    head_len: usize,
    payload: Payload,
    /// The number of bytes of the frame that the parser consumed.
    pub consumed: usize,
    /// The field list that the packet keeps when it comes to ingress again, coded by [`Requests::list_code`].
    pub kept_list: u32,
    /// Not 0 if the engine has run the parser and the checksum verification ahead, before the control. The value is
    /// then the engine's `epoch` (a counter in `engine.rs`, not the epoch of a drain) at that time.
    pub parsed_ahead: u64,
    /// How many packets the handle stands for: this packet, and copies that are not made yet. 0 once this packet has
    /// ended.
    pub copies: u32,
    pub requests: Requests,
    /// The length that the frame of a recirculated packet would have, if its headers are only in the vector and the
    /// deparser has not written them. The first [`Packet::consumed`] bytes of the frame are then outdated.
    pub unwritten: Option<usize>,
    /// The value of `packet_length` in egress.
    pub packet_length: i64,
    /// The packet's length as counters count it.
    pub ingress_bytes: usize,
}

impl Packet {
    /// Resets the state that an earlier packet left in this place of the pool.
    #[inline]
    fn begin(&mut self) {
        self.head_len = 0;
        self.consumed = 0;
        self.kept_list = 0;
        self.parsed_ahead = 0;
        self.unwritten = None;
        self.copies = 1;
    }

    /// Begins the packet with the bytes of another packet's frame, from byte `from` on.
    #[inline]
    fn begin_as(&mut self, other: &Packet, from: usize) {
        self.begin();
        let mut payload = other.payload;
        match other.head.get(from..other.head_len) {
            Some(head) if !head.is_empty() => {
                reserve(&mut self.head, head.len());
                self.head[..head.len()].copy_from_slice(head);
                self.head_len = head.len();
            }
            _ => payload.skip(from - other.head_len),
        }
        self.payload = payload;
        self.packet_length = other.packet_length;
        self.ingress_bytes = other.ingress_bytes;
    }

    /// The frame in its two pieces: its head, and the payload that it shares with clones and replicas.
    #[inline]
    pub(crate) fn frame(&self) -> [&[u8]; 2] {
        [&self.head[..self.head_len], self.payload.bytes()]
    }

    pub(crate) fn frame_len(&self) -> usize {
        self.head_len + self.payload.len
    }

    pub(crate) fn payload_len(&self) -> usize {
        self.payload.len
    }

    /// The length of the packet's rest.
    pub(crate) fn rest_len(&self) -> usize {
        self.frame_len() - self.consumed
    }

    /// The packet's rest, the bytes that the parser did not consume, in two pieces.
    #[inline]
    pub(crate) fn rest(&self) -> [&[u8]; 2] {
        match self.head.get(self.consumed..self.head_len) {
            Some(head) if !head.is_empty() => [head, self.payload.bytes()],
            _ => [&[], &self.payload.bytes()[self.consumed - self.head_len..]],
        }
    }

    /// Returns the address to which the deparser writes `len` bytes of headers, and up to [`SLACK_BYTES`] more. This
    /// address is in the head, unless a part of the rest is there.
    #[inline]
    pub(crate) fn deparse_into(&mut self, scratch: &mut Vec<u8>, len: usize) -> *mut u8 {
        let bytes = if self.consumed < self.head_len {
            scratch
        } else {
            &mut self.head
        };
        reserve(bytes, len);
        bytes.as_mut_ptr()
    }

    /// Makes the frame consist of the first `len` bytes that the deparser wrote, and the rest after them.
    #[inline]
    pub(crate) fn deparsed(&mut self, scratch: &mut Vec<u8>, len: usize) {
        if self.consumed < self.head_len {
            self.put_in_front(scratch, len);
        } else {
            self.payload.skip(self.consumed - self.head_len);
            self.head_len = len;
        }
        self.consumed = 0;
        self.unwritten = None;
    }

    /// Makes the head consist of the first `len` bytes of `other`, and the unconsumed part of the old head after them.
    #[cold]
    fn put_in_front(&mut self, other: &mut Vec<u8>, len: usize) {
        let rest = &self.head[self.consumed..self.head_len];
        let head_len = len + rest.len();
        reserve(other, head_len);
        other[len..head_len].copy_from_slice(rest);
        std::mem::swap(&mut self.head, other);
        self.head_len = head_len;
    }

    pub(crate) fn truncate_frame(&mut self, len: usize) {
        self.payload.len = self.payload.len.min(len.saturating_sub(self.head_len));
        self.head_len = self.head_len.min(len);
    }
}

/// All packets and buffers of an engine.
pub(crate) struct Pool {
    packets: Vec<Packet>,
    spare_packets: Vec<u32>,
    buffers: Vec<Buffer>,
    spare_buffers: Vec<u32>,
    n_spare_long: usize,
    payload_ids: PayloadIds,
    /// Where the deparser writes while the head is in use.
    scratch: Vec<u8>,
    vector_words: usize,
}

impl Pool {
    pub(crate) fn new(vector_words: usize) -> Self {
        Self {
            packets: Vec::new(),
            spare_packets: Vec::new(),
            buffers: Vec::new(),
            spare_buffers: Vec::new(),
            n_spare_long: 0,
            payload_ids: PayloadIds::new(),
            scratch: Vec::new(),
            vector_words,
        }
    }

    /// # Panics
    /// The packet does not exist or has ended: its block and its bytes may be gone.
    #[inline]
    pub(crate) fn packet(&self, handle: PacketHandle) -> &Packet {
        let packet = &self.packets[handle.0 as usize];
        assert!(
            packet.copies > 0,
            "the handle of a packet that has ended was used"
        );
        packet
    }

    /// # Panics
    /// The packet does not exist or has ended.
    #[inline]
    pub(crate) fn packet_mut(&mut self, handle: PacketHandle) -> &mut Packet {
        let packet = &mut self.packets[handle.0 as usize];
        assert!(
            packet.copies > 0,
            "the handle of a packet that has ended was used"
        );
        packet
    }

    /// Returns a packet that this call of the engine already got from [`Pool::packet`]. Does not check the handle
    /// again.
    #[inline]
    pub(crate) fn same_mut(&mut self, handle: PacketHandle) -> &mut Packet {
        &mut self.packets[handle.0 as usize]
    }

    /// Returns the packet as [`Pool::same_mut`] does, and the scratch buffer for [`Packet::deparse_into`].
    #[inline]
    pub(crate) fn with_scratch(&mut self, handle: PacketHandle) -> (&mut Packet, &mut Vec<u8>) {
        (&mut self.packets[handle.0 as usize], &mut self.scratch)
    }

    /// Returns two packets; `None` if both handles are the same.
    pub(crate) fn pair_mut(
        &mut self,
        first: PacketHandle,
        second: PacketHandle,
    ) -> Option<(&mut Packet, &mut Packet)> {
        let both = [first.0 as usize, second.0 as usize];
        let [first, second] = self.packets.get_disjoint_mut(both).ok()?;
        Some((first, second))
    }

    /// Makes a new packet with a copy of a frame. The packet's vector still holds the values of an earlier packet.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> PacketHandle {
        let buffer = self.take_buffer(frame.len());
        let bytes = &mut self.buffers[buffer as usize].bytes_mut()[..frame.len()];
        bytes.copy_from_slice(frame);
        let first = bytes.as_ptr();
        let handle = self.take_packet();
        let id = self.payload_ids.next_id();
        let packet = self.packet_mut(handle);
        packet.payload = Payload {
            buffer,
            first,
            len: frame.len(),
            id,
        };
        packet.ingress_bytes = frame.len();
        handle
    }

    /// Makes a new packet with the frame of packet `of` as it was before the parser. Both packets share the payload.
    /// The new packet's vector still holds the values of an earlier packet.
    pub(crate) fn share_frame(&mut self, of: PacketHandle) -> PacketHandle {
        self.packet(of);
        self.share(of, 0)
    }

    /// Makes a new packet with the rest of packet `of`. Both packets share the payload. The new packet's vector still
    /// holds the values of an earlier packet.
    pub(crate) fn share_rest(&mut self, of: PacketHandle) -> PacketHandle {
        let consumed = self.packet(of).consumed;
        self.share(of, consumed)
    }

    /// Splits one packet off a handle that stands for several packets. The new packet has the original's rest and
    /// requests, and the part of the vector that `copy_block` copies.
    #[inline]
    pub(crate) fn replicate(
        &mut self,
        of: PacketHandle,
        copy_block: impl FnOnce(&mut [u64], &[u64]),
    ) -> PacketHandle {
        let copy = self.share_rest(of);
        if let Some((copy, original)) = self.pair_mut(copy, of) {
            copy.requests = original.requests;
            copy_block(&mut copy.vector, &original.vector);
            original.copies -= 1;
        }
        copy
    }

    fn share(&mut self, of: PacketHandle, from: usize) -> PacketHandle {
        let handle = self.take_packet();
        let Some((packet, other)) = self.pair_mut(handle, of) else {
            return handle;
        };
        packet.begin_as(other, from);
        let buffer = packet.payload.buffer;
        self.buffers[buffer as usize].users += 1;
        handle
    }

    fn take_packet(&mut self) -> PacketHandle {
        let handle = match self.spare_packets.pop() {
            Some(spare) => spare,
            None => {
                self.packets.push(Packet::default());
                u32::try_from(self.packets.len() - 1).expect("queues hold fewer than 2^32 packets")
            }
        };
        let packet = &mut self.packets[handle as usize];
        if packet.vector.len() != self.vector_words {
            packet.vector = vec![0; self.vector_words].into();
        }
        packet.begin();
        packet.requests = Requests::NONE;
        PacketHandle(handle)
    }

    fn take_buffer(&mut self, len: usize) -> u32 {
        let wanted = len + SLACK_BYTES;
        let id = match self.spare_buffers.pop() {
            Some(spare) => {
                let was_long = is_long(&self.buffers[spare as usize]);
                self.n_spare_long -= usize::from(was_long);
                spare
            }
            None => {
                self.buffers.push(Buffer::new(wanted.max(BUFFER_BYTES)));
                u32::try_from(self.buffers.len() - 1).expect("packets have fewer than 2^32 buffers")
            }
        };
        let buffer = &mut self.buffers[id as usize];
        if buffer.len() < wanted {
            *buffer = Buffer::new(wanted.next_power_of_two().max(BUFFER_BYTES));
        }
        buffer.users = 1;
        id
    }

    /// Ends the packet, or one of the packets that the handle stands for.
    #[inline]
    pub(crate) fn discard(&mut self, handle: PacketHandle) {
        self.discard_many(handle, 1);
    }

    /// Ends `n_packets` of the packets that a handle stands for.
    #[inline]
    pub(crate) fn discard_many(&mut self, handle: PacketHandle, n_packets: u32) {
        let packet = self.packet_mut(handle);
        if packet.copies > n_packets {
            packet.copies -= n_packets;
        } else {
            self.release(handle);
        }
    }

    /// Moves a packet's rest into one piece if a part of it is in the head.
    pub(crate) fn gather_rest(&mut self, handle: PacketHandle) {
        let packet = self.packet(handle);
        if packet.consumed < packet.head_len {
            let rest = packet.rest().concat();
            self.put_payload(handle, rest.len(), |_, bytes, _| {
                bytes.copy_from_slice(&rest);
                Ok::<_, ()>(bytes.len())
            })
            .expect("copying cannot fail");
            let packet = self.packet_mut(handle);
            packet.head_len = 0;
            packet.consumed = 0;
        }
    }

    /// Gives a deparsed packet a payload of its own, of up to `len` bytes. `write` gets the head, the new bytes and the
    /// old payload, and returns how many bytes it wrote.
    pub(crate) fn put_payload<E>(
        &mut self,
        handle: PacketHandle,
        len: usize,
        write: impl FnOnce(&mut [u8], &mut [u8], &[u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let buffer = self.take_buffer(len);
        let packet = &mut self.packets[handle.0 as usize];
        let bytes = &mut self.buffers[buffer as usize].bytes_mut()[..len];
        let first = bytes.as_ptr();
        let head = &mut packet.head[..packet.head_len];
        let written = write(head, bytes, packet.payload.bytes());
        let Ok(written) = written else {
            self.leave_buffer(buffer);
            return written.map(|_| ());
        };
        let payload = Payload {
            buffer,
            first,
            len: written.min(len),
            id: self.payload_ids.next_id(),
        };
        let old = std::mem::replace(&mut packet.payload, payload);
        self.leave_buffer(old.buffer);
        Ok(())
    }

    fn release(&mut self, handle: PacketHandle) {
        let spare_packets = self.spare_packets.len();
        let packet = &mut self.packets[handle.0 as usize];
        let id = packet.payload.buffer;
        packet.copies = 0;
        packet.payload = Payload::default();
        if spare_packets >= SPARE_PACKETS_MAX {
            *packet = Packet::default();
        }
        self.spare_packets.push(handle.0);
        self.leave_buffer(id);
    }

    fn leave_buffer(&mut self, id: u32) {
        let buffer = &mut self.buffers[id as usize];
        // Live packets point to the bytes of a buffer that has users.
        buffer.users -= 1;
        if buffer.users > 0 {
            return;
        }
        if is_long(buffer) {
            if self.n_spare_long >= SPARE_LONG_BUFFERS_MAX {
                *buffer = Buffer::default();
            } else {
                self.n_spare_long += 1;
            }
        }
        self.spare_buffers.push(id);
    }

    #[inline]
    pub(crate) fn frame(&self, handle: PacketHandle) -> [&[u8]; 2] {
        self.packet(handle).frame()
    }

    /// Identifies the bytes that the payload is a part of.
    #[inline]
    pub(crate) fn payload_id(&self, handle: PacketHandle) -> u64 {
        self.packet(handle).payload.id
    }

    /// The first contiguous bytes of the frame, with [`SLACK_BYTES`] readable after them.
    pub(crate) fn front(&self, handle: PacketHandle) -> &[u8] {
        let [head, payload] = self.frame(handle);
        if head.is_empty() { payload } else { head }
    }

    /// Makes the first `len` bytes of a frame contiguous; the frame must have at least `len` bytes.
    pub(crate) fn pull(&mut self, handle: PacketHandle, len: usize) {
        let packet = &mut self.packets[handle.0 as usize];
        if packet.head_len == 0 || len <= packet.head_len {
            return;
        }
        let missing = (len - packet.head_len).min(packet.payload.len);
        let end = packet.head_len + missing;
        reserve(&mut packet.head, end);
        packet.head[packet.head_len..end].copy_from_slice(&packet.payload.bytes()[..missing]);
        packet.head_len = end;
        packet.payload.skip(missing);
    }
}

fn is_long(buffer: &Buffer) -> bool {
    buffer.len() > BUFFER_BYTES
}

fn reserve(bytes: &mut Vec<u8>, len: usize) {
    if bytes.len() < len + SLACK_BYTES {
        bytes.resize((len + SLACK_BYTES).next_power_of_two(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_of(pool: &mut Pool, of: PacketHandle) -> PacketHandle {
        pool.replicate(of, |copy, original| copy.copy_from_slice(original))
    }

    /// A packet whose parser took the first two bytes; its handle stands for `copies` packets.
    fn packet(pool: &mut Pool, frame: &[u8], copies: u32) -> PacketHandle {
        let handle = pool.receive(frame);
        let packet = pool.packet_mut(handle);
        packet.consumed = 2;
        packet.copies = copies;
        packet.vector.fill(frame[0].into());
        handle
    }

    fn deparse(pool: &mut Pool, handle: PacketHandle, head: [u8; 3]) -> Vec<u8> {
        let (packet, scratch) = pool.with_scratch(handle);
        let out = packet.deparse_into(scratch, head.len());
        // SAFETY: there is room for so many bytes.
        unsafe { ptr::copy_nonoverlapping(head.as_ptr(), out, head.len()) };
        packet.deparsed(scratch, head.len());
        pool.frame(handle).concat()
    }

    #[test]
    #[should_panic(expected = "the handle of a packet that has ended was used")]
    fn a_packet_that_has_ended_does_not_end_again() {
        let mut pool = Pool::new(4);
        let of = packet(&mut pool, &[7, 8, 9, 10], 1);
        pool.discard(of);
        pool.discard(of);
    }

    #[test]
    #[should_panic(expected = "the handle of a packet that has ended was used")]
    fn the_bytes_of_a_packet_that_has_ended_are_not_read() {
        let mut pool = Pool::new(4);
        let of = packet(&mut pool, &[7; 4_000], 1);
        pool.discard(of);
        pool.frame(of);
    }

    #[test]
    fn copies_begin_alike_and_the_memory_of_one_that_has_gone_is_used_again() {
        let mut pool = Pool::new(4);
        let of = packet(&mut pool, &[7, 8, 9, 10], 4);
        let mut last = None;
        for number in 0..3 {
            let copy = copy_of(&mut pool, of);
            assert_eq!(*last.get_or_insert(copy), copy);
            assert_eq!(pool.packet(copy).rest().concat(), [9, 10]);
            assert_eq!(pool.packet(copy).vector[..], [7; 4]);
            pool.packet_mut(copy).vector.fill(1);
            let frame = deparse(&mut pool, copy, [number; 3]);
            assert_eq!(frame, [number, number, number, 9, 10]);
            pool.discard(copy);
        }
        assert_eq!(pool.packet(of).copies, 1);
        assert_eq!(deparse(&mut pool, of, [3; 3]), [3, 3, 3, 9, 10]);
        pool.discard(of);
        assert_eq!(pool.spare_buffers.len(), pool.buffers.len());
    }

    #[test]
    fn copies_that_are_there_together_are_different_packets() {
        let mut pool = Pool::new(4);
        let of = packet(&mut pool, &[7, 8, 9, 10], 3);
        let (first, second) = (copy_of(&mut pool, of), copy_of(&mut pool, of));
        assert_ne!(first, second);
        assert_eq!(deparse(&mut pool, first, [1; 3]), [1, 1, 1, 9, 10]);
        assert_eq!(deparse(&mut pool, second, [2; 3]), [2, 2, 2, 9, 10]);
        for handle in [second, first, of] {
            pool.discard(handle);
        }
        assert_eq!(pool.spare_buffers.len(), pool.buffers.len());
    }

    #[test]
    fn many_packets_of_a_handle_end_at_once() {
        let mut pool = Pool::new(4);
        let of = packet(&mut pool, &[7, 8, 9, 10], 5);
        let copy = copy_of(&mut pool, of);
        pool.discard_many(of, 3);
        assert_eq!(pool.packet(of).copies, 1);
        assert_eq!(pool.spare_packets.len(), 0);
        pool.discard_many(of, 1);
        // The copy still has the bytes.
        assert_eq!(pool.packet(copy).rest().concat(), [9, 10]);
        assert_eq!(pool.spare_buffers.len(), 0);
        pool.discard(copy);
        assert_eq!(pool.spare_buffers.len(), pool.buffers.len());
        assert_eq!(pool.spare_packets.len(), 2);
    }
}
