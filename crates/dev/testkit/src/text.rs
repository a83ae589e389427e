//! Assertions about text that a command has printed, which show it and what it lacks; tables of cases as text.

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

/// The cases of a table that is text: a line with what is given, and below it, indented, what is expected.
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
