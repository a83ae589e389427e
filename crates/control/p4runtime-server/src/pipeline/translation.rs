//! Converts values between the form in which controllers write them and the form in which the data plane holds them
//! (`@p4runtime_translation`).
//!
//! A number that a controller writes stays the same number in the data plane, even if its width differs there. A string
//! is called a name here, and [`Names`] maps it to a number of the data plane. Source: P4Runtime 1.5.0, "User-defined
//! Types" and "PSA Metadata Translation"; PINS defines the annotation `@p4runtime_translation_mappings`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use bmv2_json::FieldWidth;
use p4runtime_proto::p4::config::v1::p4_new_type_spec::Representation;
use p4runtime_proto::p4::config::v1::p4_new_type_translation::SdnType;
use p4runtime_proto::p4::config::v1::{P4Info, P4NamedType, P4NewTypeSpec};
use tonic::Code;

use crate::bytestring;
use crate::device::lock;
use crate::error::{EntityError, EntityResult};
use crate::limits::NAME_BYTES_MAX;

/// How controllers write the values of a match field, a parameter or a packet's metadata.
#[derive(Clone)]
pub(crate) enum Values {
    /// Numbers, with their widths for controllers and in the data plane.
    Numbers {
        controller_bits: u32,
        data_bits: u32,
    },
    /// Strings.
    Names(Arc<Names>),
}

/// What to do with a name that has no number yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewNames {
    /// Give it a free number.
    Bound,
    /// Refuse it as not found, since no entry can have this name.
    Refused,
}

impl Values {
    pub(crate) fn to_data(
        &self,
        given: &[u8],
        new_names: NewNames,
        what: &str,
    ) -> EntityResult<Vec<u8>> {
        match self {
            Self::Numbers {
                controller_bits,
                data_bits,
            } => {
                let value = bytestring::parse(given, *controller_bits, what)?;
                let translated = || format!("{what}: translated to {data_bits} bits");
                if data_bits < controller_bits {
                    bytestring::parse(&value, *data_bits, translated())
                } else {
                    Ok(value)
                }
            }
            Self::Names(names) => names.number(given, new_names, what),
        }
    }

    /// Converts the data plane's number to the controller's value. A number that is too wide for the controller is
    /// not truncated.
    pub(crate) fn to_controller(&self, number: &[u8]) -> Vec<u8> {
        match self {
            Self::Numbers { .. } => number.to_vec(),
            Self::Names(names) => names.name(number),
        }
    }

    pub(crate) fn data_bits(&self) -> u32 {
        match self {
            Self::Numbers { data_bits, .. } => *data_bits,
            Self::Names(names) => names.data_bits,
        }
    }

    /// Returns the width of the values if it is the same for controllers and in the data plane; `None` if the widths
    /// differ. An LPM, ternary or range match is possible only if they are the same.
    pub(crate) fn common_bits(&self) -> Option<u32> {
        match self {
            Self::Numbers {
                controller_bits,
                data_bits,
            } if controller_bits == data_bits => Some(*data_bits),
            _ => None,
        }
    }

    pub(crate) fn names(&self) -> Option<&Arc<Names>> {
        match self {
            Self::Numbers { .. } => None,
            Self::Names(names) => Some(names),
        }
    }
}

/// The names of one type and their numbers in the data plane.
///
/// A name that the annotation `@p4runtime_translation_mappings` lists has the number given there. A name that is a
/// decimal number stands for this number, so that controllers can write ports as numbers. Any other name gets the
/// highest number without a name. The name keeps the number as long as an entry uses the name, and then until another
/// name needs the number. When a number without a name is read, the reader gets its decimal digits.
pub(crate) struct Names {
    type_name: String,
    data_bits: u32,
    bound: Mutex<Bound>,
}

#[derive(Default)]
struct Bound {
    numbers: HashMap<Vec<u8>, u64>,
    names: BTreeMap<u64, Vec<u8>>,
    /// Numbers to which the program gives names.
    fixed: BTreeSet<u64>,
    /// Incremented whenever names are bound or forgotten.
    n_changes: u64,
}

impl Bound {
    fn bind(&mut self, name: &[u8], number: u64) {
        self.n_changes += 1;
        self.numbers.insert(name.to_vec(), number);
        self.names.insert(number, name.to_vec());
    }

