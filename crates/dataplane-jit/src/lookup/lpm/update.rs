//! Writes to the trie.

use super::{
    Child, Chunk, LpmTrie, Node, Prefix, ROOT_BITS, RootSlot, index, pack, rank, split, unpack,
    with_chunk,
};
use crate::lookup::MISS;

/// Bit of the prefix that ends `len` bits into a node.
fn inner_bit(chunk: Chunk, len: u32, value: &[u64]) -> u64 {
    (1 << len) - 1 + (chunk.read(value) >> (chunk.bits - len))
}

fn count(bits: u64) -> usize {
    bits.count_ones() as usize
}

impl LpmTrie {
    /// Sets the entry of a prefix: the exact fields and the first `prefix_len` bits of the prefix's
    /// field, zeros after them. Gives the entry it had.
    pub fn insert(&mut self, value: &[u64], prefix_len: u32, entry: u32) -> Option<u32> {
        let len = self.exact_bits + prefix_len;
        let old = self.put(Prefix { value, len }, entry);
        if old.is_none() {
            self.len += 1;
            let bits = ROOT_BITS.iter().rfind(|(least, _)| self.len >= *least);
            let bits = bits.map_or(0, |(_, bits)| *bits).min(self.root_bits_max);
            if bits > self.root_chunk.bits && self.first_bits() > self.root_chunk.bits {
                self.grow_root(bits);
            }
        }
        old
    }

    /// Takes a prefix away; gives its entry.
    pub fn remove(&mut self, value: &[u64], prefix_len: u32) -> Option<u32> {
        let len = self.exact_bits + prefix_len;
        let old = self.take(Prefix { value, len })?;
        self.len -= 1;
        Some(old)
    }

    /// Bits of the first piece: the root is in one word.
    fn first_bits(&self) -> u32 {
        self.pieces.first().map_or(0, |piece| piece.bits)
    }

    /// An empty root of up to so many bits.
    pub(super) fn set_root(&mut self, bits: u32) {
        (self.root_chunk, self.levels) = split(&self.pieces, bits);
        let empty = RootSlot {
            child: MISS,
            entry: MISS,
        };
        self.root = vec![empty; 1 << self.root_chunk.bits];
        self.root_lens = vec![0; self.root.len()];
    }

    /// Moves every prefix below a wider root.
    fn grow_root(&mut self, bits: u32) {
        let mut all = Vec::with_capacity(self.len);
        self.for_each(&mut |value, len, entry| all.push((value.to_vec(), len, entry)));
        self.short.clear();
        self.nodes = super::Arena::new(1);
        self.leaves = super::Arena::new(self.words + 1);
        self.entries = super::Arena::new(1);
        self.set_root(bits);
        for (value, len, entry) in &all {
            self.put(Prefix { value, len: *len }, *entry);
        }
    }

    /// Every prefix with its length and entry.
    fn for_each(&self, found: &mut impl FnMut(&[u64], u32, u32)) {
        for ((len, number), entry) in &self.short {
            let mut value = vec![0; self.words];
            with_chunk(&mut value, self.root_chunk, *number);
            found(&value, *len, *entry);
        }
        for (number, slot) in (0..).zip(&self.root) {
            let mut value = vec![0; self.words];
            with_chunk(&mut value, self.root_chunk, number);
            match slot.child() {
                Child::None => {}
                Child::Leaf(leaf) => self.visit_leaf(leaf, found),
                Child::Node(node) => self.visit(node, 0, &value, found),
            }
        }
    }

    fn visit_leaf(&self, leaf: u32, found: &mut impl FnMut(&[u64], u32, u32)) {
        let leaf = self.leaves.get(leaf);
        let (len, entry) = unpack(leaf[self.words]);
        found(&leaf[..self.words], len, entry);
    }

