//! Interprets a command line of p4c's programs.

use std::path::PathBuf;

use p4_compiler::{Options, P4Info};
use p4runtime_proto::P4RuntimeVersion;

use super::Name;
use super::dependencies::{Dependencies, quoted};
use super::options::{self, Does, Given, Takes};
use crate::failure::Failure;
use crate::output;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Binary,
    Json,
}

impl Format {
    fn of_file(path: &str) -> Result<Format, Failure> {
        match path.rsplit_once('.').map(|(_, suffix)| suffix) {
            Some("txt" | "txtpb") => Ok(Format::Text),
            Some("bin") => Ok(Format::Binary),
            Some("json") => Ok(Format::Json),
            _ => Err(Failure::new(format!(
                "--p4runtime-files: the format of `{path}` is not known, expected a name that \
                 ends with .txtpb, .txt, .bin or .json"
            ))),
        }
    }

    fn of_name(name: &str) -> Result<Format, Failure> {
        match name {
            "text" => Ok(Format::Text),
            "binary" => Ok(Format::Binary),
            "json" => Ok(Format::Json),
            _ => Err(Failure::new(format!(
                "--p4runtime-format {name}: expected binary, json or text"
            ))),
        }
    }

    pub fn encode(self, p4info: &P4Info) -> Vec<u8> {
        match self {
            Format::Text => p4_compiler::p4info_text(p4info).into_bytes(),
            Format::Binary => p4_compiler::p4info_binary(p4info),
            Format::Json => p4_compiler::p4info_json(p4info).into_bytes(),
        }
    }
}

pub struct Request {
    pub input: PathBuf,
    /// The path of the output: a file if this program is called as p4c's back end, a folder if it is called as p4c's
    /// driver.
    pub output: Option<PathBuf>,
    pub options: Options,
    pub preprocess_only: bool,
    pub skip_preprocessor: bool,
    pub p4info: Vec<(PathBuf, Format)>,
    pub dependencies: Dependencies,
    pub n_errors_max: usize,
    pub verbose: bool,
}

impl Request {
    /// Parses a command line. Answers `--help` and `--version` itself, and then returns `None`.
    pub fn parse(name: Name, words: Vec<String>) -> Result<Option<Request>, Failure> {
        let (given, inputs) = options::split(name, words)?;
        if given.iter().any(|given| given.does == Does::Help) {
            help(name);
            return Ok(None);
        }
        if given.iter().any(|given| given.does == Does::Version) {
            output::text(version(name));
            return Ok(None);
        }
        let mut builder = Builder::new(name)?;
        for given in given {
            builder.apply(given)?;
        }
        builder.finish(&inputs).map(Some)
    }
}

fn version(name: Name) -> String {
    format!(
        "{} of reprise {}\nVersion {} (P4_16 {}, options of p4c {})",
        name.as_str(),
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_VERSION"),
        "1.2.5",
        "1.2.5"
    )
}

fn help(name: Name) {
    let usage = match name {
        Name::BackEnd => "p4c-bm2-ss [OPTION]... PROGRAM.p4 -o PROGRAM.json",
        Name::Driver => "p4c [OPTION]... PROGRAM.p4 -o DIR",
    };
    output::text(format!("{}: {usage}\n", version(name)));
    for spec in options::options(name) {
        let names = spec.names.join(", ");
        let names = match spec.takes {
            Takes::Nothing => names,
            Takes::Value(what) => format!("{names} {what}"),
            Takes::Optional(what) => format!("{names}[={what}]"),
        };
        let note = match spec.does {
            Does::NoEffect => "no effect on the output",
            Does::Refused(_) => "refused",
            _ => "",
        };
        output::text(format!("  {names:<44} {note}").trim_end());
    }
}

