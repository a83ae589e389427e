//! The difference between two conferences, shown to an operator as `+`, `-` and `~` lines.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use serde::Serialize;

use crate::model::{Conference, Group, GroupId, OwnAddress, Presenter, Viewer, ViewerKey};

/// How two conferences differ in one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// The object is only in the second conference.
    Added,
    /// The object is only in the first conference.
    Removed,
    /// The object is in both, with different values.
    Changed,
}

/// One line of a difference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Line {
    /// Whether the object was added, removed or changed.
    pub sign: Sign,
    /// The group that the line is about; `None` if the line is about an own address.
    pub group: Option<GroupId>,
    /// Description of the object, with its values.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.sign {
            Sign::Added => '+',
            Sign::Removed => '-',
            Sign::Changed => '~',
        };
        match self.group {
            Some(group) => write!(f, "{sign} group {group}: {}", self.text),
            None => write!(f, "{sign} {}", self.text),
        }
    }
}

/// Returns the lines that describe all differences. Objects that are equal in both conferences have no line.
pub fn difference(current: &Conference, desired: &Conference) -> Vec<Line> {
    let own = [current, desired].map(Conference::addresses);
    let mut lines = if desired.capabilities().several_ports {
        let ports: BTreeSet<u16> = own.iter().flat_map(|own| own.keys().copied()).collect();
        let of_port = |port| address_lines(own[0].get(port), own[1].get(port));
        ports.iter().flat_map(of_port).collect()
    } else {
        address_lines(current.address(), desired.address())
    };
    // A line names the port only if there are several ports.
    let show = Shown {
        ports: own.iter().any(|own| own.len() > 1),
    };
    for (id, group) in current.groups() {
        if !desired.groups().contains_key(id) {
            lines.push(removed_group(*id, group));
        }
    }
    for (id, group) in desired.groups() {
        match current.groups().get(id) {
            None => lines.extend(show.added_group(*id, group)),
            Some(before) => lines.extend(show.changed_group(*id, before, group)),
        }
    }
    lines
}

fn address_lines(before: Option<&OwnAddress>, after: Option<&OwnAddress>) -> Vec<Line> {
    let line = |sign, text| {
        vec![Line {
            sign,
            group: None,
            text,
        }]
    };
    match (before, after) {
        (None, Some(after)) => line(Sign::Added, format!("own address {}", show_address(after))),
        (Some(before), None) => line(
            Sign::Removed,
            format!("own address {}", show_address(before)),
        ),
        (Some(before), Some(after)) if before != after => line(
            Sign::Changed,
            format!(
                "own address {} -> {}",
                show_address(before),
                show_address(after)
            ),
        ),
        _ => Vec::new(),
    }
}

fn removed_group(id: GroupId, group: &Group) -> Line {
    let text = format!(
        "{} with {} viewers",
        show_presenter(&group.presenter),
        group.viewers.len()
    );
    Line {
        sign: Sign::Removed,
        group: Some(id),
        text,
    }
}

/// Formats groups and viewers; viewers with their port of the switch if `ports` is set.
struct Shown {
    ports: bool,
}

impl Shown {
    fn added_group(&self, id: GroupId, group: &Group) -> Vec<Line> {
        let line = |text| Line {
            sign: Sign::Added,
            group: Some(id),
            text,
        };
        let presenter = line(show_presenter(&group.presenter));
        let viewers = group.viewers.iter().map(|v| line(self.viewer(v)));
        std::iter::once(presenter).chain(viewers).collect()
    }

    fn changed_group(&self, id: GroupId, before: &Group, after: &Group) -> Vec<Line> {
        if before == after {
            return Vec::new();
        }
        let line = |sign, text| Line {
            sign,
            group: Some(id),
            text,
        };
        let mut lines = Vec::new();
        if before.presenter != after.presenter {
            let text = format!(
                "{} -> {}",
                show_presenter(&before.presenter),
                show_presenter(&after.presenter)
            );
            lines.push(line(Sign::Changed, text));
        }
        let old: HashMap<ViewerKey, Viewer> =
            before.viewers.iter().map(|v| (v.key(), *v)).collect();
        let new: HashSet<ViewerKey> = after.viewers.iter().map(Viewer::key).collect();
        for viewer in before.viewers.iter().filter(|v| !new.contains(&v.key())) {
            lines.push(line(Sign::Removed, self.viewer(viewer)));
        }
        for viewer in &after.viewers {
            match old.get(&viewer.key()) {
                None => lines.push(line(Sign::Added, self.viewer(viewer))),
                Some(was) => {
                    let changes = self.changes(was, viewer);
                    if !changes.is_empty() {
                        let text = format!("{}, {}", self.viewer(viewer), changes.join(", "));
                        lines.push(line(Sign::Changed, text));
                    }
                }
            }
        }
        if is_reordered(before, after, &old, &new) {
            let order: Vec<String> = after.viewers.iter().map(|v| v.ip.to_string()).collect();
            lines.push(line(
                Sign::Changed,
                format!("order of viewers: {}", order.join(", ")),
            ));
        }
        lines
    }

    fn viewer(&self, viewer: &Viewer) -> String {
        let udp_port = viewer.udp_port.map(|p| format!(":{p}")).unwrap_or_default();
        let port = viewer.port.filter(|_| self.ports);
        let port = port.map(|p| format!(" on port {p}")).unwrap_or_default();
        format!("viewer {}{udp_port} {}{port}", viewer.ip, viewer.mac)
    }

    /// Describes the old values of a viewer's changed fields.
    fn changes(&self, was: &Viewer, is: &Viewer) -> Vec<String> {
        let mut changes = Vec::new();
        if was.mac != is.mac {
            changes.push(format!("mac was {}", was.mac));
        }
        if was.looked_up != is.looked_up {
            let how = if was.looked_up {
                "looked up"
            } else {
                "given by hand"
            };
            changes.push(format!("mac was {how}"));
        }
        match was.port {
            Some(port) if self.ports && was.port != is.port => {
                changes.push(format!("was on port {port}"));
            }
            _ => {}
        }
        changes
    }
}

/// Whether the order of the viewers changed in another way than by removals and by additions at the end.
fn is_reordered(
    before: &Group,
    after: &Group,
    old: &HashMap<ViewerKey, Viewer>,
    new: &HashSet<ViewerKey>,
) -> bool {
    let kept = before
        .viewers
        .iter()
        .map(Viewer::key)
        .filter(|key| new.contains(key));
    let added = after
        .viewers
        .iter()
        .map(Viewer::key)
        .filter(|key| !old.contains_key(key));
    !kept.chain(added).eq(after.viewers.iter().map(Viewer::key))
}

fn show_address(address: &OwnAddress) -> String {
    format!("{} {} on port {}", address.ip, address.mac, address.port)
}

fn show_presenter(presenter: &Presenter) -> String {
    let udp_port = presenter
        .udp_port
        .map(|p| format!(":{p}"))
        .unwrap_or_default();
    match presenter.mac {
        Some(mac) => format!("presenter {}{udp_port} {mac}", presenter.ip),
        None => format!("presenter {}{udp_port} with any mac", presenter.ip),
    }
}

#[cfg(test)]
mod tests;
