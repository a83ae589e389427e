//! Converts values of match fields and action parameters (numbers, Ethernet, IPv4 and IPv6 addresses in the tutorials'
//! notation) to P4Runtime's canonical byte strings and back to text.

use std::net::{Ipv4Addr, Ipv6Addr};

use conference::address::Mac;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde_json::Value;

use super::node::{FileError, Node};

const MAC_BITS: u32 = 48;
const IPV4_BITS: u32 = 32;
const IPV6_BITS: u32 = 128;

/// The kind of a value: a number of a given width, or text (`@p4runtime_translation` to a string).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Bits(u32),
    Text,
}

impl Kind {
    /// P4Info gives no width for a string.
    pub fn of_bitwidth(bitwidth: i32) -> Kind {
        match u32::try_from(bitwidth) {
            Ok(0) | Err(_) => Kind::Text,
            Ok(bits) => Kind::Bits(bits),
        }
    }

    pub fn expected(self) -> String {
        match self {
            Kind::Text => "a name".to_owned(),
            Kind::Bits(MAC_BITS) => {
                "an Ethernet address like \"08:00:00:00:01:11\", or a number of 48 bits".to_owned()
            }
            Kind::Bits(IPV4_BITS) => {
                "an IPv4 address like \"10.0.1.1\", or a number of 32 bits".to_owned()
            }
            Kind::Bits(IPV6_BITS) => {
                "an IPv6 address like \"2001:db8::1\", or a number of 128 bits".to_owned()
            }
            Kind::Bits(bits) => format!("a number of {bits} bits, like 1 or \"0x1\""),
        }
    }
}

/// Converts a value; a list of one value is that value.
pub fn bytes(node: &Node, kind: Kind) -> Result<Vec<u8>, FileError> {
    if let Some([_]) = node.value.as_array().map(Vec::as_slice) {
        let items = node.items("a value")?;
        return items.first().map_or(Ok(Vec::new()), |one| bytes(one, kind));
    }
    let wrong = || node.expected(&kind.expected());
    let bits = match kind {
        Kind::Text => return Ok(node.text(&kind.expected())?.as_bytes().to_vec()),
        Kind::Bits(bits) => bits,
    };
    let found = match node.value {
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.to_be_bytes().to_vec(),
            (None, Some(negative)) => twos_complement(negative, bits).ok_or_else(wrong)?,
            (None, None) => {
                return Err(node.expected(&format!(
                    "{} (a large number as text: \"0x...\")",
                    kind.expected()
                )));
            }
        },
        Value::String(text) => parsed(text, bits).map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    let found = canonical(&found);
    if n_bits(&found) > bits {
        return Err(wrong());
    }
    Ok(found)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// It is neither a number nor an address of this width.
    NoValue,
    /// It is a number that needs this many bits.
    Bits(u32),
}

/// Parses a number or an address of at most this width into canonical form.
pub fn parsed(text: &str, bits: u32) -> Result<Vec<u8>, Misfit> {
    let found = canonical(&of_text(text, bits).ok_or(Misfit::NoValue)?);
    match n_bits(&found) {
        n if n > bits => Err(Misfit::Bits(n)),
        _ => Ok(found),
    }
}

/// Parses a number, or an address of this width.
fn of_text(text: &str, bits: u32) -> Option<Vec<u8>> {
    let address = match bits {
        MAC_BITS => text.parse().ok().map(|Mac(octets)| octets.to_vec()),
        IPV4_BITS => text.parse().ok().map(|ip: Ipv4Addr| ip.octets().to_vec()),
        IPV6_BITS => text.parse().ok().map(|ip: Ipv6Addr| ip.octets().to_vec()),
        _ => None,
    };
    address.or_else(|| match text.get(..2) {
        Some("0x" | "0X") => of_hex(&text[2..]),
        _ => of_decimal(text),
    })
}

/// Parses decimal digits; refuses a leading zero, which some readers would take for octal.
fn of_decimal(text: &str) -> Option<Vec<u8>> {
    let is_plain = text == "0" || text.starts_with(|first| ('1'..='9').contains(&first));
    let number: Option<u128> = is_plain.then(|| text.parse().ok()).flatten();
    number.map(|number| number.to_be_bytes().to_vec())
}

