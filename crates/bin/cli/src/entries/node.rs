//! A value of a JSON file, and its place in the file. Every message about the value begins with the
//! place.

use std::fmt;

use serde_json::{Map, Value};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The place in the file, for example `table_entries[2].match["hdr.ipv4.dstAddr"]`; empty for the file as a whole.
    pub at: String,
    /// What was expected, what was found, and what the user can do about it.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str(&self.message),
            at => write!(f, "{at}: {}", self.message),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Node<'j> {
    pub at: String,
    pub value: &'j Value,
}

impl<'j> Node<'j> {
    pub fn root(value: &'j Value) -> Node<'j> {
        Node {
            at: String::new(),
            value,
        }
    }

    pub fn error(&self, message: impl Into<String>) -> FileError {
        FileError {
            at: self.at.clone(),
            message: message.into(),
        }
    }

    pub fn expected(&self, what: &str) -> FileError {
        self.error(format!("expected {what}, got {}", came(self.value)))
    }

    /// Checks that the value is an object with these keys only. Ignores `comment` and keys that
    /// begin with `_`, because JSON has no comments.
    pub fn keys(&self, what: &str, known: &[&str]) -> Result<&'j Map<String, Value>, FileError> {
        let object = self.object(what)?;
        let is_known = |key: &str| known.contains(&key) || key == "comment" || key.starts_with('_');
        let Some(unknown) = object.keys().find(|key| !is_known(key)) else {
            return Ok(object);
        };
        let meant = match names::nearest(unknown, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("expected one of {}", known.join(", ")),
        };
        Err(self.error(format!("unknown key \"{unknown}\", {meant}")))
    }

    pub fn object(&self, what: &str) -> Result<&'j Map<String, Value>, FileError> {
        self.value.as_object().ok_or_else(|| self.expected(what))
    }

    /// The value of a key; `None` if it is missing or null.
    pub fn get(&self, key: &str) -> Option<Node<'j>> {
        let value = self.value.get(key)?;
        (!value.is_null()).then(|| self.below(key, value))
    }

    pub fn required(&self, key: &str, what: &str) -> Result<Node<'j>, FileError> {
        self.get(key)
            .ok_or_else(|| self.error(format!("expected \"{key}\": {what}, it is not there")))
    }

    pub fn below(&self, key: &str, value: &'j Value) -> Node<'j> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let at = match (key.chars().all(is_word), self.at.as_str()) {
            (false, at) => format!("{at}[\"{key}\"]"),
            (true, "") => key.to_owned(),
            (true, at) => format!("{at}.{key}"),
        };
        Node { at, value }
    }

    pub fn items(&self, what: &str) -> Result<Vec<Node<'j>>, FileError> {
        let list = self.value.as_array().ok_or_else(|| self.expected(what))?;
        let item = |(idx, value)| Node {
            at: format!("{}[{idx}]", self.at),
            value,
        };
        Ok(list.iter().enumerate().map(item).collect())
    }

    /// The items of a list under a key; empty if the key is missing.
    pub fn items_of(&self, key: &str, what: &str) -> Result<Vec<Node<'j>>, FileError> {
        self.get(key)
            .map_or(Ok(Vec::new()), |list| list.items(what))
    }

    pub fn text(&self, what: &str) -> Result<&'j str, FileError> {
        self.value.as_str().ok_or_else(|| self.expected(what))
    }

    pub fn flag(&self) -> Result<bool, FileError> {
        let flag = self.value.as_bool();
        flag.ok_or_else(|| self.expected("true or false"))
    }

    pub fn number(&self, min: u32, max: u32) -> Result<u32, FileError> {
        let number = self.value.as_u64().and_then(|n| u32::try_from(n).ok());
        let in_range = number.filter(|n| (min..=max).contains(n));
        in_range.ok_or_else(|| self.expected(&format!("a number from {min} to {max}")))
    }
}

fn came(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}
