//! A table's index: which key leads to which body (an entry's action, [`crate::image::Body`]) in the kernel.

use std::collections::HashMap;
use std::io;
use std::slice;

use bpf::Write;

use super::grace::{Graces, Moment};
use super::maps::Maps;
use super::prefixes::Prefixes;
use crate::image::{EncodedKey, Index, TableLayout};

#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The keys, as bytes in the map's form, and for each key the number of the body to which the key leads.
    bodies: HashMap<Vec<u8>, u32>,
    prefixes: Prefixes,
    /// The masks of a ternary table by number, each with its number of keys.
    masks: Vec<(Vec<u8>, usize)>,
    /// When a key was last deleted: the next key that is inserted may reuse the deleted key's memory.
    taken_out: Moment,
}

/// A ternary key begins with its mask's number.
const MASK_NUMBER_BYTES: usize = 4;

impl Keys {
    /// Makes a key lead to a written body. First, the caller must wait until no packet sees the key's removed entry.
    ///
    /// # Errors
    /// The kernel's error, or there is no room.
    pub(crate) fn put(
        &mut self,
        layout: &TableLayout,
        maps: &Maps,
        graces: &Graces,
        key: &EncodedKey,
        body: u32,
    ) -> io::Result<()> {
        match (&layout.index, key) {
            (Index::Direct { at, .. }, EncodedKey::Position(position)) => {
                maps.store_u32(at + 4 * position, body);
                self.bodies.insert(position.to_ne_bytes().to_vec(), body);
            }
            (Index::Hash { map, .. }, EncodedKey::Bytes(key)) => {
                self.write(graces, key, body, |key, body| {
                    maps.get(*map)?.update(key, body, Write::Any)
                })?;
            }
            (Index::Lpm { map, .. }, EncodedKey::Bytes(key)) => {
                let longer = self.prefixes.next_longer(key);
                self.write(graces, key, body, |key, body| {
                    maps.get(*map)?.update(key, body, Write::Any)
                })?;
                self.prefixes.insert(key, body);
                link(layout, maps, &longer, body);
            }
            (Index::Ternary { map, .. }, EncodedKey::Masked { mask, key }) => {
                let number = self.mask_number(layout, maps, graces, mask, key)?;
                let mut key = key.clone();
                key[..MASK_NUMBER_BYTES].copy_from_slice(&(number as u32).to_ne_bytes());
                self.write(graces, &key, body, |key, body| {
                    maps.get(*map)?.update(key, body, Write::Any)
                })?;
                self.masks[number].1 += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the body to which a removed entry's key still leads. `None` for a ternary key, whose mask may have
    /// several numbers.
    pub(crate) fn body(&self, key: &EncodedKey) -> Option<u32> {
        let body = match key {
            EncodedKey::Position(position) => self.bodies.get(&position.to_ne_bytes()[..]),
            EncodedKey::Bytes(key) => self.bodies.get(key),
            EncodedKey::None | EncodedKey::Masked { .. } => None,
        };
        body.copied()
    }

    /// Returns a moment. Once no packet from before this moment is left, a new key can be inserted without waiting,
    /// except for a ternary key that needs a mask's number.
    pub(crate) fn free_from(&self, layout: &TableLayout) -> Moment {
        match layout.index {
            Index::Direct { .. } => Moment::NEVER,
            _ => self.taken_out,
        }
    }

    /// Inserts a key once no packet can see the deleted key whose memory it may reuse.
    fn write(
        &mut self,
        graces: &Graces,
        key: &[u8],
        body: u32,
        write: impl FnOnce(&[u8], &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        graces.wait_past(self.taken_out)?;
        write(key, &body.to_ne_bytes())?;
        self.bodies.insert(key.to_vec(), body);
        Ok(())
    }

    /// Returns the body of the next shorter prefix, to which a new key's body must link; 0 if there is none.
    pub(crate) fn shorter(&self, key: &EncodedKey) -> u32 {
        match key {
            EncodedKey::Bytes(key) => self.prefixes.shorter(key),
            _ => 0,
        }
    }

    /// Returns a number of this mask under which the key is not in the map yet.
    fn mask_number(
        &mut self,
        layout: &TableLayout,
        maps: &Maps,
        graces: &Graces,
        mask: &[u8],
        key: &[u8],
    ) -> io::Result<usize> {
        let Index::Ternary {
            key_bytes,
            n_masks,
            masks,
            n_masks_max,
            ..
        } = &layout.index
        else {
            return Err(io::Error::other("the table has no masks"));
        };
        let mut numbered = key.to_vec();
        for (number, (other, _)) in self.masks.iter().enumerate() {
            numbered[..MASK_NUMBER_BYTES].copy_from_slice(&(number as u32).to_ne_bytes());
            if other == mask && !self.bodies.contains_key(&numbered) {
                return Ok(number);
            }
        }
        let number = self.masks.len();
        if number >= *n_masks_max as usize {
            return self.unused_number(graces, |number| {
                maps.store_bytes(masks + number as u32 * key_bytes, mask);
                mask.to_vec()
            });
        }
        maps.store_bytes(masks + number as u32 * key_bytes, mask);
        self.masks.push((mask.to_vec(), 0));
        maps.store_u32(*n_masks, number as u32 + 1);
        Ok(number)
    }

    /// Takes the number of a mask that no key uses any more, and gives it to another mask. Returns the number.
    fn unused_number(
        &mut self,
        graces: &Graces,
        write: impl FnOnce(usize) -> Vec<u8>,
    ) -> io::Result<usize> {
        let Some(number) = self.masks.iter().position(|(_, n_keys)| *n_keys == 0) else {
            let n = self.masks.len();
            let message = format!("its entries have more than {n} masks");
            return Err(io::Error::other(message));
        };
        graces.wait_past(self.taken_out)?;
        self.masks[number].0 = write(number);
        // Until all packets from before are done, packets may see some bytes of the old mask and some of the new one.
        graces.wait_past(graces.now())?;
        Ok(number)
    }

    /// Deletes a key that leads to this body, and which no packet sees any more. Keeps the key if it leads to another
    /// body by now.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn take_out(
        &mut self,
        layout: &TableLayout,
        maps: &Maps,
        graces: &Graces,
        key: &EncodedKey,
        body: u32,
    ) -> io::Result<()> {
        match (&layout.index, key) {
            (Index::Direct { at, .. }, EncodedKey::Position(position)) => {
                if !self.forget(&position.to_ne_bytes(), body) {
                    return Ok(());
                }
                maps.store_u32(at + 4 * position, 0);
            }
            (Index::Hash { map, .. }, EncodedKey::Bytes(key)) => {
                if !self.forget(key, body) {
                    return Ok(());
                }
                maps.get(*map)?.delete(key)?;
                self.taken_out = graces.now();
            }
            (Index::Lpm { map, .. }, EncodedKey::Bytes(key)) => {
                if !self.forget(key, body) {
                    return Ok(());
                }
                let longer = self.prefixes.next_longer(key);
                link(layout, maps, &longer, self.prefixes.shorter(key));
                self.prefixes.remove(key);
                maps.get(*map)?.delete(key)?;
                self.taken_out = graces.now();
            }
            (Index::Ternary { map, .. }, EncodedKey::Masked { mask, key }) => {
                for number in 0..self.masks.len() {
                    let mut numbered = key.clone();
                    numbered[..MASK_NUMBER_BYTES].copy_from_slice(&(number as u32).to_ne_bytes());
                    if self.masks[number].0 == *mask && self.forget(&numbered, body) {
                        maps.get(*map)?.delete(&numbered)?;
                        self.masks[number].1 -= 1;
                        self.taken_out = graces.now();
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn forget(&mut self, key: &[u8], body: u32) -> bool {
        let leads_there = self.bodies.get(key) == Some(&body);
        if leads_there {
            self.bodies.remove(key);
        }
        leads_there
    }

    /// Removes masks without keys from the end of the list. First, the caller must wait until no packet sees an entry
    /// that such a mask had.
    pub(crate) fn take_masks_away(&mut self, layout: &TableLayout, maps: &Maps) {
        let Index::Ternary { n_masks, .. } = &layout.index else {
            return;
        };
        while self.masks.pop_if(|(_, n_keys)| *n_keys == 0).is_some() {
            maps.store_u32(*n_masks, self.masks.len() as u32);
        }
    }
}

/// Links bodies to the body of their next shorter prefix.
fn link(layout: &TableLayout, maps: &Maps, bodies: &[u32], to: u32) {
    if let Some(link) = layout.body.link {
        for body in bodies {
            let to = u64::from(to).to_ne_bytes();
            maps.store_bytes(
                layout.body.at(*body) + link,
                slice::from_ref(&to).as_flattened(),
            );
        }
    }
}