    fn visit(
        &self,
        at: u32,
        level: usize,
        above: &[u64],
        found: &mut impl FnMut(&[u64], u32, u32),
    ) {
        let (chunk, before) = self.levels[level];
        let node = self.nodes.get(at)[0];
        for len in 0..chunk.bits {
            for prefix in 0..1u64 << len {
                let bit = (1 << len) - 1 + prefix;
                if node.inner >> bit & 1 != 0 {
                    let mut value = above.to_vec();
                    with_chunk(&mut value, chunk, prefix << (chunk.bits - len));
                    let entry = self.entries.get(node.first_entry + rank(node.inner, bit))[0];
                    found(&value, before + len, entry);
                }
            }
        }
        for number in 0..1u64 << chunk.bits {
            if node.nodes >> number & 1 != 0 {
                let mut value = above.to_vec();
                with_chunk(&mut value, chunk, number);
                let below = node.first_node + rank(node.nodes, number);
                self.visit(below, level + 1, &value, found);
            }
            if node.leaves >> number & 1 != 0 {
                self.visit_leaf(node.first_leaf + rank(node.leaves, number), found);
            }
        }
    }

    fn put(&mut self, prefix: Prefix<'_>, entry: u32) -> Option<u32> {
        if prefix.len <= self.root_chunk.bits {
            return self.put_short(prefix, entry);
        }
        let slot = index(self.root_chunk.read(prefix.value));
        match self.root[slot].child() {
            Child::None => {
                let leaf = self.new_leaf(prefix, entry);
                self.root[slot].set_child(Child::Leaf(leaf));
                None
            }
            Child::Node(node) => self.put_below(node, 0, prefix, entry),
            Child::Leaf(leaf) => {
                if let Some(old) = self.replace_leaf(leaf, prefix, entry) {
                    return Some(old);
                }
                let (value, len, other) = self.take_leaf(leaf);
                self.leaves.remove(leaf, 1, 0);
                let node = self.nodes.insert(0, 0, 0, &[Node::default()]);
                self.root[slot].set_child(Child::Node(node));
                self.put_below(node, 0, Prefix { value: &value, len }, other);
                self.put_below(node, 0, prefix, entry)
            }
        }
    }

    fn put_short(&mut self, prefix: Prefix<'_>, entry: u32) -> Option<u32> {
        let number = self.root_chunk.read(prefix.value);
        let old = self.short.insert((prefix.len, number), entry);
        let len = small(prefix.len);
        let slots = covered(self.root_chunk.bits, prefix.len, number);
        let lens = &mut self.root_lens[slots.clone()];
        for (slot, slot_len) in self.root[slots].iter_mut().zip(lens) {
            if slot.entry == MISS || *slot_len <= len {
                (slot.entry, *slot_len) = (entry, len);
            }
        }
        old
    }

    fn leaf_cells(&self, prefix: Prefix<'_>, entry: u32) -> Vec<u64> {
        let mut cells = prefix.value[..self.words].to_vec();
        cells.push(pack(prefix.len, entry));
        cells
    }

    fn new_leaf(&mut self, prefix: Prefix<'_>, entry: u32) -> u32 {
        let cells = self.leaf_cells(prefix, entry);
        self.leaves.insert(0, 0, 0, &cells)
    }

    /// A leaf's value, length and entry.
    fn take_leaf(&self, leaf: u32) -> (Vec<u64>, u32, u32) {
        let cells = self.leaves.get(leaf);
        let (len, entry) = unpack(cells[self.words]);
        (cells[..self.words].to_vec(), len, entry)
    }

    /// Whether a leaf is this prefix.
    fn is_leaf(&self, leaf: u32, prefix: Prefix<'_>) -> bool {
        let cells = self.leaves.get(leaf);
        let (len, _) = unpack(cells[self.words]);
        len == prefix.len && cells[..self.words] == prefix.value[..self.words]
    }

    /// Sets the entry of a leaf that is this prefix.
    fn replace_leaf(&mut self, leaf: u32, prefix: Prefix<'_>, entry: u32) -> Option<u32> {
        if !self.is_leaf(leaf, prefix) {
            return None;
        }
        let cell = &mut self.leaves.get_mut(leaf)[self.words];
        let (len, old) = unpack(*cell);
        *cell = pack(len, entry);
        Some(old)
    }

