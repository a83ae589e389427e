//! How values of fields, parameters and cells are read and written: as numbers, addresses or names, by their type in
//! P4Info.

use std::net::Ipv6Addr;

use crate::bytestring::{
    IPV4_BITS, IPV6_BITS, MAC_BITS, Misfit, address_text, canonical, hex, number, padded, parse,
    short_hex,
};

/// The kind of a value: a number of a given width, or text (`@p4runtime_translation` to a string).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number of this width.
    Bits(u32),
    /// Text, because the program translates the value to a string.
    Text,
}

impl Kind {
    /// The kind for a width in P4Info. A string has no width in P4Info.
    pub fn of_bitwidth(bitwidth: i32) -> Kind {
        match u32::try_from(bitwidth) {
            Ok(0) | Err(_) => Kind::Text,
            Ok(bits) => Kind::Bits(bits),
        }
    }

    /// Describes how a user writes a value of this kind, for error messages.
    pub fn expected(self) -> String {
        match self {
            Kind::Text => "a string".to_owned(),
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

/// Placeholder for a value that the switch does not reveal.
pub const SECRET: &str = "<secret>";

/// Whether these annotations of an object, a field or a parameter include `@secret`.
pub fn is_secret(annotations: &[String]) -> bool {
    annotations.iter().any(|it| it == "@secret")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    Decimal,
    Hex,
    Mac,
    Ipv4,
    /// An IPv6 address. A shorter value consists of an address's leading bits, as in PINS.
    Ipv6,
}

/// The kind of a value, and how it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Number or text.
    pub kind: Kind,
    style: Style,
    /// Whether the value is secret: the switch returns zeros instead of it, and these zeros must not be written back.
    is_secret: bool,
}

impl Default for Format {
    fn default() -> Format {
        Format {
            kind: Kind::Bits(0),
            style: Style::Hex,
            is_secret: false,
        }
    }
}

impl Format {
    /// Chooses the format by the annotation `@format(...)`, which PINS' programs have. Without it, width and name
    /// decide.
    pub(crate) fn of(bitwidth: i32, name: &str, annotations: &[String]) -> Format {
        let kind = Kind::of_bitwidth(bitwidth);
        let is_secret = is_secret(annotations);
        let Kind::Bits(bits) = kind else {
            return Format {
                kind,
                style: Style::Decimal,
                is_secret,
            };
        };
        let annotated = annotations.iter().find_map(|it| {
            let inside = it.trim().strip_prefix("@format")?.trim();
            Some(inside.trim_matches(['(', ')', '"', ' ']))
        });
        let style = match (annotated, bits) {
            (Some("MAC_ADDRESS"), MAC_BITS) => Style::Mac,
            (Some("IPV4_ADDRESS"), IPV4_BITS) => Style::Ipv4,
            (Some("IPV6_ADDRESS"), 1..=IPV6_BITS) => Style::Ipv6,
            (Some("HEX_STRING"), _) => Style::Hex,
            _ => by_name(bits, name),
        };
        Format {
            kind,
            style,
            is_secret,
        }
    }

    /// Chooses the format of a register's cell or a digest's member. A value of 48 bits may be a time or an address:
    /// if it has no `@format`, its name decides.
    pub(crate) fn of_data(bitwidth: i32, name: &str, annotations: &[String]) -> Format {
        let format = Format::of(bitwidth, name, annotations);
        let name = name.to_ascii_lowercase();
        let is_address = ["addr", "mac", "src", "dst"]
            .iter()
            .any(|part| name.contains(part));
        let is_annotated = annotations.iter().any(|it| it.starts_with("@format"));
        match format.style {
            Style::Mac if !is_address && !is_annotated => Format {
                style: Style::Decimal,
                ..format
            },
            _ => format,
        }
    }

    /// Whether the switch hides the value.
    pub fn is_secret(self) -> bool {
        self.is_secret
    }

    /// The width; 0 for text.
    pub fn bits(self) -> u32 {
        match self.kind {
            Kind::Bits(bits) => bits,
            Kind::Text => 0,
        }
    }

    /// The value as a user types it.
    pub fn text(self, bytes: &[u8]) -> String {
        if self.is_secret {
            return SECRET.to_owned();
        }
        match (self.kind, self.style) {
            (Kind::Text, _) => match std::str::from_utf8(bytes) {
                Ok(text) => string_text(text),
                Err(_) => hex(bytes),
            },
            (Kind::Bits(0), _) | (_, Style::Hex) => short_hex(bytes),
            (Kind::Bits(bits), Style::Mac | Style::Ipv4) => {
                address_text(bytes, bits).unwrap_or_default()
            }
            (Kind::Bits(bits), Style::Ipv6) => {
                let address = u128::from_be_bytes(padded(bytes));
                let address = address.checked_shl(IPV6_BITS - bits).unwrap_or(0);
                Ipv6Addr::from(address).to_string()
            }
            (_, Style::Decimal) => {
                number(bytes).map_or_else(|| short_hex(bytes), |n| n.to_string())
            }
        }
    }

    /// An example of a value in this format, for messages about a missing value.
    pub fn example(self) -> &'static str {
        match (self.kind, self.style) {
            (Kind::Text, _) => "\"name\"",
            (_, Style::Mac) => "08:00:00:00:01:11",
            (_, Style::Ipv4) => "10.0.1.1",
            (_, Style::Ipv6) => "2001:db8::1",
            (_, Style::Hex) => "0x1f",
            (_, Style::Decimal) => "1",
        }
    }

    fn bytes(self, text: &str, is_quoted: bool) -> Result<Vec<u8>, String> {
        let bits = match self.kind {
            Kind::Text => return Ok(text.as_bytes().to_vec()),
            Kind::Bits(bits) => bits,
        };
        let expected = || match self.style {
            Style::Ipv6 if bits < IPV6_BITS => {
                format!(
                    "an IPv6 address like {}, or a number of {bits} bits",
                    self.example()
                )
            }
            _ => self.kind.expected(),
        };
        if is_quoted {
            return Err(format!("expected {}, got {}", expected(), quoted(text)));
        }
        if self.style == Style::Ipv6
            && bits < IPV6_BITS
            && let Ok(address) = text.parse::<Ipv6Addr>()
        {
            let rest = IPV6_BITS - bits;
            let address = u128::from(address);
            if address << bits != 0 {
                return Err(format!(
                    "expected an IPv6 address of which {bits} bits are used, the last {rest} of {text} are not 0"
                ));
            }
            return Ok(canonical(&(address >> rest).to_be_bytes()));
        }
        parse(&text.replace('_', ""), bits).map_err(|misfit| match misfit {
            Misfit::Bits(needed) => {
                format!("expected a number of {bits} bits, got {text}, which has {needed} bits")
            }
            Misfit::NoValue => format!("expected {}, got \"{text}\"", expected()),
        })
    }
}

/// Quotes a text unless it is unambiguous without quotes.
fn string_text(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-/.:".contains(c);
    let is_plain = !text.is_empty()
        && text.chars().all(is_word)
        && !text.contains("->")
        && !text.contains("..")
        && !text.starts_with('-');
    if is_plain {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Puts a text in quotes, and escapes the characters that a line cannot have.
pub fn quoted(text: &str) -> String {
    let mut all = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => all.extend(['\\', c]),
            '\n' => all.push_str("\\n"),
            '\t' => all.push_str("\\t"),
            '\r' => all.push_str("\\r"),
            c if !printable::is_harmless(c) => all.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => all.push(c),
        }
    }
    all + "\""
}

/// Chooses a style by width and name. A value of 48 bits is an address; a value of 32 or 128 bits is an address if its
/// name says so. A value of 16 bits whose name has "type", such as an EtherType, is shown in hexadecimal.
fn by_name(bits: u32, name: &str) -> Style {
    let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let whole = name.to_ascii_lowercase();
    let is_address = ["addr", "ip"].iter().any(|part| whole.contains(part))
        || ["src", "dst"].contains(&last.as_str());
    match bits {
        MAC_BITS => Style::Mac,
        IPV4_BITS if is_address => Style::Ipv4,
        IPV6_BITS if is_address => Style::Ipv6,
        16 if last.contains("type") => Style::Hex,
        _ => Style::Decimal,
    }
}

/// The type of a field, a parameter or a cell.
#[derive(Clone, Debug, Default)]
pub struct ValueType {
    /// How values of the type are written.
    pub format: Format,
    /// Names and values of a serializable enum.
    pub members: Vec<(String, Vec<u8>)>,
    /// For a translated type: the names that the program maps to numbers.
    pub names: Vec<String>,
}

impl ValueType {
    /// The value as a user types it: the name of an enum's member, an address, a number.
    pub fn text(&self, bytes: &[u8]) -> String {
        let canonical = canonical(bytes);
        let named = self.members.iter().find(|(_, it)| *it == canonical);
        match named {
            Some((name, _)) if !self.format.is_secret => name.clone(),
            _ => self.format.text(bytes),
        }
    }

    /// Parses a value. A quoted text is never a number or the name of an enum's member.
    ///
    /// # Errors
    /// The text is not a value of this type. The message says what was expected, and what was found.
    pub fn bytes(&self, text: &str, is_quoted: bool) -> Result<Vec<u8>, String> {
        let mut members = self.members.iter();
        let named = members.find(|(name, _)| !is_quoted && name == text);
        match named {
            Some((_, bytes)) => Ok(bytes.clone()),
            None => self.format.bytes(text, is_quoted).map_err(|message| {
                if self.members.is_empty() {
                    return message;
                }
                let names = self.members.iter().map(|(name, _)| name.as_str());
                match names::nearest(text, names.clone()) {
                    Some(near) => format!("{message}; did you mean {near}?"),
                    None => format!(
                        "{message}; or one of {}",
                        names.collect::<Vec<_>>().join(", ")
                    ),
                }
            }),
        }
    }

    /// All names that a value of this type can have.
    pub fn all_names(&self) -> Vec<&str> {
        let members = self.members.iter().map(|(name, _)| name.as_str());
        members
            .chain(self.names.iter().map(String::as_str))
            .collect()
    }
}
