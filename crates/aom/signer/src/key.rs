//! The signing key, from a file that only its owner can read, or from the environment.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use k256::ecdsa::{SigningKey, VerifyingKey};
use k256::elliptic_curve::rand_core::OsRng;
use k256::elliptic_curve::zeroize::Zeroizing;

/// The environment variable with the key, which is used if no file is given.
pub const VARIABLE: &str = "REPRISE_SIGNER_KEY";
const KEY_BYTES: usize = 32;
const HEX_DIGITS: usize = 2 * KEY_BYTES;

/// An error never contains any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "{0}: this file exists, and a new key never overwrites a file: give another name, or move the file away"
    )]
    Exists(PathBuf),
    #[error(
        "{path}: expected a file that only its owner can read, found mode {mode:04o}; chmod 600 {path}"
    )]
    Mode {
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    #[error("{0}: expected a file, found something else")]
    NoFile(PathBuf),
    #[error(
        "{place}: expected 64 hexadecimal digits and nothing else, found {found} characters; `reprise-signer key new FILE` makes a key"
    )]
    Digits {
        /// The file or the variable.
        place: String,
        found: usize,
    },
    #[error(
        "{0}: expected a number from 1 to the order of secp256k1, found another; `reprise-signer key new FILE` makes a key"
    )]
    Number(String),
    #[error(
        "expected --key FILE or {VARIABLE} in the environment, found neither; `reprise-signer key new FILE` makes a key"
    )]
    Missing,
}

/// A signing key. It is never printed.
pub struct Key(SigningKey);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Makes a new key from the system's random numbers.
    #[must_use]
    pub fn random() -> Key {
        Key(SigningKey::random(&mut OsRng))
    }

    /// Parses 64 hexadecimal digits. `place` is their origin, for error messages.
    ///
    /// # Errors
    /// If the digits are not a key.
    pub fn from_hex(digits: &str, place: &str) -> Result<Key, KeyError> {
        let digits = digits.trim();
        let mut bytes = Zeroizing::new([0_u8; KEY_BYTES]);
        let wrong = || KeyError::Digits {
            place: place.to_owned(),
            found: digits.chars().count(),
        };
        if digits.len() != HEX_DIGITS {
            return Err(wrong());
        }
        let decoded = HEXLOWER_PERMISSIVE.decode_mut(digits.as_bytes(), bytes.as_mut_slice());
        decoded.map_err(|_| wrong())?;
        let key = SigningKey::from_slice(bytes.as_slice());
        key.map(Key).map_err(|_| KeyError::Number(place.to_owned()))
    }

    /// Reads the key from a file that has mode 0600, or fewer permissions.
    ///
    /// # Errors
    /// If the file cannot be read, if other users can read it, or if it is not a key.
    pub fn read(path: &Path) -> Result<Key, KeyError> {
        let failed = |error| KeyError::Io {
            path: path.to_owned(),
            error,
        };
        let mut file = File::open(path).map_err(failed)?;
        // The metadata is that of the open file, since the path may name another file by now.
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(KeyError::NoFile(path.to_owned()));
        }
        let mode = metadata.mode() & 0o7777;
        if mode & 0o077 != 0 {
            let path = path.to_owned();
            return Err(KeyError::Mode { path, mode });
        }
        let mut text = Zeroizing::new(String::new());
        let mut limited = (&mut file).take(4 * HEX_DIGITS as u64);
        limited.read_to_string(&mut text).map_err(failed)?;
        Key::from_hex(&text, &path.display().to_string())
    }

    /// Reads the key from `path`, or takes it from the environment variable if there is no path.
    ///
    /// # Errors
    /// If there is neither a path nor a variable, or if the content is not a key.
    pub fn find(path: Option<&Path>, variable: Option<String>) -> Result<Key, KeyError> {
        match (path, variable.map(Zeroizing::new)) {
            (Some(path), _) => Key::read(path),
            (None, Some(digits)) => Key::from_hex(&digits, VARIABLE),
            (None, None) => Err(KeyError::Missing),
        }
    }

    /// Writes the key to a new file of mode 0600.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
            _ => KeyError::Io {
                path: path.to_owned(),
                error,
            },
        };
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        let bytes = Zeroizing::new(<[u8; KEY_BYTES]>::from(self.0.to_bytes()));
        let mut text = Zeroizing::new(HEXLOWER.encode(bytes.as_slice()));
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)
    }

    /// Returns the key with which members verify signatures.
    #[must_use]
    pub fn public(&self) -> VerifyingKey {
        *self.0.verifying_key()
    }

    /// The public key as the configuration service expects it: 33 bytes in SEC1's compressed form, in hexadecimal.
    #[must_use]
    pub fn public_hex(&self) -> String {
        HEXLOWER.encode(self.public().to_encoded_point(true).as_bytes())
    }

    pub(crate) fn signing_key(&self) -> &SigningKey {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_what_was_written_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let key = Key::random();
        key.write_new(&path).expect("written");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
        let read = Key::read(&path).expect("a key");
        assert_eq!(read.public_hex(), key.public_hex());
        assert!(matches!(key.write_new(&path), Err(KeyError::Exists(_))));
        for mode in [0o640, 0o604, 0o610, 0o660] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changed");
            let error = Key::read(&path)
                .expect_err("others may read it")
                .to_string();
            assert!(
                error.contains(&format!("found mode {mode:04o}; chmod 600")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_no_key_is_refused_without_printing_it() {
        let secret = "11".repeat(31);
        for (digits, says) in [
            (secret.clone(), "digits and nothing else, found 62"),
            (format!("{secret}g1"), "digits and nothing else, found 64"),
            ("00".repeat(32), "expected a number from 1 to the order"),
            ("ff".repeat(32), "expected a number from 1 to the order"),
        ] {
            let error = Key::find(None, Some(digits))
                .expect_err("no key")
                .to_string();
            assert!(
                error.starts_with(VARIABLE) && error.contains(says),
                "{error}"
            );
            assert!(!error.contains("1111"), "{error}");
        }
        assert!(matches!(Key::find(None, None), Err(KeyError::Missing)));
        assert!(matches!(
            Key::read(Path::new("/")),
            Err(KeyError::NoFile(_))
        ));
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", Key::random()), "Key(..)");
    }
}