    /// Returns the highest number, up to `highest`, that has no name.
    fn free(&self, highest: u64) -> Option<u64> {
        let mut free = Some(highest);
        for taken in self.names.keys().rev() {
            match free {
                Some(number) if number == *taken => free = number.checked_sub(1),
                _ => break,
            }
        }
        free
    }
}

impl Names {
    fn new(type_name: &str, data_bits: u32, mappings: &[(Vec<u8>, u64)]) -> Result<Self, String> {
        let mut bound = Bound::default();
        let highest = highest(data_bits);
        for (name, number) in mappings {
            let shown = shown(name);
            if *number > highest {
                return Err(format!(
                    "the mapping of \"{shown}\" needs more than {data_bits} bits"
                ));
            }
            if bound.numbers.contains_key(name) || bound.names.contains_key(number) {
                return Err(format!("\"{shown}\" or {number} is mapped twice"));
            }
            bound.bind(name, *number);
            bound.fixed.insert(*number);
        }
        Ok(Self {
            type_name: type_name.into(),
            data_bits,
            bound: Mutex::new(bound),
        })
    }

    fn number(&self, name: &[u8], new_names: NewNames, what: &str) -> EntityResult<Vec<u8>> {
        let what = format!("{what}: \"{}\"", shown(name));
        if name.len() > NAME_BYTES_MAX {
            return Err(EntityError::invalid(format!(
                "{what}: expected a name of {NAME_BYTES_MAX} bytes at most, found {}",
                name.len()
            )));
        }
        let mut bound = lock(&self.bound);
        if let Some(number) = bound.numbers.get(name) {
            return Ok(bytes(*number));
        }
        if let Some(digits) = decimal(name) {
            let number = self.decimal(digits, &bound, &what)?;
            if new_names == NewNames::Bound {
                bound.bind(name, number);
            }
            return Ok(bytes(number));
        }
        if new_names == NewNames::Refused {
            return Err(EntityError::not_found(format!(
                "{what}: no entry has this name of type {}",
                self.type_name
            )));
        }
        let number = bound.free(highest(self.data_bits)).ok_or_else(|| {
            EntityError::new(
                Code::ResourceExhausted,
                format!(
                    "{what}: type {} has {} bits in the data plane, and all its numbers have names",
                    self.type_name, self.data_bits
                ),
            )
        })?;
        bound.bind(name, number);
        Ok(bytes(number))
    }

    /// Returns the number whose decimal digits are the name; fails if the number has another name.
    fn decimal(&self, digits: &str, bound: &Bound, what: &str) -> EntityResult<u64> {
        let number = digits.parse().ok();
        let number = number.filter(|number| *number <= highest(self.data_bits));
        let number: u64 = number.ok_or_else(|| {
            let bits = self.data_bits;
            let message = format!("{what}: expected a number of {bits} bits at most");
            EntityError::new(Code::OutOfRange, message)
        })?;
        match bound.names.get(&number) {
            None => Ok(number),
            Some(other) => Err(EntityError::invalid(format!(
                "{what}: this number of type {} has the name \"{}\"",
                self.type_name,
                shown(other)
            ))),
        }
    }

    fn name(&self, number: &[u8]) -> Vec<u8> {
        let of_bytes = |number: &[u8]| {
            let wide = number.iter().try_fold(0_u64, |n, byte| {
                n.checked_mul(256).map(|shifted| shifted + u64::from(*byte))
            });
            wide.map(|number| (number, number.to_string()))
        };
        match of_bytes(number) {
            // The number is wider than any number that has a name.
            None => number.to_vec(),
            Some((number, decimal)) => {
                let bound = lock(&self.bound);
                let name = bound.names.get(&number).cloned();
                name.unwrap_or_else(|| decimal.into_bytes())
            }
        }
    }

    pub(crate) fn type_name(&self) -> &str {
        &self.type_name
    }

    pub(crate) fn n_changes(&self) -> u64 {
        lock(&self.bound).n_changes
    }

    pub(crate) fn all(&self) -> Vec<(Vec<u8>, u64)> {
        let bound = lock(&self.bound);
        let names = bound.names.iter();
        names
            .map(|(number, name)| (name.clone(), *number))
            .collect()
    }

    /// Binds names to the numbers they had before a restart.
    pub(crate) fn bind_again(&self, names: &[(Vec<u8>, u64)]) {
        let mut bound = lock(&self.bound);
        for (name, number) in names {
            bound.bind(name, *number);
        }
    }

