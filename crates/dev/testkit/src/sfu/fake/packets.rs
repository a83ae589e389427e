//! Simulates packets that are inside the switch while the controller writes.

use std::net::Ipv4Addr;

use conference::address::Mac;
use p4runtime_client::bytestring::bytes;
use p4runtime_client::entities;
use p4runtime_proto::p4::v1::TableEntry;

use super::FakeSwitch;
use super::fields::{arg, ip, number};

pub(super) struct Packet {
    presenter: Ipv4Addr,
    group: u32,
    /// The register cells or replicas of all copies. `None` until the packet has read its group.
    copies: Option<Vec<u64>>,
    expected: Vec<(Ipv4Addr, Mac)>,
    got: Vec<(Ipv4Addr, Mac)>,
}

impl FakeSwitch {
    /// Lets a packet arrive, and advances some of the packets inside the switch.
    pub(super) fn move_packets(&mut self) {
        let Some(mut random) = self.traffic.take() else {
            return;
        };
        let presenters = self.presenters();
        if !presenters.is_empty() && self.packets.len() < 20 {
            let (presenter, group) = presenters[random.below(presenters.len() as u64) as usize];
            let packet = Packet {
                presenter,
                group,
                copies: None,
                expected: Vec::new(),
                got: Vec::new(),
            };
            self.packets.push(packet);
            if self.register_id("groups").is_some() {
                // In the recirculation program, a packet reads its presenter's entry and its group's cells in the same
                // pass through the pipeline.
                let last = self.packets.len() - 1;
                self.step(last);
            }
        }
        for _ in 0..2 {
            if !self.packets.is_empty() {
                let idx = random.below(self.packets.len() as u64) as usize;
                self.step(idx);
            }
        }
        self.traffic = Some(random);
    }

    /// Lets every active presenter send a packet, and processes each packet to its end.
    pub fn see_everything(&mut self) {
        self.drain();
        self.seen.clear();
        for (presenter, group) in self.presenters() {
            self.packets.push(Packet {
                presenter,
                group,
                copies: None,
                expected: Vec::new(),
                got: Vec::new(),
            });
        }
        self.drain();
    }

    fn presenters(&self) -> Vec<(Ipv4Addr, u32)> {
        let id = self
            .table_id("presenters")
            .or_else(|| self.table_id("streams"));
        let of_table = self
            .tables
            .iter()
            .filter(|((table, _), _)| Some(*table) == id)
            // No packet has the broadcast address as its source address.
            .filter(|(_, entry)| arg(entry, 1) != 0xffff_ffff_ffff);
        let presenter =
            |(_, entry): (_, &TableEntry)| (ip(number(&entry.r#match[0])), arg(entry, 0) as u32);
        of_table.map(presenter).collect()
    }

    /// Advances one packet by one step. In a step the packet reads its group, or reads the viewer of its next copy, or
    /// ends.
    pub(super) fn step(&mut self, idx: usize) {
        let mut packet = self.packets.swap_remove(idx);
        let Some(copies) = packet.copies.clone() else {
            let copies = self.copies_of(packet.group);
            packet.expected = copies
                .iter()
                .filter_map(|copy| self.viewer(packet.group, *copy))
                .collect();
            if packet.expected.len() != copies.len() {
                self.violations.push(format!(
                    "group {} names a viewer that is not there",
                    packet.group
                ));
            }
            packet.copies = Some(copies);
            self.packets.push(packet);
            return;
        };
        let Some(copy) = copies.get(packet.got.len()) else {
            if packet.got != packet.expected {
                let text = format!(
                    "a packet of {} saw two versions: {:?} and {:?}",
                    packet.presenter, packet.expected, packet.got
                );
                self.violations.push(text);
            }
            self.seen.push((packet.presenter, packet.got));
            return;
        };
        match self.viewer(packet.group, *copy) {
            Some(viewer) => packet.got.push(viewer),
            None => {
                self.violations.push(format!(
                    "copy {copy} of group {} has no viewer any more",
                    packet.group
                ));
                return;
            }
        }
        self.packets.push(packet);
    }

    fn copies_of(&self, group: u32) -> Vec<u64> {
        if self.register_id("groups").is_some() {
            let block = self.register("groups", group);
            return (0..block & 0xffff_ffff)
                .map(|idx| (block >> 32) + idx)
                .collect();
        }
        let replicas = self
            .groups
            .get(&group)
            .map(|group| group.replicas.as_slice());
        replicas
            .unwrap_or_default()
            .iter()
            .map(|replica| {
                let port = entities::replica_port(replica).unwrap_or(0);
                u64::from(port) << 32 | u64::from(replica.instance)
            })
            .collect()
    }

    fn viewer(&self, group: u32, copy: u64) -> Option<(Ipv4Addr, Mac)> {
        if self.register_id("groups").is_some() {
            let mac = Mac::from_u64(self.register("viewer_macs", copy as u32));
            return Some((ip(self.register("viewer_ips", copy as u32)), mac));
        }
        // A copy is identified by its port and its instance. The port must have an own address.
        let ports = self.table_id("port_addresses")?;
        let port = vec![(1, bytes(copy >> 32))];
        self.tables.get(&(ports, port))?;
        let table = self.table_id("viewers")?;
        let instance = copy & 0xffff_ffff;
        let key = vec![(1, bytes(group)), (2, bytes(instance))];
        let entry = self.tables.get(&(table, key))?;
        Some((ip(arg(entry, 1)), Mac::from_u64(arg(entry, 0))))
    }
}
