//! `Set`: enables and disables ports. Either all ports of a request change, under one exclusive access to the device,
//! or none of them changes.
//!
//! Source: gNMI specification 0.10.0, 3.4.

use std::collections::BTreeMap;

use dataplane::PortId;
use gnmi_proto::gnmi::update_result::Operation;
use gnmi_proto::gnmi::{Path, SetRequest, SetResponse, Update, UpdateResult};
use serde_json::{Map, Value as Json};
use tokio::time::Instant;
use tonic::Status;

use crate::get::expect_few;
use crate::interfaces::{Interface, Interfaces, Snapshot, now_ns, status};
use crate::path::{Name, PathError, Query, answer_prefix, unqualified};
use crate::schema::{ENABLED, LEAVES, Leaf, Node};
use crate::value::{Encoded, Sent};

/// The new state of ports. The last operation for a port wins.
type Enabled = BTreeMap<PortId, bool>;

/// The state of a port without configuration: the model's default of `enabled`.
const ENABLED_BY_DEFAULT: bool = true;

pub(crate) async fn set(
    interfaces: &Interfaces,
    request: &SetRequest,
) -> Result<SetResponse, Status> {
    let SetRequest {
        prefix,
        delete,
        replace,
        update,
        union_replace,
        ..
    } = request;
    if !union_replace.is_empty() {
        return Err(Status::unimplemented(
            "union_replace is not supported: expected delete, replace or update",
        ));
    }
    expect_few(
        "delete, replace and update",
        delete.len() + replace.len() + update.len(),
    )?;
    // Names and numbers of ports do not change while the switch runs.
    let snapshot = interfaces.look(Instant::now()).await?;
    let mut change = Change {
        snapshot: &snapshot,
        prefix: prefix.as_ref(),
        enabled: Enabled::new(),
        results: Vec::new(),
    };
    for (place, path) in delete.iter().enumerate() {
        change.one(
            "delete",
            place,
            Operation::Delete,
            Some(path),
            |change, query| change.delete(query),
        )?;
    }
    let written = [
        ("replace", replace, Operation::Replace),
        ("update", update, Operation::Update),
    ];
    for (what, updates, operation) in written {
        for (place, update) in updates.iter().enumerate() {
            change.one(
                what,
                place,
                operation,
                update.path.as_ref(),
                |change, query| change.write(query, update, operation),
            )?;
        }
    }
    let Change {
        enabled, results, ..
    } = change;
    let ports = enabled.into_iter().collect();
    let done = interfaces
        .device()
        .set_ports_enabled(ports, || now_ns().unsigned_abs());
    done.await.map_err(status)?;
    Ok(SetResponse {
        prefix: answer_prefix(prefix.as_ref()),
        response: results,
        timestamp: now_ns(),
        ..SetResponse::default()
    })
}

/// Collects the effects of a request's operations.
struct Change<'a> {
    snapshot: &'a Snapshot,
    prefix: Option<&'a Path>,
    enabled: Enabled,
    results: Vec<UpdateResult>,
}

fn invalid(why: impl Into<String>) -> Status {
    Status::invalid_argument(why)
}

impl<'a> Change<'a> {
    /// Runs one operation. An error names the operation's position and path.
    fn one(
        &mut self,
        what: &str,
        place: usize,
        operation: Operation,
        path: Option<&Path>,
        work: impl FnOnce(&mut Self, &Query) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let done = Query::of(self.prefix, path)
            .map_err(PathError::written)
            .and_then(|query| {
                let about = |refused: Status| {
                    let message = format!("path {}: {}", query.text, refused.message());
                    Status::new(refused.code(), message)
                };
                work(self, &query).map_err(about)
            });
        done.map_err(|refused| {
            let number = place + 1;
            let message = format!(
                "nothing was changed: {what} {number}: {}",
                refused.message()
            );
            Status::new(refused.code(), message)
        })?;
        self.results.push(UpdateResult {
            path: path.cloned(),
            op: operation.into(),
            ..UpdateResult::default()
        });
        Ok(())
    }

    /// Resets the deleted leaves to their defaults. Ports cannot be deleted (gNMI specification, section 3.4.6).
    fn delete(&mut self, query: &Query) -> Result<(), Status> {
        let is_state = |node: &&&Node| {
            let below = node.below_interface();
            below.is_some_and(|below| below.first() == Some(&"state"))
        };
        if query.is_exact && query.nodes.iter().any(|node| is_state(&node)) {
            return Err(invalid(
                "expected something below config to delete, found a node that is read only",
            ));
        }
        let leaves = query.nodes.iter().flat_map(|node| node.leaves());
        if leaves.into_iter().any(|leaf| leaf.path == ENABLED) {
            for interface in &self.snapshot.interfaces {
                if query.name.is_of(&interface.name) {
                    self.enable(interface, ENABLED_BY_DEFAULT);
                }
            }
        }
        Ok(())
    }

