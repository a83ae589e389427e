//! Finds the table, action or key field that a test names. A name may omit leading parts if the rest is unique.

use ::names::find_by;
use dataplane::KeyField;

/// The error says that no name matches, or that several do.
pub(crate) type Found<T> = Result<T, String>;

/// Like [`::names::find`]. If that finds no name, then, as in p4c's driver, finds the only name that ends with
/// `wanted`, even if `wanted` begins within a component.
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
