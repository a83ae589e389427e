//! Evaluates the part of CMake's language that the lists of tests need: `set`, `list(APPEND)`, and any other command
//! with its arguments. Conditions are ignored, so a test under a condition counts as listed.

use std::collections::HashMap;

/// A command with its arguments. Variables in the arguments are replaced by their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub args: Vec<Argument>,
}

/// An argument, which is a list. CMake separates the items of a list by `;`.
pub type Argument = Vec<String>;

/// Evaluates a text. Commands other than `set` and `list` go to `on_call`, which may set variables.
pub fn evaluate(text: &str, mut on_call: impl FnMut(&Call, &mut Variables)) -> Variables {
    let mut variables = Variables::default();
    for (name, words) in commands(text) {
        let args: Vec<Argument> = words.iter().map(|word| variables.expand(word)).collect();
        match (name.as_str(), args.as_slice()) {
            ("set", [name, values @ ..]) => {
                variables.set(&name.concat(), values.concat());
            }
            ("list", [operation, name, values @ ..]) if operation.concat() == "APPEND" => {
                variables.append(&name.concat(), values.concat());
            }
            _ => on_call(&Call { name, args }, &mut variables),
        }
    }
    variables
}

#[derive(Debug, Default)]
pub struct Variables(HashMap<String, Vec<String>>);

impl Variables {
    pub fn set(&mut self, name: &str, values: Vec<String>) {
        self.0.insert(name.to_owned(), values);
    }

    fn append(&mut self, name: &str, values: Vec<String>) {
        self.0.entry(name.to_owned()).or_default().extend(values);
    }

    /// Replaces `${VARIABLES}` in a word. A variable without a value is not replaced.
    fn expand(&self, word: &Word) -> Argument {
        if let Some(values) = whole_variable(&word.text).and_then(|name| self.0.get(name)) {
            return values.clone();
        }
        let mut text = String::new();
        let mut rest = word.text.as_str();
        while let Some((before, behind)) = rest.split_once("${") {
            text.push_str(before);
            let (name, after) = behind.split_once('}').unwrap_or((behind, ""));
            match self.0.get(name) {
                Some(values) => text.push_str(&values.join(";")),
                None => text.push_str(&format!("${{{name}}}")),
            }
            rest = after;
        }
        text.push_str(rest);
        if word.is_quoted {
            vec![text]
        } else {
            text.split(';').map(str::to_owned).collect()
        }
    }
}

fn whole_variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    (!name.contains("${")).then_some(name)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    is_quoted: bool,
}

fn commands(text: &str) -> Vec<(String, Vec<Word>)> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = skip_blank(rest);
        let name: String = rest
            .chars()
            .take_while(|c| !" \t\n(".contains(*c))
            .collect();
        let Some(arguments) = rest[name.len()..].trim_start().strip_prefix('(') else {
            match rest.split_once('\n') {
                Some((_, next)) => rest = next,
                None => return found,
            }
            continue;
        };
        let (words, behind) = words(arguments);
        found.push((name, words));
        rest = behind;
    }
}

fn skip_blank(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        if !text.starts_with('#') {
            return text;
        }
        text = text.split_once('\n').map_or("", |(_, behind)| behind);
    }
}

/// Splits off the words up to the closing parenthesis. Each inner parenthesis is a word.
fn words(mut text: &str) -> (Vec<Word>, &str) {
    let mut words = Vec::new();
    let mut depth = 0_usize;
    loop {
        text = skip_blank(text);
        let Some(first) = text.chars().next() else {
            return (words, "");
        };
        match first {
            ')' if depth == 0 => return (words, &text[1..]),
            '(' | ')' => {
                depth = if first == '(' { depth + 1 } else { depth - 1 };
                text = &text[1..];
            }
            '"' => {
                let (quoted, behind) = quoted(&text[1..]);
                words.push(Word {
                    text: quoted,
                    is_quoted: true,
                });
                text = behind;
            }
            _ => {
                let end = text.find([' ', '\t', '\r', '\n', '(', ')', '"', '#']);
                let (word, behind) = text.split_at(end.unwrap_or(text.len()));
                words.push(Word {
                    text: word.to_owned(),
                    is_quoted: false,
                });
                text = behind;
            }
        }
    }
}

/// Splits off the text up to the closing quote.
fn quoted(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (out, &text[at + 1..]),
            '\\' => out.extend(chars.next().map(|(_, escaped)| escaped)),
            _ => out.push(c),
        }
    }
    (out, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_set_appended_to_and_handed_on() {
        let text = "# a comment (with parentheses)\n\
            set (A \"${ROOT}/x/*.p4\" b.p4 # why\n c.p4)\n\
            if (FULL AND (NOT SMALL))\n list(APPEND A \"d e.p4\")\nendif()\n\
            set(B ${A} \"${A}\")\nadd_tests(\"tag\" ${A} \"say \\\"${A}\\\"\")\n";
        let mut calls = Vec::new();
        let variables = evaluate(text, |call, _| calls.push(call.clone()));
        let a = ["${ROOT}/x/*.p4", "b.p4", "c.p4", "d e.p4"];
        assert_eq!(variables.0["A"], a);
        assert_eq!(variables.0["B"], [a, a].concat());
        let last = calls.iter().find(|call| call.name == "add_tests").unwrap();
        assert_eq!(last.args[0], ["tag"]);
        assert_eq!(last.args[1], a);
        assert_eq!(last.args[2], [format!("say \"{}\"", a.join(";"))]);
    }

    #[test]
    fn broken_text_ends() {
        for text in ["set(", "set(A \"", "x", "(", "a b c", "set(A ${", ")))"] {
            evaluate(text, |_, _| {});
        }
    }
}