fn of_hex(digits: &str) -> Option<Vec<u8>> {
    let zero = "0".repeat(digits.len() % 2);
    let bytes = HEXLOWER_PERMISSIVE.decode(format!("{zero}{digits}").as_bytes());
    bytes.ok().filter(|bytes| !bytes.is_empty())
}

/// Two's complement of a negative number, as in the tutorials' `encodeNum`; `None` if it does not fit.
fn twos_complement(negative: i64, bits: u32) -> Option<Vec<u8>> {
    if bits < i64::BITS && negative < -(1_i64 << (bits - 1)) {
        return None;
    }
    let n_bytes = bits.div_ceil(u8::BITS) as usize;
    let mut extended = vec![0xff; n_bytes.saturating_sub(8)];
    let low = negative.to_be_bytes();
    extended.extend(&low[8_usize.saturating_sub(n_bytes)..]);
    Some(and(&extended, &ones(bits, bits)))
}

/// Removes leading zero bytes, but keeps at least one byte.
pub fn canonical(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    match &bytes[zeros..] {
        [] => vec![0],
        rest => rest.to_vec(),
    }
}

fn n_bits(canonical: &[u8]) -> u32 {
    let zeros = canonical.first().map_or(0, |byte| byte.leading_zeros());
    (canonical.len() as u32 * u8::BITS).saturating_sub(zeros)
}

/// A mask of `n` leading ones in a width of `bits`.
pub fn ones(n: u32, bits: u32) -> Vec<u8> {
    let n_bytes = bits.div_ceil(u8::BITS);
    let padding = n_bytes * u8::BITS - bits;
    let bit = |at: u32| at >= padding && at < padding + n;
    let byte = |idx: u32| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bit(idx * 8 + at)));
    canonical(&(0..n_bytes).map(byte).collect::<Vec<u8>>())
}

pub fn and(one: &[u8], other: &[u8]) -> Vec<u8> {
    let pairs = one.iter().rev().zip(other.iter().rev());
    let mut both: Vec<u8> = pairs.map(|(a, b)| a & b).collect();
    both.reverse();
    canonical(&both)
}

/// Whether a range can be valid. P4Info does not mark signed fields, whose negative numbers have the highest bit set
/// and are the lowest; the switch must check such a range.
pub fn may_be_range(low: &[u8], high: &[u8], bits: u32) -> bool {
    let is_negative = |end: &[u8]| bits > 0 && and(end, &ones(1, bits)) != [0];
    (low.len(), low) <= (high.len(), high) || is_negative(low) && !is_negative(high)
}

/// Text for an operator: an address if the width or the name suggests one, else a number.
pub fn text(bytes: &[u8], kind: Kind, name: &str) -> String {
    let Kind::Bits(bits) = kind else {
        return format!("\"{}\"", String::from_utf8_lossy(bytes));
    };
    let name = name.to_ascii_lowercase();
    let is_address = ["addr", "ip"].iter().any(|part| name.contains(part));
    match bits {
        MAC_BITS => Mac(padded(bytes)).to_string(),
        IPV4_BITS if is_address => Ipv4Addr::from(padded::<4>(bytes)).to_string(),
        IPV6_BITS if is_address => Ipv6Addr::from(padded::<16>(bytes)).to_string(),
        _ => conference::entities::number(bytes).map_or_else(|| hex(bytes), |n| n.to_string()),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    format!("0x{}", HEXLOWER.encode(bytes))
}

/// `0x1f`, not `0x001f`.
pub fn short_hex(bytes: &[u8]) -> String {
    match HEXLOWER.encode(bytes).trim_start_matches('0') {
        "" => "0x0".to_owned(),
        digits => format!("0x{digits}"),
    }
}

pub fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    for (to, from) in all.iter_mut().rev().zip(bytes.iter().rev()) {
        *to = *from;
    }
    all
}
