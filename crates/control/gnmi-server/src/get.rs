//! Answers `Get`, with the values of leaves in the encoding PROTO, or with nodes as JSON.
//!
//! Source: gNMI specification 0.10.0, sections 2.3.1 and 3.3; RFC 7951, section 4.

use gnmi_proto::gnmi::get_request::DataType;
use gnmi_proto::gnmi::{GetRequest, GetResponse, ModelData, Notification, Update};
use prost::Message;
use serde_json::{Map, Value as Json};
use tokio::time::Instant;
use tonic::Status;

use crate::interfaces::{Interface, Interfaces, Snapshot};
use crate::limits::{GET_ANSWER_BYTES_MAX, PATHS_MAX};
use crate::path::{Name, PathError, Query, answer_prefix, of_leaf, of_node};
use crate::schema::{Class, INTERFACE, Leaf, Module, Node};
use crate::value::Encoded;

/// Selects the leaves that a request wants, by data type and model.
pub(crate) struct Wanted {
    r#type: DataType,
    models: Vec<Module>,
}

impl Wanted {
    pub(crate) fn of(r#type: DataType, models: &[ModelData]) -> Result<Self, Status> {
        let model = |asked: &ModelData| {
            let known = Module::ALL
                .into_iter()
                .find(|model| model.name() == asked.name);
            known.ok_or_else(|| {
                let names = Module::ALL.map(Module::name).join(" or ");
                let found = &asked.name;
                Status::invalid_argument(format!("use_models: expected {names}, found {found:?}"))
            })
        };
        let models: Result<Vec<Module>, Status> = models.iter().map(model).collect();
        let models = models?;
        Ok(Self {
            r#type,
            models: if models.is_empty() {
                Module::ALL.into()
            } else {
                models
            },
        })
    }

    pub(crate) fn has(&self, leaf: &Leaf) -> bool {
        let is_of_type = match self.r#type {
            DataType::All => true,
            DataType::Config => leaf.class == Class::Config,
            DataType::State => leaf.class != Class::Config,
            DataType::Operational => leaf.class == Class::Operational,
        };
        is_of_type && self.models.contains(&leaf.module)
    }
}

pub(crate) async fn get(
    interfaces: &Interfaces,
    request: &GetRequest,
) -> Result<GetResponse, Status> {
    let GetRequest {
        prefix,
        path,
        r#type,
        encoding,
        use_models,
        ..
    } = request;
    expect_few("path", path.len())?;
    let encoded = Encoded::asked(*encoding)?;
    let r#type = DataType::try_from(*r#type).map_err(|_| {
        Status::invalid_argument(format!(
            "expected a data type from 0 to 3, found {}",
            *r#type
        ))
    })?;
    let wanted = Wanted::of(r#type, use_models)?;
    let queries = path
        .iter()
        .map(|path| Query::of(prefix.as_ref(), Some(path)));
    let queries: Result<Vec<Query>, PathError> = queries.collect();
    let queries = queries.map_err(PathError::read)?;
    let snapshot = interfaces.look(Instant::now()).await?;
    let (mut response, mut n_bytes) = (GetResponse::default(), 0);
    for query in &queries {
        let update = updates(&snapshot, query, &wanted, encoded)?;
        let notification = Notification {
            timestamp: snapshot.taken_ns,
            prefix: answer_prefix(prefix.as_ref()),
            update,
            ..Notification::default()
        };
        n_bytes += notification.encoded_len();
        if n_bytes > GET_ANSWER_BYTES_MAX {
            return Err(Status::resource_exhausted(format!(
                "the answer is longer than {GET_ANSWER_BYTES_MAX} bytes: ask for fewer paths at once, or subscribe to them with ONCE"
            )));
        }
        response.notification.push(notification);
    }
    Ok(response)
}

/// Refuses a request that has more than `PATHS_MAX` of the things that `what` names.
pub(crate) fn expect_few(what: &str, n_found: usize) -> Result<(), Status> {
    if n_found <= PATHS_MAX {
        Ok(())
    } else {
        Err(Status::resource_exhausted(format!(
            "expected at most {PATHS_MAX} of {what} in a request, found {n_found}"
        )))
    }
}

