//! Reads the items of a line in order, and parses numbers, times and bytes of attributes.

use std::collections::VecDeque;

use data_encoding::HEXLOWER_PERMISSIVE;
use p4runtime_client::bytestring::parse_number;

use crate::p4rt::print::UNITS;
use crate::p4rt::schema::Parsed;
use crate::p4rt::words::{Item, Value};

#[derive(Clone, Debug)]
pub struct Items {
    left: VecDeque<Item>,
    /// Remarks about values that the shell changed.
    notes: Vec<String>,
}

impl Items {
    pub fn new(items: Vec<Item>) -> Items {
        Items {
            left: items.into(),
            notes: Vec::new(),
        }
    }

    /// Moves the remarks from `notes` to the remarks about this line.
    pub fn note(&mut self, notes: &mut Vec<String>) {
        self.notes.append(notes);
    }

    pub fn into_notes(self) -> Vec<String> {
        self.notes
    }

    pub fn next(&mut self) -> Option<Item> {
        self.left.pop_front()
    }

    pub fn peek(&self) -> Option<&Item> {
        self.left.front()
    }

    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Takes the next item if it is a single word.
    pub fn word(&mut self) -> Option<String> {
        let Some(Item::Value(Value::Atom(atom))) = self.left.front() else {
            return None;
        };
        let text = atom.text.clone();
        self.left.pop_front();
        Some(text)
    }

    /// Takes the next item, which must be a single word.
    pub fn expect_word(&mut self, what: &str) -> Parsed<String> {
        match self.word() {
            Some(word) => Ok(word),
            None => Err(match self.peek() {
                Some(item) => format!("expected {what}, got \"{item}\""),
                None => format!("expected {what}, the line ends"),
            }),
        }
    }

    pub fn expect_number(&mut self, what: &str, max: u128) -> Parsed<u128> {
        let word = self.expect_word(what)?;
        let found = parse_number(&word).filter(|it| *it <= max);
        found.ok_or_else(|| format!("expected {what}, a number up to {max}, got \"{word}\""))
    }

    pub fn end(&mut self) -> Parsed<()> {
        match self.left.front() {
            None => Ok(()),
            Some(item) => Err(format!("expected the end of the line, got \"{item}\"")),
        }
    }
}

pub fn attribute(name: &str, value: &Value, max: u128) -> Parsed<u128> {
    let found = match value {
        Value::Atom(atom) if !atom.is_quoted => parse_number(&atom.text).filter(|it| *it <= max),
        _ => None,
    };
    found.ok_or_else(|| format!("{name}: expected a number up to {max}, got \"{value}\""))
}

/// Parses a number that P4Runtime carries as signed, but that is never negative.
pub fn count_of(name: &str, value: &Value) -> Parsed<i64> {
    attribute(name, value, i64::MAX as u128).map(|it| i64::try_from(it).unwrap_or(i64::MAX))
}

pub(super) fn u32_of(name: &str, value: &Value) -> Parsed<u32> {
    attribute(name, value, u128::from(u32::MAX)).map(|it| u32::try_from(it).unwrap_or(u32::MAX))
}

pub(super) fn i32_of(name: &str, value: &Value) -> Parsed<i32> {
    attribute(name, value, i32::MAX as u128).map(|it| i32::try_from(it).unwrap_or(i32::MAX))
}

/// Parses a time, such as `5s`, `1.5ms` or `100ns`; returns nanoseconds.
pub fn duration_of(name: &str, value: &Value) -> Parsed<i64> {
    let wrong =
        || format!("{name}: expected a time like 5s, 500ms, 10us or 100ns, got \"{value}\"");
    let Value::Atom(atom) = value else {
        return Err(wrong());
    };
    let unit_at = atom.text.find(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = atom.text.split_at(unit_at.unwrap_or(atom.text.len()));
    if digits == "0" && unit.is_empty() {
        return Ok(0);
    }
    let of_unit = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, ns)| *ns);
    let of_unit = of_unit.ok_or_else(wrong)?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) {
        return Err(wrong());
    }
    let whole: i64 = whole.parse().map_err(|_| wrong())?;
    let mut ns = whole.checked_mul(of_unit).ok_or_else(wrong)?;
    let mut of_digit = of_unit;
    for digit in part.bytes() {
        if of_digit % 10 != 0 && digit != b'0' {
            return Err(format!(
                "{name}: {} is no whole number of nanoseconds",
                atom.text
            ));
        }
        of_digit /= 10;
        ns = ns
            .checked_add(i64::from(digit - b'0') * of_digit)
            .ok_or_else(wrong)?;
    }
    Ok(ns)
}

pub fn hex_of(name: &str, value: &Value) -> Parsed<Vec<u8>> {
    let wrong = || format!("{name}: expected bytes in hexadecimal like 0x0102, got \"{value}\"");
    let Value::Atom(atom) = value else {
        return Err(wrong());
    };
    let digits = atom.text.strip_prefix("0x").unwrap_or(&atom.text);
    let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
    bytes.map_err(|_| wrong())
}

/// Takes the next item, which must be a set `{...}`, and returns the set's members.
pub fn set(items: &mut Items, what: &str) -> Parsed<Vec<Vec<Item>>> {
    match items.next() {
        Some(Item::Value(Value::Set(members))) => Ok(members),
        Some(item) => Err(format!("expected {what}, got \"{item}\"")),
        None => Err(format!("expected {what}, the line ends")),
    }
}

pub fn number_u32(items: &mut Items, what: &str) -> Parsed<u32> {
    let found = items.expect_number(what, u128::from(u32::MAX))?;
    Ok(u32::try_from(found).unwrap_or(u32::MAX))
}
