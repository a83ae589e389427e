//! Words for messages: numbers with their nouns.

/// Returns a number with its noun, for example `1 key` or `2 keys`.
pub fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Returns the message for a wrong number of arguments: "`f` takes 1 argument, 2 were given".
pub fn wrong_count(name: &str, kind: &str, wanted: usize, given: usize) -> String {
    let takes = counted(
        wanted,
        &format!("{kind}argument"),
        &format!("{kind}arguments"),
    );
    let were = if given == 1 { "was" } else { "were" };
    format!("`{name}` takes {takes}, {given} {were} given")
}
