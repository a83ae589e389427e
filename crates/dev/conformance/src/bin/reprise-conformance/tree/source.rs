//! Classifies and compiles a file, with the tree's own include folders and macros.

use std::path::Path;

use p4_compiler::{Diagnostic, Options};
use stf::SourceFiles;

use super::settings::{Defines, Settings};
use super::{Plan, Verdict, below};
use crate::files;
use crate::worker::{errors_of, first_error};

/// Maximum number of include folders that are added for one program.
const SEARCHES_MAX: usize = 64;
/// The error code for an included file that was not found.
const NOT_FOUND: &str = "E0118";
/// The error code for a `V1Switch` with other standard metadata than v1model's.
const OWN_METADATA: &str = "E0602";
/// The error code for an extern that simple_switch lacks.
const OWN_EXTERN: &str = "E0610";
const V1MODEL: &str = "V1Switch";
const ARCHITECTURES: [&str; 16] = [
    "psa",
    "pna",
    "tna",
    "t2na",
    "tofino",
    "tofino1_arch",
    "tofino2_arch",
    "tofino1_specs",
    "tofino2_specs",
    "ebpf_model",
    "ubpf_model",
    "xdp_model",
    "xsa",
    "SimpleSumeSwitch",
    "sume_switch",
    "simple_sume_switch",
];

pub struct Source {
    pub json: p4_compiler::bmv2_json::Program,
    pub p4info: p4_compiler::P4Info,
    pub searched: Vec<String>,
}

pub type Found = Result<Box<Source>, Verdict>;

pub fn compile(path: &Path, plan: &Plan, settings: &Settings) -> Found {
    let Ok(text) = files::read_text(path) else {
        // The file is not valid UTF-8, so it is not a P4 source.
        return Err(Verdict::Part);
    };
    let file = File {
        path,
        text: &text,
        settings,
    };
    let mut first_refusal = None;
    for defines in settings.defines(path) {
        match file.compile(file.options(plan, defines)) {
            Ok(source) => return Ok(source),
            Err(Verdict::P4_14) => return Err(Verdict::P4_14),
            Err(Verdict::Part) => {}
            Err(verdict) => {
                first_refusal.get_or_insert(verdict);
            }
        }
    }
    match first_refusal {
        // A file that other files include need not compile alone.
        Some(Verdict::Refused { .. }) if settings.is_included(path) => Err(Verdict::Part),
        refusal => Err(refusal.unwrap_or(Verdict::Part)),
    }
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
    settings: &'a Settings,
}

impl File<'_> {
    fn options(&self, plan: &Plan, defines: Defines) -> Options {
        let named = self.settings.include_dirs(self.path);
        let dirs = plan.include_dirs.iter().chain(&named);
        Options {
            include_dirs: dirs.map(|dir| dir.display().to_string()).collect(),
            defines: plan.defines.iter().cloned().chain(defines).collect(),
            all_warnings_disabled: true,
            optimise: plan.optimise,
            ..Options::default()
        }
    }

    fn compile(&self, mut options: Options) -> Found {
        let name = self.path.display().to_string();
        let searched = self.search(&name, &mut options)?;
        let mut output = p4_compiler::compile(&name, self.text, &SourceFiles, &options);
        let mut errors = errors_of(&output.diagnostics);
        if errors.any(|error| error.code == OWN_EXTERN) {
            return Err(Verdict::OwnExtern {
                message: first_error(&output.diagnostics),
            });
        }
        match (output.bmv2_json.take(), output.p4info.take()) {
            (Some(json), Some(p4info)) => Ok(Box::new(Source {
                json,
                p4info,
                searched,
            })),
            _ => Err(refused(&output.diagnostics)),
        }
    }

    /// Adds include folders until every included file is found. Returns the added folders, or a verdict if the file is
    /// not a program for v1model.
    fn search(&self, name: &str, options: &mut Options) -> Result<Vec<String>, Verdict> {
        let mut searched = Vec::new();
        loop {
            let preprocessed = p4_compiler::preprocess(name, self.text, &SourceFiles, options);
            let code = tokens(&preprocessed.text);
            if is_p4_14(&code) {
                return Err(Verdict::P4_14);
            }
            let package = package(&code);
            let mut errors = errors_of(&preprocessed.diagnostics);
            let Some(missing) = errors.find(|error| error.code == NOT_FOUND) else {
                return match package {
                    Some(V1MODEL) => Ok(searched),
                    Some(other) => Err(other_architecture(other)),
                    None => Err(Verdict::Part),
                };
            };
            let include = missing.message.split('`').nth(1).unwrap_or_default();
            let folder = self.settings.folder_with(self.path, include);
            let folder = folder.map(|folder| folder.display().to_string());
            let folder = folder.filter(|folder| !options.include_dirs.contains(folder));
            match (folder, package, architecture(include)) {
                (_, Some(_), Some(other)) => return Err(other_architecture(other)),
                (Some(folder), ..) if searched.len() < SEARCHES_MAX => {
                    options.include_dirs.push(folder.clone());
                    searched.push(below(self.settings.root(), Path::new(&folder)));
                }
                (_, Some(package), _) if package != V1MODEL => {
                    return Err(other_architecture(package));
                }
                (_, Some(_), _) => {
                    return Err(Verdict::MissingInclude {
                        message: first_error(&preprocessed.diagnostics),
                    });
                }
                (_, None, _) => return Err(Verdict::Part),
            }
        }
    }
}

