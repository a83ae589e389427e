//! Repairs the `:authority` that gRPC's C library sends over a Unix socket. The library sends the socket's path with
//! `%2F` for each slash. Such a path is not a valid authority of a URI (RFC 3986, section 3.2), so the HTTP/2 library
//! would refuse the call. Nobody reads the authority, so the repair replaces each `%` by `-`. This keeps all lengths,
//! so the HPACK encoding (RFC 7541) stays valid.
//!
//! The repair changes only the value after a literal name `:authority` in a HEADERS or CONTINUATION frame, and only if
//! neither name nor value has Huffman coding. The C library writes the authority in this form.

/// The start of an HTTP/2 connection (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// The name, preceded by its length.
const NAME: &[u8] = b"\x0a:authority";

/// The highest bit of the length byte marks Huffman coding; if all other bits are set, the length continues in the next
/// byte.
const LENGTH_MAX: u8 = 0x7e;

/// Reads the bytes of one connection, in pieces of any size, and repairs the `:authority` of its requests.
#[derive(Debug, Default)]
pub(crate) struct AuthorityRepair {
    /// Bytes of the preface so far.
    n_preface: usize,
    /// True if the connection does not begin as unencrypted HTTP/2, so nothing is repaired.
    is_off: bool,
    frame_header: [u8; FRAME_HEADER_BYTES],
    n_frame_header: usize,
    payload_left: usize,
    /// Bytes of `NAME` matched so far.
    n_name: usize,
    is_length: bool,
    value_left: u8,
}

impl AuthorityRepair {
    /// Repairs the next bytes of the connection in place.
    pub(crate) fn mend(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.is_off {
                return;
            }
            self.take(byte);
        }
    }

    fn take(&mut self, byte: &mut u8) {
        if let Some(expected) = PREFACE.get(self.n_preface) {
            self.is_off = *byte != *expected;
            self.n_preface += 1;
        } else if self.payload_left > 0 {
            self.payload_left -= 1;
            if matches!(self.frame_header[3], HEADERS | CONTINUATION) {
                self.header_byte(byte);
            }
        } else {
            self.frame_header[self.n_frame_header] = *byte;
            self.n_frame_header += 1;
            if self.n_frame_header == FRAME_HEADER_BYTES {
                self.begin_frame();
            }
        }
    }

    fn begin_frame(&mut self) {
        let [high, middle, low, kind, ..] = self.frame_header;
        self.payload_left = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.n_frame_header = 0;
        if kind != CONTINUATION {
            (self.n_name, self.is_length, self.value_left) = (0, false, 0);
        }
    }

    fn header_byte(&mut self, byte: &mut u8) {
        if self.value_left > 0 {
            self.value_left -= 1;
            if *byte == b'%' {
                *byte = b'-';
            }
        } else if self.is_length {
            self.is_length = false;
            self.value_left = if *byte <= LENGTH_MAX { *byte } else { 0 };
        } else {
            self.n_name = if *byte == NAME[self.n_name] {
                self.n_name + 1
            } else {
                usize::from(*byte == NAME[0])
            };
            if self.n_name == NAME.len() {
                (self.n_name, self.is_length) = (0, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of a grpcio 1.85 client, with a SETTINGS frame before the call.
    fn call(authority: &str) -> Vec<u8> {
        let mut block = b"@\x05:path\x1d/p4.v1.P4Runtime/Capabilities@".to_vec();
        block.extend(NAME);
        block.push(u8::try_from(authority.len()).unwrap());
        block.extend(authority.as_bytes());
        block.extend(b"\x83\x86@\x01x\x04a%2F");
        let mut bytes = PREFACE.to_vec();
        bytes.extend(b"\0\0\0\x04\0\0\0\0\0");
        let length = u8::try_from(block.len()).unwrap();
        bytes.extend([0, 0, length, HEADERS, 4, 0, 0, 0, 1]);
        bytes.extend(block);
        // DATA frames stay as they are.
        bytes.extend(b"\0\0\x03\0\0\0\0\0\x01%2F");
        bytes
    }

    #[test]
    fn a_path_becomes_a_name_however_the_bytes_are_cut_and_nothing_else_changes() {
        let expected = call("tmp-2Fs1.sock");
        for n in [1, 2, 7, 1_000] {
            let (mut bytes, mut repair) = (call("tmp%2Fs1.sock"), AuthorityRepair::default());
            bytes.chunks_mut(n).for_each(|part| repair.mend(part));
            assert_eq!(bytes, expected, "{n}");
        }
    }

    #[test]
    fn what_is_no_http2_in_the_clear_stays_as_it_is() {
        let mut bytes = [b"\x16\x03\x01".to_vec(), call("tmp%2Fs1.sock")].concat();
        let before = bytes.clone();
        AuthorityRepair::default().mend(&mut bytes);
        assert_eq!(bytes, before);
    }
}
