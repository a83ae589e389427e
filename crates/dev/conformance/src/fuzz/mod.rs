//! Makes random input for the compiler and the JSON loader. No input may cause a panic, a hang or exhausted memory.
//!
//! A case is one random input, and has a number. The content of a case depends only on the number, the seed and the
//! repository's own programs, so the number reproduces a finding. `reprise-conformance fuzz` runs cases in worker
//! processes with limits; `tests/conformance/fuzz.rs` runs a few cases in CI.

mod grammar;
mod json;
mod run;
mod text;

use std::collections::HashMap;
use std::path::Path;

use fastrand::Rng;

pub use run::{Outcome, program, refusal, run};

/// Maximum size of one source or JSON text, in bytes. Longer inputs do not find more faults.
const INPUT_BYTES_MAX: usize = 200_000;
const FOLDERS: &[&str] = &[
    "p4",
    "p4/include",
    "p4/lib",
    "testdata/compiler",
    "testdata/compiler/ok",
    "testdata/compiler/err",
    "testdata/compiler/warn",
    "testdata/stf",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Bytes,
    /// A program in which tokens are deleted, duplicated, swapped, replaced, or taken from another program.
    Tokens,
    /// A program from a grammar, in most cases without type errors.
    Grammar,
    /// A program from the grammar, with changed tokens.
    GrammarTokens,
    Json,
    JsonBytes,
}

#[derive(Debug, Clone)]
pub enum Input {
    Source(String, String),
    Json(String),
}

pub struct Corpus {
    /// The text of every P4 file, by its path from the root.
    files: HashMap<String, String>,
    /// The keys of `files`, sorted.
    paths: Vec<String>,
    jsons: Vec<serde_json::Value>,
}

impl Corpus {
    /// Reads the programs below the repository's root.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn load(root: &Path) -> std::io::Result<Self> {
        let mut files = HashMap::new();
        let mut jsons = Vec::new();
        for folder in FOLDERS {
            let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
                continue;
            };
            let mut paths = entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()?;
            paths.sort();
            for path in paths {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let key = format!("{folder}/{name}");
                match path.extension().and_then(|extension| extension.to_str()) {
                    Some("p4") => drop(files.insert(key, std::fs::read_to_string(&path)?)),
                    Some("json") => {
                        jsons.extend(serde_json::from_str(&std::fs::read_to_string(&path)?));
                    }
                    _ => {}
                }
            }
        }
        let mut paths: Vec<String> = files.keys().cloned().collect();
        paths.sort();
        Ok(Self {
            files,
            paths,
            jsons,
        })
    }

    pub fn len(&self) -> (usize, usize) {
        (self.paths.len(), self.jsons.len())
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() || self.jsons.is_empty()
    }

    pub fn file(&self, path: &str) -> Option<String> {
        let mut parts: Vec<&str> = Vec::new();
        for part in path.split('/') {
            match part {
                "." | "" => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        self.files.get(&parts.join("/")).cloned()
    }

    fn program(&self, rng: &mut Rng) -> (&str, &str) {
        let path = &self.paths[rng.usize(..self.paths.len())];
        (path, &self.files[path])
    }

    pub fn case(&self, seed: u64, number: u64) -> (Kind, Input) {
        let mut rng = Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let kind = match rng.u32(..20) {
            0..2 => Kind::Bytes,
            2..8 => Kind::Tokens,
            8..12 => Kind::Grammar,
            12..14 => Kind::GrammarTokens,
            14..19 => Kind::Json,
            _ => Kind::JsonBytes,
        };
        let input = match kind {
            Kind::Bytes => {
                let (path, text) = self.program(&mut rng);
                Input::Source(path.to_owned(), text::mutate_bytes(&mut rng, text))
            }
            Kind::Tokens => {
                let (path, text) = self.program(&mut rng);
                let (_, other) = self.program(&mut rng);
                Input::Source(path.to_owned(), text::mutate_tokens(&mut rng, text, other))
            }
            Kind::Grammar => Input::Source("fuzz/a.p4".to_owned(), grammar::program(&mut rng)),
            Kind::GrammarTokens => {
                let text = grammar::program(&mut rng);
                let (_, other) = self.program(&mut rng);
                let text = text::mutate_tokens(&mut rng, &text, other);
                Input::Source("fuzz/a.p4".to_owned(), text)
            }
            Kind::Json | Kind::JsonBytes => {
                let mut value = self.jsons[rng.usize(..self.jsons.len())].clone();
                let other = &self.jsons[rng.usize(..self.jsons.len())];
                if kind == Kind::Json {
                    json::mutate(&mut rng, &mut value, other);
                    Input::Json(value.to_string())
                } else {
                    Input::Json(text::mutate_bytes(&mut rng, &value.to_string()))
                }
            }
        };
        (kind, cut(input))
    }
}

fn cut(input: Input) -> Input {
    let cut = |mut text: String| {
        if text.len() > INPUT_BYTES_MAX {
            let mut end = INPUT_BYTES_MAX;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        text
    };
    match input {
        Input::Source(path, text) => Input::Source(path, cut(text)),
        Input::Json(text) => Input::Json(cut(text)),
    }
}
