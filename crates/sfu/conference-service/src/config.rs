//! The configuration file.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use conference::address::Mac;
use conference::limits::PORT_MAX;
use conference_api::Name;
use serde::Deserialize;

use crate::rows::OwnAddress;

/// The UDP port for media, if none is given: RTP's (RFC 3551, section 8).
pub const MEDIA_PORT: u16 = 5004;

/// A service's configuration. A key that it does not have is refused with its line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the service serves HTTP.
    pub listen: SocketAddr,
    /// The store's file.
    pub store: PathBuf,
    /// Files with secrets whose tokens (HS256) are good; one of at least 32 bytes each.
    #[serde(default)]
    pub secrets: Vec<PathBuf>,
    /// Files with Ed25519 public keys (PEM) whose tokens (EdDSA) are good.
    #[serde(default)]
    pub public_keys: Vec<PathBuf>,
    /// After how many seconds a silent socket is signed out.
    #[serde(default = "silence_s")]
    pub silence_s: u64,
    /// The switch.
    pub switch: SwitchConfig,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Its name.
    pub name: Name,
    /// Where it serves P4Runtime: HOST:PORT, or unix:PATH.
    pub p4runtime: String,
    /// Its P4Runtime device id.
    #[serde(default = "device_id")]
    pub device_id: u64,
    /// Its addresses for media.
    pub addresses: Vec<AddressConfig>,
}

/// An address of a switch for media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressConfig {
    /// The switch's port.
    pub port: u16,
    /// The IP address.
    pub ip: IpAddr,
    /// The MAC address.
    pub mac: Mac,
    /// The UDP port.
    #[serde(default = "media_port")]
    pub udp_port: u16,
}

fn silence_s() -> u64 {
    30
}

fn device_id() -> u64 {
    1
}

fn media_port() -> u16 {
    MEDIA_PORT
}

/// Why a text is no configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    /// It is no TOML, or a key is missing, unknown or of another type.
    #[error("{0}")]
    Text(String),
    /// A value cannot be.
    #[error("{key}: expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What can be.
        expected: &'static str,
    },
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The text is none; the message has line and column.
    pub fn read(text: &str) -> Result<Config, BadConfig> {
        let config: Config = toml::from_str(text)
            .map_err(|error| BadConfig::Text(error.to_string().trim_end().to_owned()))?;
        let bad = |key, expected| Err(BadConfig::Value { key, expected });
        if config.switch.addresses.is_empty() {
            return bad(
                "switch.addresses",
                "at least one address, to which hosts send media",
            );
        }
        if config.secrets.is_empty() && config.public_keys.is_empty() {
            return bad(
                "secrets",
                "a file with a secret, or one in public_keys: without them no token is good",
            );
        }
        let mut addresses = config.switch.addresses.iter();
        if !addresses.all(|it| (1..=PORT_MAX).contains(&it.port) && it.udp_port > 0) {
            return bad(
                "switch.addresses",
                "ports of the switch (1 to 509), and UDP ports (1 to 65535)",
            );
        }
        if config.silence_s < 5 {
            return bad(
                "silence_s",
                "5 or more: hosts say hello every second, and the switch is read every other",
            );
        }
        Ok(config)
    }

    /// After how long a silent socket is signed out.
    #[must_use]
    pub fn silence(&self) -> Duration {
        Duration::from_secs(self.silence_s)
    }
}

impl From<&AddressConfig> for OwnAddress {
    fn from(config: &AddressConfig) -> OwnAddress {
        OwnAddress {
            port: config.port,
            address: config.ip,
            mac: config.mac.0,
            media_port: config.udp_port,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
listen = "127.0.0.1:8080"
store = "/var/lib/reprise/store"
secrets = ["/etc/reprise/secret"]

[switch]
name = "s1"
p4runtime = "127.0.0.1:9559"
addresses = [{ port = 1, ip = "10.0.1.100", mac = "02:00:00:00:01:64" }]
"#;

    #[test]
    fn what_is_left_out_has_its_default() {
        let config = Config::read(GOOD).expect("it is good");
        assert_eq!((config.silence_s, config.switch.device_id), (30, 1));
        let own = OwnAddress::from(&config.switch.addresses[0]);
        assert_eq!((own.port, own.media_port, own.mac[5]), (1, 5004, 0x64));
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line() {
        let why = |from: &str, to: &str| {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            Config::read(&text).expect_err("refused").to_string()
        };
        let unknown = why("store =", "stroe =");
        assert!(
            unknown.contains("line 3") && unknown.contains("stroe"),
            "{unknown}"
        );
        let mac = why("02:00:00:00:01:64", "02:00:00:00:01");
        assert!(mac.contains("expected an Ethernet address"), "{mac}");
        let name = why("\"s1\"", "\"s 1\"");
        assert!(name.contains("expected a name of"), "{name}");
        assert!(why("[\"/etc/reprise/secret\"]", "[]").starts_with("secrets: expected"));
        let addresses = why(
            "[{ port = 1, ip = \"10.0.1.100\", mac = \"02:00:00:00:01:64\" }]",
            "[]",
        );
        assert!(addresses.starts_with("switch.addresses: expected"));
        assert!(why("port = 1,", "port = 510,").starts_with("switch.addresses: expected"));
        assert!(
            why("port = 1,", "port = 1, udp_port = 0,").starts_with("switch.addresses: expected")
        );
    }
}