    /// Forgets every name except the names that the program defines and the names of the numbers in `used`.
    fn keep(&self, used: &BTreeSet<Vec<u8>>) {
        let bound = &mut *lock(&self.bound);
        let Bound {
            numbers,
            names,
            fixed,
            n_changes,
        } = bound;
        *n_changes += 1;
        names.retain(|number, _| fixed.contains(number) || used.contains(&bytes(*number)));
        numbers.retain(|_, number| names.contains_key(number));
    }
}

/// The highest number of this width that can have a name.
fn highest(bits: u32) -> u64 {
    match bits {
        0..=63 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

fn bytes(number: u64) -> Vec<u8> {
    bytestring::canonical(&number.to_be_bytes())
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Returns the digits of a name if the name is a decimal number without leading zeros. Reads return decimal numbers in
/// this form.
fn decimal(name: &[u8]) -> Option<&str> {
    let is_decimal = match name {
        [] => false,
        [b'0'] => true,
        [first, rest @ ..] => (b'1'..=b'9').contains(first) && rest.iter().all(u8::is_ascii_digit),
    };
    is_decimal.then(|| std::str::from_utf8(name).ok())?
}

/// Collects the translated types of a P4Info while the P4Info's objects are bound to those of the program.
pub(super) struct Types<'a> {
    p4info: &'a P4Info,
    names: BTreeMap<String, Arc<Names>>,
}

impl<'a> Types<'a> {
    pub(super) fn new(p4info: &'a P4Info) -> Self {
        Self {
            p4info,
            names: BTreeMap::new(),
        }
    }

    /// Returns the `Names` of each type that is translated to strings and that a bound object has.
    pub(super) fn into_names(self) -> Vec<Arc<Names>> {
        self.names.into_values().collect()
    }

    pub(super) fn is_translated(&self, named: Option<&P4NamedType>) -> bool {
        self.translation(named).is_some()
    }

    fn translation(
        &self,
        named: Option<&P4NamedType>,
    ) -> Option<(&'a str, &'a P4NewTypeSpec, SdnType)> {
        let name = &named?.name;
        let (name, spec) = self
            .p4info
            .type_info
            .as_ref()?
            .new_types
            .get_key_value(name)?;
        match spec.representation.as_ref()? {
            Representation::OriginalType(_) => None,
            Representation::TranslatedType(translated) => Some((name, spec, translated.sdn_type?)),
        }
    }

    /// How controllers write values of a translated type that has `data_bits` in the data plane.
    pub(super) fn values_of(
        &mut self,
        named: &P4NamedType,
        data_bits: u32,
    ) -> Result<Values, String> {
        let controller_bits = match self.translation(Some(named)) {
            Some((_, _, SdnType::SdnBitwidth(bits))) => bits,
            _ => 0,
        };
        self.values(Some(named), controller_bits, data_bits)
    }

    /// How controllers write values that have `controller_bits` in the P4Info and `data_bits` in the data plane. Fails
    /// if the widths do not fit the type.
    pub(super) fn values(
        &mut self,
        named: Option<&P4NamedType>,
        controller_bits: i32,
        data_bits: u32,
    ) -> Result<Values, String> {
        let found = u32::try_from(controller_bits).unwrap_or(0);
        let (expected, names) = match self.translation(named) {
            None => (data_bits, None),
            Some((_, _, SdnType::SdnBitwidth(bits))) => (u32::try_from(bits).unwrap_or(0), None),
            Some((name, spec, SdnType::SdnString(_))) => (0, Some((name, spec))),
        };
        // Enums and errors without an underlying type have no width in the P4Info.
        let is_unset = found == 0 && self.translation(named).is_none();
        if found != expected && !is_unset {
            return Err(format!("has {found} bits, expected {expected}"));
        }
        match names {
            None => Ok(Values::Numbers {
                controller_bits: expected,
                data_bits,
            }),
            Some((name, spec)) => Ok(Values::Names(self.names(name, spec, data_bits)?)),
        }
    }

    fn names(
        &mut self,
        name: &str,
        spec: &P4NewTypeSpec,
        data_bits: u32,
    ) -> Result<Arc<Names>, String> {
        if let Some(names) = self.names.get(name) {
            return if names.data_bits == data_bits {
                Ok(Arc::clone(names))
            } else {
                Err(format!(
                    "has type {name} in {data_bits} bits, elsewhere it has {}",
                    names.data_bits
                ))
            };
        }
        let of_type = |message: String| format!("type {name}: {message}");
        let mappings = mappings(spec).map_err(of_type)?;
        let names = Names::new(name, data_bits, &mappings).map_err(of_type)?;
        let names = Arc::new(names);
        self.names.insert(name.into(), Arc::clone(&names));
        Ok(names)
    }
}

/// Parses `@p4runtime_translation_mappings({{"name", number}, ...})`.
fn mappings(spec: &P4NewTypeSpec) -> Result<Vec<(Vec<u8>, u64)>, String> {
    const ANNOTATION: &str = "@p4runtime_translation_mappings";
    let Some(text) = spec
        .annotations
        .iter()
        .find_map(|text| text.strip_prefix(ANNOTATION))
    else {
        return Ok(Vec::new());
    };
    let text = without_comments(text);
    let wrong = || {
        let found = text.trim();
        format!("expected {ANNOTATION}({{{{\"name\", number}}, ...}}), found {found}")
    };
    let mut mappings = Vec::new();
    let mut rest = text
        .trim()
        .strip_prefix('(')
        .ok_or_else(wrong)?
        .trim_start();
    rest = rest.strip_prefix('{').ok_or_else(wrong)?.trim_start();
    while let Some(pair) = rest.strip_prefix('{') {
        let quoted = pair.trim_start().strip_prefix('"').ok_or_else(wrong)?;
        let (name, after) = quoted.split_once('"').ok_or_else(wrong)?;
        let (number, after) = after.split_once('}').ok_or_else(wrong)?;
        let number = number.trim().strip_prefix(',').ok_or_else(wrong)?;
        let number = integer(number.trim()).ok_or_else(wrong)?;
        mappings.push((name.as_bytes().to_vec(), number));
        let after = after.trim_start();
        rest = after.strip_prefix(',').unwrap_or(after).trim_start();
    }
    match rest.strip_prefix('}').map(str::trim) {
        Some(")") => Ok(mappings),
        _ => Err(wrong()),
    }
}

/// Removes comments: an annotation's text is copied from the source, comments included.
fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let comment_end = match rest.get(..2) {
            Some("//") => Some("\n"),
            Some("/*") => Some("*/"),
            _ => None,
        };
        let (kept_bytes, skipped) = match comment_end {
            Some(end) => {
                let inside = rest.get(2..).unwrap_or_default();
                let len = inside.find(end).map_or(inside.len(), |at| at + end.len());
                (0, 2 + len)
            }
            // Within a string, `//` and `/*` do not begin a comment.
            None if first == '"' => {
                let len = rest[1..].find('"').map_or(rest.len(), |at| at + 2);
                (len, len)
            }
            None => (first.len_utf8(), first.len_utf8()),
        };
        kept.push_str(&rest[..kept_bytes]);
        rest = &rest[skipped..];
    }
    kept
}

