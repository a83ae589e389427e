//! A table in the kernel: a body for each entry, with two slots for two versions of its action
//! ([`crate::image::Body`]), and the keys that lead to the bodies.

use std::io;

use super::grace::{Graces, Moment};
use super::index::Keys;
use super::maps::Maps;
use crate::image::{ACTION_MISS, EncodedKey, Index, NEVER, TableLayout};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableOp {
    /// Sets a body's slot; `slot` is from [`TableLayout::encode_slot`].
    Show {
        body: u32,
        slot: Vec<u8>,
    },
    /// Adds a key that leads to a body, whose slot the same commit sets. Only ternary tables use the rank: of all
    /// matching entries, the entry with the greatest rank wins.
    Put {
        key: EncodedKey,
        body: u32,
        rank: u64,
    },
    Remove {
        key: EncodedKey,
        body: u32,
    },
}

#[derive(Debug, Clone, Copy)]
struct BodyState {
    /// The slot written last, if any was.
    newest: Option<usize>,
    /// The version from which that slot is valid.
    version: u64,
    /// When that version became visible.
    shown: Moment,
}

#[derive(Debug)]
pub(crate) struct Table {
    layout: TableLayout,
    bodies: Vec<BodyState>,
    keys: Keys,
    /// Bodies written by the current commit.
    written: Vec<u32>,
}

const FRESH: BodyState = BodyState {
    newest: None,
    version: 0,
    shown: Moment::NEVER,
};

impl Table {
    pub(crate) fn new(layout: TableLayout, maps: &Maps) -> Table {
        let table = Table {
            bodies: vec![FRESH; layout.body.n as usize],
            layout,
            keys: Keys::default(),
            written: Vec::new(),
        };
        (0..table.layout.body.n).for_each(|body| table.blank(maps, body));
        table
    }

    /// Marks both slots of a body as unused.
    fn blank(&self, maps: &Maps, body: u32) {
        if !matches!(self.layout.index, Index::Left) {
            let at = self.layout.body.at(body);
            maps.store_u64(at, NEVER);
            maps.store_u64(at + 8, NEVER);
        }
    }

    /// Returns a moment. Once no packet from before this moment is left, this op of a later commit can be written
    /// without waiting.
    pub(crate) fn free_from(&self, op: &TableOp) -> Moment {
        match op {
            TableOp::Put { key, .. } => self.put_from(key).max(self.keys.free_from(&self.layout)),
            TableOp::Show { body, .. } | TableOp::Remove { body, .. } => self.body_from(*body),
        }
    }

    /// Returns a moment. Once no packet from before this moment is left, no packet can see the body's other slot (the
    /// slot that was not written last).
    pub(crate) fn body_from(&self, body: u32) -> Moment {
        match self.bodies.get(body as usize) {
            Some(BodyState {
                newest: Some(_),
                shown,
                ..
            }) => *shown,
            _ => Moment::NEVER,
        }
    }

    /// If a key still leads to a removed entry, returns when the removal became visible, and otherwise
    /// [`Moment::NEVER`].
    fn put_from(&self, key: &EncodedKey) -> Moment {
        let body = self.keys.body(key);
        let before = body.and_then(|body| self.bodies.get(body as usize));
        before.map_or(Moment::NEVER, |body| body.shown)
    }

    /// Writes an op of the commit that `version` will make visible.
    ///
    /// # Errors
    /// The kernel's error, or there is no room.
    pub(crate) fn write(
        &mut self,
        maps: &Maps,
        graces: &Graces,
        version: u64,
        op: &TableOp,
    ) -> io::Result<()> {
        match op {
            TableOp::Show { body, slot } => self.show(maps, graces, version, *body, slot),
            TableOp::Put { key, body, rank } => {
                let link = match self.layout.index {
                    Index::Ternary { .. } => *rank,
                    Index::Lpm { .. } => u64::from(self.keys.shorter(key)),
                    _ => 0,
                };
                if let Some(at) = self.layout.body.link {
                    maps.store_u64(self.layout.body.at(*body) + at, link);
                }
                graces.wait_past(self.put_from(key))?;
                self.keys.put(&self.layout, maps, graces, key, *body)
            }
            TableOp::Remove { body, .. } => {
                let miss = self.layout.encode_slot(ACTION_MISS, &[]);
                self.show(maps, graces, version, *body, &miss)
            }
        }
    }

    /// Writes the slot that packets do not use, once no packet can still see it.
    fn show(
        &mut self,
        maps: &Maps,
        graces: &Graces,
        version: u64,
        body: u32,
        slot: &[u8],
    ) -> io::Result<()> {
        let Some(state) = self.bodies.get_mut(body as usize) else {
            return Err(io::Error::other(format!("there is no body {body}")));
        };
        let place = match state.newest {
            // This commit has written the newest slot, which is not visible yet.
            Some(newest) if state.version == version => newest,
            Some(newest) => {
                graces.wait_past(state.shown)?;
                1 - newest
            }
            None => 0,
        };
        *state = BodyState {
            newest: Some(place),
            version,
            shown: state.shown,
        };
        let at = self.layout.body.at(body);
        let holds_from = at + 8 * place as u32;
        maps.store_u64(holds_from, NEVER);
        maps.store_bytes(at + self.layout.body.slots[place], slot);
        maps.store_u64(holds_from, version);
        self.written.push(body);
        Ok(())
    }

    /// Records that the commit is visible from now on.
    pub(crate) fn shown(&mut self, now: Moment) {
        for body in self.written.drain(..) {
            self.bodies[body as usize].shown = now;
        }
    }

    /// Deletes the key of an entry that no packet sees any more.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn take_out(
        &mut self,
        maps: &Maps,
        graces: &Graces,
        key: &EncodedKey,
        body: u32,
    ) -> io::Result<()> {
        self.keys.take_out(&self.layout, maps, graces, key, body)
    }

    /// Makes a body that no packet can reach free for another entry.
    pub(crate) fn free(&mut self, maps: &Maps, body: u32) {
        self.keys.take_masks_away(&self.layout, maps);
        self.bodies[body as usize] = FRESH;
        self.blank(maps, body);
    }
}
