//! The configuration file.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use conference::address::Mac;
use conference::limits::PORT_MAX;
use conference_api::{EventKind, Name};
use conference_store::{EtcdConfig, EtcdTls};
use p4runtime_client::{SwitchAddress, TlsFiles};
use serde::Deserialize;

use crate::limits::LimitsConfig;
use crate::rows::OwnAddress;

/// The UDP port for media, if none is given: the default port of RTP (RFC 3551, section 8).
pub const MEDIA_PORT: u16 = 5004;

/// The most webhooks of a service; each has a queue.
pub const WEBHOOKS_MAX: usize = 16;

/// A service's configuration. A file with an unknown key is refused, and the error names the line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the service serves HTTP.
    pub listen: SocketAddr,
    /// The store's file, if the store is not in etcd.
    pub store: Option<PathBuf>,
    /// How to reach etcd, if the store is in etcd.
    pub etcd: Option<EtcdSection>,
    /// Files that contain one secret each, of at least 32 bytes. The service accepts tokens (HS256) that were signed
    /// with one of these secrets.
    #[serde(default)]
    pub secrets: Vec<PathBuf>,
    /// Files with Ed25519 public keys (PEM). The service accepts tokens (EdDSA) whose signature one of them verifies.
    #[serde(default)]
    pub public_keys: Vec<PathBuf>,
    /// After how many seconds a silent socket is signed out.
    #[serde(default = "silence_s")]
    pub silence_s: u64,
    /// A participant is removed after this many seconds without a signed-in socket, without an event stream and without
    /// a request; 0: never.
    #[serde(default = "gone_s")]
    pub gone_s: u64,
    /// Whether metrics name conferences and participants.
    #[serde(default)]
    pub metrics_names: bool,
    #[serde(default)]
    pub log: LogFormat,
    /// The lowest level that the log contains.
    #[serde(default)]
    pub log_level: LogLevel,
    /// The files for HTTPS; without them, HTTP is served.
    pub tls: Option<TlsConfig>,
    /// How often clients may make requests.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Addresses to which the service also sends events.
    #[serde(default)]
    pub webhooks: Vec<WebhookConfig>,
    pub switch: SwitchConfig,
}

/// How the log is written to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON document a line.
    Json,
}

/// The lowest level that the log contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Failures only.
    Error,
    /// The same as `Error`, and what needs an operator's attention.
    Warn,
    /// The same as `Warn`, and what the service does.
    #[default]
    Info,
    /// The same as `Info`, and subscriptions, and ignored hellos with their addresses.
    Debug,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> tracing::Level {
        match level {
            LogLevel::Error => tracing::Level::ERROR,
            LogLevel::Warn => tracing::Level::WARN,
            LogLevel::Info => tracing::Level::INFO,
            LogLevel::Debug => tracing::Level::DEBUG,
        }
    }
}

/// Table `[tls]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The file with the certificate, followed by the intermediate certificates (PEM).
    pub certificate: PathBuf,
    /// The file with the certificate's key (PEM).
    pub key: PathBuf,
}

/// A table of `[[webhooks]]`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// Where events go: `http://` or `https://`.
    pub url: String,
    /// The file with the secret with which the service signs the events; it has at least 32 bytes.
    pub secret: PathBuf,
    /// The kinds of events that are sent to this address; if none is named, all events are sent.
    #[serde(default)]
    pub events: Vec<String>,
    /// The file with the certificates that sign the receiver's certificate. It is needed only if browsers do not trust
    /// the receiver's certificate.
    pub ca: Option<PathBuf>,
}

impl std::fmt::Debug for WebhookConfig {
    /// Leaves out the address, which may contain a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "webhook with secret {}", self.secret.display())
    }
}

/// Table `[etcd]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdSection {
    /// The nodes: `http://HOST:PORT`, or `https://HOST:PORT` with TLS.
    pub endpoints: Vec<String>,
    /// The prefix of all keys.
    #[serde(default = "prefix")]
    pub prefix: String,
    /// The file with the certificates that sign the nodes' certificates, for TLS.
    pub ca: Option<PathBuf>,
    /// The file with the service's certificate, if the nodes ask for one.
    pub certificate: Option<PathBuf>,
    /// The file with the certificate's key.
    pub key: Option<PathBuf>,
}

