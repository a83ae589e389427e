//! Standard output and standard error. It is no error if the reader of standard output goes away (`reprise show |
//! head`), but a full disk is an error. Text from a switch, a file or a program's author cannot send control sequences
//! to the terminal ([`printable`]). If standard error cannot be written, the command goes on: it completes its change
//! of the switch, and the exit code reports the result.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write, stderr, stdout};

pub use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::SubscriberBuilder;
use tracing_subscriber::fmt::format::{DefaultFields, Format};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::files;

pub fn text(line: impl Display) {
    written(writeln!(
        stdout(),
        "{}",
        printable::lines(&line.to_string())
    ));
}

/// Prints a part of a line, or lines that include their newline.
pub fn piece(part: impl Display) {
    written(write!(stdout(), "{}", printable::lines(&part.to_string())));
}

/// Prints the JSON document that describes a failed command. It is no error if the reader is gone.
pub fn last_json(value: &serde_json::Value) {
    unless_unread(writeln!(
        stdout(),
        "{}",
        printable::lines(&value.to_string())
    ));
}

/// Ends the command if its output cannot be written, but not if the output's reader is gone.
fn unless_unread(result: io::Result<()>) {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        result => written(result),
    }
}

/// Writes the bytes of an output file unchanged. If the reader is gone, the command goes on, because it may have other
/// files to write.
pub fn bytes_as_they_are(bytes: &[u8]) {
    let mut out = stdout();
    unless_unread(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Prints the help or version that the command line asks for, or the error in the command line, and ends the process.
pub fn of_command_line(error: &clap::Error) -> ! {
    let result = crate::print(error).and_then(|()| stdout().flush());
    if !error.use_stderr() {
        written(result);
    }
    std::process::exit(error.exit_code())
}

/// Prints exactly one line on standard error. A newline in the text is escaped.
pub fn error_line(line: impl Display) {
    let line = line.to_string();
    error_text(format_args!("{}\n", printable::line(&line)));
}

/// Prints whole lines on standard error. Ignores a failure to write: there is no other place to report it, and the
/// macros of the standard library would panic.
pub fn error_text(text: impl Display) {
    let _ = stderr().write_all(printable::lines(&text.to_string()).as_bytes());
}

/// Ends the command with success if the reader is gone. Ends the command with an error if the output cannot be written
/// for another reason.
fn written(result: io::Result<()>) {
    match result {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            let why = files::why(&error);
            error_line(format_args!(
                "{}: standard output cannot be written: {why}",
                program()
            ));
            std::process::exit(1);
        }
    }
}

/// The name of the program's file, which may differ from the name under which it was started.
fn program() -> String {
    let file = std::env::current_exe().unwrap_or_default();
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Clears the terminal before a page that is shown repeatedly. Does nothing if standard output is no terminal.
pub fn clear() {
    // Moves the cursor home and clears the rest of the screen.
    if stdout().is_terminal() {
        written(write!(stdout(), "\x1b[H\x1b[2J"));
    }
}

pub fn json(value: &serde_json::Value) {
    text(value);
}

/// Formats a number of things, as "1 group" or "2 groups".
pub fn count(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

/// Formats 1234567 as 1,234,567.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (idx, digit) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats 1234567 as 1.23 MB.
pub fn bytes(value: u64) -> String {
    let mut scaled = value as f64;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        // A value that would be shown as 1000 is shown as 1 of the next unit.
        if scaled < 999.5 {
            let decimals = match (unit, scaled) {
                ("B", _) | (_, 99.95..) => 0,
                (_, 9.995..) => 1,
                _ => 2,
            };
            return format!("{scaled:.decimals$} {unit}");
        }
        scaled /= 1e3;
    }
    format!("{scaled:.0} PB")
}

/// Prints columns as wide as their widest cell; the first `n_left` columns flush left, the rest right.
pub fn table(rows: &[Vec<String>], n_left: usize) {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(idx, (cell, width))| {
                let cell = printable::line(cell);
                if idx < n_left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        text(cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// Logs a service's events of this level and of more severe levels to standard error. Below INFO, only events of crates
/// whose names begin with `own` are logged, since libraries log every frame at those levels.
pub fn log_to_standard_error(own: &str, level: Level) {
    // Fails if a logger is already set.
    let _ = log(level).finish().with(of(own, level)).try_init();
}

/// Logs as [`log_to_standard_error`] does, but writes each event as a JSON document on one line, with the event's
/// fields at the top level.
pub fn log_json_to_standard_error(own: &str, level: Level) {
    let documents = log(level).json().flatten_event(true);
    let _ = documents.finish().with(of(own, level)).try_init();
}

fn of(own: &str, level: Level) -> Targets {
    let others = level.min(Level::INFO);
    Targets::new().with_default(others).with_target(own, level)
}

fn log(level: Level) -> SubscriberBuilder<DefaultFields, Format, LevelFilter, fn() -> io::Stderr> {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_writer(stderr as fn() -> io::Stderr)
}

#[cfg(test)]
mod tests {
    use super::{bytes, grouped};

    #[test]
    fn bytes_have_three_digits_and_the_unit_that_fits() {
        let shown = [
            0,
            999,
            1_000,
            9_996,
            99_960,
            999_600,
            1_234_567,
            5_000_000_000,
        ]
        .map(bytes);
        let expected = [
            "0 B", "999 B", "1.00 kB", "10.0 kB", "100 kB", "1.00 MB", "1.23 MB", "5.00 GB",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
