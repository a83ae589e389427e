//! The explanation of every error and warning code, with a wrong and a right example, for `reprise explain CODE`.
//!
//! The texts are in `*.md` beside this file, one section for each code (`# E0301: title`). An example is a fenced
//! block. The block's first line says which part of a program the example shows, and `tests/explain.rs` compiles the
//! example within the rest of a program. For example, `p4 program` marks a whole program, `p4 top` marks declarations,
//! `p4 control` marks the body of an ingress control, `p4 apply` marks statements of the `apply` of an ingress control,
//! and `p4 parser` marks the body of a parser.

/// The files of explanations, in the order of the codes.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub code: &'static str,
    pub title: &'static str,
    /// Markdown, without the heading.
    pub text: &'static str,
}

impl Explanation {
    /// Formats the explanation for a terminal: code is indented, not fenced.
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
        out + &self.surroundings()
    }

    /// Lists the declarations of names that the examples use without declaring them.
    fn surroundings(&self) -> String {
        let is_used = |(name, _): &&(&str, &str)| {
            // `hdr.word` is also the beginning of `hdr.words`, so a name that an `s` follows does not count as used.
            // `word_t` is listed if the examples use `hdr.word` or `hdr.words`.
            let ends = |rest: &str| !rest.starts_with('s');
            let is_in = |line: &str| line.split(name).skip(1).any(ends);
            match *name {
                "word_t" => self.examples().any(|line| line.contains("word")),
                _ => self.examples().any(is_in),
            }
        };
        let used: Vec<String> = SURROUNDINGS
            .iter()
            .filter(is_used)
            .map(|(name, what)| format!("    {name:<14} {what}\n"))
            .collect();
        if used.is_empty() {
            String::new()
        } else {
            format!("\nAround the examples:\n\n{}", used.concat())
        }
    }

    /// Returns the lines of those examples that show a part of a program, not a whole program.
    fn examples(&self) -> impl Iterator<Item = &str> {
        let mut is_part = false;
        self.text.lines().filter(move |line| {
            if line.starts_with("```") {
                is_part = !is_part && line.starts_with("```p4") && !line.contains("program");
                return false;
            }
            is_part
        })
    }
}

/// The declarations that `testdata/compiler/prelude.p4` puts around an example.
const SURROUNDINGS: &[(&str, &str)] = &[
    ("meta.x", "bit<32>"),
    ("meta.y", "bit<16>"),
    ("meta.flag", "bool"),
    ("hdr.word", "a word_t"),
    ("hdr.words", "a word_t[3]"),
    (
        "word_t",
        "a header of a: bit<32>, b: bit<16>, c: bit<8>, d: int<8>",
    ),
    (
        "hdr.ethernet",
        "a header of dst_addr: bit<48>, src_addr: bit<48>, ether_type: bit<16>",
    ),
];

/// Returns the explanation of a code, in upper or lower case; `None` if there is no such code.
pub fn explain(code: &str) -> Option<Explanation> {
    explanations().find(|found| found.code.eq_ignore_ascii_case(code.trim()))
}

/// Returns all explanations, in the order of the codes.
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
