//! Blocks of consecutive slots of the register pool: one block per group.
//!
//! A slot is free, in use by the group whose block holds it, or unlinked: no group refers to it,
//! but a packet that arrived earlier may still read it. After a drain (all packets that were in the
//! switch have left) unlinked slots are free. Only free slots are allocated, so the controller never
//! writes a block that a packet may read.
//!
//! Allocation is first fit, under one invariant: an allocation leaves one run of free slots that is
//! at least as long as the largest group (`reserve`). Then every pool can be compacted: the group
//! beside that run can always be moved to the run's other end, without an overlap of its old and new
//! slots. Without the invariant, a pool that is half free could consist of large blocks with gaps a
//! little shorter than a block, and no block could be moved.

use std::collections::BTreeMap;

use crate::model::GroupId;

/// Consecutive slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// First slot.
    pub base: u32,
    /// Number of slots, at least 1.
    pub len: u32,
}

impl Block {
    fn end(self) -> u32 {
        self.base + self.len
    }
}

/// A group to move, in order to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The group to move.
    pub group: GroupId,
    /// The group's new slots. They are marked as used already.
    pub to: Block,
}

/// The direction in which groups are moved. The free slots then move in the other direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slide {
    /// Groups above the longest free run move to its start.
    Down,
    /// Groups below the longest free run move to its end.
    Up,
}

/// A block that cannot be taken: it is outside the pool, or not all of its slots are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("slots {} to {} are not all free in a pool of {size}", block.base, u64::from(block.base) + u64::from(block.len) - 1)]
pub struct NotFree {
    /// The block that was asked for.
    pub block: Block,
    /// Slots in the pool.
    pub size: u32,
}

/// The slots of one register pool.
#[derive(Clone, Debug)]
pub struct Slots {
    size: u32,
    reserve: u32,
    /// Runs of free slots: the first slot of each, and its length. Adjacent runs are merged.
    free: BTreeMap<u32, u32>,
    /// Blocks in use: the first slot of each, its length and its group.
    used: BTreeMap<u32, (u32, GroupId)>,
    unlinked: Vec<Block>,
}

impl Slots {
    /// Makes a pool of `size` free slots. Each allocation leaves a free run of at least `reserve` slots (the length of
    /// the longest block).
    pub fn new(size: u32, reserve: u32) -> Slots {
        let free = if size > 0 {
            BTreeMap::from([(0, size)])
        } else {
            BTreeMap::new()
        };
        Slots {
            size,
            reserve,
            free,
            used: BTreeMap::new(),
            unlinked: Vec::new(),
        }
    }

