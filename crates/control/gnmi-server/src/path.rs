//! Resolves the paths of requests to nodes and interfaces, and builds the paths of answers.
//!
//! Source: gNMI specification 0.10.0, sections 2.2.2, 2.4, 2.7 and 3.3.4; gNMI path conventions 0.4.0.

use std::collections::HashMap;

use gnmi_proto::gnmi::{Path, PathElem};
use tonic::{Code, Status};

use crate::limits::PATH_ELEMS_MAX;
use crate::schema::{INTERFACE, NODES, Node, absent};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    Every,
    One(String),
}

impl Name {
    pub(crate) fn is_of(&self, name: &str) -> bool {
        match self {
            Self::Every => true,
            Self::One(one) => one == name,
        }
    }
}

pub(crate) struct Query {
    /// At least one node. No node is below another.
    pub nodes: Vec<&'static Node>,
    pub name: Name,
    /// Whether the path has no wildcard and, if its node is below the list of interfaces, names one interface.
    pub is_exact: bool,
    /// The path as text, for messages.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathError {
    /// The path is malformed.
    Invalid(String),
    /// The path is not in the schema.
    Unknown(String),
    /// The path is in the models, but the switch does not implement it.
    Absent(String),
}

impl PathError {
    fn status(self, unknown: Code) -> Status {
        match self {
            Self::Invalid(message) => Status::invalid_argument(message),
            Self::Unknown(message) => Status::new(unknown, message),
            Self::Absent(message) => Status::unimplemented(message),
        }
    }

    /// Returns the status for a client that reads (gNMI specification, section 3.3.1).
    pub(crate) fn read(self) -> Status {
        self.status(Code::InvalidArgument)
    }

    /// Returns the status for a client that writes (gNMI specification, section 3.4.7).
    pub(crate) fn written(self) -> Status {
        self.status(Code::NotFound)
    }
}

/// The wildcards: `*` matches one element, `...` any number of elements.
const ANY: &str = "*";
const ANY_NUMBER: &str = "...";

/// The key of the interface list.
const KEY: &str = "name";

/// The accepted origins: an empty origin, the specification's origin, and an origin that some collectors send.
const ORIGINS: [&str; 3] = ["", "openconfig", "openconfig-interfaces"];

/// Model prefixes that some clients put in front of element names.
const QUALIFIERS: [&str; 2] = ["openconfig-interfaces:", "openconfig-p4rt:"];

pub(crate) fn unqualified(name: &str) -> &str {
    let stripped = QUALIFIERS.iter().find_map(|model| name.strip_prefix(model));
    stripped.unwrap_or(name)
}

pub(crate) fn text_of<'a>(elems: impl IntoIterator<Item = &'a PathElem>) -> String {
    let mut text = String::new();
    for elem in elems {
        text.push('/');
        text.push_str(&elem.name);
        let mut keys: Vec<_> = elem.key.iter().collect();
        keys.sort();
        for (key, value) in keys {
            text.push_str(&format!("[{key}={value}]"));
        }
    }
    if text.is_empty() {
        "/".to_owned()
    } else {
        text
    }
}

fn invalid(text: &str, why: &str) -> PathError {
    PathError::Invalid(format!("path {text}: {why}"))
}

