//! Code that commands share: [`failure`] reports a failed command in one line, [`files`] reads and writes files with
//! messages that say what was expected, [`findings`] prints what a command has found and advice on what to do about it,
//! [`interrupt`] stops work when a signal comes, and [`output`] writes to standard output and standard error.
//!
//! This file has the messages for wrong command lines. clap repeats the messages of the standard library's parsers,
//! some of which say neither what was expected nor what to do ("invalid digit found in string"). The messages here
//! say what was expected.

#![forbid(unsafe_code)]

pub mod failure;
pub mod files;
pub mod findings;
pub mod interrupt;
pub mod output;

use std::error::Error as _;
use std::io::{self, IsTerminal as _, Write as _};

/// Messages of `std::num` and `std::net`, and the messages that replace them.
const WORDS: [(&str, &str); 9] = [
    (
        "cannot parse integer from empty string",
        "expected a whole number, found nothing",
    ),
    (
        "invalid digit found in string",
        "expected a whole number in decimal digits",
    ),
    (
        "number too large to fit in target type",
        "expected a smaller number",
    ),
    (
        "number too small to fit in target type",
        "expected a larger number",
    ),
    (
        "number would be zero for non-zero type",
        "expected a whole number of at least 1",
    ),
    (
        "invalid float literal",
        "expected a number, for example 0.5",
    ),
    (
        "invalid socket address syntax",
        "expected IP-ADDRESS:PORT, for example 127.0.0.1:7000 or [::1]:7000",
    ),
    (
        "invalid IP address syntax",
        "expected an IP address, for example 127.0.0.1 or ::1",
    ),
    (
        "invalid IPv4 address syntax",
        "expected an IPv4 address, for example 10.0.0.1",
    ),
];

/// Ends the program after printing the requested help or version, or the error.
pub fn exit(error: &clap::Error) -> ! {
    // A failure to print is ignored, since there is nobody to report it to.
    let _ = print(error);
    std::process::exit(error.exit_code())
}

/// Prints the requested help or version, or the error with what was expected.
///
/// # Errors
/// The text cannot be written.
pub fn print(error: &clap::Error) -> io::Result<()> {
    let rendered = error.render();
    let text = if io::stderr().is_terminal() {
        rendered.ansi().to_string()
    } else {
        rendered.to_string()
    };
    match with_expected(error, &text) {
        Some(text) => io::stderr().write_all(text.as_bytes()),
        None => error.print(),
    }
}

/// Returns clap's text with a better reason; `None` if there is no better reason.
fn with_expected(error: &clap::Error, text: &str) -> Option<String> {
    let reason = error.source()?.to_string();
    let (_, expected) = WORDS.iter().find(|(words, _)| *words == reason)?;
    // The wrong value comes before the reason and may have the same text, so the last occurrence is replaced.
    let at = text.rfind(&reason)?;
    Some(format!(
        "{}{expected}{}",
        &text[..at],
        &text[at + reason.len()..]
    ))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::num::NonZero;

    use clap::{Arg, Command, value_parser};

    use super::*;

    fn said(arg: Arg, value: &str) -> String {
        let command = Command::new("program").arg(arg.long("option"));
        let error = command.try_get_matches_from(["program", "--option", value]);
        let error = error.expect_err("it is wrong");
        let text = error.render().to_string();
        with_expected(&error, &text).unwrap_or(text)
    }

    #[test]
    fn every_parser_of_std_says_what_was_expected() {
        let arg = || Arg::new("option");
        for (arg, value, expected) in [
            (
                arg().value_parser(value_parser!(u16)),
                "x",
                "decimal digits",
            ),
            (arg().value_parser(value_parser!(u64)), "", "found nothing"),
            (
                arg().value_parser(value_parser!(u64)),
                "1e3",
                "decimal digits",
            ),
            (
                arg().value_parser(value_parser!(u64)),
                "99999999999999999999999",
                "a smaller number",
            ),
            (
                arg().value_parser(value_parser!(i64)),
                "-99999999999999999999",
                "a larger number",
            ),
            (
                arg().value_parser(value_parser!(NonZero<usize>)),
                "0",
                "at least 1",
            ),
            (
                arg().value_parser(value_parser!(f64)),
                "x",
                "for example 0.5",
            ),
            (
                arg().value_parser(value_parser!(SocketAddr)),
                "localhost:7000",
                "IP-ADDRESS:PORT",
            ),
            (
                arg().value_parser(value_parser!(IpAddr)),
                "x",
                "an IP address",
            ),
            (
                arg().value_parser(value_parser!(Ipv4Addr)),
                "::1",
                "an IPv4 address",
            ),
        ] {
            let arg = arg.allow_hyphen_values(true);
            let said = said(arg, value);
            let first = said.lines().next().unwrap_or_default();
            assert!(first.contains(expected), "{said}");
            assert!(first.contains("--option"), "{said}");
            assert!(
                WORDS.iter().all(|(words, _)| !said.contains(words)),
                "{said}"
            );
        }
    }

    #[test]
    fn other_words_stay() {
        let refused = |_: &str| -> Result<u8, String> { Err("expected a port".to_owned()) };
        let said = said(Arg::new("option").value_parser(refused), "x");
        assert!(said.contains("expected a port"), "{said}");
    }
}
