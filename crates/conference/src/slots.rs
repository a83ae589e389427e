//! Blocks of consecutive slots of the register pool: one block a group.
//!
//! A slot is free, in use by the one group whose block holds it, or unlinked: no group refers to
//! it, but a packet that arrived earlier may. Only a drain makes unlinked slots free, and only free
//! slots are allocated, so a block that a packet may read is never written.
//!
//! Allocation is first fit, under one invariant: some free run stays as long as the largest group
//! (`reserve`). With it every pool can be compacted, because the group beside that run can always
//! slide to the run's other end, in one move that does not overlap itself. Without it a pool of
//! large blocks with gaps a little shorter than a block could not be compacted with half of it
//! free.

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

/// A group that is to move, to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The group of the block.
    pub group: GroupId,
    /// Where it goes: free slots, taken by this call.
    pub to: Block,
}

/// Which way groups slide, and so free slots the other way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slide {
    /// Groups above the longest free run move to its start.
    Down,
    /// Groups below it move to its end.
    Up,
}

/// A block that cannot be taken: it is outside of the pool or partly in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("slots {} to {} are not all free in a pool of {size}", block.base, u64::from(block.base) + u64::from(block.len) - 1)]
pub struct NotFree {
    /// The block.
    pub block: Block,
    /// Slots in the pool.
    pub size: u32,
}

/// The pool.
#[derive(Clone, Debug)]
pub struct Slots {
    size: u32,
    reserve: u32,
    /// Free runs, base to length; neighbours are merged.
    free: BTreeMap<u32, u32>,
    /// Blocks in use, base to length and group.
    used: BTreeMap<u32, (u32, GroupId)>,
    unlinked: Vec<Block>,
}

impl Slots {
    /// A pool of `size` free slots that keeps one free run of `reserve` (the longest block).
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

    /// Marks a block as a group's, as it was found in the switch.
    ///
    /// # Errors
    /// Not all of its slots are free.
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

    /// Takes the first free run that is long enough; `None` if there is none, or none that leaves
    /// the reserve.
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

    /// A block that no group refers to any more. Free after the next drain.
    pub fn unlink(&mut self, block: Block) {
        if self.used.remove(&block.base).is_some() {
            self.unlinked.push(block);
        }
    }

    /// Is there anything that a drain would free?
    pub fn has_unlinked(&self) -> bool {
        !self.unlinked.is_empty()
    }

    /// After a drain: unlinked slots are free.
    pub fn drained(&mut self) {
        for block in std::mem::take(&mut self.unlinked) {
            self.release(block);
        }
    }

    /// The next move that makes the longest free run longer; its old block is still in use and
    /// to be unlinked by the caller. `None`: nothing is left to move that way, or nothing fits.
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
        // The end of the pool is where the long run usually is.
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

/// Places in a counter array, one a viewer, with the same three states as slots.
#[derive(Clone, Debug)]
pub struct CounterIds {
    size: u32,
    taken: Vec<bool>,
    n_free: u32,
    next: u32,
    unlinked: Vec<u32>,
}

impl CounterIds {
    /// `size` free places.
    pub fn new(size: u32) -> CounterIds {
        CounterIds {
            size,
            taken: vec![false; size as usize],
            n_free: size,
            next: 0,
            unlinked: Vec::new(),
        }
    }

    /// Marks a place as a viewer's, as found in the switch. Places outside of the array, and places
    /// named twice, come from another controller and only mean that counts are shared.
    pub fn occupy(&mut self, id: u32) {
        if let Some(taken) = self.taken.get_mut(id as usize)
            && !std::mem::replace(taken, true)
        {
            self.n_free -= 1;
        }
    }

    /// The lowest free place.
    pub fn allocate(&mut self) -> Option<u32> {
        let id = (self.next..self.size).find(|id| !self.taken[*id as usize])?;
        self.next = id + 1;
        self.taken[id as usize] = true;
        self.n_free -= 1;
        Some(id)
    }

    /// How many [`CounterIds::allocate`] can give.
    pub fn n_free(&self) -> u32 {
        self.n_free
    }

    /// A place that no viewer has any more. Free after the next drain.
    pub fn unlink(&mut self, id: u32) {
        self.unlinked.push(id);
    }

    /// After a drain: unlinked slots are free.
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
#[path = "slots_tests.rs"]
mod tests;