    fn enable(&mut self, interface: &Interface, is_enabled: bool) {
        self.enabled.insert(interface.port.status.id, is_enabled);
    }

    fn write(
        &mut self,
        query: &Query,
        update: &Update,
        operation: Operation,
    ) -> Result<(), Status> {
        let snapshot = self.snapshot;
        let [node] = query.nodes[..] else {
            return Err(invalid("expected a path without wildcards to write"));
        };
        let Some(below) = node.below_interface() else {
            return Err(Status::unimplemented(
                "the switch writes one interface at a time: expected /interfaces/interface[name=...], or its config or config/enabled",
            ));
        };
        let Name::One(name) = &query.name else {
            return Err(invalid(
                "expected the name of an interface to write, found all",
            ));
        };
        if !query.is_exact {
            return Err(invalid("expected a path without wildcards to write"));
        }
        let Some(interface) = snapshot.named(name) else {
            let names: Vec<_> = snapshot
                .interfaces
                .iter()
                .map(|it| it.name.as_str())
                .collect();
            let names = names.join(", ");
            return Err(Status::not_found(format!(
                "expected an interface of the switch ({names}), found {name:?}"
            )));
        };
        let sent = Sent::read(update.val.as_ref())?;
        let leaf = node.leaves().find(|leaf| leaf.path == below);
        if let Some(leaf) = leaf {
            return self.write_leaf(interface, leaf, &sent);
        }
        let Sent::Json(Json::Object(members)) = &sent else {
            let found = sent.text();
            return Err(invalid(format!(
                "expected a JSON object for a container, found {found}"
            )));
        };
        match below {
            [] => self.write_interface(interface, members, operation),
            ["config"] => self.write_config(interface, members, operation),
            _ => Err(invalid(
                "expected something below config to write, found a node that is read only",
            )),
        }
    }

    fn write_leaf(
        &mut self,
        interface: &Interface,
        leaf: &Leaf,
        sent: &Sent,
    ) -> Result<(), Status> {
        let name = leaf.path.join("/");
        let found = sent.text();
        if leaf.path.first() == Some(&"state") {
            return Err(invalid(format!(
                "expected something below config to write, found {name}, which is read only"
            )));
        }
        if leaf.path == ENABLED {
            let flag = sent.flag();
            let flag = flag
                .ok_or_else(|| invalid(format!("{name}: expected true or false, found {found}")))?;
            self.enable(interface, flag);
            return Ok(());
        }
        // The command line determines the value; writing the same value is no error.
        let is_so = leaf.read(&interface.name, &interface.port);
        if is_so.as_ref().is_some_and(|value| value.is(sent)) {
            return Ok(());
        }
        let expected = is_so.map(|value| value.json(Encoded::Json).to_string());
        let expected = expected.unwrap_or_default();
        Err(invalid(format!(
            "{name} is given when the switch is started: expected {expected}, found {found}"
        )))
    }

    fn write_interface(
        &mut self,
        interface: &Interface,
        members: &Map<String, Json>,
        operation: Operation,
    ) -> Result<(), Status> {
        if operation == Operation::Replace && members.is_empty() {
            return Err(invalid(
                "expected an interface with its name, found an empty one",
            ));
        }
        let mut has_config = false;
        for (member, value) in members {
            match (unqualified(member), value) {
                ("name", value) => self.write_member(interface, &["name"], value)?,
                ("config", Json::Object(config)) => {
                    has_config = true;
                    self.write_config(interface, config, operation)?;
                }
                ("state", _) => {
                    return Err(invalid(
                        "expected name and config, found state, which is read only",
                    ));
                }
                (other, _) => return Err(unwritable(other)),
            }
        }
        if operation == Operation::Replace && !has_config {
            self.enable(interface, ENABLED_BY_DEFAULT);
        }
        Ok(())
    }

    fn write_config(
        &mut self,
        interface: &Interface,
        members: &Map<String, Json>,
        operation: Operation,
    ) -> Result<(), Status> {
        if operation == Operation::Replace {
            self.enable(interface, ENABLED_BY_DEFAULT);
        }
        for (member, value) in members {
            self.write_member(interface, &["config", unqualified(member)], value)?;
        }
        Ok(())
    }

    fn write_member(
        &mut self,
        interface: &Interface,
        path: &[&str],
        value: &Json,
    ) -> Result<(), Status> {
        let leaf = LEAVES.iter().find(|leaf| leaf.path == path);
        let leaf = leaf.ok_or_else(|| unwritable(&path.join("/")))?;
        self.write_leaf(interface, leaf, &Sent::Json(value.clone()))
    }
}

fn unwritable(member: &str) -> Status {
    Status::unimplemented(format!(
        "the switch has no {member:?} to write: expected config with enabled"
    ))
}
