//! Every limit of the ports, with its unit and its reason.

/// Slots of a receive ring. At 400,000 frames/s the ring bridges 10 ms in which the switch does not run, as happens on
/// a busy two-core machine. With slots of 2 KiB it takes 8 MiB of kernel memory.
pub const RX_RING_SLOTS: usize = 4096;

/// Bytes of one block of the receive ring. A power of two of pages wastes nothing in the kernel's page allocator; a
/// small block can be found on a machine with fragmented memory.
pub const RX_RING_BLOCK_BYTES: usize = 64 * 1024;

/// Slots are a multiple of this many bytes, so that they fill a block evenly at the usual MTUs.
pub const RX_SLOT_ALIGN_BYTES: usize = 1024;

/// Bytes of a slot that hold no part of the frame: the kernel's header, the virtio header, alignment.
pub const RX_SLOT_OVERHEAD_BYTES: usize = 128;

/// The largest frame taken from the kernel in one piece, in bytes: more than a super-frame (a frame that a network card
/// would cut into segments) of 64 KiB with its headers. Longer super-frames ("BIG TCP") are counted as `rx_oversized`.
pub const MAX_SUPER_FRAME_BYTES: usize = 128 * 1024;

/// Frames sent with one system call. A call costs about 150 ns, which is 2 ns for each of 64 frames. A larger batch
/// would only delay its first frame.
pub const TX_BATCH_FRAMES: usize = 64;

/// How many frames the first batch after a pause has: only one, so that the first copy of a packet waits for no other
/// copy.
pub const TX_FIRST_BATCH_FRAMES: usize = 1;

/// The factor by which each batch is larger than the previous batch: a packet's copies for 64 viewers leave in four
/// calls.
pub const TX_BATCH_GROWTH: usize = 4;

/// Payloads of at least this length, two cache lines, are shared by the frames of a batch: for shorter payloads a
/// second piece of a frame is not worth the kernel's bookkeeping.
pub const SHARED_PAYLOAD_BYTES_MIN: usize = 128;

/// How many times a port finds the ring of its packet socket empty before it checks the socket for an error again. The
/// check takes a system call of 100 ns. An error that the port has not yet read wakes a sleeping switch at most this
/// many times.
pub const EMPTY_RECEIVES_PER_ERROR_CHECK: u32 = 64;

/// Bytes after which a batch is sent even if it has fewer frames than [`TX_BATCH_FRAMES`]. 64 frames of 1,518 bytes
/// stay below this, and the batch's buffer stays within a core's second-level cache.
pub const TX_BATCH_BYTES: usize = 128 * 1024;

/// How often a flush waits until the kernel has room, before the flush counts frames as dropped.
pub const TX_RETRIES_PER_FLUSH: u32 = 8;

/// The longest wait for room, in microseconds. All waits of a flush ([`TX_RETRIES_PER_FLUSH`]) take less time than the
/// receive ring can bridge.
pub const TX_RETRY_WAIT_US: u64 = 100;

/// Socket buffers, in bytes, of an AF_PACKET port: room for 2,000 frames of 1,500 bytes as the
/// kernel accounts them (about 2,300 bytes each).
pub const SOCKET_BUFFER_BYTES: i32 = 4 * 1024 * 1024;

/// The most waiting frames that one call of [`crate::Port::drop_old`] drops: more than any ring holds. The limit ends
/// the call even if new frames keep arriving.
pub const WAITING_FRAMES_MAX: usize = 1 << 20;

/// The number of frames that [`crate::Port::drop_old`] receives and drops at once.
pub const DROPPED_AT_ONCE: usize = 64;

/// The shortest frame, in bytes: an Ethernet header (IEEE 802.3, without preamble and FCS).
pub const MIN_FRAME_BYTES: usize = 14;

/// The longest frame that a port writes to a capture file, in bytes: the largest length that libpcap's readers accept
/// (`MAXIMUM_SNAPLEN`).
pub const PCAP_SNAPLEN_BYTES: u32 = 262_144;

/// Bytes of a chunk of AF_XDP memory at the usual MTUs: the kernel accepts 2 KiB or a page of 4 KiB, and a
/// smaller chunk stays in the cache longer.
pub const XDP_CHUNK_BYTES: usize = 2048;

/// Bytes of a chunk where frames do not fit [`XDP_CHUNK_BYTES`]; frames that do not fit either take several chunks.
pub const XDP_LARGE_CHUNK_BYTES: usize = 4096;

/// Bytes that the kernel keeps free in front of a received frame (`XDP_PACKET_HEADROOM`).
pub const XDP_CHUNK_HEADROOM_BYTES: usize = 256;

/// Chunks that circulate between a queue's fill and receive rings. The kernel writes all chunks in turn, so receiving
/// occupies 4 MiB of the cache. At 400,000 frames/s they bridge 5 ms in which the switch does not run.
pub const XDP_RX_CHUNKS: usize = 2048;

/// Chunks for sending. They are used last in, first out, so the port touches only as many chunks as frames are on their
/// way at once. There is room for the copies of several packets to the largest groups, if the receiver of the copies is
/// slow.
pub const XDP_TX_CHUNKS: usize = 4096;

/// Frames that AF_XDP sends with one system call, on kernels that can be asked for more than 32. In a measurement with
/// 64 copies of each packet, 32 frames per call gave 2 to 3 % fewer copies per second, 8 or 16 frames some 5 to 10 %
/// fewer, and 128 frames did not give more.
pub const XDP_TX_BATCH_FRAMES: usize = 64;

/// In copy mode, the highest number of payloads that the unsent frames of a queue share at the same time.
pub const XDP_SHARED_PAYLOADS: usize = 16;

/// The most frames that share one payload: as many as are sent at once.
pub const XDP_SHARERS: usize = XDP_TX_BATCH_FRAMES;

/// The kernel limits a process's memory mappings (`vm.max_map_count`, usually 65,530). Queues may use this limit
/// divided by the number here for shared payloads: a half is enough for 15 queues of 2,049 mappings each. The process
/// needs the other mappings for everything else; without free mappings it gets no more memory.
pub const XDP_MAPPINGS_DIVISOR: usize = 2;

/// How often a port tries again to take a queue or an interface that a program that has just ended still holds.
pub const XDP_BIND_RETRIES: u32 = 50;

/// Milliseconds between two tries to take a queue or an interface. All tries together take half a second; the kernel
/// needs some milliseconds to free the queue or the interface.
pub const XDP_BIND_RETRY_WAIT_MS: u64 = 10;

/// Maximum destinations of an XDP program, which compares every frame with each of them.
pub const XDP_DESTINATIONS: usize = 16;

/// How many local addresses a UDP port remembers if it is bound to the unspecified address. Frames from other addresses
/// leave with the address that the kernel chooses.
pub const UDP_LOCAL_ADDRESSES: usize = 64;

/// Bytes from the beginning of one buffer of a UDP port's batch to the beginning of the next: the longest datagram and
/// its headers (65,527 and 62), and some more so that the buffers' beginnings do not fall on the same lines of the
/// cache.
pub const UDP_SLOT_BYTES: usize = 65_536 + 192;

/// The number of frames that a memory port holds; it drops further frames.
pub const MEMORY_PORT_FRAMES: usize = 65_536;
