//! The messages: BMv2's packed structures as x86 lays them out, a header of 32 bytes and then the data.
//!
//! Sources: behavioral-model, `bm_sim/learning.h`, `ageing.h`, `port_monitor.h`, `context.cpp`.

const CONTEXT: u32 = 0;

const HEADER_BYTES: usize = 32;

/// The steps of a program swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swap {
    Loaded = 0,
    Requested = 1,
    Completed = 2,
}

fn header(topic: [u8; 4], device_id: u64) -> Vec<u8> {
    [&topic[..], &device_id.to_le_bytes()].concat()
}

fn padded(mut header: Vec<u8>) -> Vec<u8> {
    header.resize(HEADER_BYTES, 0);
    header
}

/// Never truncates: a message has far fewer than 2^32 elements.
fn count(n: usize) -> [u8; 4] {
    (n as u32).to_le_bytes()
}

pub(crate) fn learn(
    device_id: u64,
    list: i32,
    buffer: u64,
    samples: &[impl AsRef<[u8]>],
) -> Vec<u8> {
    let mut message = header(*b"LEA|", device_id);
    message.extend(CONTEXT.to_le_bytes());
    message.extend(list.to_le_bytes());
    message.extend(buffer.to_le_bytes());
    message.extend(count(samples.len()));
    for sample in samples {
        message.extend_from_slice(sample.as_ref());
    }
    message
}

/// Makes a message with the handles of a table's entries that were idle for their timeouts.
pub(crate) fn ageing(device_id: u64, buffer: u64, table: i32, handles: &[u32]) -> Vec<u8> {
    let mut message = header(*b"AGE|", device_id);
    message.extend(CONTEXT.to_le_bytes());
    message.extend(buffer.to_le_bytes());
    message.extend(table.to_le_bytes());
    message.extend(count(handles.len()));
    for handle in handles {
        message.extend(handle.to_le_bytes());
    }
    message
}

/// Makes a message with the ports whose link went up (true) or down.
pub(crate) fn ports(device_id: u64, ports: &[(u16, bool)]) -> Vec<u8> {
    let mut message = header(*b"PRT|", device_id);
    message.extend(count(ports.len()));
    let mut message = padded(message);
    for (port, is_up) in ports {
        message.extend(i32::from(*port).to_le_bytes());
        message.extend(i32::from(*is_up).to_le_bytes());
    }
    message
}

pub(crate) fn swap(device_id: u64, swap: Swap) -> Vec<u8> {
    let mut message = header(*b"SWP|", device_id);
    message.extend(CONTEXT.to_le_bytes());
    message.extend((swap as i32).to_le_bytes());
    padded(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_has_32_bytes() {
        let samples: [&[u8]; 0] = [];
        for message in [
            learn(1, 2, 3, &samples),
            ageing(1, 2, 3, &[]),
            ports(1, &[]),
            swap(1, Swap::Completed),
        ] {
            assert_eq!(message.len(), HEADER_BYTES, "{message:?}");
        }
    }

    #[test]
    fn numbers_are_where_bmv2s_structures_have_them() {
        let aged = ageing(0x0102, 3, 4, &[0x0500_0006]);
        let expected = [
            &b"AGE|"[..],
            &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
            &[4, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 5],
        ];
        assert_eq!(aged, expected.concat());
        let changed = ports(1, &[(511, true), (2, false)]);
        assert_eq!(changed[12..16], [2, 0, 0, 0]);
        assert_eq!(
            changed[32..],
            [0xff, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(swap(1, Swap::Completed)[12..20], [0, 0, 0, 0, 2, 0, 0, 0]);
    }
}
