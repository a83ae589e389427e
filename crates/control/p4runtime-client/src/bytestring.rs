//! P4Runtime's byte strings (specification 1.4.1, "Bytestrings"): numbers and addresses in canonical form, which means
//! big endian, at least one byte, and no further leading zero bytes.

use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// The width of an Ethernet address.
pub const MAC_BITS: u32 = 48;
/// The width of an IPv4 address.
pub const IPV4_BITS: u32 = 32;
/// The width of an IPv6 address.
pub const IPV6_BITS: u32 = 128;

/// The byte string of a number.
pub fn bytes(value: impl Into<u64>) -> Vec<u8> {
    canonical(&value.into().to_be_bytes())
}

/// Returns the number that a byte string encodes; `None` if the number needs more than 64 bits.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let digits = canonical(bytes);
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    (digits.len() <= 8).then(|| digits.iter().fold(0, add))
}

/// Like [`number`], for numbers of up to 128 bits.
pub fn wide_number(bytes: &[u8]) -> Option<u128> {
    let digits = canonical(bytes);
    let add = |value: u128, byte: &u8| value << 8 | u128::from(*byte);
    (digits.len() <= 16).then(|| digits.iter().fold(0, add))
}

/// Removes leading zero bytes, but keeps at least one byte.
pub fn canonical(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    match &bytes[zeros..] {
        [] => vec![0],
        rest => rest.to_vec(),
    }
}

/// Returns the two's complement of a negative number, as `encodeNum` of P4's tutorials makes it; `None` if the number
/// does not fit into `bits`.
pub fn twos_complement(negative: i64, bits: u32) -> Option<Vec<u8>> {
    if bits < i64::BITS && negative < -(1_i64 << (bits - 1)) {
        return None;
    }
    let n_bytes = bits.div_ceil(u8::BITS) as usize;
    let mut extended = vec![0xff; n_bytes.saturating_sub(8)];
    let low = negative.to_be_bytes();
    extended.extend(&low[8_usize.saturating_sub(n_bytes)..]);
    Some(and(&extended, &ones(bits, bits)))
}

/// The number of bits that a canonical byte string needs.
pub fn n_bits(canonical: &[u8]) -> u32 {
    let zeros = canonical.first().map_or(0, |byte| byte.leading_zeros());
    (canonical.len() as u32 * u8::BITS).saturating_sub(zeros)
}

/// Returns a mask of `bits` bits, of which the `n` most significant bits are ones and the others zeros.
pub fn ones(n: u32, bits: u32) -> Vec<u8> {
    let n_bytes = bits.div_ceil(u8::BITS);
    let padding = n_bytes * u8::BITS - bits;
    let bit = |at: u32| at >= padding && at < padding + n;
    let byte = |idx: u32| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bit(idx * 8 + at)));
    canonical(&(0..n_bytes).map(byte).collect::<Vec<u8>>())
}

/// The bitwise AND of two numbers.
pub fn and(one: &[u8], other: &[u8]) -> Vec<u8> {
    let pairs = one.iter().rev().zip(other.iter().rev());
    let mut both: Vec<u8> = pairs.map(|(a, b)| a & b).collect();
    both.reverse();
    canonical(&both)
}

/// Why a text is not a value of the wanted width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// The text is neither a number of at most 128 bits nor an address of the wanted width.
    NoValue,
    /// The text is a number that needs this many bits.
    Bits(u32),
}

/// Parses a number or an address of this width: decimal, hexadecimal after `0x`, or in the usual notation of Ethernet,
/// IPv4 and IPv6 addresses. A negative decimal number is its two's complement, since P4Info does not say which fields are
/// signed.
///
/// # Errors
/// The text is neither a number nor an address of this width, or it is a number that needs more bits.
pub fn parse(text: &str, bits: u32) -> Result<Vec<u8>, Misfit> {
    if let Some(digits) = text.strip_prefix('-') {
        let is_plain = digits.starts_with(|first| ('1'..='9').contains(&first));
        let number: Option<i64> = is_plain.then(|| text.parse().ok()).flatten();
        let negative = number.ok_or(Misfit::NoValue)?;
        let needed = i64::BITS + 1 - negative.leading_ones();
        return twos_complement(negative, bits).ok_or(Misfit::Bits(needed));
    }
    let address = match bits {
        MAC_BITS => mac(text).map(|it| it.to_vec()),
        IPV4_BITS => text.parse().ok().map(|ip: Ipv4Addr| ip.octets().to_vec()),
        IPV6_BITS => text.parse().ok().map(|ip: Ipv6Addr| ip.octets().to_vec()),
        _ => None,
    };
    let found = address.or_else(|| match text.get(..2) {
        Some("0x" | "0X") => of_hex(&text[2..]),
        _ => of_decimal(text),
    });
    let found = canonical(&found.ok_or(Misfit::NoValue)?);
    match n_bits(&found) {
        n if n > bits => Err(Misfit::Bits(n)),
        _ => Ok(found),
    }
}