fn refused(diagnostics: &[Diagnostic]) -> Verdict {
    let code = errors_of(diagnostics).next();
    if code.is_some_and(|error| error.code == OWN_METADATA) {
        return other_architecture("V1Switch of its own");
    }
    Verdict::Refused {
        code: code.map_or_else(String::new, |error| error.code.clone()),
        message: first_error(diagnostics),
    }
}

fn other_architecture(name: &str) -> Verdict {
    Verdict::OtherArchitecture {
        architecture: name.to_owned(),
    }
}

fn architecture(include: &str) -> Option<&str> {
    let file = include.rsplit('/').next()?;
    let name = file.strip_suffix(".p4")?;
    ARCHITECTURES.contains(&name).then_some(name)
}

/// Splits preprocessed text into words and single characters, and leaves out string literals.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let len = match c {
                '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
                _ if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => c.len_utf8(),
            };
            if c != '"' && !c.is_whitespace() {
                tokens.push(&rest[..len]);
            }
            rest = &rest[len..];
        }
    }
    tokens
}

fn is_p4_14(tokens: &[&str]) -> bool {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "header_type" | "field_list" | "control" | "parser"
                if depth == 0 && tokens.get(at + 2) == Some(&"{") =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Returns the package that `main` instantiates.
fn package<'a>(tokens: &[&'a str]) -> Option<&'a str> {
    let ends = tokens.windows(3).rposition(|it| it == [")", "main", ";"])?;
    let opens = opening(&tokens[..ends], (")", "("))?;
    let before = match tokens[..opens].last() {
        Some(&">") => opening(&tokens[..opens - 1], (">", "<"))?,
        _ => opens,
    };
    tokens[..before].last().copied()
}

/// Returns the index of the opening bracket that belongs to the closing bracket directly after `tokens`.
fn opening(tokens: &[&str], (close, open): (&str, &str)) -> Option<usize> {
    let mut depth = 1;
    tokens.iter().rposition(|token| {
        depth += i32::from(*token == close) - i32::from(*token == open);
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_tells_the_package() {
        let of = |text: &str| package(&tokens(text)).map(str::to_owned);
        let simple = "V1Switch(P(), C(), I(), E(), U(), D()) main;";
        assert_eq!(of(simple).as_deref(), Some("V1Switch"));
        let generic = "PSA_Switch<A, B<C>>(I(), P()) main;\nconst bit<8> x = 1;";
        assert_eq!(of(generic).as_deref(), Some("PSA_Switch"));
        assert_eq!(of("control C() { apply { } }"), None);
        assert_eq!(of("action main() { }"), None);
    }

    #[test]
    fn p4_14_is_told_by_its_top_level() {
        let is = |text: &str| is_p4_14(&tokens(text));
        assert!(is("header_type ethernet_t { fields { dst : 48; } }"));
        assert!(is("parser start { return ingress; }"));
        assert!(is("control ingress { apply(t); }"));
        assert!(!is(
            "control ingress(inout h_t h) { table t { actions = { a; } } apply { } }"
        ));
        assert!(!is(
            "@name(\"control x {\") header h_t { bit<8> parser_control; }"
        ));
    }
}
