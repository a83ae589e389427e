//! The transaction numbers in the header of a redb file (format 3, as redb's design.md describes it). If a file was not
//! closed and its last transaction is damaged, redb silently goes back to the transaction before.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The first bytes of redb's files.
pub(super) const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// The offset of the byte whose lowest bit selects which of the header's two commit slots is in force.
const GOD_BYTE: usize = MAGIC.len();
const SLOTS: [usize; 2] = [64, 192];
/// The offset of the transaction number in a commit slot.
const TRANSACTION: usize = 104;
const HEADER_BYTES: usize = 320;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transactions {
    /// The number in the commit slot that is in force.
    counts: u64,
    newest: u64,
}

impl Transactions {
    /// Reads the numbers; `None` if they cannot be read. Opening the file then reports why.
    pub(super) fn of(path: &Path) -> Option<Self> {
        Self::of_file(&File::open(path).ok()?)
    }

    /// Like [`Transactions::of`], for an open file.
    pub(super) fn of_file(file: &File) -> Option<Self> {
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).ok()?;
        if !header.starts_with(MAGIC) {
            return None;
        }
        let number = |slot: usize| {
            let bytes = header[slot + TRANSACTION..].first_chunk();
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let [one, two] = SLOTS.map(number);
        let counts = if header[GOD_BYTE] & 1 == 0 { one } else { two };
        Some(Self {
            counts,
            newest: one.max(two),
        })
    }

    /// Whether redb dropped the last transaction when it opened the file: `self` was read before the opening, `opened`
    /// after it. redb ends the opening with a transaction of its own, whose number is one above the last transaction
    /// that redb has kept.
    pub(super) fn is_rolled_back(self, opened: Self) -> bool {
        opened.newest <= self.counts
    }
}