/// Where the service stores its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    File(PathBuf),
    Etcd(EtcdConfig),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    pub name: Name,
    /// The address at which the switch serves P4Runtime: HOST:PORT, or unix:PATH.
    pub p4runtime: String,
    /// The switch's P4Runtime device id.
    #[serde(default = "device_id")]
    pub device_id: u64,
    /// The files for TLS on the connection to the switch.
    pub tls: Option<SwitchTlsConfig>,
    /// The switch's addresses for media.
    pub addresses: Vec<AddressConfig>,
}

/// Table `[switch.tls]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchTlsConfig {
    /// The file with the certificates that sign the switch's certificate.
    pub ca: PathBuf,
    /// The file with the service's certificate, if the switch asks for one.
    pub certificate: Option<PathBuf>,
    /// The file with the certificate's key.
    pub key: Option<PathBuf>,
    /// The name in the switch's certificate, if it is not the address's host.
    pub server_name: Option<String>,
}

/// An address of a switch for media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressConfig {
    /// The switch's port.
    pub port: u16,
    pub ip: IpAddr,
    pub mac: Mac,
    #[serde(default = "media_port")]
    pub udp_port: u16,
}

fn silence_s() -> u64 {
    30
}

fn gone_s() -> u64 {
    60
}

fn prefix() -> String {
    "/reprise/".to_owned()
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
    /// The text is no TOML, or a key is missing, unknown or of another type.
    #[error("{0}")]
    Text(String),
    /// A value is not possible.
    #[error("{key}: expected {expected}")]
    Value {
        key: &'static str,
        expected: &'static str,
    },
}

/// Formats an error of `toml` in one line, with the error's line and column in the text. The message of `toml` itself
/// has several lines, whose line ends a log would escape.
fn in_a_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    let before = error.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => {
            let line = 1 + before.matches('\n').count();
            let column = 1 + before
                .rsplit('\n')
                .next()
                .map_or(0, |it| it.chars().count());
            format!("line {line}, column {column}: {message}")
        }
        None => message,
    }
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The text is no configuration; the message has line and column.
    pub fn read(text: &str) -> Result<Config, BadConfig> {
        let config: Config =
            toml::from_str(text).map_err(|error| BadConfig::Text(in_a_line(&error, text)))?;
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
        config.store()?;
        if config.silence_s < 5 {
            return bad(
                "silence_s",
                "5 or more: hosts say hello every second, and the switch is read every second",
            );
        }
        if (1..10).contains(&config.gone_s) {
            return bad(
                "gone_s",
                "0 (never), or 10 or more: programs that lose the service come back within seconds",
            );
        }
        config.switch.address()?;
        config.expect_good_webhooks()?;
        Ok(config)
    }

    fn expect_good_webhooks(&self) -> Result<(), BadConfig> {
        let bad = |key, expected| Err(BadConfig::Value { key, expected });
        if self.webhooks.len() > WEBHOOKS_MAX {
            return bad("webhooks", "16 or fewer");
        }
        for hook in &self.webhooks {
            let address = hook.url.parse::<http::Uri>().ok();
            let is_good = address.is_some_and(|it| {
                let has_host = it.host().is_some_and(|host| !host.is_empty());
                has_host && matches!(it.scheme_str(), Some("http" | "https"))
            });
            if !is_good {
                return bad("webhooks.url", "http://HOST... or https://HOST...");
            }
            let mut events = hook.events.iter();
            if !events.all(|name| EventKind::NAMES.contains(&name.as_str())) {
                return bad(
                    "webhooks.events",
                    "names of events, as GET /openapi.json has them: joined, left, signed_in, for example",
                );
            }
        }
        Ok(())
    }

    /// Returns the keys whose values differ in another configuration and which the service reads only when it starts.
    #[must_use]
    pub fn needs_restart(&self, other: &Config) -> Vec<&'static str> {
        let keys = [
            ("listen", self.listen == other.listen),
            ("store", self.store == other.store),
            ("etcd", self.etcd == other.etcd),
            ("log", self.log == other.log),
            ("log_level", self.log_level == other.log_level),
            ("switch", self.switch == other.switch),
            ("gone_s", self.gone_s == other.gone_s),
            ("metrics_names", self.metrics_names == other.metrics_names),
        ];
        let changed = keys.into_iter().filter(|(_, is_same)| !is_same);
        changed.map(|(key, _)| key).collect()
    }

    /// Returns where the service stores its records.
    ///
    /// # Errors
    /// Neither a file nor etcd is named, or both are, or the settings for etcd are not possible.
    pub fn store(&self) -> Result<StoreConfig, BadConfig> {
        match (&self.store, &self.etcd) {
            (Some(file), None) => Ok(StoreConfig::File(file.clone())),
            (None, Some(etcd)) => Ok(StoreConfig::Etcd(etcd.config()?)),
            _ => Err(BadConfig::Value {
                key: "store",
                expected: "a file, or a table [etcd] with endpoints; one of both",
            }),
        }
    }

    /// Returns after how long a participant that gives no sign of life is removed; `None`: never.
    #[must_use]
    pub fn gone(&self) -> Option<Duration> {
        (self.gone_s > 0).then(|| Duration::from_secs(self.gone_s))
    }

    /// After how long a silent socket is signed out.
    #[must_use]
    pub fn silence(&self) -> Duration {
        Duration::from_secs(self.silence_s)
    }
}

