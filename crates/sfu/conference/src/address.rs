//! Ethernet and IPv4 addresses in an operator's notation, and which of them can belong to a host.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use p4runtime_client::bytestring;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An Ethernet address; as text, six pairs of hexadecimal digits separated by colons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Why no host can have this address; `None` if a host can.
    pub fn unfit_for_host(self) -> Option<&'static str> {
        if self.0 == [0; 6] {
            Some("all zero")
        } else if self.0[0] & 1 == 1 {
            Some("a multicast address")
        } else {
            None
        }
    }

    /// The address as a 48-bit number.
    pub fn to_u64(self) -> u64 {
        self.0
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    /// Takes the address from the low 48 bits.
    pub fn from_u64(value: u64) -> Mac {
        let [_, _, bytes @ ..] = value.to_be_bytes();
        Mac(bytes)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bytestring::mac_text(self.0))
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not an Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an Ethernet address like 02:00:00:00:00:05, got \"{0}\"")]
pub struct MacParseError(String);

impl FromStr for Mac {
    type Err = MacParseError;

    fn from_str(text: &str) -> Result<Mac, MacParseError> {
        let mac = bytestring::mac(text).map(Mac);
        mac.ok_or_else(|| MacParseError(text.to_owned()))
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mac, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Why no host can have this IPv4 address; `None` if a host can.
pub fn unfit_for_host(ip: Ipv4Addr) -> Option<&'static str> {
    if ip.is_unspecified() {
        Some("the unspecified address")
    } else if ip.is_multicast() {
        Some("a multicast address")
    } else if ip.is_broadcast() {
        Some("the broadcast address")
    } else if ip.is_loopback() {
        Some("a loopback address")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_read_and_written_in_one_notation() {
        let mac: Mac = "02:00:5E:00:00:ff".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:5e:00:00:ff");
        assert_eq!(Mac::from_u64(mac.to_u64()), mac);
        assert_eq!(mac.to_u64(), 0x0200_5e00_00ff);
    }

    #[test]
    fn what_is_no_mac_is_refused_with_the_text() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:05:06",
            "2:0:0:0:0:5",
            "02-00-00-00-00-05",
            "+2:00:00:00:00:05",
            "02:00:00:00:00:0g",
        ] {
            let error = text.parse::<Mac>().unwrap_err().to_string();
            assert!(error.contains(&format!("\"{text}\"")), "{error}");
        }
    }

    #[test]
    fn addresses_no_host_can_have_are_told_apart() {
        assert_eq!(Mac([0; 6]).unfit_for_host(), Some("all zero"));
        assert_eq!(Mac([0xff; 6]).unfit_for_host(), Some("a multicast address"));
        assert_eq!(Mac([2, 0, 0, 0, 0, 5]).unfit_for_host(), None);
        assert!(unfit_for_host(Ipv4Addr::new(224, 0, 0, 1)).is_some());
        assert!(unfit_for_host(Ipv4Addr::UNSPECIFIED).is_some());
        assert!(unfit_for_host(Ipv4Addr::BROADCAST).is_some());
        assert!(unfit_for_host(Ipv4Addr::LOCALHOST).is_some());
        assert!(unfit_for_host(Ipv4Addr::new(10, 0, 1, 5)).is_none());
    }
}