    /// Marks a block as used by this group, because the switch already uses it.
    ///
    /// # Errors
    /// Not all slots of the block are free.
    pub fn occupy(&mut self, block: Block, group: GroupId) -> Result<(), NotFree> {
        let error = NotFree {
            block,
            size: self.size,
        };
        if block
            .base
            .checked_add(block.len)
            .is_none_or(|end| end > self.size)
        {
            return Err(error);
        }
        let run = self
            .free
            .range(..=block.base)
            .next_back()
            .map(|(base, len)| (*base, *len));
        match run {
            Some((base, len)) if base + len >= block.end() => {
                self.take(Block { base, len }, block, group);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Takes `len` slots of the first free run that is long enough, and that can give these slots without using up the
    /// reserve. Returns `None` if there is no such run.
    pub fn allocate(&mut self, len: u32, group: GroupId) -> Option<Block> {
        let run = self
            .runs()
            .filter(|run| run.len >= len)
            .find(|run| self.keeps_reserve(*run, len))?;
        let block = Block {
            base: run.base,
            len,
        };
        self.take(run, block, group);
        Some(block)
    }

    /// Marks a block that no group refers to any more. The next drain frees it.
    pub fn unlink(&mut self, block: Block) {
        if self.used.remove(&block.base).is_some() {
            self.unlinked.push(block);
        }
    }

    /// Frees the unlinked slots, after a drain.
    pub fn drained(&mut self) {
        for block in std::mem::take(&mut self.unlinked) {
            self.release(block);
        }
    }

    /// Returns the next move: the group beside the longest free run goes to that run's other end. So the free run
    /// shifts by the length of the group, and may merge with the next free run. Returns `None` if no group can be moved
    /// in this direction. The group's old block stays in use until the caller unlinks it.
    pub fn slide(&mut self, way: Slide) -> Option<Move> {
        let run = self.runs().max_by_key(|run| run.len)?;
        let (neighbour, group, base) = match way {
            Slide::Down => {
                let (len, group) = *self.used.get(&run.end())?;
                (len, group, run.base)
            }
            Slide::Up => {
                let (base, (len, group)) = self.used.range(..run.base).next_back()?;
                if base + len != run.base {
                    return None;
                }
                (*len, *group, run.end().checked_sub(*len)?)
            }
        };
        if neighbour > run.len {
            return None;
        }
        let to = Block {
            base,
            len: neighbour,
        };
        self.take(run, to, group);
        Some(Move { group, to })
    }

    fn runs(&self) -> impl DoubleEndedIterator<Item = Block> + '_ {
        self.free.iter().map(|(base, len)| Block {
            base: *base,
            len: *len,
        })
    }

    fn keeps_reserve(&self, run: Block, len: u32) -> bool {
        // The search goes backwards, because the longest run is usually at the end of the pool.
        run.len - len >= self.reserve
            || self
                .runs()
                .rev()
                .any(|other| other.base != run.base && other.len >= self.reserve)
    }

    fn take(&mut self, run: Block, block: Block, group: GroupId) {
        self.free.remove(&run.base);
        if block.base > run.base {
            self.free.insert(run.base, block.base - run.base);
        }
        if run.end() > block.end() {
            self.free.insert(block.end(), run.end() - block.end());
        }
        self.used.insert(block.base, (block.len, group));
    }

    fn release(&mut self, block: Block) {
        let mut merged = block;
        if let Some((base, len)) = self
            .free
            .range(..block.base)
            .next_back()
            .map(|(b, l)| (*b, *l))
            && base + len == block.base
        {
            self.free.remove(&base);
            merged = Block {
                base,
                len: len + block.len,
            };
        }
        if let Some(len) = self.free.remove(&block.end()) {
            merged.len += len;
        }
        self.free.insert(merged.base, merged.len);
    }
}

/// Indexes of a counter array, one per viewer, with the same three states as slots.
#[derive(Clone, Debug)]
pub struct CounterIds {
    size: u32,
    taken: Vec<bool>,
    n_free: u32,
    next: u32,
    unlinked: Vec<u32>,
}

impl CounterIds {
    /// Makes an array of `size` free indexes.
    pub fn new(size: u32) -> CounterIds {
        CounterIds {
            size,
            taken: vec![false; size as usize],
            n_free: size,
            next: 0,
            unlinked: Vec::new(),
        }
    }

    /// Marks an index that the switch already uses. Only another controller writes an index outside
    /// the array or uses an index twice; the viewers with the same index then share a counter.
    pub fn occupy(&mut self, id: u32) {
        if let Some(taken) = self.taken.get_mut(id as usize)
            && !std::mem::replace(taken, true)
        {
            self.n_free -= 1;
        }
    }

    /// Takes the lowest free index.
    pub fn allocate(&mut self) -> Option<u32> {
        let id = (self.next..self.size).find(|id| !self.taken[*id as usize])?;
        self.next = id + 1;
        self.taken[id as usize] = true;
        self.n_free -= 1;
        Some(id)
    }

    /// Number of indexes that [`CounterIds::allocate`] can still return.
    pub fn n_free(&self) -> u32 {
        self.n_free
    }

    /// Marks an index that no viewer has any more. The next drain frees it.
    pub fn unlink(&mut self, id: u32) {
        self.unlinked.push(id);
    }

    /// Frees the unlinked indexes, after a drain.
    pub fn drained(&mut self) {
        for id in std::mem::take(&mut self.unlinked) {
            if let Some(taken) = self.taken.get_mut(id as usize)
                && std::mem::replace(taken, false)
            {
                self.n_free += 1;
                self.next = self.next.min(id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