impl SwitchConfig {
    /// Returns where the switch is, and the files for TLS.
    ///
    /// # Errors
    /// The certificate is given without its key, or the key without its certificate.
    pub fn address(&self) -> Result<SwitchAddress, BadConfig> {
        let plain = SwitchAddress::plain(&self.p4runtime);
        let Some(tls) = &self.tls else {
            return Ok(plain);
        };
        if tls.certificate.is_some() != tls.key.is_some() {
            return Err(BadConfig::Value {
                key: "switch.tls",
                expected: "certificate and key, or neither",
            });
        }
        Ok(SwitchAddress {
            tls: Some(TlsFiles {
                authorities: tls.ca.clone(),
                identity: tls.certificate.clone().zip(tls.key.clone()),
                server_name: tls.server_name.clone(),
            }),
            ..plain
        })
    }
}

impl EtcdSection {
    fn config(&self) -> Result<EtcdConfig, BadConfig> {
        let bad = |key, expected| Err(BadConfig::Value { key, expected });
        let scheme = if self.ca.is_some() {
            "https://"
        } else {
            "http://"
        };
        if self.endpoints.is_empty() || !self.endpoints.iter().all(|it| it.starts_with(scheme)) {
            return bad(
                "etcd.endpoints",
                "one or more of http://HOST:PORT without etcd.ca, or of https://HOST:PORT with it",
            );
        }
        if !self.prefix.ends_with('/') {
            return bad("etcd.prefix", "a text that ends with /");
        }
        let identity = self.certificate.clone().zip(self.key.clone());
        let is_half = self.certificate.is_some() != self.key.is_some();
        if is_half || (identity.is_some() && self.ca.is_none()) {
            return bad("etcd.certificate", "also etcd.key and etcd.ca");
        }
        let ca = self.ca.clone();
        Ok(EtcdConfig {
            endpoints: self.endpoints.clone(),
            prefix: self.prefix.clone(),
            tls: ca.map(|ca| EtcdTls { ca, identity }),
        })
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
        assert_eq!(config.gone(), Some(Duration::from_secs(60)));
        assert!(!config.metrics_names);
        let never = Config::read(&format!("gone_s = 0{GOOD}")).expect("it is good");
        assert_eq!(never.gone(), None);
        let own = OwnAddress::from(&config.switch.addresses[0]);
        assert_eq!((own.port, own.media_port, own.mac[5]), (1, 5004, 0x64));
    }

