//! Assertions about text that a command has printed. A failure shows the text and what it lacks.

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
