//! The facts about each variable (whether its value is set, or its header valid; [`Fact`]), by the variable's number.
//!
//! Each branch gets a copy of the facts, and a generated program has thousands of branches and of variables. So
//! branches share chunks of facts until one side writes, and where branches meet, shared chunks are mostly skipped.

use std::rc::Rc;

use super::{Fact, Node, is_idempotent};
use crate::ir::VarId;

/// Variables in a chunk: few enough to copy quickly, and enough to share much.
const CHUNK: usize = 32;

type Chunk = Rc<[Option<Node>; CHUNK]>;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vars {
    /// `None` for a chunk in which no fact was ever written.
    chunks: Vec<Option<Chunk>>,
}

impl Vars {
    pub fn get(&self, id: &VarId) -> Option<&Node> {
        self.chunks.get(id / CHUNK)?.as_ref()?[id % CHUNK].as_ref()
    }

    pub fn get_mut(&mut self, id: &VarId) -> Option<&mut Node> {
        self.get(id)?;
        let chunk = self.chunks.get_mut(id / CHUNK)?.as_mut()?;
        Rc::make_mut(chunk)[id % CHUNK].as_mut()
    }

    pub fn insert(&mut self, id: VarId, node: Node) {
        let at = id / CHUNK;
        if at >= self.chunks.len() {
            self.chunks.resize(at + 1, None);
        }
        let chunk = self.chunks[at].get_or_insert_with(|| Rc::new([const { None }; CHUNK]));
        Rc::make_mut(chunk)[id % CHUNK] = Some(node);
    }

    pub fn remove(&mut self, id: &VarId) -> Option<Node> {
        self.get(id)?;
        let chunk = self.chunks.get_mut(id / CHUNK)?.as_mut()?;
        Rc::make_mut(chunk)[id % CHUNK].take()
    }

    /// Changes the fact of every value and header of every variable.
    pub fn map(&mut self, change: &impl Fn(bool, Fact) -> Fact) {
        for chunk in self.chunks.iter_mut().flatten() {
            if chunk.iter().flatten().any(|node| node.changes(change)) {
                let nodes = Rc::make_mut(chunk).iter_mut().flatten();
                nodes.for_each(|node| node.map(change));
            }
        }
    }

    /// Combines the facts of `self` and `other`. A variable that only one of them has keeps its facts.
    pub fn combine(&self, other: &Self, with: &impl Fn(Fact, Fact) -> Fact) -> Self {
        let mut out = self.clone();
        if out.chunks.len() < other.chunks.len() {
            out.chunks.resize(other.chunks.len(), None);
        }
        let keeps_equal = is_idempotent(with);
        for (mine, theirs) in out.chunks.iter_mut().zip(&other.chunks) {
            match (mine.as_mut(), theirs) {
                (_, None) => {}
                (None, Some(_)) => mine.clone_from(theirs),
                (Some(same), Some(theirs)) if keeps_equal && Rc::ptr_eq(same, theirs) => {}
                (Some(mine), Some(theirs)) => combine_chunks(mine, theirs, with),
            }
        }
        out
    }
}

fn combine_chunks(mine: &mut Chunk, theirs: &Chunk, with: &impl Fn(Fact, Fact) -> Fact) {
    for (at, their) in theirs.iter().enumerate() {
        let Some(their) = their else { continue };
        let both = match &mine[at] {
            Some(my) => my.combine(their, with),
            None => their.clone(),
        };
        if mine[at].as_ref() != Some(&both) {
            Rc::make_mut(mine)[at] = Some(both);
        }
    }
}
