//! Finds the table, action or key field that a test names. A name may omit leading parts if the rest is unique.

use dataplane::KeyField;

/// Maximum number of names in a message, so that it fits a line.
const NAMES_SHOWN_MAX: usize = 10;

/// Err: no such name, or an ambiguous one.
pub(crate) type Found<T> = Result<T, String>;

/// Finds a name: the exact one, else the only one that ends with `.wanted`.
///
/// # Errors
/// No name or several names match; the message has suggestions.
pub fn find_name<'n, T: Copy>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = (T, &'n str)>,
) -> Result<T, String> {
    let suffix = format!(".{wanted}");
    let tests: [&dyn Fn(&str) -> bool; 2] =
        [&|name| name == wanted, &|name| name.ends_with(&suffix)];
    find_by(kind, wanted, names, &tests)
}

/// Like `find_name`; then, as in p4c's driver, the only one that ends with `wanted` at all.
pub(crate) fn find<'n, T: Copy>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = (T, &'n str)>,
) -> Found<T> {
    let suffix = format!(".{wanted}");
    let tests: [&dyn Fn(&str) -> bool; 3] = [
        &|name| name == wanted,
        &|name| name.ends_with(&suffix),
        &|name| name.ends_with(wanted),
    ];
    find_by(kind, wanted, names, &tests)
}

/// Applies the tests in order. The first test that matches any name must match only one.
fn find_by<'n, T: Copy>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = (T, &'n str)>,
    tests: &[&dyn Fn(&str) -> bool],
) -> Found<T> {
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
    let near = p4_compiler::nearest(wanted, names.iter().map(|(_, name)| *name)).or_else(|| {
        // Compare the last part of dotted names too: users usually write only that.
        let lasts = names
            .iter()
            .filter_map(|(_, name)| Some(name.rsplit_once('.')?.1));
        p4_compiler::nearest(wanted, lasts)
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

/// Index of a key field. Besides the plain name, `h$0.f` means `h[0].f`, and a header's validity is `h`, `h.valid`,
/// `h.$valid$` or `h.isValid()`.
pub(crate) fn key_field(wanted: &str, fields: &[KeyField]) -> Found<usize> {
    let wanted = with_brackets(wanted);
    let plain: Vec<String> = fields.iter().map(|field| bare(&field.name)).collect();
    let names = || plain.iter().map(String::as_str).enumerate();
    find("key field", &bare(&wanted), names())
}

/// Rewrites `h$0.f` as `h[0].f`.
fn with_brackets(name: &str) -> String {
    for (at, _) in name.rmatch_indices('$') {
        let rest = &name[at + 1..];
        let n_digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if n_digits > 0 {
            let (index, behind) = rest.split_at(n_digits);
            return format!("{}[{index}]{behind}", &name[..at]);
        }
    }
    name.to_owned()
}

/// A field's name in comparable form: all names of a header's validity become equal.
fn bare(name: &str) -> String {
    let endings = [".$valid$", ".isValid()", ".valid"];
    if let Some(header) = endings.iter().find_map(|ending| name.strip_suffix(ending)) {
        return header.to_owned();
    }
    name.strip_suffix('$').unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::MatchKind;

    fn key(names: &[&str]) -> Vec<KeyField> {
        let field = |name: &&str| KeyField {
            name: (*name).to_owned(),
            kind: MatchKind::Exact,
            width_bits: 8,
            is_signed: false,
            is_secret: false,
        };
        names.iter().map(field).collect()
    }

    #[test]
    fn the_shortest_name_that_is_unique_will_do() {
        let names = ["c.t", "d.t", "d.xt", "e.u"];
        let wanted = |name| find("table", name, names.into_iter().enumerate());
        assert_eq!(wanted("d.t"), Ok(1));
        assert_eq!(wanted("xt"), Ok(2));
        assert_eq!(wanted("u"), Ok(3));
        assert_eq!(wanted(".u"), Ok(3));
        assert_eq!(
            wanted("t").unwrap_err(),
            "table \"t\" may be \"c.t\" or \"d.t\""
        );
        assert!(
            wanted("v")
                .unwrap_err()
                .contains("no table \"v\", there is")
        );
        let long = ["c.forward", "c.deliver"];
        let wanted = |name| find("table", name, long.into_iter().enumerate());
        assert_eq!(
            wanted("forwrad").unwrap_err(),
            "no table \"forwrad\", did you mean \"forward\"?"
        );
    }

    #[test]
    fn a_stack_element_and_a_validity_have_several_names() {
        let fields = key(&["extra[0].h", "hdr.ipv4.$valid$", "hdr.ipv6.isValid()"]);
        assert_eq!(key_field("extra$0.h", &fields), Ok(0));
        for name in [
            "hdr.ipv4.valid",
            "ipv4.$valid$",
            "hdr.ipv4",
            "ipv4.isValid()",
        ] {
            assert_eq!(key_field(name, &fields), Ok(1), "{name}");
        }
        assert_eq!(key_field("ipv6.valid", &fields), Ok(2));
    }
}
