//! Writes a conference as `conference.yaml`. The file contains every MAC, port and UDP port, so its meaning depends
//! neither on the state of a switch nor on ARP.

use crate::model::{Conference, Group, GroupId, OwnAddress};

/// The conference cannot be written as a file, because it has no own address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the SFU has no own address, but a conference.yaml needs one: set it with `reprise address set --port 1 --ip IP --mac MAC`"
)]
pub struct NoAddress;

/// Returns the text of the file. [`crate::file::File::parse`] reads the same conference from this text.
///
/// # Errors
/// The conference has no own address.
pub fn yaml(conference: &Conference) -> Result<String, NoAddress> {
    let addresses: Vec<&OwnAddress> = conference.addresses().values().collect();
    let show = |OwnAddress { port, ip, mac }: &OwnAddress| {
        format!("{{port: {port}, ip: {ip}, mac: '{mac}'}}\n")
    };
    let mut text = match addresses.as_slice() {
        [] => return Err(NoAddress),
        [own] => format!("sfu: {}", show(own)),
        several => {
            let lines = several.iter().map(|own| format!("  - {}", show(own)));
            format!("sfu:\n{}", lines.collect::<String>())
        }
    };
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
        let looked_up = if viewer.looked_up {
            ", looked_up: true"
        } else {
            ""
        };
        let udp_port = number("udp_port", viewer.udp_port);
        let port = number("port", viewer.port);
        add(format!(
            "      - {{ip: {}, mac: '{}'{looked_up}{udp_port}{port}}}\n",
            viewer.ip, viewer.mac
        ));
    }
}

fn number(key: &str, value: Option<u16>) -> String {
    value.map_or_else(String::new, |value| format!(", {key}: {value}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use super::*;
    use crate::address::Mac;
    use crate::file::File;
    use crate::model::{Capabilities, Presenter, Viewer};

    #[test]
    fn ports_and_what_was_looked_up_come_back_from_the_file() {
        for ports in [&[1_u16, 2][..], &[2]] {
            let mut conference = Conference::new(Capabilities::of_model(true));
            for port in ports {
                let own = OwnAddress {
                    port: *port,
                    ip: Ipv4Addr::new(10, 0, 0, *port as u8),
                    mac: Mac([2, 0, 0, 0, 1, *port as u8]),
                };
                conference.set_address(own).unwrap();
            }
            let presenter = Presenter {
                ip: Ipv4Addr::new(10, 0, 1, 4),
                mac: None,
                udp_port: None,
            };
            conference.add_group(GroupId(4), presenter).unwrap();
            for n in 5..9 {
                let viewer = Viewer {
                    ip: Ipv4Addr::new(10, 0, 1, n),
                    mac: Mac([2, 0, 0, 0, 0, n]),
                    looked_up: n % 2 == 0,
                    udp_port: None,
                    port: Some(ports[usize::from(n) % ports.len()]),
                };
                conference.add_viewer(GroupId(4), viewer).unwrap();
            }
            let file = File::parse(&yaml(&conference).unwrap()).unwrap();
            let capabilities = Capabilities::of_model(true);
            let empty = Conference::new(capabilities.clone());
            assert!(file.unknown_macs(&empty).is_empty(), "nobody is asked");
            let again = file.conference(capabilities, &empty, &BTreeMap::new());
            assert_eq!(again.unwrap(), conference);
        }
    }
}
