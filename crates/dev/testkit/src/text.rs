//! Assertions about the output of a command. A failed assertion shows the output and the missing text. This module also
//! reads tables of test cases from text.

#[track_caller]
pub fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in: {text}");
}

#[track_caller]
pub fn assert_starts(text: &str, start: &str) {
    assert!(text.starts_with(start), "{start:?} does not begin: {text}");
}

#[track_caller]
pub fn assert_ends(text: &str, end: &str) {
    assert!(text.ends_with(end), "{end:?} does not end: {text}");
}

/// Returns the cases of a table in text form. A line contains the input, and the indented line below contains the
/// expected output.
pub fn cases(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = table.strip_prefix('\n').unwrap_or(table).lines();
    std::iter::from_fn(move || {
        let given = lines.next()?;
        let expected = lines.next().and_then(|line| line.strip_prefix("    "));
        Some((
            given,
            expected.unwrap_or_else(|| panic!("{given:?} has no indented line below it")),
        ))
    })
}