impl Query {
    /// Resolves a path relative to a prefix.
    pub(crate) fn of(prefix: Option<&Path>, path: Option<&Path>) -> Result<Self, PathError> {
        let both = || prefix.into_iter().chain(path);
        let elems: Vec<&PathElem> = both().flat_map(|path| &path.elem).collect();
        let text = text_of(elems.iter().copied());
        #[allow(deprecated, reason = "to be refused with a message")]
        if both().any(|path| !path.element.is_empty()) {
            return Err(invalid(
                &text,
                "expected elem, found the field element, which gNMI 0.4 replaced by elem",
            ));
        }
        if elems.len() > PATH_ELEMS_MAX {
            let n_elems = elems.len();
            return Err(PathError::Invalid(format!(
                "expected a path of at most {PATH_ELEMS_MAX} elements, found one of {n_elems}"
            )));
        }
        if both().all(|path| !path.origin.is_empty()) && both().count() == 2 {
            return Err(invalid(
                &text,
                "expected an origin in the prefix or in the path, found one in both",
            ));
        }
        for origin in both().map(|path| path.origin.as_str()) {
            if !ORIGINS.contains(&origin) {
                let why = format!("expected the origin openconfig, found {origin:?}");
                return Err(invalid(&text, &why));
            }
        }
        let name = key_of(&elems, &text)?;
        let matching: Vec<&'static Node> = NODES
            .iter()
            .filter(|node| matches(&elems, &node.path))
            .collect();
        if matching.is_empty() {
            return Err(unknown(&elems, text));
        }
        let is_below_another = |node: &&'static Node| {
            matching.iter().any(|other| {
                other.path.len() < node.path.len() && node.path.starts_with(&other.path)
            })
        };
        let nodes: Vec<&'static Node> = matching
            .iter()
            .copied()
            .filter(|node| !is_below_another(node))
            .collect();
        let has_wildcard = elems
            .iter()
            .any(|elem| elem.name == ANY || elem.name == ANY_NUMBER);
        let is_in_list = nodes.iter().any(|node| node.below_interface().is_some());
        Ok(Self {
            is_exact: !has_wildcard && (!is_in_list || name != Name::Every),
            nodes,
            name,
            text,
        })
    }
}

/// Returns the name of the interface that the keys of a path select.
fn key_of(elems: &[&PathElem], text: &str) -> Result<Name, PathError> {
    let mut name = Name::Every;
    for elem in elems.iter().filter(|elem| !elem.key.is_empty()) {
        let is_list = [INTERFACE[1], ANY].contains(&unqualified(&elem.name));
        let (Some(value), 1, true) = (elem.key.get(KEY), elem.key.len(), is_list) else {
            let why = format!("expected keys at interface only, and only {KEY}");
            return Err(invalid(text, &why));
        };
        if value != ANY && value != ANY_NUMBER {
            name = Name::One(value.clone());
        }
    }
    Ok(name)
}

/// Whether a request's elements, with wildcards, select the node at `path`.
fn matches(elems: &[&PathElem], path: &[&str]) -> bool {
    let Some((elem, rest)) = elems.split_first() else {
        return path.is_empty();
    };
    if elem.name == ANY_NUMBER {
        // Consecutive `...` are equivalent to one `...`. Only the last is tried, because trying each of them would
        // multiply the attempts.
        if rest.first().is_some_and(|next| next.name == ANY_NUMBER) {
            return matches(rest, path);
        }
        return (0..=path.len()).any(|n_skipped| matches(rest, &path[n_skipped..]));
    }
    let Some((name, below)) = path.split_first() else {
        return false;
    };
    let is_named = elem.name == ANY || unqualified(&elem.name) == *name;
    // An element with keys matches only the list, also if the element is a wildcard.
    let has_keys = elem.key.is_empty() || *name == INTERFACE[1];
    is_named && has_keys && matches(rest, below)
}

/// The error for a path that selects no node: `Absent` if the models have the path, otherwise `Unknown`.
fn unknown(elems: &[&PathElem], text: String) -> PathError {
    let is_within = |path: &Vec<&str>| {
        // A beginning of the path that ends with a wildcard would match nodes that the client does not name.
        let is_named = |n_elems: usize| {
            ![ANY, ANY_NUMBER].contains(&elems[n_elems - 1].name.as_str())
                && matches(&elems[..n_elems], path)
        };
        (1..=elems.len()).any(is_named)
    };
    if absent().any(|path| is_within(&path)) {
        PathError::Absent(format!("path {text}: the switch does not have it"))
    } else {
        PathError::Unknown(format!("path {text}: {}", expected(elems)))
    }
}

