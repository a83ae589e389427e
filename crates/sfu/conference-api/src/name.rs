//! Names of conferences, participants, tracks, qualities and legs.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest name, in bytes.
pub const NAME_LEN_MAX: usize = 64;

/// A name: 1 to 64 of the characters A-Z, a-z, 0-9, `-`, `_` and `.`, the first none of `-` and `.`. It needs no escape
/// in a URL, a file's name or a metric's label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
pub struct Name(String);

/// Why a text is no name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadName {
    /// The text is empty or longer than [`NAME_LEN_MAX`]; it has this many bytes.
    #[error("expected a name of 1 to {NAME_LEN_MAX} characters, found {0}")]
    Length(usize),
    /// The text has this character, which is not allowed in a name.
    #[error("expected a name of A-Z, a-z, 0-9, \"-\", \"_\" and \".\", found {0:?}")]
    Character(char),
    /// The first character is `-` or `.`.
    #[error("expected a name that begins with a letter, a digit or \"_\", found {0:?}")]
    First(char),
}

impl Name {
    /// Makes a name of a text.
    ///
    /// # Errors
    /// The text is no name.
    pub fn new(text: impl Into<String>) -> Result<Name, BadName> {
        let text = text.into();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if let Some(other) = text.chars().find(|&c| !is_name(c)) {
            return Err(BadName::Character(other));
        }
        if !(1..=NAME_LEN_MAX).contains(&text.len()) {
            return Err(BadName::Length(text.len()));
        }
        match text.chars().next() {
            Some(first @ ('-' | '.')) => Err(BadName::First(first)),
            _ => Ok(Name(text)),
        }
    }

    /// Returns the name as a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Name, BadName> {
        Name::new(text)
    }
}

impl std::str::FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Name, BadName> {
        Name::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_need_no_escape() {
        for text in ["a", "Room-1", "_x.y", &"n".repeat(NAME_LEN_MAX)] {
            assert_eq!(Name::new(text).expect("a name").as_str(), text);
        }
        let why = |text: &str| Name::new(text).expect_err("no name");
        assert_eq!(why(""), BadName::Length(0));
        assert_eq!(why(&"n".repeat(65)), BadName::Length(65));
        assert_eq!(why("a b"), BadName::Character(' '));
        assert_eq!(why("a/b"), BadName::Character('/'));
        assert_eq!(why("é"), BadName::Character('é'));
        assert_eq!(why(".."), BadName::First('.'));
        assert_eq!(why("-x"), BadName::First('-'));
        assert!(serde_json::from_str::<Name>("\"a b\"").is_err());
    }
}
