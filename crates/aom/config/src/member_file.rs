//! The file that a member gets once, when it is added: its identity, the service's address, and the keys that prove its
//! identity. The file is a secret: everyone who has it can act as that member. It does not contain the key that signs
//! confirm messages ([`aom::confirm`]): each process makes a key of its own. If two processes with the same file shared
//! a key, they could sign contradictory confirm messages without knowing it.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::limits::{MEMBER_FILE_BYTES_MAX, MEMBER_FILE_VERSION};
use crate::message::check_name;

/// The name in the service's certificate, whatever the service's address is.
pub const SERVICE_NAME: &str = "configuration.aom";

/// The content of a member file, in JSON.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberFile {
    /// The version of the file format.
    pub version: u32,
    pub group: String,
    pub member: String,
    pub service: SocketAddr,
    /// The certificate of the authority that signed the service's certificate, PEM.
    pub authority: String,
    /// The member's certificate, PEM.
    pub certificate: String,
    /// The member's private key, PEM.
    pub key: String,
}

/// Why a text is not a valid member file. The error does not quote the text, since a member file contains keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberFileError {
    #[error(
        "line {line}, column {column}: expected a member file (version {MEMBER_FILE_VERSION}), which `reprise aom member add` writes; this is none"
    )]
    Form { line: usize, column: usize },
    #[error(
        "expected a member file of version {MEMBER_FILE_VERSION}, found version {0}: use the reprise that wrote it, or make a new file with `reprise aom member file`"
    )]
    Version(u32),
    #[error("{0}")]
    Name(String),
    #[error("expected at most {MEMBER_FILE_BYTES_MAX} bytes, found {0}: this is no member file")]
    Length(usize),
}

impl MemberFile {
    /// Parses the text of a member file.
    ///
    /// # Errors
    ///
    /// If the text is too long, is a member file of another version or no member file at all, or if a name is invalid.
    pub fn parse(text: &str) -> Result<MemberFile, MemberFileError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        if text.len() > MEMBER_FILE_BYTES_MAX {
            return Err(MemberFileError::Length(text.len()));
        }
        let form = |error: serde_json::Error| MemberFileError::Form {
            line: error.line(),
            column: error.column(),
        };
        // The version is read first, since another version may have other fields.
        let Version { version } = serde_json::from_str(text).map_err(form)?;
        if version != MEMBER_FILE_VERSION {
            return Err(MemberFileError::Version(version));
        }
        let file: MemberFile = serde_json::from_str(text).map_err(form)?;
        check_name("group", &file.group).map_err(MemberFileError::Name)?;
        check_name("member", &file.member).map_err(MemberFileError::Name)?;
        Ok(file)
    }
}

impl fmt::Display for MemberFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?;
        writeln!(f, "{text}")
    }
}

impl fmt::Debug for MemberFile {
    /// Hides the keys, so that they never get into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemberFile {
            group,
            member,
            service,
            ..
        } = self;
        write!(f, "MemberFile({member} of {group}, service {service}, ..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> MemberFile {
        MemberFile {
            version: MEMBER_FILE_VERSION,
            group: "counter".to_owned(),
            member: "m0".to_owned(),
            service: "10.0.0.1:7443".parse().expect("an address"),
            authority: "PEM".to_owned(),
            certificate: "PEM".to_owned(),
            key: "SECRET".to_owned(),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let file = file();
        assert_eq!(MemberFile::parse(&file.to_string()), Ok(file));
    }

    #[test]
    fn a_file_from_when_it_had_the_key_for_confirms_is_read_without_it() {
        let file = file();
        let text = file.to_string();
        let older = text.replacen('{', "{\"confirm_key\": \"0707\",", 1);
        assert_eq!(MemberFile::parse(&older), Ok(file));
    }

    #[test]
    fn what_is_none_is_refused_without_a_word_of_it() {
        let text = file().to_string();
        let other = text.replace("\"version\": 1", "\"version\": 2");
        assert_eq!(MemberFile::parse(&other), Err(MemberFileError::Version(2)));
        let named = text.replace("\"m0\"", "\"M 0\"");
        assert!(matches!(
            MemberFile::parse(&named),
            Err(MemberFileError::Name(_))
        ));
        let cut = text.replace("\"key\"", "\"keys\"");
        for text in ["", "{}", &text[..text.len() / 2], &cut] {
            let error = MemberFile::parse(text).expect_err("no file");
            assert!(matches!(error, MemberFileError::Form { .. }), "{error}");
            assert!(!error.to_string().contains("SECRET"));
        }
        let long = " ".repeat(MEMBER_FILE_BYTES_MAX + 1);
        assert!(matches!(
            MemberFile::parse(&long),
            Err(MemberFileError::Length(_))
        ));
    }

    #[test]
    fn no_key_is_printed() {
        let printed = format!("{:?}", file());
        assert!(!printed.contains("SECRET"), "{printed}");
    }
}
