//! A conference as `conference.yaml`: every MAC and UDP port is said, so that the file needs no
//! switch and no look-up to mean the same again.

use crate::model::{Conference, Group, GroupId};

/// A conference that has no file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the SFU has no own address, which a conference.yaml begins with: `reprise address set --port 1 --ip IP --mac MAC`"
)]
pub struct NoAddress;

/// The text of the file; [`crate::file::File::parse`] reads it back to the same conference.
///
/// # Errors
/// The conference has no own address.
pub fn yaml(conference: &Conference) -> Result<String, NoAddress> {
    let own = conference.address().ok_or(NoAddress)?;
    let mut text = format!(
        "sfu: {{port: {}, ip: {}, mac: '{}'}}\n",
        own.port, own.ip, own.mac
    );
    if !conference.groups().is_empty() {
        text.push_str("groups:\n");
    }
    for (id, group) in conference.groups() {
        add_group(&mut text, *id, group);
    }
    Ok(text)
}

fn add_group(text: &mut String, id: GroupId, group: &Group) {
    let presenter = &group.presenter;
    let mut add = |line: String| text.push_str(&line);
    add(format!("  - group: {id}\n    ip: {}\n", presenter.ip));
    if let Some(mac) = presenter.mac {
        add(format!("    mac: '{mac}'\n"));
    }
    if let Some(udp_port) = presenter.udp_port {
        add(format!("    udp_port: {udp_port}\n"));
    }
    if !group.viewers.is_empty() {
        add("    viewers:\n".to_owned());
    }
    for viewer in &group.viewers {
        let udp_port = udp_port(viewer.udp_port);
        add(format!(
            "      - {{ip: {}, mac: '{}'{udp_port}}}\n",
            viewer.ip, viewer.mac
        ));
    }
}

fn udp_port(udp_port: Option<u16>) -> String {
    udp_port.map_or_else(String::new, |port| format!(", udp_port: {port}"))
}
