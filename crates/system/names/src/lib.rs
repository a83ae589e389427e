//! Finds an object by a name that may omit leading parts, and suggests the known name that an unknown name resembles.

#![forbid(unsafe_code)]

/// Maximum number of names in a message, so that it fits a line.
const NAMES_SHOWN_MAX: usize = 10;

/// Finds the name that equals `wanted`. If there is none, finds the only name that ends with a dot and `wanted`.
///
/// # Errors
/// No name or several names match; the message has suggestions.
pub fn find<'n, T: Copy>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = (T, &'n str)>,
) -> Result<T, String> {
    let suffix = format!(".{wanted}");
    let tests: [&dyn Fn(&str) -> bool; 2] =
        [&|name| name == wanted, &|name| name.ends_with(&suffix)];
    find_by(kind, wanted, names, &tests)
}

/// Finds a name with tests, which are applied in order. The first test that matches any name must match only one name.
///
/// # Errors
/// As [`find`].
pub fn find_by<'n, T: Copy>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = (T, &'n str)>,
    tests: &[&dyn Fn(&str) -> bool],
) -> Result<T, String> {
    let names: Vec<(T, &str)> = names.collect();
    for is_it in tests {
        let mut found = names.iter().filter(|(_, name)| is_it(name));
        match (found.next(), found.next()) {
            (None, _) => {}
            (Some((id, _)), None) => return Ok(*id),
            (Some((_, one)), Some((_, other))) => {
                return Err(format!(
                    "{kind} \"{wanted}\" may be \"{one}\" or \"{other}\""
                ));
            }
        }
    }
    let near = nearest(wanted, names.iter().map(|(_, name)| *name)).or_else(|| {
        // The last parts of dotted names are compared too, because users usually write only the last part.
        let lasts = names
            .iter()
            .filter_map(|(_, name)| Some(name.rsplit_once('.')?.1));
        nearest(wanted, lasts)
    });
    if let Some(near) = near {
        return Err(format!("no {kind} \"{wanted}\", did you mean \"{near}\"?"));
    }
    let known: Vec<String> = names
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|(_, name)| format!("\"{name}\""))
        .collect();
    let more = match names.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Err(if known.is_empty() {
        format!("no {kind} \"{wanted}\", there is none at all")
    } else {
        format!(
            "no {kind} \"{wanted}\", there is {}{more}",
            known.join(", ")
        )
    })
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

/// Edit distance: the least number of letters to change, to add, to leave out, or to swap with the next letter.
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
