//! Parses numbers and addresses, and formats numbers.

use std::net::Ipv6Addr;

use bmv2_thrift::message::MatchParam;
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{Num, One};

use crate::error::Error;
use crate::program::{Action, KeyField, MatchType, Table};

/// Parses an integer in Python's syntax: 10, 0xa, 0o12, 0b1010, 1_000.
pub fn integer(text: &str) -> Option<BigInt> {
    let (sign, digits) = signed(text);
    let prefixed = digits.get(..2).map(str::to_ascii_lowercase);
    let (base, digits) = match prefixed.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        // Python 3 refuses C's octal numbers: 010 could be 8 or 10.
        _ if digits.starts_with('0') && !digits.trim_matches(['0', '_']).is_empty() => return None,
        _ => (10, digits),
    };
    let digits = match base {
        10 => digits,
        _ => digits.strip_prefix('_').unwrap_or(digits),
    };
    in_base(sign, digits, base)
}

pub fn decimal(text: &str) -> Option<BigInt> {
    let (sign, digits) = signed(text);
    in_base(sign, digits, 10)
}

fn signed(text: &str) -> (Sign, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (Sign::Minus, digits),
        None => (Sign::Plus, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Parses digits of a base, with single underscores between them.
fn in_base(sign: Sign, digits: &str, base: u32) -> Option<BigInt> {
    let parts: Vec<&str> = digits.split('_').collect();
    let is_digits = |part: &&str| !part.is_empty() && part.chars().all(|it| it.is_digit(base));
    if !parts.iter().all(is_digits) {
        return None;
    }
    let magnitude = BigUint::from_str_radix(&parts.concat(), base).ok()?;
    Some(BigInt::from_biguint(sign, magnitude))
}

/// Parses a number that the protocol carries as i32. `format_of` says in the error what the number is.
pub fn i32_of(text: &str, format_of: &str) -> Result<i32, Error> {
    let bad = || Error::input(format!("Bad format for {format_of}"));
    let number = decimal(text).ok_or_else(bad)?;
    i32::try_from(number).map_err(|_| {
        let (min, max) = (i32::MIN, i32::MAX);
        Error::input(format!(
            "Bad format for {format_of}, expected {min} to {max}"
        ))
    })
}

/// Converts a number to big endian bytes of a width; a negative number to two's complement.
fn bytes_of(number: &BigInt, bits: u32) -> Result<Vec<u8>, String> {
    let n_bytes = bits.div_ceil(8) as usize;
    let magnitude = match number.sign() {
        Sign::Minus => {
            let all = BigInt::one() << bits;
            if bits == 0 || -number > (BigInt::one() << (bits - 1)) {
                return Err(format!("Parameter is below what {bits} bits hold"));
            }
            (all + number).to_bytes_be().1
        }
        Sign::NoSign => Vec::new(),
        Sign::Plus => number.to_bytes_be().1,
    };
    let n_missing = n_bytes.checked_sub(magnitude.len());
    let n_missing = n_missing.ok_or("Parameter is too large")?;
    let mut bytes = vec![0; n_missing];
    bytes.extend(magnitude);
    Ok(bytes)
}

fn ipv4(text: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = text.split('.').collect();
    let byte = |part: &&str| decimal(part).and_then(|it| u8::try_from(it).ok());
    (parts.len() == 4).then(|| parts.iter().map(byte).collect())?
}

fn mac(text: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = text.split(':').collect();
    let byte = |part: &&str| {
        let digits = part.strip_prefix("0x").unwrap_or(part);
        let number = in_base(Sign::Plus, digits, 16)?;
        u8::try_from(number).ok()
    };
    (parts.len() == 6).then(|| parts.iter().map(byte).collect())?
}

/// Converts a number or an address to bytes of a width.
pub fn param(text: &str, bits: u32) -> Result<Vec<u8>, String> {
    let address = match bits {
        32 if text.contains('.') => Some((ipv4(text), "IPv4")),
        48 if text.contains(':') => Some((mac(text), "MAC")),
        128 if text.contains(':') => {
            let address: Option<Ipv6Addr> = text.parse().ok();
            Some((address.map(|it| it.octets().to_vec()), "IPv6"))
        }
        _ => None,
    };
    if let Some((address, kind)) = address {
        return address.ok_or_else(|| format!("Invalid {kind} address"));
    }
    let number = integer(text)
        .ok_or("Invalid input, could not cast to integer, try in hex with 0x prefix")?;
    bytes_of(&number, bits)
}

/// Converts a number for a parser value set, which must fit the width.
pub fn value_set_value(text: &str, bits: u32) -> Result<Vec<u8>, Error> {
    let number = integer(text).ok_or_else(|| {
        Error::input("Invalid input, could not cast to integer, try in hex with 0x prefix")
    })?;
    if number.bits() > u64::from(bits) {
        return Err(Error::input(format!(
            "Input is too large, it should fit within {bits} bits"
        )));
    }
    bytes_of(&number, bits).map_err(Error::input)
}

pub fn runtime_data(action: &Action, args: &[&str]) -> Result<Vec<Vec<u8>>, Error> {
    let values = action.params.iter().zip(args).map(|((_, bits), arg)| {
        param(arg, *bits)
            .map_err(|error| Error::runtime_data(format!("Error while parsing {arg} - {error}")))
    });
    values.collect()
}

pub fn match_key(table: &Table, fields: &[&str]) -> Result<Vec<MatchParam>, Error> {
    let fields = table.key.iter().zip(fields);
    fields
        .map(|(field, text)| match_field(field, text))
        .collect()
}

fn halves<'a>(text: &'a str, by: &str) -> Option<(&'a str, &'a str)> {
    let (one, other) = text.split_once(by)?;
    (!other.contains(by)).then_some((one, other))
}

/// Whether the start of the range has its highest bit set, and the end has not. In a signed field this is a range from
/// a negative number to one that is not negative.
fn is_negative_first(start: &[u8], end: &[u8], bits: u32) -> bool {
    let is_negative = |end: &[u8]| {
        let first = end.first().copied().unwrap_or_default();
        first >> (bits.saturating_sub(1) % 8) & 1 == 1
    };
    is_negative(start) && !is_negative(end)
}

fn match_field(field: &KeyField, text: &str) -> Result<MatchParam, Error> {
    let value = |text: &str| {
        param(text, field.bits)
            .map_err(|error| Error::match_key(format!("Error while parsing {text} - {error}")))
    };
    let two = |kind: &str, by: &str, what: &str| {
        halves(text, by).ok_or_else(|| {
            Error::match_key(format!(
                "Invalid {kind} value {text}, use '{by}' to separate {what}"
            ))
        })
    };
    Ok(match field.match_type {
        MatchType::Exact => MatchParam::Exact(value(text)?),
        MatchType::Lpm => {
            let (prefix, length) = two("LPM", "/", "prefix and length")?;
            let bits = decimal(length).and_then(|it| i32::try_from(it).ok());
            let bits = bits.ok_or_else(|| {
                let max = field.bits;
                Error::match_key(format!(
                    "Invalid LPM value {text}, expected a length of 0 to {max}, found '{length}'"
                ))
            })?;
            MatchParam::Lpm(value(prefix)?, bits)
        }
        MatchType::Ternary => {
            let (key, mask) = two("ternary", "&&&", "key and mask")?;
            MatchParam::Ternary(value(key)?, value(mask)?)
        }
        MatchType::Valid => match decimal(text) {
            Some(number) => MatchParam::Valid(number.sign() != Sign::NoSign),
            None => {
                return Err(Error::match_key(format!(
                    "Invalid valid value {text}, expected 0 or 1"
                )));
            }
        },
        MatchType::Range => {
            let (start, end) = two("range", "->", "range start and range end")?;
            let (start, end) = (value(start)?, value(end)?);
            // In a signed field negative numbers come first. Only the switch knows whether the field is signed.
            if start > end && !is_negative_first(&start, &end, field.bits) {
                return Err(Error::match_key(format!(
                    "start is greater than end in expression {text}"
                )));
            }
            MatchParam::Range(start, end)
        }
    })
}

/// Formats bytes in hexadecimal, separated by colons.
pub fn colons(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

/// Formats a number with the prefix 0x.
pub fn hex_number(number: i32) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{:#x}", number.unsigned_abs())
}

/// Formats a fraction as Python does: as short as possible, with an exponent if it has many zeros.
pub fn float(value: f64) -> String {
    if !value.is_finite() {
        return format!("{value}").to_ascii_lowercase();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

    use super::*;

    #[test]
    fn integers_are_those_of_python() {
        let number = |text: &str| integer(text).map(|it| it.to_string());
        let found = |text: &str| number(text).unwrap();
        assert_eq!(found("0x1F"), "31");
        assert_eq!(found("-0b11"), "-3");
        assert_eq!(found("0o17"), "15");
        assert_eq!(found("1_000"), "1000");
        assert_eq!(found("0x_ff"), "255");
        assert_eq!(found("+7"), "7");
        assert_eq!(found("00"), "0");
        for wrong in [
            "", "-", "010", "1__0", "_1", "0x", "1.0", "ten", "--1", "0xfg",
        ] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
        assert_eq!(decimal("010").unwrap().to_string(), "10");
        assert_eq!(decimal("0x10"), None);
    }

    #[test]
    fn a_parameter_has_the_bytes_of_its_width() {
        assert_eq!(param("7", 9).unwrap(), [0, 7]);
        assert_eq!(param("0", 8).unwrap(), [0]);
        assert_eq!(param("10.0.1.255", 32).unwrap(), [10, 0, 1, 255]);
        assert_eq!(
            param("00:AA:b:c:d:0e", 48).unwrap(),
            [0, 0xaa, 11, 12, 13, 14]
        );
        assert_eq!(param("::1", 128).unwrap()[15], 1);
        assert_eq!(param("-1", 9).unwrap(), [1, 0xff]);
        assert_eq!(param("-128", 8).unwrap(), [0x80]);
        assert_eq!(param("512", 9).unwrap(), [2, 0]);
        for (text, bits, expected) in [
            ("256", 8, "Parameter is too large"),
            ("-129", 8, "Parameter is below what 8 bits hold"),
            ("10.0.0", 32, "Invalid IPv4 address"),
            ("10.0.0.256", 32, "Invalid IPv4 address"),
            ("0:1:2:3:4", 48, "Invalid MAC address"),
            ("0:1:2:3:4:100", 48, "Invalid MAC address"),
            ("1::2::3", 128, "Invalid IPv6 address"),
            (
                "10.0.0.1",
                16,
                "Invalid input, could not cast to integer, try in hex with 0x prefix",
            ),
        ] {
            assert_eq!(param(text, bits).unwrap_err(), expected, "{text}");
        }
    }

    fn field(match_type: MatchType, bits: u32) -> KeyField {
        KeyField {
            name: "h.f".into(),
            match_type,
            bits,
        }
    }

    #[test]
    fn a_key_field_is_typed_by_its_kind() {
        let found = |of, text| match_field(&field(of, 8), text).unwrap();
        assert_eq!(found(MatchType::Lpm, "8/4"), MatchParam::Lpm(vec![8], 4));
        assert_eq!(
            found(MatchType::Ternary, "1&&&0xff"),
            MatchParam::Ternary(vec![1], vec![255])
        );
        assert_eq!(
            found(MatchType::Range, "1->2"),
            MatchParam::Range(vec![1], vec![2])
        );
        assert_eq!(found(MatchType::Valid, "1"), MatchParam::Valid(true));
        let wrong = |of, text| match_field(&field(of, 8), text).unwrap_err().to_string();
        assert!(wrong(MatchType::Lpm, "8").contains("use '/' to separate"));
        assert!(wrong(MatchType::Lpm, "8/4/2").contains("use '/' to separate"));
        assert!(wrong(MatchType::Lpm, "8/x").contains("a length of 0 to 8, found 'x'"));
        assert!(wrong(MatchType::Ternary, "8").contains("use '&&&' to separate"));
        assert!(wrong(MatchType::Range, "2->1").contains("start is greater than end"));
        // From -3 to 3 of a signed field.
        assert_eq!(
            found(MatchType::Range, "0xfd->3"),
            MatchParam::Range(vec![0xfd], vec![3])
        );
        assert!(wrong(MatchType::Exact, "x").contains("Error while parsing x - "));
    }

    #[test]
    fn numbers_are_shown_as_by_python() {
        let shown = [0.001, 1.0, 0.0, 1e-5, 1.5e-7, 123456.75, 1e16, 2.5e22].map(float);
        let expected = [
            "0.001",
            "1.0",
            "0.0",
            "1e-05",
            "1.5e-07",
            "123456.75",
            "1e+16",
            "2.5e+22",
        ];
        assert_eq!(shown, expected);
        assert_eq!(float(f64::INFINITY), "inf");
        assert_eq!(hex_number(16_777_217), "0x1000001");
        assert_eq!(hex_number(-1), "-0x1");
    }
}
