//! Parses a line of the shell into a tree of words, by its quotes, brackets and commas. Does not look at the meaning of
//! the words.

use std::fmt;

use p4runtime_client::quoted;

/// A word; a quoted word is never a name or a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Atom {
    pub text: String,
    pub is_quoted: bool,
}

/// A value after `=`, or on its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Atom(Atom),
    /// `value &&& mask`
    Masked(Atom, Atom),
    /// `{a b, c}`: members, each with its items. Here the first member has the items `a` and `b`.
    Set(Vec<Vec<Item>>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    Value(Value),
    /// `name=value`
    Pair(String, Value),
    /// `name(items)`
    Call(String, Vec<Item>),
    /// `->`, or BMv2's `=>`
    Arrow,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Value(value) => value.fmt(f),
            Item::Pair(name, value) => write!(f, "{}={value}", name_text(name)),
            Item::Call(name, items) => {
                let items: Vec<String> = items.iter().map(Item::to_string).collect();
                write!(f, "{}({})", name_text(name), items.join(", "))
            }
            Item::Arrow => f.write_str("->"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Atom(atom) => atom.fmt(f),
            Value::Masked(value, mask) => write!(f, "{value}&&&{mask}"),
            Value::Set(members) => {
                let member = |items: &Vec<Item>| {
                    let items: Vec<String> = items.iter().map(Item::to_string).collect();
                    items.join(" ")
                };
                let members: Vec<String> = members.iter().map(member).collect();
                write!(f, "{{{}}}", members.join(", "))
            }
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_quoted {
            f.write_str(&quoted(&self.text))
        } else {
            f.write_str(&self.text)
        }
    }
}

/// A name as a user types it: quoted if it would not be one word.
pub fn name_text(name: &str) -> String {
    let is_plain = matches!(tokens(name).as_deref(), Ok([Token { kind: Kind::Word(word), .. }]) if word == name);
    if is_plain {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A piece of a line, with its byte offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Word(String),
    Quoted(String),
    /// `( ) { } , =`
    Mark(char),
    Arrow,
    Mask,
}

/// A line that ends inside a quote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfinished {
    /// Start of the quote.
    pub start: usize,
    pub message: String,
}

/// Splits a line. `#` at the start of a word begins a comment.
pub fn tokens(line: &str) -> Result<Vec<Token>, Unfinished> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        let start = at;
        let rest = &line[at..];
        let kind = match c {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '#' => break,
            '"' => {
                let (text, len) = quote(rest, start)?;
                at += len;
                Kind::Quoted(text)
            }
            _ if rest.starts_with("->") || rest.starts_with("=>") => {
                at += 2;
                Kind::Arrow
            }
            _ if rest.starts_with("&&&") => {
                at += 3;
                Kind::Mask
            }
            '(' | ')' | '{' | '}' | ',' | '=' => {
                at += 1;
                Kind::Mark(c)
            }
            _ => {
                let len = word_len(rest);
                at += len;
                Kind::Word(rest[..len].to_owned())
            }
        };
        tokens.push(Token {
            kind,
            start,
            end: at,
        });
    }
    Ok(tokens)
}

fn word_len(rest: &str) -> usize {
    let ends = |(at, c): &(usize, char)| {
        let here = &rest[*at..];
        c.is_whitespace()
            || "(){},=\"".contains(*c)
            || ["->", "&&&"].iter().any(|mark| here.starts_with(mark))
    };
    let end = rest.char_indices().find(ends);
    end.map_or(rest.len(), |(at, _)| at)
}

/// Reads a quoted text; returns it and its length with quotes.
fn quote(rest: &str, start: usize) -> Result<(String, usize), Unfinished> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((text, at + 1)),
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'r')) => text.push('\r'),
                Some((_, 'u')) => text.push(escape(&mut chars).ok_or_else(|| Unfinished {
                    start,
                    message: "expected a character like \\u{e4} after \\u".to_owned(),
                })?),
                Some((_, c)) => text.push(c),
                None => break,
            },
            c => text.push(c),
        }
    }
    Err(Unfinished {
        start,
        message: format!("expected a closing quote for {rest}"),
    })
}

/// Reads what follows `\u`: `{e4}` is the character with code point 0xe4.
fn escape(chars: &mut impl Iterator<Item = (usize, char)>) -> Option<char> {
    if chars.next()?.1 != '{' {
        return None;
    }
    let digits: String = chars.map(|(_, c)| c).take_while(|c| *c != '}').collect();
    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
}

/// Parses the items of a line; none for an empty line or a comment.
pub fn items(line: &str) -> Result<Vec<Item>, String> {
    let tokens = tokens(line).map_err(|error| error.message)?;
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
    };
    let mut items = Vec::new();
    while reader.at < tokens.len() {
        items.push(reader.item(0)?);
    }
    Ok(items)
}