fn integer(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// For each type that is translated to strings, the numbers that entries use.
#[derive(Default)]
pub(crate) struct NamesInUse(BTreeMap<String, BTreeSet<Vec<u8>>>);

impl NamesInUse {
    pub(crate) fn add(&mut self, values: &Values, number: &[u8]) {
        if let Some(names) = values.names() {
            let of_type = self.0.entry(names.type_name.clone()).or_default();
            of_type.insert(number.to_vec());
        }
    }
}

pub(super) fn keep(names: &[Arc<Names>], used: &NamesInUse) {
    let none = BTreeSet::new();
    for names in names {
        names.keep(used.0.get(&names.type_name).unwrap_or(&none));
    }
}

/// Returns the widths that the fields of a controller header have in the data plane. They are the widths in the
/// program's header type that has the same fields in the same order. Returns `None` if the program has no such header
/// type. `fields` has the name of each field, and its width if the field is not translated.
///
/// # Errors
/// Every header type with these fields has other widths: packets would be decoded wrongly.
pub(super) fn header_bits(
    json: &bmv2_json::Program,
    fields: &[(&str, Option<u32>)],
) -> Result<Option<Vec<u32>>, String> {
    let width = |field: &bmv2_json::Field| match field.width {
        FieldWidth::Fixed(bits) => Some(bits),
        FieldWidth::Variable => None,
    };
    let mut of_other_widths = None;
    for of in &json.header_types {
        let names = of.fields.iter().map(|field| &*field.name);
        if !names.eq(fields.iter().map(|(name, _)| *name)) {
            continue;
        }
        let Some(found) = of.fields.iter().map(width).collect::<Option<Vec<u32>>>() else {
            continue;
        };
        let mut pairs = fields.iter().zip(&found);
        if pairs.all(|((_, declared), found)| declared.is_none_or(|declared| declared == *found)) {
            return Ok(Some(found));
        }
        of_other_widths = of_other_widths.or(Some((&of.name, found)));
    }
    match of_other_widths {
        None => Ok(None),
        Some((name, found)) => Err(format!(
            "its fields have {} bits, but the fields of header type \"{name}\" in the device config have {}",
            list(
                fields
                    .iter()
                    .map(|(_, bits)| bits.map_or("any".to_owned(), |bits| bits.to_string()))
            ),
            list(found.iter().map(u32::to_string)),
        )),
    }
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bits: u32, mappings: &[(&str, u64)]) -> Names {
        let mappings: Vec<_> = mappings
            .iter()
            .map(|(name, number)| (name.as_bytes().to_vec(), *number))
            .collect();
        Names::new("vrf_t", bits, &mappings).unwrap()
    }

    fn number(names: &Names, name: &str) -> Result<Vec<u8>, Code> {
        let number = names.number(name.as_bytes(), NewNames::Bound, "f");
        number.map_err(|error| error.code)
    }

    #[test]
    fn a_name_is_a_number_of_its_own_and_is_read_back() {
        let names = names(3, &[("", 0)]);
        assert_eq!(number(&names, ""), Ok(vec![0]));
        assert_eq!(number(&names, "a"), Ok(vec![7]));
        assert_eq!(number(&names, "5"), Ok(vec![5]));
        assert_eq!(number(&names, "b"), Ok(vec![6]));
        assert_eq!(number(&names, "c"), Ok(vec![4]));
        assert_eq!(number(&names, "a"), Ok(vec![7]));
        let read = |number: u8| String::from_utf8(names.name(&[number])).unwrap();
        assert_eq!([0, 1, 5, 7].map(read), ["", "1", "5", "a"]);
        // 7 and 0 have other names, 8 is too wide, and the name x is unknown.
        assert_eq!(number(&names, "7"), Err(Code::InvalidArgument));
        assert_eq!(number(&names, "0"), Err(Code::InvalidArgument));
        assert_eq!(number(&names, "8"), Err(Code::OutOfRange));
        let unknown = names.number(b"x", NewNames::Refused, "f").unwrap_err();
        assert_eq!(unknown.code, Code::NotFound);
        // Digits with a leading zero are a name, not a number.
        assert_eq!(number(&names, "03"), Ok(vec![3]));
    }

    #[test]
    fn names_that_nobody_uses_make_room() {
        let names = names(2, &[("", 0)]);
        for (name, expected) in [("a", 3), ("b", 2), ("c", 1)] {
            assert_eq!(number(&names, name), Ok(vec![expected]));
        }
        assert_eq!(number(&names, "d"), Err(Code::ResourceExhausted));
        names.keep(&BTreeSet::from([vec![2]]));
        assert_eq!(number(&names, "d"), Ok(vec![3]));
        assert_eq!(number(&names, "b"), Ok(vec![2]));
        assert_eq!(number(&names, ""), Ok(vec![0]));
    }

    #[test]
    fn mappings_are_read_as_p4c_and_we_write_them() {
        let read = |text: &str| {
            let annotations = vec![format!("@p4runtime_translation_mappings{text}")];
            mappings(&P4NewTypeSpec {
                annotations,
                ..Default::default()
            })
        };
        let expected = vec![(vec![], 0), (b"x".to_vec(), 16)];
        assert_eq!(read("({{\"\",0},{\"x\",0x10}})"), Ok(expected.clone()));
        assert_eq!(
            read(" ( { { \"\" , 0 } , { \"x\" , 16 } , } )"),
            Ok(expected)
        );
        let commented = "({\n // the \"default\"\n {\"//\", 0}, /* {\"x\", 1} */\n})";
        assert_eq!(read(commented), Ok(vec![(b"//".to_vec(), 0)]));
        for wrong in ["", "()", "({\"\", 0})", "({{\"\"}})", "({{\"a\", b}})"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
