//! Finds the places of errors in p4c's output.
//!
//! An error begins with `file(line): [--Werror=kind] error: ...` or `file(line):syntax error`. An error without a place
//! begins with the bracket. The source line and its underline follow, then further places of the same error as
//! `file(line)`. A warning has `[--Wwarn=kind] warning` instead.

use serde::{Deserialize, Serialize};

/// A line of a file. The file's name does not include its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
}

/// The places of one error, p4c's main place first. The list is empty if the error has no place.
pub type Places = Vec<Place>;

/// Returns the errors in a text that p4c has printed, in the order of the text.
pub fn errors(text: &str) -> Vec<Places> {
    let mut errors: Vec<Places> = Vec::new();
    let mut is_in_error = false;
    for line in text.lines() {
        let place = place(line);
        let rest = place.as_ref().map_or(line, |(_, rest)| *rest);
        if is_error(rest, place.is_some()) {
            is_in_error = !is_summary(rest);
            if is_in_error {
                errors.push(place.into_iter().map(|(place, _)| place).collect());
            }
        } else if rest.contains("warning:") && (place.is_some() || rest.starts_with('[')) {
            is_in_error = false;
        } else if let (true, Some((place, _)), Some(error)) =
            (is_in_error, place, errors.last_mut())
        {
            error.push(place);
        }
    }
    errors
}

fn is_error(rest: &str, has_place: bool) -> bool {
    let rest = rest.trim_start_matches(':').trim_start();
    rest.starts_with("[--Werror=") && rest.contains("error:")
        || rest.starts_with("error:")
        || has_place && rest.starts_with("syntax error")
        || has_place && rest.starts_with('[') && rest.contains("] error:")
}

/// Returns whether a line is the summary that contains the number of errors.
fn is_summary(rest: &str) -> bool {
    rest.contains("errors encountered, aborting compilation")
}

/// Splits off the file and the line number (`name.p4(12)`) at the beginning of a line.
fn place(line: &str) -> Option<(Place, &str)> {
    let (path, behind) = line.split_once('(')?;
    let (number, rest) = behind.split_once(')')?;
    let line = number.parse().ok()?;
    if path.is_empty() || path.contains(char::is_whitespace) {
        return None;
    }
    let file = path.rsplit('/').next().unwrap_or(path).to_owned();
    Some((Place { file, line }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str, line: u32) -> Place {
        Place {
            file: file.into(),
            line,
        }
    }

    #[test]
    fn errors_have_their_places_and_warnings_are_left_out() {
        let text = "\
a.p4(3): [--Wwarn=unused] warning: x: not used
header x {}
       ^
a.p4(9)
inc/b.p4(7): [--Werror=type-error] error: f: wrong (very)
    f(1);
    ^^^^
a.p4(2)
void f();
     ^
a.p4(8):syntax error, unexpected }
}
^
[--Werror=not-found] error: no main
[--Werror=overlimit] error: 3 errors encountered, aborting compilation
";
        assert_eq!(
            errors(text),
            [
                vec![place("b.p4", 7), place("a.p4", 2)],
                vec![place("a.p4", 8)],
                vec![],
            ]
        );
        assert_eq!(
            errors("a.p4(3): [--Wwarn=x] warning: error: y\n"),
            [] as [Places; 0]
        );
    }
}
