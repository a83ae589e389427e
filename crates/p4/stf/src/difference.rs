//! Formats expected and found bytes side by side.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::Serialize;

use crate::command::Expected;

const ROW_BYTES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Hexadecimal digits, `*` for any; `$` at the end if the frame must not be longer.
    pub expected: String,
    pub found: String,
    /// Indexes, from 0, of the bytes that differ, are missing or are too many.
    pub bytes: Vec<usize>,
}

impl Difference {
    pub(crate) fn between(expected: &Expected, frame: &[u8]) -> Option<Self> {
        let n_expected = expected.digits.len().div_ceil(2);
        let n_bytes = n_expected.max(if expected.is_whole { frame.len() } else { 0 });
        let bytes: Vec<usize> = (0..n_bytes)
            .filter(|at| !byte_fits(expected, *at, frame.get(*at).copied()))
            .collect();
        if bytes.is_empty() {
            return None;
        }
        let digit = |digit: &Option<u8>| match digit {
            Some(digit) => char::from_digit(u32::from(*digit), 16).unwrap_or('?'),
            None => '*',
        };
        let mut text: String = expected.digits.iter().map(digit).collect();
        if expected.is_whole {
            text.push('$');
        }
        Some(Self {
            expected: text,
            found: HEXLOWER.encode(frame),
            bytes,
        })
    }
}

/// Whether a byte of the frame matches the expected byte. Bytes after all expected bytes match if the frame may be
/// longer.
fn byte_fits(expected: &Expected, at: usize, found: Option<u8>) -> bool {
    let digits = expected.digits.get(2 * at..).unwrap_or_default();
    if digits.is_empty() {
        return !(expected.is_whole && found.is_some());
    }
    let Some(found) = found else { return false };
    let halves = [found >> 4, found & 15];
    digits
        .iter()
        .zip(halves)
        .all(|(wanted, half)| wanted.is_none_or(|wanted| wanted == half))
}

/// Formats each row of 16 bytes that differs: its offset, the expected and the found bytes, and marks at the
/// differences.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = pairs(self.expected.trim_end_matches('$'));
        let found = pairs(&self.found);
        let n_rows = expected.len().max(found.len()).div_ceil(ROW_BYTES);
        for row in 0..n_rows {
            let row_bytes = row * ROW_BYTES..(row + 1) * ROW_BYTES;
            let Some(last) = self.bytes.iter().rfind(|byte| row_bytes.contains(byte)) else {
                continue;
            };
            let cells = |bytes: &[&str]| {
                let cell = |at| format!("{:2}", bytes.get(at).copied().unwrap_or(".."));
                let n_bytes = expected.len().max(found.len()).min(row_bytes.end);
                let cells: Vec<String> = (row_bytes.start..n_bytes).map(cell).collect();
                cells.join(" ")
            };
            let mark = |at| if self.bytes.contains(&at) { "^^" } else { "  " };
            let marks: Vec<&str> = (row_bytes.start..=*last).map(mark).collect();
            writeln!(
                f,
                "  byte {:4}  expected  {}",
                row_bytes.start,
                cells(&expected)
            )?;
            writeln!(f, "                found  {}", cells(&found))?;
            writeln!(f, "                       {}", marks.join(" "))?;
        }
        Ok(())
    }
}

fn pairs(digits: &str) -> Vec<&str> {
    let at = |start: usize| &digits[start..digits.len().min(start + 2)];
    (0..digits.len()).step_by(2).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::expected;

    fn between(wanted: &str, frame: &[u8]) -> Option<Difference> {
        Difference::between(&expected(wanted).unwrap(), frame)
    }

    #[test]
    fn a_frame_may_be_longer_and_stars_are_any_digit() {
        assert_eq!(between("01*2", &[1, 0x52, 3]), None);
        assert_eq!(between("01*2$", &[1, 0x52]), None);
        assert_eq!(between("01*2$", &[1, 0x52, 3]).unwrap().bytes, [2]);
        assert_eq!(between("01*2", &[1]).unwrap().bytes, [1]);
        assert_eq!(between("01*2", &[2, 0x53]).unwrap().bytes, [0, 1]);
        assert_eq!(between("$", &[]), None);
    }

    #[test]
    fn the_bytes_that_differ_are_marked() {
        let mut frame = vec![0; 18];
        frame[17] = 9;
        let shown = between(&format!("{}0f", "00".repeat(17)), &frame).unwrap();
        let rows = "  byte   16  expected  00 0f\n                found  00 09\n                          ^^\n";
        assert_eq!(shown.to_string(), rows);
    }
}
