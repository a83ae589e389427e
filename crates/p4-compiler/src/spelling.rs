//! Words for messages: known names similar to an unknown one, and numbers with their nouns.

/// `1 key`, `2 keys`.
pub fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// "`f` takes 1 argument, 2 were given".
pub fn wrong_count(name: &str, kind: &str, wanted: usize, given: usize) -> String {
    let takes = counted(
        wanted,
        &format!("{kind}argument"),
        &format!("{kind}arguments"),
    );
    let were = if given == 1 { "was" } else { "were" };
    format!("`{name}` takes {takes}, {given} {were} given")
}

/// The most similar candidate, if it is similar enough to be meant.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let bound = match name.len() {
        0..=2 => 0,
        3..=5 => 1,
        len => len / 3,
    };
    let near = candidates
        .filter(|candidate| *candidate != name)
        .map(|candidate| {
            if candidate.eq_ignore_ascii_case(name) {
                (0, candidate)
            } else {
                (distance(name.as_bytes(), candidate.as_bytes()), candidate)
            }
        })
        .filter(|(far, _)| *far <= bound);
    near.min().map(|(_, candidate)| candidate.to_owned())
}

/// Edit distance: letters changed, added, left out, or swapped with the next.
pub fn distance(left: &[u8], right: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut best = (row[j] + usize::from(a != b))
                .min(row[j + 1] + 1)
                .min(next[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}