    fn put_below(
        &mut self,
        mut at: u32,
        mut level: usize,
        prefix: Prefix<'_>,
        entry: u32,
    ) -> Option<u32> {
        loop {
            let (chunk, before) = self.levels[level];
            let node = self.nodes.get(at)[0];
            if prefix.len - before < chunk.bits {
                return self.put_inner(
                    at,
                    inner_bit(chunk, prefix.len - before, prefix.value),
                    entry,
                );
            }
            let number = chunk.read(prefix.value);
            if node.nodes >> number & 1 != 0 {
                at = node.first_node + rank(node.nodes, number);
                level += 1;
                continue;
            }
            let place = rank(node.leaves, number);
            if node.leaves >> number & 1 == 0 {
                let cells = self.leaf_cells(prefix, entry);
                self.add_leaf(at, number, &cells);
                return None;
            }
            if let Some(old) = self.replace_leaf(node.first_leaf + place, prefix, entry) {
                return Some(old);
            }
            // Two prefixes below one value: the leaf becomes a node.
            let (value, len, other) = self.take_leaf(node.first_leaf + place);
            self.drop_leaf(at, number);
            at = self.add_node(at, number);
            level += 1;
            self.put_below(at, level, Prefix { value: &value, len }, other);
        }
    }

    fn put_inner(&mut self, at: u32, bit: u64, entry: u32) -> Option<u32> {
        let node = self.nodes.get(at)[0];
        let place = rank(node.inner, bit);
        if node.inner >> bit & 1 != 0 {
            let cell = &mut self.entries.get_mut(node.first_entry + place)[0];
            return Some(std::mem::replace(cell, entry));
        }
        let len = count(node.inner);
        let first = self
            .entries
            .insert(node.first_entry, len, place as usize, &[entry]);
        let node = &mut self.nodes.get_mut(at)[0];
        node.inner |= 1 << bit;
        node.first_entry = first;
        None
    }

    fn add_leaf(&mut self, at: u32, number: u64, cells: &[u64]) {
        let node = self.nodes.get(at)[0];
        let place = rank(node.leaves, number) as usize;
        let first = self
            .leaves
            .insert(node.first_leaf, count(node.leaves), place, cells);
        let node = &mut self.nodes.get_mut(at)[0];
        node.leaves |= 1 << number;
        node.first_leaf = first;
    }

    fn drop_leaf(&mut self, at: u32, number: u64) {
        let node = self.nodes.get(at)[0];
        let place = rank(node.leaves, number) as usize;
        let first = self
            .leaves
            .remove(node.first_leaf, count(node.leaves), place);
        let node = &mut self.nodes.get_mut(at)[0];
        node.leaves &= !(1 << number);
        node.first_leaf = first;
    }

    /// Adds an empty node below another; gives where it is.
    fn add_node(&mut self, at: u32, number: u64) -> u32 {
        let node = self.nodes.get(at)[0];
        let place = rank(node.nodes, number);
        let first = self.nodes.insert(
            node.first_node,
            count(node.nodes),
            place as usize,
            &[Node::default()],
        );
        let node = &mut self.nodes.get_mut(at)[0];
        node.nodes |= 1 << number;
        node.first_node = first;
        first + place
    }

    fn drop_node(&mut self, at: u32, number: u64) {
        let node = self.nodes.get(at)[0];
        let place = rank(node.nodes, number) as usize;
        let first = self.nodes.remove(node.first_node, count(node.nodes), place);
        let node = &mut self.nodes.get_mut(at)[0];
        node.nodes &= !(1 << number);
        node.first_node = first;
    }

    fn take(&mut self, prefix: Prefix<'_>) -> Option<u32> {
        if prefix.len <= self.root_chunk.bits {
            return self.take_short(prefix);
        }
        let slot = index(self.root_chunk.read(prefix.value));
        match self.root[slot].child() {
            Child::None => None,
            Child::Leaf(leaf) => {
                if !self.is_leaf(leaf, prefix) {
                    return None;
                }
                let (_, _, entry) = self.take_leaf(leaf);
                self.leaves.remove(leaf, 1, 0);
                self.root[slot].set_child(Child::None);
                Some(entry)
            }
            Child::Node(node) => {
                let entry = self.take_below(node, 0, prefix)?;
                match self.left_over(node) {
                    LeftOver::More => {}
                    LeftOver::Nothing => {
                        self.nodes.remove(node, 1, 0);
                        self.root[slot].set_child(Child::None);
                    }
                    LeftOver::Leaf(cells) => {
                        self.free_last_leaf(node);
                        self.nodes.remove(node, 1, 0);
                        let leaf = self.leaves.insert(0, 0, 0, &cells);
                        self.root[slot].set_child(Child::Leaf(leaf));
                    }
                }
                Some(entry)
            }
        }
    }