struct Builder {
    name: Name,
    request: Request,
    p4info_file: Option<PathBuf>,
    p4info_format: Format,
    target: String,
    arch: String,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Builder {
    fn new(name: Name) -> Result<Builder, Failure> {
        let of_driver = |variable_name: &str, default: &str| {
            let found = (name == Name::Driver).then(|| variable(variable_name));
            found.flatten().unwrap_or_else(|| default.to_owned())
        };
        let builder = Builder {
            name,
            request: Request {
                input: PathBuf::new(),
                output: None,
                options: Options {
                    p4runtime_version: P4RuntimeVersion::of_environment().map_err(Failure::new)?,
                    ..Options::default()
                },
                preprocess_only: false,
                skip_preprocessor: false,
                p4info: Vec::new(),
                dependencies: Dependencies::default(),
                n_errors_max: usize::MAX,
                verbose: false,
            },
            p4info_file: None,
            p4info_format: Format::Binary,
            target: of_driver("P4C_DEFAULT_TARGET", "bmv2"),
            arch: of_driver("P4C_DEFAULT_ARCH", "v1model"),
        };
        let language = of_driver("P4C_DEFAULT_LANGUAGE", "p4-16");
        expect_p4_16("P4C_DEFAULT_LANGUAGE", &language)?;
        Ok(builder)
    }

    fn apply(&mut self, given: Given) -> Result<(), Failure> {
        let request = &mut self.request;
        let has_value = given.value.is_some();
        let value = given.value.unwrap_or_default();
        match given.does {
            // Handled by `Request::parse`.
            Does::Help | Does::Version => {}
            Does::NoEffect | Does::KeepWarnings => {}
            Does::Refused(why) => {
                return Err(Failure::new(format!(
                    "{} is not supported: {why}",
                    given.name
                )));
            }
            Does::Include => request.options.include_dirs.push(value),
            Does::Define => {
                let define = Options::parse_define(&value).map_err(Failure::new)?;
                request.options.defines.push(define);
            }
            Does::Undefine => request.options.undefines.push(value),
            Does::PreprocessOnly => request.preprocess_only = true,
            Does::SkipPreprocessor => request.skip_preprocessor = true,
            Does::Dependencies
            | Does::DependenciesBeside
            | Does::DependenciesFile
            | Does::DependenciesPhony
            | Does::DependenciesTarget
            | Does::DependenciesQuotedTarget => self.dependencies(given.does, value),
            Does::PreprocessorWarning => {
                if let Some(("error", name)) = value.split_once('=') {
                    add_names(&mut request.options.denied_warnings, name);
                } else if value == "error" {
                    request.options.warnings_as_errors = true;
                }
            }
            Does::WarningsAsErrors if has_value => {
                add_names(&mut request.options.denied_warnings, &value);
            }
            Does::WarningsAsErrors => request.options.warnings_as_errors = true,
            Does::DisableWarnings if has_value => {
                add_names(&mut request.options.disabled_warnings, &value);
            }
            Does::DisableWarnings => request.options.all_warnings_disabled = true,
            Does::Language => expect_p4_16(&given.name, &value)?,
            Does::ErrorsMax => {
                request.n_errors_max = value.parse().map_err(|_| {
                    Failure::new(format!("{} {value}: expected a number", given.name))
                })?;
            }
            Does::Verbose => request.verbose = true,
            Does::P4InfoFile => self.p4info_file = Some(value.into()),
            Does::P4RuntimeVersion => {
                let version = value.parse();
                request.options.p4runtime_version = version.map_err(|error: String| {
                    Failure::new(format!("--p4runtime-version: {error}"))
                })?;
            }
            Does::P4InfoFormat => self.p4info_format = Format::of_name(&value)?,
            Does::P4InfoFiles => {
                for file in value.split(',').filter(|file| !file.is_empty()) {
                    let format = Format::of_file(file)?;
                    request.p4info.push((file.into(), format));
                }
            }
            Does::Target => self.target = value,
            Does::Arch => self.arch = value,
            Does::Optimise => request.options.optimise = value != "0",
            Does::EmitExterns => request.options.emit_externs = true,
            Does::Output => request.output = Some(value.into()),
            Does::ForCompiler => self.for_compiler(&value)?,
        }
        Ok(())
    }

    fn dependencies(&mut self, does: Does, value: String) {
        let request = &mut self.request;
        let dependencies = &mut request.dependencies;
        match does {
            Does::Dependencies => {
                dependencies.in_place_of_output = true;
                request.preprocess_only = true;
            }
            Does::DependenciesFile => dependencies.file = Some(value.into()),
            Does::DependenciesPhony => dependencies.phony = true,
            Does::DependenciesTarget => dependencies.targets.push(value),
            Does::DependenciesQuotedTarget => dependencies.targets.push(quoted(&value)),
            _ => dependencies.beside_output = true,
        }
    }

    /// Applies the compiler options that the value of a driver's option contains: `-Xp4c "-DX --Wdisable"`.
    fn for_compiler(&mut self, words: &str) -> Result<(), Failure> {
        let words = words.split_whitespace().map(str::to_owned).collect();
        let (given, inputs) = options::split(Name::BackEnd, words)?;
        if let Some(input) = inputs.first() {
            return Err(Failure::new(format!(
                "`{input}` after -Xp4c or -Xpreprocessor is not an option"
            )));
        }
        given.into_iter().try_for_each(|given| self.apply(given))
    }

    fn finish(mut self, inputs: &[String]) -> Result<Request, Failure> {
        let is_bmv2 = match self.name {
            Name::Driver => self.target == "bmv2",
            Name::BackEnd => self.target.starts_with("bmv2") || self.target == "simple_switch",
        };
        if !is_bmv2 || self.arch != "v1model" {
            return Err(Failure::new(format!(
                "target `{}` with architecture `{}` is not supported: this compiler is for bmv2 \
                 with v1model",
                self.target, self.arch
            )));
        }
        let [input] = inputs else {
            return Err(Failure::new(match inputs.len() {
                0 => format!(
                    "no program was named, expected one file (`{} --help`)",
                    self.name.as_str()
                ),
                n => format!("expected one program, {n} were named: {}", inputs.join(" ")),
            }));
        };
        self.request.input = input.into();
        if let Some(file) = self.p4info_file {
            self.request.p4info.push((file, self.p4info_format));
        }
        let folders = variable("P4C_16_INCLUDE_PATH");
        self.request.options.include_dirs.extend(folders);
        Ok(self.request)
    }
}

fn add_names(to: &mut Vec<String>, names: &str) {
    let names = names.split(',').filter(|name| !name.is_empty());
    to.extend(names.map(str::to_owned));
}

fn expect_p4_16(option: &str, value: &str) -> Result<(), Failure> {
    match value {
        "16" | "1.2" | "p4-16" | "p4_16" => Ok(()),
        "14" | "1.0" | "p4-14" | "p4_14" => Err(Failure::new(format!(
            "{option} {value}: this compiler reads P4_16 only; p4c's `p4test --std p4-14 --pp \
             NEW.p4 OLD.p4` translates a P4_14 program"
        ))),
        _ => Err(Failure::new(format!(
            "{option} {value}: there is no such language version, expected p4-16"
        ))),
    }
}
