//! `#include`: where a file is looked for, and what is said when it is not there.

use super::{EMBEDDED, Preprocessor, is_embedded};
use crate::lex::{Tok, Token};
use crate::limits;
use crate::source::Span;

/// Whether a file is known to declare another architecture than v1model.
fn other_architecture(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    matches!(
        file,
        "psa.p4"
            | "pna.p4"
            | "tna.p4"
            | "t2na.p4"
            | "ebpf_model.p4"
            | "ubpf_model.p4"
            | "xdp_model.p4"
            | "SimpleSumeSwitch.p4"
            | "sume_switch.p4"
    )
}

impl Preprocessor<'_> {
    pub(super) fn include(&mut self, from: &str, rest: &[Token], span: Span) {
        if self.depth >= limits::INCLUDE_DEPTH {
            self.sink
                .error(
                    "E0117",
                    span,
                    format!(
                        "includes are nested more than {} deep",
                        limits::INCLUDE_DEPTH
                    ),
                )
                .help("guard the file with `#ifndef`");
            return;
        }
        let (name, system) = match rest.first().map(|token| &token.tok) {
            Some(Tok::Str(name)) => (name.to_string(), false),
            Some(Tok::Punct("<")) => {
                let last = rest.last().map_or(span, |last| last.span);
                let text = self.sources.text(rest[0].span.to(last));
                (
                    text.trim_matches(|c| c == '<' || c == '>')
                        .trim()
                        .to_owned(),
                    true,
                )
            }
            _ => {
                self.sink.set_include_failed();
                self.sink.error(
                    "E0112",
                    span,
                    "expected `\"file\"` or `<file>` after `#include`",
                );
                return;
            }
        };
        match self.find(from, &name, system) {
            Some((path, text)) => {
                self.depth += 1;
                self.file(&path, &text, Some(span));
                self.depth -= 1;
            }
            None => self.not_found(from, &name, system, span),
        }
    }

    /// Says where was looked, or why what is there cannot be used.
    fn not_found(&mut self, from: &str, name: &str, system: bool, span: Span) {
        let places = self.places(from, name, system);
        let unusable = places.iter().find_map(|path| {
            let why = self.provider.unusable(path)?;
            Some(format!("cannot use `{path}`: {why}"))
        });
        if let Some(message) = unusable {
            self.sink.error("E0118", span, message);
            return;
        }
        let help = if places.is_empty() {
            "no folder to look in: give one with `-I DIR`".to_owned()
        } else {
            let places: Vec<String> = places.iter().map(|path| format!("`{path}`")).collect();
            format!(
                "looked for {}; `-I DIR` adds a folder",
                places.join(" and ")
            )
        };
        let built_in = ["core.p4", "v1model.p4"].into_iter();
        let meant = crate::spelling::nearest(name, built_in);
        let raw = self
            .sink
            .error("E0118", span, format!("cannot find `{name}`"));
        if let Some(meant) = meant {
            raw.help(format!("did you mean `<{meant}>`?"));
        } else if other_architecture(name) {
            raw.help(format!(
                "{name} declares an architecture that this compiler does not have; it compiles for v1model.p4"
            ));
        } else {
            raw.help(help);
        }
    }

    /// The paths at which an included file may be, in the order of the search.
    fn places(&self, from: &str, name: &str, system: bool) -> Vec<String> {
        let beside = match from.rsplit_once('/') {
            _ if name.starts_with('/') => return vec![name.to_owned()],
            Some((dir, _)) => format!("{dir}/{name}"),
            None => name.to_owned(),
        };
        let beside = (!system).then_some(beside);
        let others = self
            .include_dirs
            .iter()
            .map(|dir| format!("{}/{name}", dir.trim_end_matches('/')));
        beside.into_iter().chain(others).collect()
    }

    fn find(&self, from: &str, name: &str, system: bool) -> Option<(String, String)> {
        let embedded = EMBEDDED.iter().find(|(known, _)| *known == name);
        if let Some((known, text)) = embedded.filter(|_| system || is_embedded(from)) {
            return Some((format!("<{known}>"), (*text).to_owned()));
        }
        for path in self.places(from, name, system) {
            if let Some(text) = self.provider.load(&path) {
                return Some((path, text));
            }
        }
        embedded.map(|(known, text)| (format!("<{known}>"), (*text).to_owned()))
    }
}
