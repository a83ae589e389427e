//! What every code means, with a wrong and a right example: `reprise explain CODE`.
//!
//! The texts stand in `*.md` beside this file, a section a code (`# E0301: title`). An example is a
//! fenced block whose first line says what of a program it is (`tests/explain.rs` puts the rest
//! around it and compiles it): `p4 program` all of it, `p4 top` declarations, `p4 control` the
//! inside of an ingress control, `p4 apply` statements of its `apply`, `p4 parser` the inside of a
//! parser.

/// The texts, in the order of the codes.
const TEXTS: &[&str] = &[
    include_str!("preprocessor.md"),
    include_str!("syntax.md"),
    include_str!("names.md"),
    include_str!("types.md"),
    include_str!("constants.md"),
    include_str!("back_end.md"),
    include_str!("p4info.md"),
    include_str!("warnings.md"),
];

/// What a code means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// For example `E0301`.
    pub code: &'static str,
    /// In one line.
    pub title: &'static str,
    /// All of it, in Markdown, without the heading.
    pub text: &'static str,
}

impl Explanation {
    /// For a terminal: code is indented, not fenced.
    pub fn render(&self) -> String {
        let mut out = format!("{}: {}\n", self.code, self.title);
        let mut in_code = false;
        for line in self.text.trim_end().lines() {
            if line.starts_with("```") {
                in_code = !in_code;
                continue;
            }
            if in_code && !line.is_empty() {
                out.push_str("    ");
            }
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}

/// The explanation of a code, written in any case, where there is one.
pub fn explain(code: &str) -> Option<Explanation> {
    explanations().find(|found| found.code.eq_ignore_ascii_case(code.trim()))
}

/// All of them, in the order of the codes.
pub fn explanations() -> impl Iterator<Item = Explanation> {
    TEXTS.iter().flat_map(|text| sections(text))
}

fn sections(text: &'static str) -> impl Iterator<Item = Explanation> {
    let is_heading = |rest: &str| {
        let mut chars = rest.chars();
        matches!(chars.next(), Some('E' | 'W')) && chars.next().is_some_and(|c| c.is_ascii_digit())
    };
    let mut starts: Vec<usize> = text
        .match_indices("# ")
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')
        .filter(|at| is_heading(&text[at + 2..]))
        .collect();
    starts.push(text.len());
    let section = |bounds: &[usize]| {
        let (heading, body) = text[bounds[0] + 2..bounds[1]].split_once('\n')?;
        let (code, title) = heading.split_once(": ")?;
        Some(Explanation {
            code,
            title,
            text: body,
        })
    };
    starts
        .windows(2)
        .filter_map(section)
        .collect::<Vec<_>>()
        .into_iter()
}
