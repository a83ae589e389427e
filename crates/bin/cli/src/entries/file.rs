//! Reads a runtime file: which program it is for, and its entries, whose names are those in the
//! program's P4Info.

use std::collections::{BTreeMap, HashSet};

use p4runtime_client::field_match::{Match, may_be_range};
use p4runtime_client::{Kind, P4InfoIndex, has_order, id_of, match_type, name_of};
use p4runtime_proto::p4::config::v1::match_field::MatchType;
use p4runtime_proto::p4::config::v1::{self as config, action};
use serde_json::Value;

use super::entry::{Content, Key};
use super::node::{FileError, Node};
use super::value::bytes;

const KEYS: &[&str] = &[
    "target",
    "p4info",
    "bmv2_json",
    "table_entries",
    "multicast_group_entries",
    "clone_session_entries",
];
const ENTRY_KEYS: &[&str] = &[
    "table",
    "match",
    "default_action",
    "action_name",
    "action_params",
    "priority",
];
const GROUP_KEYS: &[&str] = &["multicast_group_id", "replicas"];
const SESSION_KEYS: &[&str] = &["clone_session_id", "replicas", "packet_length_bytes"];
const REPLICA_KEYS: &[&str] = &["egress_port", "instance"];

/// v1model's ports have 9 bits.
const PORT_MAX: u32 = 511;
/// v1model's multicast groups have 16 bits, and 0 is not a group.
const GROUP_MAX: u32 = u16::MAX as u32;
/// v1model's instances have 16 bits.
const INSTANCE_MAX: u32 = u16::MAX as u32;
/// P4Runtime's field for the length of a truncated clone is a signed number.
const LENGTH_MAX: u32 = i32::MAX as u32;
const PRIORITY_MAX: u32 = i32::MAX as u32;

/// The files of the program that a runtime file is for. The paths are as written in the runtime file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramFiles {
    pub p4info: Option<String>,
    pub bmv2_json: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub at: String,
    pub content: Content,
}

/// All entries of a file, and their keys in the order of writing.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    pub wanted: BTreeMap<Key, Wanted>,
    pub order: Vec<Key>,
}

pub fn parse(text: &str) -> Result<Value, FileError> {
    serde_json::from_str(text).map_err(|error| FileError {
        at: String::new(),
        message: format!("expected a runtime file in JSON: {error}"),
    })
}

pub fn program_files(file: &Value) -> Result<ProgramFiles, FileError> {
    let root = Node::root(file);
    root.keys("an object with \"table_entries\"", KEYS)?;
    if let Some(target) = root.get("target")
        && target.text("\"bmv2\"")? != "bmv2"
    {
        return Err(target.expected("\"bmv2\", the one target there is"));
    }
    let path = |key| {
        let node = root.get(key);
        node.map(|node| Ok(node.text("the path of a file")?.to_owned()))
            .transpose()
    };
    Ok(ProgramFiles {
        p4info: path("p4info")?,
        bmv2_json: path("bmv2_json")?,
    })
}

/// Reads all entries. Looks up the names of tables, fields and actions in the program's P4Info.
pub fn entries(file: &Value, index: &P4InfoIndex) -> Result<Entries, FileError> {
    let root = Node::root(file);
    let mut entries = Entries::default();
    for node in root.items_of("multicast_group_entries", "a list of multicast groups")? {
        let (key, content) = multicast_group(&node)?;
        entries.add(&node, key, content)?;
    }
    for node in root.items_of("clone_session_entries", "a list of clone sessions")? {
        let (key, content) = clone_session(&node)?;
        entries.add(&node, key, content)?;
    }
    for node in root.items_of("table_entries", "a list of table entries")? {
        let (key, content) = table_entry(&node, index)?;
        entries.add(&node, key, content)?;
    }
    Ok(entries)
}

impl Entries {
    fn add(&mut self, node: &Node, key: Key, content: Content) -> Result<(), FileError> {
        if let Some(other) = self.wanted.get(&key) {
            return Err(node.error(format!(
                "{} is the same entry: leave one of them out",
                other.at
            )));
        }
        let at = node.at.clone();
        self.order.push(key.clone());
        self.wanted.insert(key, Wanted { at, content });
        Ok(())
    }
}

fn multicast_group(node: &Node) -> Result<(Key, Content), FileError> {
    node.keys("a multicast group", GROUP_KEYS)?;
    let id = node.required("multicast_group_id", "a group's number")?;
    let content = Content::Replicas {
        replicas: replicas(node)?,
        packet_length_bytes: 0,
    };
    Ok((Key::MulticastGroup(id.number(1, GROUP_MAX)?), content))
}

