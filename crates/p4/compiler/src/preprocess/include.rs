//! `#include`: the folders that it searches, and the message if a file is not found.

use super::directive::spelled;
use super::token::{Kind, PpToken};
use super::{EMBEDDED, Preprocessor, is_embedded};
use crate::limits;
use crate::source::Span;

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

struct Wanted {
    name: String,
    /// Whether the name is in `<>`.
    system: bool,
}

impl Preprocessor<'_> {
    /// Executes an `#include` or, if `once` is set, an `#import`, which reads a file only once.
    pub(super) fn include(&mut self, rest: &[PpToken], span: Span, once: bool) {
        if self.files.len() > limits::INCLUDE_DEPTH {
            self.sink
                .error(
                    "E0117",
                    span,
                    format!(
                        "includes are nested more than {} levels deep",
                        limits::INCLUDE_DEPTH
                    ),
                )
                .help("guard the file with `#ifndef`");
            return;
        }
        let Some(Wanted { name, system }) = self.wanted(rest) else {
            self.sink.set_include_failed();
            self.sink.error(
                "E0112",
                span,
                "expected `\"file\"` or `<file>` after `#include`",
            );
            return;
        };
        let from = self.including();
        match self.find(&from, &name, system) {
            Some((path, _)) if self.once.contains(&path) => {}
            Some((path, text)) => {
                if once {
                    self.once.insert(path.clone());
                }
                if !self.takes(&text, span) {
                    return;
                }
                let file = self.sources.add(&path, &text);
                self.sources.set_included_at(file, Some(span));
                self.open(file, &path, &text);
            }
            None => self.not_found(&from, &name, system, span),
        }
    }

    /// Counts the bytes of a text; returns false if there are too many.
    pub(super) fn takes(&mut self, text: &str, span: Span) -> bool {
        self.source_bytes = self.source_bytes.saturating_add(text.len() as u64);
        if self.source_bytes <= limits::SOURCE_BYTES {
            return true;
        }
        if !self.exhausted {
            self.exhausted = true;
            let message = format!(
                "the program and the files that it includes have more than {} bytes",
                limits::SOURCE_BYTES
            );
            self.sink.error("E0119", span, message);
        }
        false
    }

    fn including(&self) -> String {
        self.files
            .last()
            .map_or(String::new(), |file| file.name.clone())
    }

    pub(super) fn would_find(&self, name: &str, system: bool) -> bool {
        self.find(&self.including(), name, system).is_some()
    }

    fn wanted(&mut self, rest: &[PpToken]) -> Option<Wanted> {
        let quoted = |token: &PpToken| Wanted {
            name: token.text.trim_matches('"').to_owned(),
            system: false,
        };
        let first = rest.first()?;
        if first.kind == Kind::Str {
            self.nothing_more("include", &rest[1..]);
            return Some(quoted(first));
        }
        if first.is("<") {
            let name = self.sources.rest_of_line(first.span).strip_prefix('<')?;
            let (name, _) = name.split_once('>')?;
            return Some(Wanted {
                name: name.trim().to_owned(),
                system: true,
            });
        }
        let mut tokens = self.expand_alone(rest);
        tokens.retain(|token| token.kind != Kind::Edge);
        let first = tokens.first()?;
        if first.kind == Kind::Str {
            return Some(quoted(first));
        }
        let end = tokens.iter().position(|token| token.is(">"))?;
        first.is("<").then(|| Wanted {
            name: spelled(&tokens[1..end]),
            system: true,
        })
    }

    /// Reports which folders were searched, or why a file that was found there cannot be used.
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
        let meant = names::nearest(name, built_in);
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

    /// Returns the paths at which an included file may be, in the order of the search.
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
