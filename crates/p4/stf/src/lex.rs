//! Splits a line into words and punctuation.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or number; quotes are removed.
    Word(String),
    Mark(&'static str),
}

/// Longer marks come first, because the first mark that matches is taken.
const MARKS: [&str; 13] = [
    "&&&", "==", "!=", "<=", ">=", ":", ",", "(", ")", "/", "=", "<", ">",
];

pub(crate) fn tokens(line: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        if let Some(mark) = mark(rest) {
            tokens.push(Token::Mark(mark));
            rest = &rest[mark.len()..];
        } else {
            let (word, behind) = word(rest)?;
            tokens.push(Token::Word(word));
            rest = behind;
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

fn mark(text: &str) -> Option<&'static str> {
    MARKS.into_iter().find(|mark| text.starts_with(mark))
}

/// Splits off a word. A part of it may be quoted: `"my table".key`.
fn word(text: &str) -> Result<(String, &str), String> {
    let mut word = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let (quoted, behind) = rest[1..]
                .split_once('"')
                .ok_or_else(|| format!("expected a closing quote after {rest}"))?;
            word.push_str(quoted);
            rest = behind;
        } else if first.is_whitespace() || mark(rest).is_some() {
            break;
        } else {
            word.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok((word, rest))
}

/// Strips the comment; `#` within quotes does not begin one.
pub(crate) fn without_comment(line: &str) -> &str {
    let mut in_quotes = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => in_quotes = !in_quotes,
            '#' if !in_quotes => return &line[..at],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_marks_and_spaces_but_not_within_quotes() {
        let word = |text: &str| Token::Word(text.into());
        let mark = Token::Mark;
        assert_eq!(
            tokens("add \"my t\".x h$0.f :1&&&0x2 a[1].b(p:3)=id").unwrap(),
            [
                word("add"),
                word("my t.x"),
                word("h$0.f"),
                mark(":"),
                word("1"),
                mark("&&&"),
                word("0x2"),
                word("a[1].b"),
                mark("("),
                word("p"),
                mark(":"),
                word("3"),
                mark(")"),
                mark("="),
                word("id"),
            ]
        );
        assert!(tokens("\"open").is_err());
    }

    #[test]
    fn a_comment_ends_the_line() {
        assert_eq!(without_comment("a # b"), "a ");
        assert_eq!(without_comment("\"a # b\" # c"), "\"a # b\" ");
    }
}