/// Parses decimal digits; refuses a leading zero, which some readers would take for octal.
fn of_decimal(text: &str) -> Option<Vec<u8>> {
    let is_plain = text == "0" || text.starts_with(|first| ('1'..='9').contains(&first));
    let number: Option<u128> = is_plain.then(|| text.parse().ok()).flatten();
    number.map(|number| number.to_be_bytes().to_vec())
}

/// Parses a number in decimal digits, or in hexadecimal ones after `0x`; leading zeros are ignored.
pub fn parse_number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

fn of_hex(digits: &str) -> Option<Vec<u8>> {
    let zero = "0".repeat(digits.len() % 2);
    let bytes = HEXLOWER_PERMISSIVE.decode(format!("{zero}{digits}").as_bytes());
    bytes.ok().filter(|bytes| !bytes.is_empty())
}

/// Parses an Ethernet address: six pairs of hexadecimal digits separated by colons.
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut pairs = text.split(':');
    for octet in &mut octets {
        // from_str_radix would accept a sign.
        let is_pair = |pair: &&str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
        *octet = u8::from_str_radix(pairs.next().filter(is_pair)?, 16).ok()?;
    }
    pairs.next().is_none().then_some(octets)
}

/// Writes an Ethernet address, as `08:00:00:00:01:11`.
pub fn mac_text(octets: [u8; 6]) -> String {
    octets.map(|octet| format!("{octet:02x}")).join(":")
}

/// Writes an Ethernet, IPv4 or IPv6 address; `None` if no such address has this width.
pub fn address_text(bytes: &[u8], bits: u32) -> Option<String> {
    match bits {
        MAC_BITS => Some(mac_text(padded(bytes))),
        IPV4_BITS => Some(Ipv4Addr::from(padded::<4>(bytes)).to_string()),
        IPV6_BITS => Some(Ipv6Addr::from(padded::<16>(bytes)).to_string()),
        _ => None,
    }
}

/// Writes a byte string in hexadecimal with every digit, as `0x001f`.
pub fn hex(bytes: &[u8]) -> String {
    format!("0x{}", HEXLOWER.encode(bytes))
}

/// Writes a byte string in hexadecimal without leading zeros, as `0x1f`.
pub fn short_hex(bytes: &[u8]) -> String {
    match HEXLOWER.encode(bytes).trim_start_matches('0') {
        "" => "0x0".to_owned(),
        digits => format!("0x{digits}"),
    }
}

/// The last `N` bytes of a byte string, filled up with zeros in front.
pub fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    for (to, from) in all.iter_mut().rev().zip(bytes.iter().rev()) {
        *to = *from;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_strings_are_canonical() {
        assert_eq!(bytes(0u64), [0]);
        assert_eq!(bytes(255u64), [255]);
        assert_eq!(bytes(0x0100u64), [1, 0]);
        assert_eq!(bytes(u64::MAX), [255; 8]);
    }

    #[test]
    fn a_negative_number_is_its_twos_complement() {
        assert_eq!(parse("-5", 8), Ok(vec![0xfb]));
        assert_eq!(parse("-128", 8), Ok(vec![0x80]));
        assert_eq!(parse("-129", 8), Err(Misfit::Bits(9)));
        assert_eq!(parse("-1", 72), Ok(vec![0xff; 9]));
        for text in ["-", "-0", "-05", "--5", "-0x5"] {
            assert_eq!(parse(text, 8), Err(Misfit::NoValue), "{text}");
        }
    }

    #[test]
    fn a_number_is_read_back_from_any_length() {
        for value in [0, 1, 255, 256, 0x0a00_0105, u64::MAX] {
            assert_eq!(number(&bytes(value)), Some(value));
        }
        assert_eq!(number(&[]), Some(0));
        assert_eq!(number(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 7]), Some(7));
        assert_eq!(number(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn masks_are_of_the_fields_width() {
        assert_eq!(ones(9, 9), [1, 255]);
        assert_eq!(ones(1, 9), [1, 0]);
        assert_eq!(ones(24, 32), [255, 255, 255, 0]);
        assert_eq!(ones(0, 32), [0]);
        assert_eq!(and(&[10, 0, 2, 22], &ones(24, 32)), [10, 0, 2, 0]);
        assert_eq!(and(&[5], &[255, 0]), [0]);
    }
}
