//! Frames that tests send and receive.

use std::net::UdpSocket;
use std::time::Duration;

use packet_io::{Port, Waiter};

use crate::namespace::ip;

/// How long a test waits for frames that it expects.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Receives until `n_frames` have arrived, or until none arrives for the time `TIMEOUT`.
pub fn receive(port: &mut dyn Port, n_frames: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut waiter = Waiter::default();
    while frames.len() < n_frames {
        let fd = port.poll_fd().expect("a descriptor");
        waiter.wait([fd], Some(TIMEOUT)).expect("waiting");
        if !waiter.is_ready(0) {
            break;
        }
        port.receive(0, 64, &mut |frame| frames.push(frame.to_vec()))
            .expect("receiving");
    }
    frames
}

/// Makes an Ethernet frame with a number. No network stack answers frames of this type.
pub fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.resize(len, 0xab);
    frame
}

/// Sends frames and flushes the port.
pub fn send(port: &mut dyn Port, frames: impl IntoIterator<Item = Vec<u8>>) {
    for frame in frames {
        // The frame is sent in two pieces. Each piece may be empty.
        let (head, payload) = frame.split_at(frame.len() / 7 * 3);
        port.transmit(0, [head, payload].into()).expect("queueing");
    }
    port.flush().expect("sending");
}

/// Checks several times that the first of many frames arrives before the others are sent.
pub fn assert_the_first_frame_waits_for_no_other(outside: &mut dyn Port, port: &mut dyn Port) {
    for _ in 0..3 {
        for number in 0..100 {
            let frame = numbered(number, 1400);
            port.transmit(0, [&frame[..42], &frame[42..]].into())
                .expect("queueing");
            if number == 0 {
                assert_eq!(receive(outside, 1), [frame]);
            }
        }
        port.flush().expect("sending");
        let rest: Vec<_> = (1..100).map(|number| numbered(number, 1400)).collect();
        assert!(receive(outside, 99) == rest, "the others, in order");
    }
}

/// Opens a socket on an address of `interface`, connected to a neighbour that does not exist.
pub fn local_sender(interface: &str) -> UdpSocket {
    ip(&format!("addr add 10.9.0.1/24 dev {interface}"));
    ip(&format!(
        "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev {interface}"
    ));
    let socket = UdpSocket::bind("10.9.0.1:4000").expect("a socket");
    socket.connect("10.9.0.2:5004").expect("a peer");
    socket
}
