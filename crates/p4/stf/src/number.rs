//! Parses numbers of any length.

use data_encoding::HEXLOWER_PERMISSIVE;

use crate::command::{Expected, Match};

type Parsed<T> = Result<T, String>;

/// The most decimal digits that a number may have. The limit exists because the conversion of decimal digits takes
/// quadratic time. This many digits give 33,000 bits; a value for a wider field must have another base.
const DECIMAL_DIGITS_MAX: usize = 10_000;

/// Splits off the base prefix: `0x`, `0o`, `0b` or none.
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

/// Parses a number into bytes: big endian, without leading zeros, at least one byte.
pub(crate) fn number(text: &str) -> Parsed<Vec<u8>> {
    let (digits, base) = base(text);
    let wrong = || match text.parse::<std::net::Ipv4Addr>() {
        Ok(address) => format!(
            "expected a number, found the address {text}: write {:#010x}",
            address.to_bits()
        ),
        Err(_) => format!("expected a number, found \"{text}\""),
    };
    let values: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(base)).collect();
    let values = values
        .filter(|values| !values.is_empty())
        .ok_or_else(wrong)?;
    let mut little_endian = match base {
        10 if values.len() > DECIMAL_DIGITS_MAX => {
            return Err(format!(
                "expected at most {DECIMAL_DIGITS_MAX} decimal digits, found {}: write the number with 0x",
                values.len()
            ));
        }
        10 => of_decimals(&values),
        base => of_bits(&values, base.trailing_zeros()),
    };
    while little_endian.len() > 1 && little_endian.ends_with(&[0]) {
        little_endian.pop();
    }
    little_endian.reverse();
    Ok(little_endian)
}

/// Converts decimal digits to bytes. The lowest byte of the result is the first.
fn of_decimals(digits: &[u32]) -> Vec<u8> {
    let mut little_endian: Vec<u8> = vec![0];
    for digit in digits {
        let mut carry = *digit;
        for byte in &mut little_endian {
            carry += u32::from(*byte) * 10;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            little_endian.push(carry as u8);
        }
    }
    little_endian
}

/// Converts digits of `digit_bits` bits each to bytes. The lowest byte of the result is the first.
fn of_bits(digits: &[u32], digit_bits: u32) -> Vec<u8> {
    let (mut little_endian, mut waiting, mut n_bits) = (Vec::new(), 0, 0);
    for digit in digits.iter().rev() {
        waiting |= digit << n_bits;
        n_bits += digit_bits;
        if n_bits >= 8 {
            little_endian.push((waiting & 0xff) as u8);
            waiting >>= 8;
            n_bits -= 8;
        }
    }
    little_endian.push(waiting as u8);
    little_endian
}

/// Parses a number of at most 64 bits.
pub(crate) fn int<T: TryFrom<u64>>(text: &str) -> Parsed<T> {
    let bytes = number(text)?;
    let bits_max = 8 * size_of::<T>().min(8);
    let too_large = || {
        format!(
            "expected at most {}, found {text}",
            u64::MAX >> (64 - bits_max)
        )
    };
    if bytes.len() > 8 {
        return Err(too_large());
    }
    let value = bytes
        .iter()
        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    T::try_from(value).map_err(|_| too_large())
}

/// Parses `0x12**` or `0b1*0`: a value and a mask that excludes the `*` digits.
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

/// Parses a number such as `0.5` and multiplies it by 1,000,000: units per microsecond become units per second.
pub(crate) fn millionths(text: &str) -> Parsed<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return Err(format!("expected a rate such as 0.5, found \"{text}\""));
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 6 {
        return Err(format!(
            "expected at most 6 digits after the point (whole units per second), found \"{text}\""
        ));
    }
    let digits = format!("{whole}{fraction:0<6}");
    digits
        .parse()
        .map_err(|_| format!("the rate {text} is too large"))
}

pub(crate) fn hex_bytes(digits: &str) -> Parsed<Vec<u8>> {
    if let Some(other) = digits.chars().find(|digit| !digit.is_ascii_hexdigit()) {
        return Err(format!("expected hexadecimal digits, found '{other}'"));
    }
    if digits.len() % 2 == 1 {
        return Err(format!(
            "expected pairs of hexadecimal digits, found {} digits",
            digits.len()
        ));
    }
    let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
    bytes.map_err(|e| e.to_string())
}

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
    fn long_numbers_take_no_long_time() {
        let zeros = "0".repeat(300_000);
        assert_eq!(number(&format!("0x1{zeros}")).unwrap().len(), 150_001);
        assert_eq!(number(&format!("0o1{zeros}")).unwrap().len(), 112_501);
        assert_eq!(number(&format!("0b1{zeros}")).unwrap().len(), 37_501);
        let message = number(&format!("1{zeros}")).unwrap_err();
        assert!(
            message.ends_with("found 300001: write the number with 0x"),
            "{message}"
        );
        assert!(number(&zeros[..DECIMAL_DIGITS_MAX]).is_ok());
    }

    #[test]
    fn rates_are_read_without_rounding() {
        assert_eq!(millionths("0.000005"), Ok(5));
        assert_eq!(millionths("2"), Ok(2_000_000));
        assert_eq!(millionths("1.50000000"), Ok(1_500_000));
        for wrong in ["", ".5", "0.0000001", "1e3", "-1", "99999999999999999999"] {
            assert!(millionths(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_told_how_it_is_written() {
        let message = number("10.0.0.1").unwrap_err();
        assert!(message.ends_with("write 0x0a000001"), "{message}");
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
