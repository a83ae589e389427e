//! Values of match fields and action parameters as in the P4 tutorials: numbers, Ethernet, IPv4 and IPv6 addresses.

use p4runtime_client::Kind;
use p4runtime_client::bytestring::{
    IPV4_BITS, IPV6_BITS, MAC_BITS, address_text, canonical, hex, n_bits, number, parse,
    twos_complement,
};
use serde_json::Value;

use super::node::{FileError, Node};

/// Converts a value to a byte string. A list with one item is converted as this item.
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
        Value::String(text) => parse(text, bits).map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    let found = canonical(&found);
    if n_bits(&found) > bits {
        return Err(wrong());
    }
    Ok(found)
}

/// Formats a value for an operator: as an address if the width or the name suggests one, else as a number.
pub fn text(bytes: &[u8], kind: Kind, name: &str) -> String {
    let Kind::Bits(bits) = kind else {
        return format!("\"{}\"", String::from_utf8_lossy(bytes));
    };
    let name = name.to_ascii_lowercase();
    let is_address = match bits {
        MAC_BITS => true,
        IPV4_BITS | IPV6_BITS => ["addr", "ip"].iter().any(|part| name.contains(part)),
        _ => false,
    };
    let address = address_text(bytes, bits).filter(|_| is_address);
    address.unwrap_or_else(|| number(bytes).map_or_else(|| hex(bytes), |n| n.to_string()))
}