    fn take_short(&mut self, prefix: Prefix<'_>) -> Option<u32> {
        let number = self.root_chunk.read(prefix.value);
        let old = self.short.remove(&(prefix.len, number))?;
        let root_bits = self.root_chunk.bits;
        // The next shorter prefix covers the same slots.
        let next = (0..prefix.len).rev().find_map(|len| {
            let above = number & !crate::lookup::shape::low_ones(root_bits - len);
            Some((*self.short.get(&(len, above))?, len))
        });
        let (entry, len) = next.unwrap_or((MISS, 0));
        let slots = covered(root_bits, prefix.len, number);
        let lens = &mut self.root_lens[slots.clone()];
        for (slot, slot_len) in self.root[slots].iter_mut().zip(lens) {
            if slot.entry != MISS && *slot_len == small(prefix.len) {
                (slot.entry, *slot_len) = (entry, small(len));
            }
        }
        Some(old)
    }

    fn take_below(&mut self, at: u32, level: usize, prefix: Prefix<'_>) -> Option<u32> {
        let (chunk, before) = self.levels[level];
        let node = self.nodes.get(at)[0];
        if prefix.len - before < chunk.bits {
            return self.take_inner(at, inner_bit(chunk, prefix.len - before, prefix.value));
        }
        let number = chunk.read(prefix.value);
        if node.leaves >> number & 1 != 0 {
            let leaf = node.first_leaf + rank(node.leaves, number);
            if !self.is_leaf(leaf, prefix) {
                return None;
            }
            let (_, _, entry) = self.take_leaf(leaf);
            self.drop_leaf(at, number);
            return Some(entry);
        }
        if node.nodes >> number & 1 == 0 {
            return None;
        }
        let below = node.first_node + rank(node.nodes, number);
        let entry = self.take_below(below, level + 1, prefix)?;
        match self.left_over(below) {
            LeftOver::More => {}
            LeftOver::Nothing => self.drop_node(at, number),
            LeftOver::Leaf(cells) => {
                self.free_last_leaf(below);
                self.drop_node(at, number);
                self.add_leaf(at, number, &cells);
            }
        }
        Some(entry)
    }

    fn take_inner(&mut self, at: u32, bit: u64) -> Option<u32> {
        let node = self.nodes.get(at)[0];
        if node.inner >> bit & 1 == 0 {
            return None;
        }
        let place = rank(node.inner, bit);
        let entry = self.entries.get(node.first_entry + place)[0];
        let len = count(node.inner);
        let first = self.entries.remove(node.first_entry, len, place as usize);
        let node = &mut self.nodes.get_mut(at)[0];
        node.inner &= !(1 << bit);
        node.first_entry = first;
        Some(entry)
    }

    /// What a node still has; one with a single leaf is not needed.
    fn left_over(&self, at: u32) -> LeftOver {
        let node = self.nodes.get(at)[0];
        if node.inner != 0 || node.nodes != 0 || count(node.leaves) > 1 {
            return LeftOver::More;
        }
        match node.leaves {
            0 => LeftOver::Nothing,
            _ => LeftOver::Leaf(self.leaves.get(node.first_leaf).to_vec()),
        }
    }

    fn free_last_leaf(&mut self, at: u32) {
        let first = self.nodes.get(at)[0].first_leaf;
        self.leaves.remove(first, 1, 0);
    }
}

/// What is left in a node after a removal.
enum LeftOver {
    Nothing,
    Leaf(Vec<u64>),
    More,
}

/// A length within the root, which has 24 bits at most.
fn small(len: u32) -> u8 {
    u8::try_from(len).expect("a length within the root")
}

/// The root's slots below a prefix.
fn covered(root_bits: u32, len: u32, number: u64) -> std::ops::Range<usize> {
    let first = index(number);
    first..first + (1 << (root_bits - len))
}

#[cfg(test)]
mod tests;
