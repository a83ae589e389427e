//! Numbers of any length.

use crate::command::{Expected, Match};

type Parsed<T> = Result<T, String>;

/// A number's digits and their base: `0x`, `0o`, `0b` or none.
fn base(text: &str) -> (&str, u32) {
    let bases = [
        ("0x", 16),
        ("0X", 16),
        ("0b", 2),
        ("0B", 2),
        ("0o", 8),
        ("0O", 8),
    ];
    bases
        .into_iter()
        .find_map(|(prefix, base)| Some((text.strip_prefix(prefix)?, base)))
        .unwrap_or((text, 10))
}

/// Big endian, without leading zeros, at least one byte.
pub(crate) fn number(text: &str) -> Parsed<Vec<u8>> {
    let (digits, base) = base(text);
    let wrong = || format!("expected a number, found \"{text}\"");
    if digits.is_empty() {
        return Err(wrong());
    }
    let mut little_endian: Vec<u8> = Vec::new();
    for digit in digits.chars() {
        let mut carry = digit.to_digit(base).ok_or_else(wrong)?;
        for byte in &mut little_endian {
            carry += u32::from(*byte) * base;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            little_endian.push(carry as u8);
        }
    }
    if little_endian.is_empty() {
        little_endian.push(0);
    }
    little_endian.reverse();
    Ok(little_endian)
}

/// A small number.
pub(crate) fn int<T: TryFrom<u64>>(text: &str) -> Parsed<T> {
    let bytes = number(text)?;
    let too_large = || format!("{text} is too large here");
    if bytes.len() > 8 {
        return Err(too_large());
    }
    let value = bytes
        .iter()
        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    T::try_from(value).map_err(|_| too_large())
}

/// `0x12**`, `0b1*0`: the value under the mask of the digits that are there.
pub(crate) fn masked(text: &str) -> Parsed<Match> {
    let (digits, base) = base(text);
    let ones = match base {
        16 => "f",
        8 => "7",
        2 => "1",
        _ => {
            return Err(format!(
                "expected 0x, 0o or 0b before digits with \"*\", found \"{text}\""
            ));
        }
    };
    let prefix = &text[..2];
    let mask: String = digits
        .chars()
        .map(|c| if c == '*' { "0" } else { ones })
        .collect();
    let value = number(&text.replace('*', "0"))?;
    Ok(Match::Mask(value, number(&format!("{prefix}{mask}"))?))
}

/// Bytes of a frame.
pub(crate) fn hex_bytes(digits: &str) -> Parsed<Vec<u8>> {
    if digits.len() % 2 == 1 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(format!(
            "expected pairs of hexadecimal digits, found \"{digits}\""
        ));
    }
    let byte = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).map_err(|e| e.to_string());
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Bytes that are expected.
pub(crate) fn expected(text: &str) -> Parsed<Expected> {
    let (digits, is_whole) = match text.strip_suffix('$') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let digit = |c: char| match (c, c.to_digit(16)) {
        ('*', _) => Ok(None),
        (_, Some(digit)) => Ok(Some(digit as u8)),
        _ => Err(format!(
            "expected hexadecimal digits, \"*\", or \"$\" at the end, found '{c}'"
        )),
    };
    Ok(Expected {
        digits: digits.chars().map(digit).collect::<Parsed<_>>()?,
        is_whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_any_base_and_length() {
        assert_eq!(number("0").unwrap(), [0]);
        assert_eq!(number("258").unwrap(), [1, 2]);
        assert_eq!(number("0b100000001").unwrap(), [1, 1]);
        assert_eq!(number("0o777").unwrap(), [1, 0xff]);
        assert_eq!(number("0X0012").unwrap(), [0x12]);
        let long = "340282366920938463463374607431768211456";
        assert_eq!(number(long).unwrap(), [[1].as_slice(), &[0; 16]].concat());
        for wrong in ["", "0x", "12a", "0b2", "-1", "x"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
        assert_eq!(int::<u8>("255").unwrap(), 255);
        assert!(int::<u8>("256").is_err());
        assert!(int::<u64>("0x1ffffffffffffffff").is_err());
    }

    #[test]
    fn a_star_is_a_digit_that_does_not_count() {
        let Match::Mask(value, mask) = masked("0x1**2").unwrap() else {
            panic!("not a mask")
        };
        assert_eq!((value, mask), (vec![0x10, 0x02], vec![0xf0, 0x0f]));
        assert_eq!(masked("0b1*").unwrap(), Match::Mask(vec![0b10], vec![0b10]));
        assert!(masked("1*").is_err());
    }
}
