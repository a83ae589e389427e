//! Names of packets in traces, for example `1` for a frame, `1.c1` for its first clone, `1.r2` for its second replica.

use std::sync::Arc;

use crate::Stream;

/// Refers to a packet's name. The id is a small number instead of the name itself, because the switch copies packets
/// often, and packets have names only while a trace is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NameId(u32);

impl NameId {
    /// The id of a packet that arrived while no trace sink was set.
    pub(crate) const NONE: Self = Self(0);
}

#[derive(Debug)]
struct Name {
    label: Arc<str>,
    n_clones: u32,
    n_replicas: u32,
}

#[derive(Debug, Default)]
pub(super) struct Names {
    /// The name with id `n` has the index `n - 1`; `None` if the id is unused.
    names: Vec<Option<Name>>,
    spare: Vec<NameId>,
}

impl Names {
    pub(super) fn add(&mut self, label: String) -> NameId {
        let name = Some(Name {
            label: label.into(),
            n_clones: 0,
            n_replicas: 0,
        });
        if let Some(spare) = self.spare.pop()
            && let Some(place) = self.place(spare)
        {
            *place = name;
            return spare;
        }
        self.names.push(name);
        NameId(u32::try_from(self.names.len()).expect("fewer frames are traced than 2^32"))
    }

    fn place(&mut self, id: NameId) -> Option<&mut Option<Name>> {
        self.names.get_mut((id.0 as usize).checked_sub(1)?)
    }

    pub(super) fn label(&self, id: NameId) -> Option<&Arc<str>> {
        let name = self.names.get((id.0 as usize).checked_sub(1)?)?;
        Some(&name.as_ref()?.label)
    }

    /// Names a clone (`.c1`) or a replica (`.r1`).
    pub(super) fn add_copy(&mut self, of: NameId, by: Stream) -> NameId {
        let Some(Some(name)) = self.place(of) else {
            return NameId::NONE;
        };
        let (letter, n_copies) = match by {
            Stream::CloneSession(_) => ('c', &mut name.n_clones),
            _ => ('r', &mut name.n_replicas),
        };
        *n_copies += 1;
        let label = format!("{}.{letter}{n_copies}", name.label);
        self.add(label)
    }

    pub(super) fn remove(&mut self, id: NameId) {
        if let Some(place) = self.place(id)
            && place.take().is_some()
        {
            self.spare.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_named_after_what_they_are_made_of() {
        let mut names = Names::default();
        let frame = names.add("7".to_owned());
        let (session, group) = (Stream::CloneSession(1), Stream::MulticastGroup(1));
        let clone = names.add_copy(frame, session);
        let copies = [
            names.add_copy(frame, session),
            names.add_copy(frame, group),
            names.add_copy(clone, session),
        ];
        let labels = copies.map(|id| names.label(id).map(|label| label.to_string()));
        let expected = ["7.c2", "7.r1", "7.c1.c1"];
        assert_eq!(labels, expected.map(|label| Some(label.to_owned())));
    }

    #[test]
    fn without_a_name_a_copy_has_none() {
        let mut names = Names::default();
        let session = Stream::CloneSession(1);
        assert_eq!(names.add_copy(NameId::NONE, session), NameId::NONE);
        assert_eq!(names.label(NameId::NONE), None);
        names.remove(NameId::NONE);
        let first = names.add("1".to_owned());
        names.remove(first);
        names.remove(first);
        assert_eq!(names.add("2".to_owned()), first);
        assert_ne!(names.add("3".to_owned()), first);
    }
}
