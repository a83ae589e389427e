//! The difference between a runtime file and a switch: updates in the order of writing, each with a
//! line of text for the operator.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use conference::difference::Sign;
use p4runtime_client::bytestring::hex;
use p4runtime_client::field_match::Match;
use p4runtime_client::{Kind, Object, P4InfoIndex, entities};
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::Update;
use serde::Serialize;

use super::entry::{Content, Held, Key, to_entity, with_content};
use super::file::Entries;
use super::node::FileError;
use super::value;

pub type State = BTreeMap<Key, Held>;

#[derive(Clone, Debug, Serialize)]
pub struct Change {
    pub sign: Sign,
    pub text: String,
    /// Place in the file; `None` for an entry that the file lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip)]
    pub update: Update,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.sign {
            Sign::Added => '+',
            Sign::Removed => '-',
            Sign::Changed => '~',
        };
        write!(f, "{sign} {}", self.text)
    }
}

/// Returns the changes after which a switch has these entries and, if `replaces` is set, no others. An entry that
/// refers to a group is written after the group and removed before it. New entries are written before old entries are
/// removed, so every packet matches an old or a new entry. Only in a table that has no room for both are old entries
/// removed first.
pub fn difference(
    state: &State,
    entries: &Entries,
    index: &P4InfoIndex,
    replaces: bool,
) -> Result<Vec<Change>, FileError> {
    let names = Names(index);
    let mut written = Vec::new();
    for key in &entries.order {
        let Some(wanted) = entries.wanted.get(key) else {
            continue;
        };
        let held = state.get(key);
        if held.is_some_and(|held| held.content.as_ref() == Some(&wanted.content)) {
            continue;
        }
        if held.is_some_and(|held| held.is_const) {
            return Err(FileError {
                at: wanted.at.clone(),
                message: format!(
                    "{} is the program's own (const), expected it as it is there: {}",
                    names.key(key),
                    names.held(key, held)
                ),
            });
        }
        written.push((key.clone(), change(&names, key, held, wanted)));
    }
    if !replaces {
        return Ok(written.into_iter().map(|(_, change)| change).collect());
    }
    let surplus = |(key, held): &(&Key, &Held)| {
        !entries.wanted.contains_key(*key) && !matches!(key, Key::Default { .. }) && !held.is_const
    };
    let removed: Vec<(Key, Change)> = state
        .iter()
        .rev()
        .filter(surplus)
        .map(|(key, held)| (key.clone(), removal(&names, key, held)))
        .collect();
    Ok(in_order(&names, state, written, removed))
}

fn change(names: &Names, key: &Key, held: Option<&Held>, wanted: &super::file::Wanted) -> Change {
    let text = names.line(key, &wanted.content);
    let at = Some(wanted.at.clone());
    match held {
        None => Change {
            sign: Sign::Added,
            text,
            at,
            update: entities::insert(to_entity(key, &wanted.content)),
        },
        Some(held) => Change {
            sign: Sign::Changed,
            text: format!("{text} (was {})", names.held(key, Some(held))),
            at,
            update: entities::modify(with_content(held.entity.clone(), &wanted.content)),
        },
    }
}

fn removal(names: &Names, key: &Key, held: &Held) -> Change {
    let text = match &held.content {
        Some(content) => names.line(key, content),
        None => names.key(key),
    };
    // A removal needs only the key.
    let empty = Content::Replicas {
        replicas: Vec::new(),
        packet_length_bytes: 0,
    };
    Change {
        sign: Sign::Removed,
        text,
        at: None,
        update: entities::delete(to_entity(key, &empty)),
    }
}

/// Orders updates: first removals from tables that have no room for old and new entries, then new
/// and changed entries, then all other removals.
fn in_order(
    names: &Names,
    state: &State,
    written: Vec<(Key, Change)>,
    removed: Vec<(Key, Change)>,
) -> Vec<Change> {
    let table_of = |key: &Key| match key {
        Key::Entry { table_id, .. } => Some(*table_id),
        _ => None,
    };
    let mut n_entries: HashMap<u32, usize> = HashMap::new();
    let added = written.iter().filter(|(_, it)| it.sign == Sign::Added);
    for table in state
        .keys()
        .chain(added.map(|(key, _)| key))
        .filter_map(table_of)
    {
        *n_entries.entry(table).or_default() += 1;
    }
    let is_full = |key: &Key| {
        table_of(key).is_some_and(|id| n_entries.get(&id).copied() > Some(names.size_of_table(id)))
    };
    let (early, late): (Vec<_>, Vec<_>) = removed.into_iter().partition(|(key, _)| is_full(key));
    let all = early.into_iter().chain(written).chain(late);
    all.map(|(_, change)| change).collect()
}

