//! Sets up `p4/sfu.p4` with a presenter, and makes frames for the program.

use dataplane::{
    ActionCall, MatchField, MulticastGroup, PortId, Program, Replica, Switch, TableEntry,
};

/// The port that the conference uses.
pub const PORT: PortId = PortId(1);
const SFU_MAC: [u8; 6] = [2, 0, 0, 0, 1, 100];
const SFU_IP: [u8; 4] = [10, 0, 1, 100];
const PRESENTER_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
const PRESENTER_IP: [u8; 4] = [10, 0, 1, 1];
const STREAM_PORT: u16 = 5004;
const GROUP: u16 = 4;

pub(super) fn insert(
    switch: &mut Switch,
    table: &str,
    action: &str,
    key: &[&[u8]],
    args: &[&[u8]],
) {
    let program: Program = switch.program().unwrap().clone();
    let (id, _) = program
        .tables()
        .find(|(_, info)| info.name.ends_with(table))
        .unwrap();
    let actions = &program.table_info(id).unwrap().actions;
    let named = |id: &&dataplane::ActionId| {
        let info = program.action_info(**id).unwrap();
        info.name.ends_with(action)
    };
    let action = *actions.iter().find(named).unwrap();
    let args = args.iter().map(|arg| arg.to_vec()).collect();
    let key = key.iter().map(|value| MatchField::Exact(value.to_vec()));
    let call = ActionCall { action, args };
    let entry = TableEntry::new(key.collect(), 0, call);
    switch.insert_entry(id, entry).unwrap();
}

/// Configures addresses, a stream, and `n_viewers` viewers. Every third viewer is at another port.
pub fn set_up(switch: &mut Switch, n_viewers: u16) {
    for port in 0..4_u16 {
        let mac = [2, 0, 0, 0, port as u8, 100];
        let ip = [10, 0, port as u8, 100];
        let port = port.to_be_bytes();
        insert(
            switch,
            "own_addresses",
            "set_own_mac",
            &[&port, &ip],
            &[&mac],
        );
        insert(
            switch,
            "port_addresses",
            "send_from",
            &[&port],
            &[&mac, &ip],
        );
    }
    let key: [&[u8]; 2] = [&PRESENTER_IP, &STREAM_PORT.to_be_bytes()];
    insert(
        switch,
        "streams",
        "set_group",
        &key,
        &[&GROUP.to_be_bytes(), &[0]],
    );
    let mut replicas = Vec::new();
    for n in 0..n_viewers {
        let [high, low] = n.to_be_bytes();
        let key: [&[u8]; 2] = [&GROUP.to_be_bytes(), &(n + 1).to_be_bytes()];
        let port = (6000 + n).to_be_bytes();
        let args: [&[u8]; 3] = [&[2, 0, 0, 1, high, low], &[10, 1, high, low], &port];
        insert(switch, "viewers", "send_to", &key, &args);
        replicas.push(Replica {
            port: if n % 3 == 2 { PortId(2) } else { PORT },
            instance: n + 1,
        });
    }
    let group = MulticastGroup {
        id: u32::from(GROUP),
        replicas,
        backups: Vec::new(),
    };
    switch.insert_multicast_group(group).unwrap();
}

pub(super) fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| {
        let low = word.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([word[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Makes a packet of the presenter.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let udp_length = (8 + payload.len()) as u16;
    let mut udp = Vec::new();
    udp.extend(40_000_u16.to_be_bytes());
    udp.extend(STREAM_PORT.to_be_bytes());
    udp.extend(udp_length.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    let mut pseudo = [PRESENTER_IP, SFU_IP].concat();
    pseudo.extend([0, 17]);
    pseudo.extend(udp_length.to_be_bytes());
    pseudo.extend(&udp);
    udp[6..8].copy_from_slice(&checksum(&pseudo).to_be_bytes());
    let mut ip = vec![0x45, 0];
    ip.extend((20 + udp_length).to_be_bytes());
    ip.extend([0, 1, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(PRESENTER_IP);
    ip.extend(SFU_IP);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&SFU_MAC[..], &PRESENTER_MAC, &[8, 0], &ip, &udp].concat()
}

/// Makes an ARP request for the SFU's address, and an ICMP echo request to this address.
pub fn questions() -> [Vec<u8>; 2] {
    let mut arp = [
        &[0xff; 6][..],
        &PRESENTER_MAC,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
    ]
    .concat();
    arp.extend(PRESENTER_MAC);
    arp.extend(PRESENTER_IP);
    arp.extend([0; 6]);
    arp.extend(SFU_IP);
    let mut echo = frame(b"\x00echo");
    echo[23] = 1;
    echo[24..26].copy_from_slice(&[0, 0]);
    let sum = checksum(&echo[14..34]);
    echo[24..26].copy_from_slice(&sum.to_be_bytes());
    echo[34..42].copy_from_slice(&[8, 0, 1, 2, 0, 3, 0, 4]);
    [arp, echo]
}