fn clone_session(node: &Node) -> Result<(Key, Content), FileError> {
    node.keys("a clone session", SESSION_KEYS)?;
    let id = node.required("clone_session_id", "a session's number")?;
    let length = node.get("packet_length_bytes");
    let length = length.map_or(Ok(0), |length| length.number(0, LENGTH_MAX))?;
    let content = Content::Replicas {
        replicas: replicas(node)?,
        packet_length_bytes: length.cast_signed(),
    };
    Ok((Key::CloneSession(id.number(1, u32::MAX)?), content))
}

fn replicas(node: &Node) -> Result<Vec<(u16, u32)>, FileError> {
    let what = "a list of {\"egress_port\": PORT, \"instance\": NUMBER}";
    let (mut replicas, mut there) = (Vec::new(), HashSet::new());
    for node in node.required("replicas", what)?.items(what)? {
        node.keys("a replica", REPLICA_KEYS)?;
        let port = node.required("egress_port", "a port's number")?;
        let port = port.number(0, PORT_MAX)?;
        let instance = node.required("instance", "a replica's number")?;
        let instance = instance.number(0, INSTANCE_MAX)?;
        let replica = (u16::try_from(port).unwrap_or(u16::MAX), instance);
        if !there.insert(replica) {
            return Err(node.error(format!(
                "port {port} with instance {instance} is there already: another copy to the port needs another instance"
            )));
        }
        replicas.push(replica);
    }
    Ok(replicas)
}

fn table_entry(node: &Node, index: &P4InfoIndex) -> Result<(Key, Content), FileError> {
    node.keys("a table entry", ENTRY_KEYS)?;
    let name = node.required("table", "a table's name")?;
    let table = index.table(name.text("a table's name")?);
    let table = table.map_err(|message| name.error(message))?;
    let is_default = node
        .get("default_action")
        .map_or(Ok(false), |it| it.flag())?;
    let key = if is_default {
        default_key(node, table)?
    } else {
        entry_key(node, table)?
    };
    Ok((key, call(node, index, table, is_default)?))
}

fn default_key(node: &Node, table: &config::Table) -> Result<Key, FileError> {
    for key in ["match", "priority"] {
        let unfit = node.get(key).filter(|it| {
            let is_empty = it.value.as_object().is_some_and(serde_json::Map::is_empty);
            !is_empty && it.value.as_u64() != Some(0)
        });
        if let Some(unfit) = unfit {
            return Err(
                unfit.error("a default action has none: leave it out, or \"default_action\"")
            );
        }
    }
    let table_id = id_of(table.preamble.as_ref());
    Ok(Key::Default { table_id })
}

fn entry_key(node: &Node, table: &config::Table) -> Result<Key, FileError> {
    let name = name_of(table.preamble.as_ref());
    if table.match_fields.is_empty() {
        return Err(node.error(format!(
            "table \"{name}\" has no key, expected \"default_action\": true"
        )));
    }
    Ok(Key::Entry {
        table_id: id_of(table.preamble.as_ref()),
        fields: fields(node, table)?,
        priority: priority(node, table)?,
    })
}

fn fields(node: &Node, table: &config::Table) -> Result<BTreeMap<u32, Match>, FileError> {
    let name = name_of(table.preamble.as_ref());
    let mut given = BTreeMap::new();
    let matches = node.get("match");
    if let Some(matches) = &matches {
        let object = matches.object("an object of key fields and their matches")?;
        for (key, value) in object {
            let names = table.match_fields.iter().map(|it| (it, it.name.as_str()));
            let field = names::find(&format!("key field of table \"{name}\""), key, names)
                .map_err(|message| matches.error(message))?;
            if given.insert(field.id, matches.below(key, value)).is_some() {
                let message = format!("key field \"{}\" is there twice", field.name);
                return Err(matches.error(message));
            }
        }
    }
    let mut fields = BTreeMap::new();
    for field in &table.match_fields {
        let found = match given.get(&field.id) {
            Some(node) => field_match(node, field)?,
            None if match_type(field) == Some(MatchType::Exact) => {
                let place = matches.as_ref().unwrap_or(node);
                return Err(place.error(format!(
                    "expected a value for key field \"{}\" of table \"{name}\", it is not there",
                    field.name
                )));
            }
            None => None,
        };
        fields.extend(found.map(|found| (field.id, found)));
    }
    Ok(fields)
}