/// Describes keys and contents as text, with the names that the P4 program gives to tables, actions and fields.
struct Names<'p>(&'p P4InfoIndex);

impl Names<'_> {
    fn size_of_table(&self, id: u32) -> usize {
        let table = self.0.table_by_id(id);
        let size = table.and_then(|it| it.size.try_into().ok());
        size.unwrap_or(usize::MAX)
    }

    fn line(&self, key: &Key, content: &Content) -> String {
        format!("{} -> {}", self.key(key), self.content(key, content))
    }

    fn held(&self, key: &Key, held: Option<&Held>) -> String {
        let content = held.and_then(|held| held.content.as_ref());
        content.map_or("something else".to_owned(), |it| self.content(key, it))
    }

    fn key(&self, key: &Key) -> String {
        match key {
            Key::MulticastGroup(id) => format!("multicast group {id}"),
            Key::CloneSession(id) => format!("clone session {id}"),
            Key::Default { table_id } => format!("{}: default", self.table(*table_id)),
            Key::Entry {
                table_id,
                fields,
                priority,
            } => {
                let priority = match priority {
                    0 => String::new(),
                    priority => format!(" priority {priority}"),
                };
                let name = self.table(*table_id);
                format!("{name}: {}{priority}", self.fields(*table_id, fields))
            }
        }
    }

    fn table(&self, id: u32) -> String {
        self.0.full(Object::Table, id)
    }

    fn fields(&self, table_id: u32, fields: &BTreeMap<u32, Match>) -> String {
        let of_table = self.0.table_by_id(table_id);
        let of_table = of_table.map_or(&[][..], |it| it.match_fields.as_slice());
        let field = |field: &config::MatchField| {
            let kind = Kind::of_bitwidth(field.bitwidth);
            let text = |bytes: &[u8]| value::text(bytes, kind, &field.name);
            let found = match fields.get(&field.id)? {
                Match::Exact(value) | Match::Optional(value) => text(value),
                Match::Lpm(value, prefix_len) => format!("{}/{prefix_len}", text(value)),
                Match::Ternary(value, mask) => format!("{}&&&{}", text(value), hex(mask)),
                Match::Range(low, high) => format!("{}..{}", text(low), text(high)),
            };
            Some(format!("{}={found}", field.name))
        };
        let fields: Vec<String> = of_table.iter().filter_map(field).collect();
        match fields.as_slice() {
            [] => "any".to_owned(),
            fields => fields.join(" "),
        }
    }

    fn content(&self, key: &Key, content: &Content) -> String {
        match content {
            Content::Call { action_id, params } => self.call(*action_id, params),
            Content::Replicas {
                replicas,
                packet_length_bytes,
            } => {
                let replicas = replicas.iter().map(|(port, instance)| match instance {
                    0 if matches!(key, Key::CloneSession(_)) => port.to_string(),
                    instance => format!("{port}:{instance}"),
                });
                let replicas = replicas.collect::<Vec<_>>().join(" ");
                match packet_length_bytes {
                    0 => format!("ports {replicas}"),
                    length => format!("ports {replicas}, {length} bytes each"),
                }
            }
        }
    }

    fn call(&self, action_id: u32, params: &BTreeMap<u32, Vec<u8>>) -> String {
        let of_action = self.0.action_by_id(action_id);
        let of_action = of_action.map_or(&[][..], |it| it.params.as_slice());
        let param = |param: &config::action::Param| {
            let kind = Kind::of_bitwidth(param.bitwidth);
            let value = value::text(params.get(&param.id)?, kind, &param.name);
            Some(format!("{}={value}", param.name))
        };
        let params: Vec<String> = of_action.iter().filter_map(param).collect();
        let name = self.0.full(Object::Action, action_id);
        format!("{name}({})", params.join(", "))
    }
}
