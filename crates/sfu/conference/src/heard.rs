//! Reads the ARP senders that the P4 program records (`p4/lib/neighbour.p4`): the last port and MAC of each address.
//! Any connection can read the records; the client need not be primary. A record is only a hint that an ARP request is
//! worthwhile, since any host can send any ARP packet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use p4runtime_client::objects::Array;
use p4runtime_proto::p4::config::v1::P4Info;

use crate::address::Mac;
use crate::neighbour::{Neighbour, Place};
use crate::plan::Target;

/// Returns the known hosts whose last ARP packet had another MAC or arrived at another port, each with that MAC and
/// port. The result is empty if the program does not record ARP senders.
///
/// # Errors
/// A read failed.
pub async fn elsewhere<T: Target>(
    target: &mut T,
    p4info: &P4Info,
    known: &BTreeMap<Neighbour, Mac>,
) -> Result<BTreeSet<(Neighbour, Place)>, T::Error> {
    let registers = ["heard_addresses", "heard_macs"].map(|name| Array::register(p4info, name));
    let [Ok(addresses), Ok(macs)] = registers else {
        return Ok(BTreeSet::new());
    };
    let mut found = BTreeSet::new();
    let wanted = known.keys().flat_map(|host| {
        let cell = cell(host.ip, addresses.size);
        [addresses.cell(cell), macs.cell(cell)]
    });
    let entities = target.read(wanted.collect()).await?;
    let values = |register: &Array| -> BTreeMap<u32, u64> {
        let values = entities.iter().filter_map(|e| register.cell_value(e));
        values.collect()
    };
    let (heard_addresses, heard_macs) = (values(&addresses), values(&macs));
    for (host, mac) in known {
        let cell = cell(host.ip, addresses.size);
        let mac_heard = heard_macs.get(&cell).copied().map(Mac::from_u64);
        let (Some(mac_heard), Some(address)) = (mac_heard, heard_addresses.get(&cell)) else {
            continue;
        };
        let is_of_host = *address & u64::from(u32::MAX) == u64::from(u32::from(host.ip));
        let known = Place {
            port: host.port,
            mac: *mac,
        };
        let heard = u16::try_from(*address >> 32).map(|port| Place {
            port,
            mac: mac_heard,
        });
        let heard = heard.ok().filter(|heard| *heard != known);
        let heard = heard.filter(|heard| is_of_host && heard.mac.unfit_for_host().is_none());
        found.extend(heard.map(|heard| (*host, heard)));
    }
    Ok(found)
}

/// Returns the index of the register cell in which the program records an address. The index comes from CRC-16/ARC,
/// which is simple_switch's `crc16`. This function computes the CRC itself, since this crate does not link the data
/// plane.
fn cell(ip: Ipv4Addr, n_cells: u32) -> u32 {
    let crc = ip.octets().into_iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| {
            let carry = crc & 1 == 1;
            crc >> 1 ^ if carry { 0xa001 } else { 0 }
        })
    });
    u32::from(crc) % n_cells.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `testdata/stf/sfu.stf` has the same cell for this address.
    #[test]
    fn the_cell_is_the_programs() {
        assert_eq!(cell(Ipv4Addr::new(10, 0, 1, 7), 4096), 2627);
    }
}