/// Converts the match of a key field. Returns `None` if it matches every value: P4Runtime then omits the field.
fn field_match(node: &Node, field: &config::MatchField) -> Result<Option<Match>, FileError> {
    let kind = Kind::of_bitwidth(field.bitwidth);
    let bits = field.bitwidth.unsigned_abs();
    let unlike = |what: &str| format!("a match of key field \"{}\": {what}", field.name);
    Ok(match match_type(field) {
        Some(MatchType::Exact) => Some(Match::Exact(bytes(node, kind)?)),
        Some(MatchType::Optional) => Some(Match::Optional(bytes(node, kind)?)),
        Some(MatchType::Lpm) => {
            let what = unlike("[value, prefix length], like [\"10.0.1.0\", 24]");
            let [value, prefix] = pair(node, &what)?;
            let prefix_len = prefix.number(0, bits)?;
            Match::lpm(&bytes(&value, kind)?, prefix_len, bits)
        }
        Some(MatchType::Ternary) => {
            let what = unlike("[value, mask], like [\"10.0.1.0\", \"255.255.255.0\"]");
            let [value, mask] = pair(node, &what)?;
            let mask = bytes(&mask, kind)?;
            Match::ternary(&bytes(&value, kind)?, &mask)
        }
        Some(MatchType::Range) => {
            let [low, high] = pair(node, &unlike("[low, high], like [5000, 5999]"))?;
            let (low, high) = (bytes(&low, kind)?, bytes(&high, kind)?);
            if !may_be_range(&low, &high, bits) {
                return Err(node.error("expected [low, high], the first is greater"));
            }
            Match::range(low, high, bits)
        }
        Some(MatchType::Unspecified) | None => {
            return Err(node.error(format!(
                "key field \"{}\" is of a kind that runtime files cannot match",
                field.name
            )));
        }
    })
}

fn pair<'j>(node: &Node<'j>, what: &str) -> Result<[Node<'j>; 2], FileError> {
    let items = node.items(what)?;
    items.try_into().map_err(|_| node.expected(what))
}

/// Reads the priority of an entry. P4Runtime requires a priority if several entries of the table may match a packet.
fn priority(node: &Node, table: &config::Table) -> Result<i32, FileError> {
    let name = name_of(table.preamble.as_ref());
    let given = node.get("priority");
    match (has_order(table), given) {
        (true, Some(given)) => Ok(given.number(1, PRIORITY_MAX)?.cast_signed()),
        (true, None) => Err(node.error(format!(
            "expected \"priority\": a number from 1, the highest wins, for table \"{name}\" has ternary, range or optional key fields"
        ))),
        (false, Some(given)) if given.value.as_u64() != Some(0) => Err(given.error(format!(
            "table \"{name}\" has no ternary, range or optional key field: leave the priority out"
        ))),
        (false, _) => Ok(0),
    }
}

fn call(
    node: &Node,
    index: &P4InfoIndex,
    table: &config::Table,
    is_default: bool,
) -> Result<Content, FileError> {
    let name = node.required("action_name", "an action's name")?;
    let kind = if is_default {
        "default action"
    } else {
        "action"
    };
    let kind = format!("{kind} of table \"{}\"", name_of(table.preamble.as_ref()));
    let possible = index.actions_of(table, is_default).into_iter();
    let possible = possible.map(|it| (it, name_of(it.preamble.as_ref())));
    let action = names::find(&kind, name.text("an action's name")?, possible);
    let action = action.map_err(|message| name.error(message))?;
    Ok(Content::Call {
        action_id: id_of(action.preamble.as_ref()),
        params: params(node, action)?,
    })
}

fn params(node: &Node, action: &config::Action) -> Result<BTreeMap<u32, Vec<u8>>, FileError> {
    let name = name_of(action.preamble.as_ref());
    let mut values = BTreeMap::new();
    let given = node.get("action_params");
    if let Some(given) = &given {
        for (key, value) in given.object("an object of parameters and their values")? {
            let names = action.params.iter().map(|it| (it, it.name.as_str()));
            let param = names::find(&format!("parameter of action \"{name}\""), key, names)
                .map_err(|message| given.error(message))?;
            let kind = Kind::of_bitwidth(param.bitwidth);
            values.insert(param.id, bytes(&given.below(key, value), kind)?);
        }
    }
    let missing = |param: &&action::Param| !values.contains_key(&param.id);
    match action.params.iter().find(missing) {
        Some(param) => Err(given.as_ref().unwrap_or(node).error(format!(
            "expected a value for parameter \"{}\" of action \"{name}\", it is not there",
            param.name
        ))),
        None => Ok(values),
    }
}
