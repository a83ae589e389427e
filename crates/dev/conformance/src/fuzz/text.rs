//! Changes text, by bytes and by tokens.

use fastrand::Rng;

/// Words and signs with a meaning for the compiler.
const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    "<",
    ">",
    "=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "++",
    "|+|",
    "|-|",
    "<<",
    ">>",
    "&&&",
    "..",
    "...",
    "&&",
    "||",
    "!",
    "~",
    "?",
    ":",
    "@",
    "#",
    "\"",
    "\\",
    "_",
    "{#}",
    "bit",
    "int",
    "varbit",
    "bool",
    "error",
    "string",
    "void",
    "header",
    "header_union",
    "struct",
    "enum",
    "typedef",
    "type",
    "const",
    "action",
    "table",
    "key",
    "actions",
    "entries",
    "default_action",
    "size",
    "control",
    "parser",
    "state",
    "transition",
    "select",
    "default",
    "accept",
    "reject",
    "start",
    "apply",
    "if",
    "else",
    "switch",
    "return",
    "exit",
    "for",
    "break",
    "continue",
    "in",
    "out",
    "inout",
    "extern",
    "package",
    "value_set",
    "list",
    "tuple",
    "true",
    "false",
    "this",
    "abstract",
    "match_kind",
    "exact",
    "ternary",
    "lpm",
    "range",
    "optional",
    "hdr",
    "meta",
    "standard_metadata",
    "packet",
    "extract",
    "emit",
    "lookahead",
    "advance",
    "verify",
    "isValid",
    "setValid",
    "setInvalid",
    "next",
    "last",
    "lastIndex",
    "push_front",
    "pop_front",
    "hit",
    "miss",
    "action_run",
    "main",
    "V1Switch",
    "\n#define X X X\n",
    "\n#include <core.p4>\n",
    "\n#if 1\n",
    "\n#endif\n",
    "\n#else\n",
    "/*",
    "*/",
    "//",
    "@name(\"x\")",
    "@noWarn(\"unused\")",
    "8w1",
    "-1",
    "1s0",
    "0w1",
    "é",
    "\u{0}",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "7",
    "8",
    "31",
    "32",
    "33",
    "63",
    "64",
    "65",
    "127",
    "128",
    "255",
    "256",
    "511",
    "512",
    "1023",
    "1024",
    "2048",
    "65535",
    "65536",
    "65537",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "0xffffffffffffffffffffffffffffffffffffffff",
    "100000000000000000000000000000000000000000000000000",
    "0b1",
    "0o7",
    "65536w1",
    "65537w1",
    "4294967296w1",
    "1w1",
    "8s255",
    "0x",
    "1_000",
    "9w0_",
];

/// Changes a few bytes. The result is valid UTF-8, but not necessarily a program.
pub fn mutate_bytes(rng: &mut Rng, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=rng.usize(..4) {
        let at = rng.usize(..=bytes.len());
        match rng.u32(..7) {
            0 if at < bytes.len() => bytes[at] = rng.u8(..),
            1 => bytes.insert(at, rng.u8(..)),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            4 if at < bytes.len() => {
                let end = (at + rng.usize(..200)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = rng.usize(..=bytes.len());
                bytes.splice(to..to, part);
            }
            5 if at < bytes.len() => {
                let end = (at + rng.usize(..50)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ if at < bytes.len() => bytes[at] ^= 1 << rng.u32(..8),
            _ => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Splits text into words, white space and single signs. The concatenation of the tokens is the text.
fn tokens(text: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let mut out = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let now = kind(c);
        if before.is_some_and(|before| before != now || now == 2) {
            out.push(&text[start..at]);
            start = at;
        }
        before = Some(now);
    }
    out.push(&text[start..]);
    out
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

pub fn mutate_tokens(rng: &mut Rng, text: &str, other: &str) -> String {
    let mut all: Vec<String> = tokens(text).into_iter().map(str::to_owned).collect();
    let donor = tokens(other);
    for _ in 0..=rng.usize(..5) {
        if all.is_empty() {
            break;
        }
        let at = rng.usize(..all.len());
        let end = (at + 1 + rng.usize(..40)).min(all.len());
        match rng.u32(..10) {
            0 => drop(all.remove(at)),
            1 => all.insert(at, all[at].clone()),
            2 => {
                let to = rng.usize(..all.len());
                all.swap(at, to);
            }
            3 => all.insert(at, PIECES[rng.usize(..PIECES.len())].to_owned()),
            4 => all[at] = PIECES[rng.usize(..PIECES.len())].to_owned(),
            5 => {
                // Inserts a part of another program.
                let from = rng.usize(..donor.len());
                let to = (from + 1 + rng.usize(..60)).min(donor.len());
                let part: Vec<String> = donor[from..to].iter().map(|&t| t.to_owned()).collect();
                all.splice(at..at, part);
            }
            6 => drop(all.drain(at..end)),
            7 => {
                let part = all[at..end].to_vec();
                let to = rng.usize(..all.len());
                all.splice(to..to, part);
            }
            8 => {
                // Replaces a token by a copy of another token of `text`.
                let to = rng.usize(..all.len());
                all[at] = all[to].clone();
            }
            _ => {
                let number = (0..all.len())
                    .cycle()
                    .skip(at)
                    .take(all.len())
                    .find(|at| is_number(&all[*at]));
                if let Some(at) = number {
                    all[at] = NUMBERS[rng.usize(..NUMBERS.len())].to_owned();
                }
            }
        }
    }
    all.concat()
}