/// Maximum nesting of brackets, so that no line exhausts the stack.
const DEPTH_MAX: usize = 32;

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn takes(&mut self, kind: &Kind) -> bool {
        let is_it = self.peek() == Some(kind);
        self.at += usize::from(is_it);
        is_it
    }

    fn item(&mut self, depth: usize) -> Result<Item, String> {
        if depth > DEPTH_MAX {
            return Err(format!("brackets are deeper than {DEPTH_MAX}"));
        }
        let name = match self.peek().cloned() {
            Some(Kind::Arrow) => {
                self.at += 1;
                return Ok(Item::Arrow);
            }
            Some(Kind::Word(text)) => Atom {
                text,
                is_quoted: false,
            },
            Some(Kind::Quoted(text)) => Atom {
                text,
                is_quoted: true,
            },
            _ => return Ok(Item::Value(self.value(depth)?)),
        };
        self.at += 1;
        if self.takes(&Kind::Mark('=')) {
            return Ok(Item::Pair(name.text, self.value(depth)?));
        }
        if self.takes(&Kind::Mark('(')) {
            let mut items = Vec::new();
            while !self.takes(&Kind::Mark(')')) {
                if self.at == self.tokens.len() {
                    return Err(format!("expected \")\" after \"{}(\"", name.text));
                }
                if !self.takes(&Kind::Mark(',')) {
                    items.push(self.item(depth + 1)?);
                }
            }
            return Ok(Item::Call(name.text, items));
        }
        Ok(Item::Value(self.masked(name)?))
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if self.takes(&Kind::Mark('{')) {
            return self.set(depth);
        }
        let atom = self.atom("a value")?;
        self.masked(atom)
    }

    fn masked(&mut self, value: Atom) -> Result<Value, String> {
        if !self.takes(&Kind::Mask) {
            return Ok(Value::Atom(value));
        }
        Ok(Value::Masked(value, self.atom("a mask after \"&&&\"")?))
    }

    fn atom(&mut self, what: &str) -> Result<Atom, String> {
        let (text, is_quoted) = match self.peek().cloned() {
            Some(Kind::Word(text)) => (text, false),
            Some(Kind::Quoted(text)) => (text, true),
            Some(Kind::Mark(mark)) => return Err(format!("expected {what}, got \"{mark}\"")),
            Some(Kind::Arrow) => return Err(format!("expected {what}, got \"->\"")),
            Some(Kind::Mask) => return Err(format!("expected {what}, got \"&&&\"")),
            None => return Err(format!("expected {what}, the line ends")),
        };
        self.at += 1;
        Ok(Atom { text, is_quoted })
    }

    fn set(&mut self, depth: usize) -> Result<Value, String> {
        let mut members = Vec::new();
        let mut member = Vec::new();
        loop {
            let is_end = self.takes(&Kind::Mark('}'));
            if is_end || self.takes(&Kind::Mark(',')) {
                match (member.is_empty(), is_end && members.is_empty()) {
                    (false, _) => members.push(std::mem::take(&mut member)),
                    (true, true) => {}
                    (true, false) => return Err("expected a member beside \",\"".to_owned()),
                }
                if is_end {
                    return Ok(Value::Set(members));
                }
            } else if self.at == self.tokens.len() {
                return Err("expected \"}\" for \"{\", the line ends".to_owned());
            } else {
                member.push(self.item(depth + 1)?);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{items, name_text, quoted};

    #[test]
    fn a_line_is_read_and_written_as_the_same_items() {
        for line in [
            "table add routes dst=10.0.1.0/24 -> forward(dst=08:00:00:00:01:11, port=2)",
            "table add rules src=10.0.0.0&&&0xff000000 type=0x800..0x8ff priority=10 -> drop",
            "group add spread 5 {1, 2 weight=3 watch=1}",
            "valueset set trunks {}",
            "register set pair 1 {a=1, b={2, 3}}",
            "table add names \"a b\"=\"x \\\"y\\\" \\u{1}\" -> set(\"#1\")",
        ] {
            let read = items(line).expect(line);
            let text: Vec<String> = read.iter().map(ToString::to_string).collect();
            assert_eq!(text.join(" "), line);
        }
    }

    #[test]
    fn spaces_and_bmv2s_arrow_are_the_same_line() {
        assert_eq!(
            items("t a = 1 &&& 2 => f( b=3 )  # a comment"),
            items("t a=1&&&2 -> f(b=3)")
        );
        assert_eq!(items("  # a comment").expect("nothing"), []);
        assert_eq!(items("f(a, b)"), items("f(a b)"));
    }

    #[test]
    fn what_is_not_whole_says_what_is_missing() {
        for (line, expected) in [
            ("a (", "expected \")\" after \"a(\""),
            ("a b=", "expected a value, the line ends"),
            ("a b=,", "expected a value, got \",\""),
            ("{1", "expected \"}\" for \"{\", the line ends"),
            ("{1,}", "expected a member beside \",\""),
            ("\"x", "expected a closing quote for \"x"),
            ("1 &&& ->", "expected a mask after \"&&&\", got \"->\""),
        ] {
            assert_eq!(items(line), Err(expected.to_owned()), "{line}");
        }
        assert!(items(&"{".repeat(100_000)).is_err());
        assert!(items(&"f(".repeat(100_000)).is_err());
    }

    #[test]
    fn names_are_quoted_where_they_would_fall_apart() {
        assert_eq!(name_text("hdr.vlan[0].id"), "hdr.vlan[0].id");
        assert_eq!(name_text("a b"), "\"a b\"");
        assert_eq!(name_text(""), "\"\"");
        assert_eq!(quoted("a\\\"\n"), "\"a\\\\\\\"\\n\"");
    }
}
