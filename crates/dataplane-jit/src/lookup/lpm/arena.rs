//! Small arrays in one vector: the children of a trie's node stand side by side.
//!
//! An array of n items has room for the next power of two. Room that an array has left is given to
//! the next one of that size, so that memory is flat while entries come and go.

/// Rooms of 1, 2, 4 ... 64 items.
const N_CLASSES: usize = 7;

/// Arrays of up to 64 items, each of `stride` elements.
#[derive(Debug, Clone)]
pub(super) struct Arena<T> {
    data: Vec<T>,
    stride: usize,
    free: [Vec<u32>; N_CLASSES],
}

fn class(len: usize) -> usize {
    len.next_power_of_two().trailing_zeros() as usize
}

impl<T: Copy + Default> Arena<T> {
    pub(super) fn new(stride: usize) -> Self {
        Self {
            data: Vec::new(),
            stride,
            free: Default::default(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let free: usize = self.free.iter().map(Vec::capacity).sum();
        self.data.capacity() * size_of::<T>() + free * size_of::<u32>()
    }

    #[inline(always)]
    pub(super) fn get(&self, item: u32) -> &[T] {
        &self.data[item as usize * self.stride..][..self.stride]
    }

    pub(super) fn get_mut(&mut self, item: u32) -> &mut [T] {
        &mut self.data[item as usize * self.stride..][..self.stride]
    }

    fn allocate(&mut self, class: usize) -> u32 {
        if let Some(base) = self.free[class].pop() {
            return base;
        }
        let base = self.data.len() / self.stride;
        self.data
            .resize(self.data.len() + (self.stride << class), T::default());
        // 2^32 items would be beyond 64 GiB.
        u32::try_from(base).expect("an arena has fewer than 2^32 places")
    }

    fn copy(&mut self, from: u32, to: u32, items: usize) {
        let (from, to) = (from as usize * self.stride, to as usize * self.stride);
        self.data.copy_within(from..from + items * self.stride, to);
    }

    /// Puts an item at position `rank` of an array of `len` items; gives where the array is now.
    pub(super) fn insert(&mut self, base: u32, len: usize, rank: usize, item: &[T]) -> u32 {
        let old = base;
        let mut base = base;
        if len == 0 || class(len) != class(len + 1) {
            base = self.allocate(class(len + 1));
            self.copy(old, base, if len == 0 { 0 } else { rank });
        }
        let at = u32::try_from(rank).expect("arrays are shorter than the arena");
        if len > 0 {
            self.copy(old + at, base + at + 1, len - rank);
        }
        if base != old && len > 0 {
            self.free[class(len)].push(old);
        }
        self.get_mut(base + at).copy_from_slice(item);
        base
    }

    /// Takes the item at position `rank` out of an array of `len` items; gives where the array is
    /// now.
    pub(super) fn remove(&mut self, base: u32, len: usize, rank: usize) -> u32 {
        let at = u32::try_from(rank).expect("arrays are shorter than the arena");
        if len == 1 {
            self.free[0].push(base);
            return 0;
        }
        if class(len) == class(len - 1) {
            self.copy(base + at + 1, base + at, len - rank - 1);
            return base;
        }
        let new = self.allocate(class(len - 1));
        self.copy(base, new, rank);
        self.copy(base + at + 1, new + at, len - rank - 1);
        self.free[class(len)].push(base);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_keep_their_items_and_room_is_used_again() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut arena: Arena<u64> = Arena::new(2);
        let mut arrays: Vec<(u32, Vec<u64>)> = vec![(0, Vec::new()); 50];
        for step in 0..60_000u64 {
            let (base, items) = &mut arrays[random.usize(0..50)];
            if items.len() < 64 && (items.is_empty() || random.bool()) {
                let rank = random.usize(0..=items.len());
                *base = arena.insert(*base, items.len(), rank, &[step, !step]);
                items.insert(rank, step);
            } else {
                let rank = random.usize(0..items.len());
                *base = arena.remove(*base, items.len(), rank);
                items.remove(rank);
            }
            for (at, item) in (0..).zip(items.iter()) {
                assert_eq!(arena.get(*base + at), [*item, !*item]);
            }
        }
        // At most what every array needs at its longest, in every size of room.
        assert!(arena.memory_bytes() < 50 * 128 * 16 * 2);
    }
}