/// Says which nodes the schema has below the last node that the path reaches.
fn expected(elems: &[&PathElem]) -> String {
    let mut beginnings = (0..elems.len()).rev().map(|n_elems| &elems[..n_elems]);
    let reached = beginnings.find_map(|begin| {
        let mut nodes = NODES.iter();
        nodes.find(|node| matches(begin, &node.path))
    });
    let path = reached.map_or(&[][..], |node| &node.path[..]);
    let below = NODES
        .iter()
        .filter_map(|node| match node.path.split_last() {
            Some((name, above)) if above == path => Some(*name),
            _ => None,
        });
    let (place, below) = (path.join("/"), below.collect::<Vec<_>>().join(", "));
    if below.is_empty() {
        format!("expected nothing below the leaf /{place}, found more")
    } else {
        format!(
            "expected one of {below} in /{place}, found a name that the schema does not have there"
        )
    }
}

fn elem(name: &str) -> PathElem {
    PathElem {
        name: name.to_owned(),
        key: HashMap::new(),
    }
}

/// The path of a node from the root. `name` is the interface; `None` for a node above all interfaces.
pub(crate) fn of_node(node: &[&str], name: Option<&str>) -> Path {
    let mut elems: Vec<PathElem> = node.iter().map(|name| elem(name)).collect();
    if let (Some(list), Some(name)) = (elems.get_mut(INTERFACE.len() - 1), name) {
        list.key.insert(KEY.to_owned(), name.to_owned());
    }
    Path {
        elem: elems,
        ..Path::default()
    }
}

pub(crate) fn of_leaf(leaf: &[&str], name: &str) -> Path {
    of_node(&[INTERFACE, leaf].concat(), Some(name))
}

