use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Ip(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Whether other machines can reach the address.
    pub fn is_beyond_this_machine(&self) -> bool {
        match self {
            Address::Ip(address) => !address.ip().is_loopback(),
            Address::Unix(_) => false,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match unix_path(text) {
            Some(path) => path.map(Address::Unix),
            None => text
                .parse()
                .map(Address::Ip)
                .map_err(|_| format!("expected IP-ADDRESS:PORT or unix:PATH, found \"{text}\"")),
        }
    }
}

/// Parses `unix:PATH` or `unix:///PATH`; `None` for any other text.
///
/// # Errors
/// The text names no file. The message says why.
pub fn unix_path(text: &str) -> Option<Result<PathBuf, String>> {
    if text.starts_with("unix-abstract:") {
        return Some(Err(ABSTRACT.to_owned()));
    }
    let rest = text.strip_prefix("unix:")?;
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => {
            return Some(Err(format!(
                "expected unix:PATH or unix:///PATH, found \"{text}\""
            )));
        }
        None => rest,
    };
    Some(match path {
        "" => Err("expected a file behind \"unix:\", found none".to_owned()),
        path if path.starts_with(['@', '\0']) => Err(ABSTRACT.to_owned()),
        path if path.contains('\0') => Err("a file's name has no zero byte".to_owned()),
        path => expect_short(Path::new(path)).map(|()| PathBuf::from(path)),
    })
}

/// Maximum bytes of a socket's path; the kernel's structure has one more byte, for the terminating zero (unix(7),
/// `sun_path`).
const PATH_BYTES_MAX: usize = 107;

/// Checks the length of a socket's path.
///
/// # Errors
/// The path is too long; the message says what to do.
pub fn expect_short(path: &Path) -> Result<(), String> {
    match path.as_os_str().len() {
        0..=PATH_BYTES_MAX => Ok(()),
        n_bytes => Err(format!(
            "a Unix socket's path has {PATH_BYTES_MAX} bytes at most, found {n_bytes}: name a file in a folder that is less deep, or one relative to the folder in which the program is started"
        )),
    }
}

const ABSTRACT: &str = "expected a socket in a file (unix:PATH), found an abstract name, which every user of this machine may use; write unix:./@NAME for a file of that name";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_grpc_and_abstract_ones_are_refused() {
        let file = |text| unix_path(text).and_then(Result::ok);
        for (text, path) in [
            ("unix:/run/s1.sock", "/run/s1.sock"),
            ("unix:///run/s1.sock", "/run/s1.sock"),
            ("unix:s1.sock", "s1.sock"),
            ("unix:./@s1", "./@s1"),
        ] {
            assert_eq!(file(text), Some(PathBuf::from(path)), "{text}");
        }
        for text in ["unix:", "unix:@s1", "unix-abstract:s1", "unix://host/s1"] {
            assert!(matches!(unix_path(text), Some(Err(_))), "{text}");
        }
        let long = |n_bytes: usize| format!("unix:{}", "s".repeat(n_bytes));
        assert!(file(&long(107)).is_some());
        let said = unix_path(&long(108)).and_then(Result::err);
        assert!(said.is_some_and(|said| said.contains("107 bytes at most, found 108")));
        assert_eq!(unix_path("127.0.0.1:9559"), None);
        assert_eq!(unix_path("unixhost:9559"), None);
    }
}