    #[test]
    fn the_store_is_a_file_or_in_etcd() {
        let line = "store = \"/var/lib/reprise/store\"\n";
        let with = |etcd: &str| format!("{}\n[etcd]\n{etcd}", GOOD.replace(line, ""));
        let plain = with("endpoints = [\"http://a:2379\"]");
        let config = Config::read(&plain).expect("it is good");
        let Ok(StoreConfig::Etcd(etcd)) = config.store() else {
            unreachable!("{config:?}");
        };
        assert_eq!((etcd.prefix.as_str(), etcd.tls), ("/reprise/", None));
        let tls =
            "endpoints = [\"https://a:2379\"]\nca = \"/ca\"\ncertificate = \"/c\"\nkey = \"/k\"";
        let config = Config::read(&with(tls)).expect("it is good");
        let Ok(StoreConfig::Etcd(etcd)) = config.store() else {
            unreachable!("{config:?}");
        };
        let identity = etcd.tls.and_then(|tls| tls.identity);
        assert_eq!(identity, Some(("/c".into(), "/k".into())));
        let why = |text: &str| Config::read(text).expect_err("refused").to_string();
        let both = format!("{GOOD}\n[etcd]\nendpoints = [\"http://a:2379\"]");
        assert!(why(&both).starts_with("store: expected a file, or"));
        assert!(why(&GOOD.replace(line, "")).starts_with("store: expected a file, or"));
        for (etcd, key) in [
            ("endpoints = []", "etcd.endpoints"),
            ("endpoints = [\"https://a:2379\"]", "etcd.endpoints"),
            (
                "endpoints = [\"http://a:2379\"]\nprefix = \"/x\"",
                "etcd.prefix",
            ),
            (
                "endpoints = [\"http://a:2379\"]\nkey = \"/k\"",
                "etcd.certificate",
            ),
        ] {
            let why = why(&with(etcd));
            assert!(why.starts_with(&format!("{key}: expected")), "{why}");
        }
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
        let gone = why("store =", "gone_s = 9\nstore =");
        assert!(gone.starts_with("gone_s: expected 0 (never), or"), "{gone}");
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

    #[test]
    fn the_edge_has_defaults_and_refuses_what_cannot_be() {
        let config = Config::read(GOOD).expect("it is good");
        assert_eq!(
            (config.log, &config.tls, config.limits),
            (LogFormat::Text, &None, LimitsConfig::default())
        );
        let more = "
[switch.tls]
ca = \"/ca\"
certificate = \"/c\"
key = \"/k\"
server_name = \"s1\"
[tls]
certificate = \"/c\"
key = \"/k\"
[limits]
address = { per_second = 1, burst = 2 }
[[webhooks]]
url = \"https://h.example/a\"
secret = \"/s\"
events = [\"joined\"]
";
        let text = format!("log = \"json\"\n{GOOD}{more}");
        let config = Config::read(&text).expect("it is good");
        let address = config.switch.address().expect("it is good");
        let tls = address.tls.expect("TLS");
        assert_eq!(tls.server_name.as_deref(), Some("s1"));
        assert_eq!(config.limits.address.burst.get(), 2);
        assert_eq!(
            config.limits.participant,
            LimitsConfig::default().participant
        );
        let why = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            Config::read(&changed).expect_err("refused").to_string()
        };
        assert!(why("https://h.example", "ftp://h.example").starts_with("webhooks.url: expected"));
        assert!(why("https://h.example/a", "/a").starts_with("webhooks.url: expected"));
        assert!(why("\"joined\"", "\"joind\"").starts_with("webhooks.events: expected"));
        assert!(why("per_second = 1", "per_second = 0").contains("line "));
        assert_eq!(
            why("\"json\"", "\"xml\""),
            "line 1, column 7: unknown variant `xml`, expected `text` or `json`"
        );
        let half = why("ca = \"/ca\"\ncertificate = \"/c\"\n", "ca = \"/ca\"\n");
        assert!(half.starts_with("switch.tls: expected"), "{half}");
        let shown = format!("{config:?}");
        assert!(!shown.contains("h.example"), "{shown}");
    }

    #[test]
    fn what_needs_a_restart_is_known() {
        let old = Config::read(GOOD).expect("it is good");
        let changed = |from: &str, to: &str| {
            let new = Config::read(&GOOD.replace(from, to)).expect("it is good");
            assert_ne!(new, old);
            old.needs_restart(&new)
        };
        assert_eq!(changed("8080", "8081"), ["listen"]);
        assert_eq!(changed("/var/lib", "/srv"), ["store"]);
        assert_eq!(changed("9559", "9560"), ["switch"]);
        assert_eq!(changed("listen", "log = \"json\"\nlisten"), ["log"]);
        let level = "log_level = \"debug\"\nlisten";
        assert_eq!(changed("listen", level), ["log_level"]);
        assert_eq!(changed("listen", "gone_s = 10\nlisten"), ["gone_s"]);
        let names = "metrics_names = true\nlisten";
        assert_eq!(changed("listen", names), ["metrics_names"]);
        assert_eq!(
            changed("/secret", "/other"),
            Vec::<&str>::new(),
            "a reload takes it"
        );
        assert_eq!(
            changed("listen", "silence_s = 9\nlisten"),
            Vec::<&str>::new()
        );
    }
}