/// Returns the prefix of an answer. The prefix repeats target and origin, but has no elements, because the paths in an
/// answer are complete (gNMI specification, section 2.2.2.1).
pub(crate) fn answer_prefix(asked: Option<&Path>) -> Option<Path> {
    let asked = asked.filter(|prefix| !prefix.target.is_empty() || !prefix.origin.is_empty())?;
    Some(Path {
        target: asked.target.clone(),
        origin: asked.origin.clone(),
        ..Path::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a path with at most one key per element.
    fn path(text: &str) -> Path {
        let elems = text.split('/').filter(|part| !part.is_empty());
        let elems = elems.map(|part| match part.split_once('[') {
            None => elem(part),
            Some((name, key)) => {
                let (key, value) = key.trim_end_matches(']').split_once('=').unwrap();
                PathElem {
                    name: name.to_owned(),
                    key: [(key.to_owned(), value.to_owned())].into(),
                }
            }
        });
        Path {
            elem: elems.collect(),
            ..Path::default()
        }
    }

    fn query(text: &str) -> Result<Query, Status> {
        Query::of(None, Some(&path(text))).map_err(PathError::read)
    }

    fn nodes(text: &str) -> Vec<String> {
        let found = query(text).unwrap();
        found.nodes.iter().map(|node| node.path.join("/")).collect()
    }

    #[test]
    fn wildcards_name_the_topmost_nodes_that_match() {
        assert_eq!(nodes("/"), [""]);
        assert_eq!(nodes("/..."), [""]);
        assert_eq!(nodes("/interfaces/..."), ["interfaces"]);
        assert_eq!(nodes("/*"), ["interfaces"]);
        let states = ["interfaces/interface/state"];
        assert_eq!(nodes("/interfaces/interface[name=*]/state"), states);
        assert_eq!(nodes("/.../state"), states);
        assert_eq!(nodes("/*/*[name=a]/state"), states);
        let enabled =
            ["config/enabled", "state/enabled"].map(|leaf| format!("interfaces/interface/{leaf}"));
        assert_eq!(nodes("/interfaces/interface/.../enabled"), enabled);
        assert_eq!(nodes("/interfaces/interface/*/enabled"), enabled);
        assert_eq!(
            nodes("/openconfig-interfaces:interfaces/interface/state/openconfig-p4rt:id").len(),
            1
        );
    }

    #[test]
    fn a_key_names_one_interface_or_all() {
        let name = |text: &str| query(text).unwrap().name;
        for all in [
            "/interfaces",
            "/interfaces/interface",
            "/interfaces/interface[name=*]/state",
            "/interfaces/interface[name=...]/state",
        ] {
            assert_eq!(name(all), Name::Every, "{all}");
        }
        let one = "/interfaces/interface[name=s1-eth1]/state";
        assert_eq!(name(one), Name::One("s1-eth1".into()));
        assert!(query(one).unwrap().is_exact && query("/interfaces").unwrap().is_exact);
        assert!(!query("/interfaces/interface/state").unwrap().is_exact);
        assert!(!query("/interfaces/interface[name=a]/*").unwrap().is_exact);
    }

    #[test]
    fn a_path_that_leaves_the_schema_is_refused_with_what_is_there() {
        for (text, expected) in [
            ("/system/state", "expected one of interfaces in /, found"),
            (
                "/interfaces/interface[name=a]/colour",
                "state in /interfaces/interface, found a name that the schema",
            ),
            (
                "/interfaces/interface[name=a]/config/colour",
                "in /interfaces/interface/config, found a name that the schema",
            ),
            (
                "/interfaces/interface[name=a]/config/enabled/colour",
                "expected nothing below the leaf /interfaces/interface/config/enabled",
            ),
        ] {
            let refused = query(text).err().unwrap();
            assert!(refused.message().contains(expected), "{refused:?}");
        }
    }

    #[test]
    fn what_is_no_path_of_the_schema_is_refused_by_its_name() {
        let code = |text: &str| {
            let refused = query(text).err().unwrap();
            assert!(refused.message().contains(text), "{refused:?}");
            refused.code()
        };
        for text in [
            "/onos-gnmi-ping",
            "/interfaces/interface/state/colour",
            "/system/state",
            "/interfaces/interface[id=1]/state",
            "/interfaces[name=a]",
            "/interfaces/interface/state/name/x",
        ] {
            assert_eq!(code(text), Code::InvalidArgument, "{text}");
        }
        for text in [
            "/interfaces/interface[name=a]/ethernet/state/port-speed",
            "/interfaces/interface/state/description",
            "/interfaces/interface/*/loopback-mode",
        ] {
            assert_eq!(code(text), Code::Unimplemented, "{text}");
        }
        let long = "/a".repeat(PATH_ELEMS_MAX + 1);
        assert_eq!(query(&long).err().unwrap().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_prefix_stands_before_the_path_and_only_one_of_them_has_an_origin() {
        let mut prefix = path("/interfaces/interface[name=a]");
        let mut rest = path("/state/oper-status");
        let found = Query::of(Some(&prefix), Some(&rest)).unwrap();
        assert_eq!(
            found.text,
            "/interfaces/interface[name=a]/state/oper-status"
        );
        assert_eq!(found.name, Name::One("a".into()));
        prefix.origin = "openconfig".into();
        assert!(Query::of(Some(&prefix), Some(&rest)).is_ok());
        rest.origin = "openconfig".into();
        assert!(Query::of(Some(&prefix), Some(&rest)).is_err());
        assert!(
            Query::of(None, Some(&rest)).is_err(),
            "the path alone is none of the schema"
        );
        rest.origin = "cli".into();
        prefix.origin.clear();
        let refused = Query::of(Some(&prefix), Some(&rest))
            .err()
            .unwrap()
            .written();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("\"cli\""), "{refused:?}");
    }

    #[test]
    fn many_wildcards_end() {
        let text = "/...".repeat(PATH_ELEMS_MAX - 1) + "/colour";
        assert_eq!(query(&text).err().unwrap().code(), Code::InvalidArgument);
    }
}
