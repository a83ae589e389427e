//! P4Info's ids and aliases.
//!
//! An id consists of a prefix for the kind of object and 24 bits of a hash of the object's name, so the id does not
//! change when other objects are added or removed. `@id` overrides the id (P4Runtime 1.4.1, section 6.3 "ID
//! Allocation"). The hash is Jenkins' one-at-a-time, as in p4c, so both compilers give the same ids.

use std::collections::{BTreeMap, HashMap, HashSet};

use num_bigint::BigInt;
use num_traits::ToPrimitive as _;

use crate::diagnostic::Sink;
use crate::ir::{Annotation, annotation_ints};
use crate::source::Span;

/// A kind of P4Info object. The discriminant is the prefix of the kind's ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    Action = 0x01,
    Table = 0x02,
    ValueSet = 0x03,
    ControllerHeader = 0x04,
    ActionProfile = 0x11,
    Counter = 0x12,
    DirectCounter = 0x13,
    Meter = 0x14,
    DirectMeter = 0x15,
    Register = 0x16,
    Digest = 0x17,
}

#[derive(Default)]
pub struct Symbols {
    wanted: BTreeMap<(Kind, String), (Option<u32>, Span)>,
    ids: HashMap<(Kind, String), u32>,
    suffixes: HashMap<String, usize>,
    names: HashSet<String>,
}

impl Symbols {
    /// Registers an object. A second object of the same kind and name is an error.
    pub fn add(
        &mut self,
        kind: Kind,
        name: &str,
        annotations: &[Annotation],
        span: Span,
        sink: &mut Sink,
    ) {
        let id = own_id(annotations).and_then(|(own, _)| {
            let prefix = kind as u32;
            let id = own
                .to_u32()
                .filter(|id| *id != 0 && (id >> 24 == 0 || id >> 24 == prefix));
            if id.is_none() {
                sink.error(
                    "E0701",
                    span,
                    format!(
                        "@id({own:#x}) does not fit: the upper 8 bits of this id are {prefix:#04x}"
                    ),
                );
            }
            id.map(|id| id | prefix << 24)
        });
        let (_, first) = self
            .wanted
            .entry((kind, name.to_owned()))
            .or_insert((id, span));
        if *first != span && span != Span::default() {
            let message = format!("two objects have the control plane's name `{name}`");
            sink.error("E0702", span, message)
                .note_at(*first, "the other one")
                .help("give one of them another @name");
        }
        if self.names.insert(name.to_owned()) {
            for suffix in suffixes(name) {
                *self.suffixes.entry(suffix.to_owned()).or_default() += 1;
            }
        }
    }

    pub fn assign(&mut self, sink: &mut Sink) {
        let mut taken = HashSet::new();
        for (key, (id, span)) in &self.wanted {
            if let Some(id) = id {
                if !taken.insert(*id) {
                    sink.error(
                        "E0701",
                        *span,
                        format!(
                            "@id({id:#x}) is given to more than one object, among them `{}`",
                            key.1
                        ),
                    );
                }
                self.ids.insert(key.clone(), *id);
            }
        }
        for (key, (id, _)) in &self.wanted {
            if id.is_some() {
                continue;
            }
            let mut hash = one_at_a_time(key.1.as_bytes()) & 0x00ff_ffff;
            while !taken.insert((key.0 as u32) << 24 | hash) {
                hash = (hash + 1) & 0x00ff_ffff;
            }
            self.ids.insert(key.clone(), (key.0 as u32) << 24 | hash);
        }
    }

    pub fn id(&self, kind: Kind, name: &str) -> u32 {
        self.ids.get(&(kind, name.to_owned())).copied().unwrap_or(0)
    }

    /// Returns the shortest suffix of the name that consists of whole components and is unique among all names.
    pub fn alias(&self, name: &str) -> String {
        let unique =
            suffixes(name).find(|suffix| self.suffixes.get(*suffix).is_none_or(|count| *count < 2));
        unique.unwrap_or(name).to_owned()
    }
}

/// Returns the suffixes of a dotted name, in whole components, shortest first.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('.')
        .map(|(at, _)| &name[at + 1..])
        .chain([name])
}

fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = 0_u32;
    for byte in key {
        hash = hash.wrapping_add(u32::from(*byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// Returns the ids of fields or parameters: the number in the `@id` if there is one, otherwise the next free number
/// from 1.
pub fn member_ids(annotations: &[&[Annotation]]) -> Vec<u32> {
    let own = |list: &&[Annotation]| own_id(list).and_then(|(id, _)| id.to_u32());
    let given: Vec<Option<u32>> = annotations.iter().map(own).collect();
    let mut taken: HashSet<u32> = given.iter().flatten().copied().collect();
    let mut index = 1;
    let mut out = Vec::new();
    for id in given {
        match id {
            Some(id) => {
                index += 1;
                out.push(id);
            }
            None => {
                while taken.contains(&index) {
                    index += 1;
                }
                taken.insert(index);
                out.push(index);
            }
        }
    }
    out
}

pub fn member_faults(annotations: &[&[Annotation]]) -> Vec<(Span, String)> {
    let mut taken = HashSet::new();
    let mut faults = Vec::new();
    for (id, span) in annotations.iter().filter_map(|list| own_id(list)) {
        if id.to_u32().is_none_or(|id| id == 0) {
            let message =
                format!("@id({id}): the id of a field or parameter is from 1 to 4294967295");
            faults.push((span, message));
        } else if !taken.insert(id.clone()) {
            let message = format!("@id({id}) is given to more than one field or parameter");
            faults.push((span, message));
        }
    }
    faults
}

/// Returns the number in an `@id`, and the annotation's place.
fn own_id(annotations: &[Annotation]) -> Option<(BigInt, Span)> {
    let found = annotations.iter().find(|found| &*found.name == "id")?;
    Some((annotation_ints(found).next()?, found.span))
}
