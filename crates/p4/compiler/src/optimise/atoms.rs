//! The known values of fields, in a table whose copies share equal parts.
//!
//! A walk along a control graph copies its facts at every branch, and keeps the common facts where branches meet.
//! Most fields are the same on both sides. So the table consists of chunks that are shared until one side writes, and
//! shared chunks need no comparison.

use std::rc::Rc;

use super::model::FieldId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atom {
    Constant(u128),
    Copy(FieldId),
    Parameter(u32),
}

/// Fields in a chunk: few enough that an action's writes copy little, many enough to be worth sharing.
const CHUNK: usize = 32;

type Chunk = Rc<[Option<Atom>; CHUNK]>;

#[derive(Clone, Debug, Default)]
pub struct Atoms {
    chunks: Vec<Option<Chunk>>,
    /// Every field whose known value is not a constant, and some fields that no longer have such a value.
    linked: Vec<FieldId>,
}

fn place(field: FieldId) -> (usize, usize) {
    (field as usize / CHUNK, field as usize % CHUNK)
}

impl Atoms {
    pub fn get(&self, field: FieldId) -> Option<Atom> {
        let (chunk, at) = place(field);
        self.chunks.get(chunk)?.as_ref()?[at]
    }

    pub fn insert(&mut self, field: FieldId, atom: Atom) {
        if self.get(field) == Some(atom) {
            return;
        }
        let (chunk, at) = place(field);
        if chunk >= self.chunks.len() {
            self.chunks.resize(chunk + 1, None);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(|| Rc::new([None; CHUNK]));
        Rc::make_mut(chunk)[at] = Some(atom);
        if !matches!(atom, Atom::Constant(_)) && !self.linked.contains(&field) {
            self.linked.push(field);
        }
    }

    fn remove(&mut self, field: FieldId) {
        if self.get(field).is_none() {
            return;
        }
        let (chunk, at) = place(field);
        if let Some(chunk) = &mut self.chunks[chunk] {
            Rc::make_mut(chunk)[at] = None;
        }
    }

    /// Forgets the value of a field, and those of the fields that are copies of it.
    pub fn forget(&mut self, field: FieldId) {
        self.remove(field);
        self.remove_linked(|atom| atom == Atom::Copy(field));
    }

    /// Forgets the values other than constants for which `is_gone` holds.
    pub fn remove_linked(&mut self, is_gone: impl Fn(Atom) -> bool) {
        let mut linked = std::mem::take(&mut self.linked);
        linked.retain(|known| match self.get(*known) {
            None | Some(Atom::Constant(_)) => false,
            Some(atom) if is_gone(atom) => {
                self.remove(*known);
                false
            }
            Some(_) => true,
        });
        self.linked = linked;
    }

    pub fn clear(&mut self) {
        self.chunks.clear();
        self.linked.clear();
    }

    pub fn meet(&mut self, other: &Self) {
        self.chunks.truncate(other.chunks.len());
        for (mine, theirs) in self.chunks.iter_mut().zip(&other.chunks) {
            match (mine.as_mut(), theirs) {
                (Some(same), Some(theirs)) if Rc::ptr_eq(same, theirs) => {}
                (Some(chunk), Some(theirs)) => keep_common(chunk, theirs),
                _ => *mine = None,
            }
        }
    }
}

fn keep_common(mine: &mut Chunk, theirs: &Chunk) {
    let differs = |(mine, theirs): (&Option<Atom>, &Option<Atom>)| mine.is_some() && mine != theirs;
    if !mine.iter().zip(theirs.iter()).any(differs) {
        return;
    }
    for pair in Rc::make_mut(mine).iter_mut().zip(theirs.iter()) {
        if differs((pair.0, pair.1)) {
            *pair.0 = None;
        }
    }
}
