//! What the control plane gives small ids to: found without a search.

use crate::{ControlErrorKind, Controlled, refuse};

/// Things of one kind.
#[derive(Debug)]
pub(super) struct ById<T> {
    /// As messages name one.
    kind: &'static str,
    /// By id, up to the highest that was ever there.
    places: Vec<Option<T>>,
}

impl<T> ById<T> {
    pub(super) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            places: Vec::new(),
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.places.get(id as usize)?.as_ref()
    }

    /// By id, from an id on.
    pub(super) fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let all = (first..).zip(self.places.iter().skip(first as usize));
        all.filter_map(|(id, thing)| Some((id, thing.as_ref()?)))
    }

    pub(super) fn insert(&mut self, id: u32, thing: T) -> Controlled {
        if self.get(id).is_some() {
            let message = format!("{} {id} is there already", self.kind);
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        let place = id as usize;
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place] = Some(thing);
        Ok(())
    }

    pub(super) fn modify(&mut self, id: u32, thing: T) -> Controlled {
        *self.found(id)? = Some(thing);
        Ok(())
    }

    pub(super) fn delete(&mut self, id: u32) -> Controlled {
        *self.found(id)? = None;
        Ok(())
    }

    /// The place of one that is there.
    fn found(&mut self, id: u32) -> Controlled<&mut Option<T>> {
        match self.places.get_mut(id as usize) {
            Some(place) if place.is_some() => Ok(place),
            _ => refuse(ControlErrorKind::NotFound, format!("no {} {id}", self.kind)),
        }
    }
}