fn updates(
    snapshot: &Snapshot,
    query: &Query,
    wanted: &Wanted,
    encoded: Encoded,
) -> Result<Vec<Update>, Status> {
    let not_found = |why: &str| Err(Status::not_found(format!("path {}: {why}", query.text)));
    if let Name::One(name) = &query.name
        && snapshot.named(name).is_none()
    {
        return not_found(&format!("the switch has no interface {name:?}"));
    }
    let named = snapshot
        .interfaces
        .iter()
        .filter(|it| query.name.is_of(&it.name));
    let mut updates = Vec::new();
    for node in &query.nodes {
        if node.below_interface().is_none() && encoded != Encoded::Proto {
            updates.push(Update {
                path: Some(of_node(&node.path, None)),
                val: Some(encoded.typed_json(&above(snapshot, node, wanted, encoded))),
                ..Update::default()
            });
            continue;
        }
        for interface in named.clone() {
            match encoded {
                Encoded::Proto => updates.extend(leaves(interface, node, wanted)),
                _ => updates.extend(subtree(interface, node, wanted, encoded)),
            }
        }
    }
    let is_leaf = matches!(query.nodes[..], [node] if node.is_leaf());
    // It is no error if the request's type or models exclude an existing leaf.
    let is_wanted = query
        .nodes
        .iter()
        .flat_map(|node| node.leaves())
        .any(|leaf| wanted.has(leaf));
    if updates.is_empty() && query.is_exact && is_leaf && is_wanted {
        not_found("the switch does not know this value of the interface")
    } else {
        Ok(updates)
    }
}

/// Returns one update for each wanted leaf of an interface below a node.
fn leaves(interface: &Interface, node: &Node, wanted: &Wanted) -> Vec<Update> {
    let Interface { name, port } = interface;
    let leaves = node.leaves().filter(|leaf| wanted.has(leaf));
    let update = |leaf: &'static Leaf| Update {
        path: Some(of_leaf(leaf.path, name)),
        val: leaf
            .read(name, port)
            .map(|value| value.typed(Encoded::Proto)),
        ..Update::default()
    };
    leaves
        .map(update)
        .filter(|update| update.val.is_some())
        .collect()
}

/// Returns one update for a node of an interface; `None` if the request wants none of the node's leaves.
fn subtree(
    interface: &Interface,
    node: &Node,
    wanted: &Wanted,
    encoded: Encoded,
) -> Option<Update> {
    let Interface { name, port } = interface;
    let below = node.below_interface()?;
    let json = if node.is_leaf() {
        let leaf = node.leaves().find(|leaf| wanted.has(leaf))?;
        leaf.read(name, port)?.json(encoded)
    } else {
        let members = members(interface, node, wanted, encoded, true);
        if members.is_empty() {
            return None;
        }
        Json::Object(members)
    };
    Some(Update {
        path: Some(of_node(&[INTERFACE, below].concat(), Some(name))),
        val: Some(encoded.typed_json(&json)),
        ..Update::default()
    })
}

/// The JSON members below a node of an interface. RFC 7951 qualifies a member's name with its model at the top level,
/// and where the model differs from the parent's.
fn members(
    interface: &Interface,
    node: &Node,
    wanted: &Wanted,
    encoded: Encoded,
    is_outermost: bool,
) -> Map<String, Json> {
    let n_above = node.below_interface().unwrap_or_default().len();
    let mut members = Map::new();
    for leaf in node.leaves().filter(|leaf| wanted.has(leaf)) {
        let Some(value) = leaf.read(&interface.name, &interface.port) else {
            continue;
        };
        let Some((last, containers)) = leaf.path[n_above..].split_last() else {
            continue;
        };
        let mut names = containers.iter().enumerate().map(|(depth, container)| {
            qualified(
                container,
                Module::Interfaces,
                is_outermost && depth == 0,
                encoded,
            )
        });
        if let Some(place) = within(&mut members, &mut names) {
            let is_first = is_outermost && containers.is_empty();
            let name = qualified(last, leaf.module, is_first, encoded);
            place.insert(name, value.json(encoded));
        }
    }
    members
}

/// Finds the object at `names` within `members`, and creates missing objects.
fn within<'a>(
    members: &'a mut Map<String, Json>,
    names: &mut dyn Iterator<Item = String>,
) -> Option<&'a mut Map<String, Json>> {
    let Some(name) = names.next() else {
        return Some(members);
    };
    let inner = members
        .entry(name)
        .or_insert_with(|| Json::Object(Map::new()));
    within(inner.as_object_mut()?, names)
}

fn qualified(name: &str, module: Module, is_first: bool, encoded: Encoded) -> String {
    if encoded == Encoded::JsonIetf && (is_first || module != Module::Interfaces) {
        format!("{}:{name}", module.name())
    } else {
        name.to_owned()
    }
}

/// Returns the JSON of the root or of the container of all interfaces.
fn above(snapshot: &Snapshot, node: &Node, wanted: &Wanted, encoded: Encoded) -> Json {
    let list = snapshot.interfaces.iter();
    let list = list.map(|interface| members(interface, node, wanted, encoded, false));
    let list: Vec<Json> = list.filter(|it| !it.is_empty()).map(Json::Object).collect();
    let [container, entries] = [INTERFACE[0], INTERFACE[1]];
    let object = |name: &str, is_first: bool, inner: Json| {
        let name = qualified(name, Module::Interfaces, is_first, encoded);
        Json::Object([(name, inner)].into_iter().collect())
    };
    let is_root = node.path.is_empty();
    let inner = object(entries, !is_root, Json::Array(list));
    if is_root {
        object(container, true, inner)
    } else {
        inner
    }
}
