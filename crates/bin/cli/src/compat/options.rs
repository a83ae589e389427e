//! The options of p4c's programs: their names, their values, and what this compiler does with each.

use super::Name;
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Help,
    Version,
    Include,
    Define,
    Undefine,
    PreprocessOnly,
    SkipPreprocessor,
    Dependencies,
    DependenciesBeside,
    DependenciesFile,
    DependenciesPhony,
    DependenciesTarget,
    DependenciesQuotedTarget,
    PreprocessorWarning,
    Language,
    DisableWarnings,
    KeepWarnings,
    WarningsAsErrors,
    ErrorsMax,
    Verbose,
    P4InfoFile,
    P4InfoFiles,
    P4InfoFormat,
    P4RuntimeVersion,
    Target,
    Arch,
    Optimise,
    EmitExterns,
    Output,
    /// The value contains options of the compiler.
    ForCompiler,
    /// The option is accepted and ignored, because it would not change the output.
    NoEffect,
    Refused(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// One argument, attached to the option or given as the next word. The text is the argument's name in the help.
    Value(&'static str),
    /// An optional argument, which must be attached.
    Optional(&'static str),
}

pub struct Spec {
    pub names: &'static [&'static str],
    pub takes: Takes,
    pub does: Does,
}

const fn option(names: &'static [&'static str], takes: Takes, does: Does) -> Spec {
    Spec { names, takes, does }
}

use Does as D;
use Takes::{Nothing, Optional, Value};

const NO_DUMP: Does = D::Refused(
    "this compiler has no intermediate program in p4c's form; -E shows the program after its \
     includes and macros",
);
const NO_PASSES: Does = D::Refused("this compiler's passes are not p4c's");
const NO_METRICS: Does = D::Refused("code metrics are not measured here");
const NO_ENTRIES: Does = D::Refused(
    "entries are written into the JSON only, which the switch installs when it loads it",
);

const COMMON: &[Spec] = &[
    option(&["-h", "--help"], Nothing, D::Help),
    option(&["-I"], Value("DIR"), D::Include),
    option(&["-D"], Value("NAME[=VALUE]"), D::Define),
    option(&["-E"], Nothing, D::PreprocessOnly),
    option(&["-M"], Nothing, D::Dependencies),
    option(&["-MD"], Nothing, D::DependenciesBeside),
    option(&["-MF"], Value("FILE"), D::DependenciesFile),
    option(&["-MP"], Nothing, D::DependenciesPhony),
    option(&["-MT"], Value("TARGET"), D::DependenciesTarget),
    option(&["-MQ"], Value("TARGET"), D::DependenciesQuotedTarget),
    option(
        &["-MG"],
        Nothing,
        D::Refused("a program whose includes are missing is not read to its end"),
    ),
    option(&["--p4runtime-file"], Value("FILE"), D::P4InfoFile),
    option(&["--p4runtime-files"], Value("FILE,..."), D::P4InfoFiles),
    option(
        &["--p4runtime-format"],
        Value("binary|json|text"),
        D::P4InfoFormat,
    ),
    option(
        &["--p4runtime-version"],
        Value("VERSION"),
        D::P4RuntimeVersion,
    ),
    option(
        &["--disable-annotations"],
        Value("NAME,..."),
        D::Refused("annotations cannot be switched off; a macro around them can"),
    ),
    option(&["--parser-inline-opt"], Nothing, D::NoEffect),
    option(
        &["--ndebug"],
        Nothing,
        D::Refused("assert and assume stay in the program; a macro around them can remove them"),
    ),
    option(&["--metrics"], Value("NAME,..."), NO_METRICS),
    option(&["--dump"], Value("FOLDER"), NO_DUMP),
    option(&["--top4"], Value("PASS,..."), NO_DUMP),
    option(&["--pp"], Value("FILE"), NO_DUMP),
    option(&["--toJSON", "--toJson"], Value("FILE"), NO_DUMP),
    option(&["--fromJSON", "--fromJson"], Value("FILE"), NO_DUMP),
    option(&["-T"], Value("LEVELS"), NO_PASSES),
    option(&["-g"], Nothing, D::NoEffect),
];

const BACK_END: &[Spec] = &[
    option(&["--version"], Nothing, D::Version),
    option(&["-U"], Value("NAME"), D::Undefine),
    option(&["-W"], Value("FLAG"), D::PreprocessorWarning),
    option(&["--p4v"], Value("16"), D::Language),
    option(&["--std"], Value("p4-16"), D::Language),
    option(&["--nocpp"], Nothing, D::NoEffect),
    option(&["--Wdisable"], Optional("NAME"), D::DisableWarnings),
    option(&["--Winfo"], Optional("NAME"), D::KeepWarnings),
    option(&["--Wwarn"], Optional("NAME"), D::KeepWarnings),
    option(&["--Werror"], Optional("NAME"), D::WarningsAsErrors),
    option(&["--maxErrorCount"], Value("N"), D::ErrorsMax),
    option(&["-v"], Optional("v..."), D::Verbose),
    option(&["--target"], Value("bmv2"), D::Target),
    option(&["--arch"], Value("v1model"), D::Arch),
    option(&["--loopsUnroll"], Nothing, D::NoEffect),
    option(&["-O"], Optional("LEVEL"), D::Optimise),
    option(&["--emit-externs"], Nothing, D::EmitExterns),
    option(&["-o"], Value("FILE"), D::Output),
    option(&["--doNotEmitIncludes"], Nothing, D::NoEffect),
    option(&["--testJson"], Nothing, NO_DUMP),
    option(&["--excludeFrontendPasses"], Value("PASS,..."), NO_PASSES),
    option(&["--excludeMidendPasses"], Value("PASS,..."), NO_PASSES),
    option(&["--listFrontendPasses"], Nothing, NO_PASSES),
    option(&["--listMidendPasses"], Nothing, NO_PASSES),
    option(&["--p4runtime-entries-file"], Value("FILE"), NO_ENTRIES),
    option(
        &["--p4runtime-entries-files"],
        Value("FILE,..."),
        NO_ENTRIES,
    ),
];

const DRIVER: &[Spec] = &[
    option(&["-V", "--version"], Nothing, D::Version),
    option(&["-v", "--debug"], Nothing, D::Verbose),
    option(&["-b", "--target"], Value("bmv2"), D::Target),
    option(&["-a", "--arch"], Value("v1model"), D::Arch),
    option(&["-c", "--compile"], Nothing, D::NoEffect),
    option(&["-S"], Nothing, D::NoEffect),
    option(&["-e"], Nothing, D::SkipPreprocessor),
    option(&["-o", "--output"], Value("DIR"), D::Output),
    option(&["-x", "--std", "--p4v"], Value("p4-16"), D::Language),
    option(&["-U"], Value("NAME"), D::Undefine),
    option(&["--Wdisable"], Optional("NAME"), D::DisableWarnings),
    option(&["--Werror"], Optional("NAME"), D::WarningsAsErrors),
    option(&["-Xpreprocessor"], Value("OPTION"), D::ForCompiler),
    option(&["-Xp4c"], Value("OPTION"), D::ForCompiler),
    option(&["-Xassembler"], Value("OPTION"), D::NoEffect),
    option(&["-Xlinker"], Value("OPTION"), D::NoEffect),
    option(
        &["-###", "--test-only"],
        Nothing,
        D::Refused("there are no commands to print: one process does it all"),
    ),
    option(
        &["--gdb", "--cgdb", "--lldb"],
        Nothing,
        D::Refused("there is no program behind this one to debug"),
    ),
    option(
        &["--help-targets", "--target-help", "--targets-help"],
        Nothing,
        D::Refused("there is one target, bmv2, and one architecture, v1model"),
    ),
    option(
        &["--help-pragmas", "--pragma-help", "--help-annotations"],
        Nothing,
        D::Refused("the compiler's manual lists the annotations that have an effect"),
    ),
];

pub fn options(name: Name) -> impl Iterator<Item = &'static Spec> {
    let own = match name {
        Name::BackEnd => BACK_END,
        Name::Driver => DRIVER,
    };
    own.iter().chain(COMMON)
}

fn find(name: Name, word: &str) -> Option<&'static Spec> {
    options(name).find(|spec| spec.names.contains(&word))
}

pub struct Given {
    pub does: Does,
    /// The option as it was spelled on the command line, for messages.
    pub name: String,
    pub value: Option<String>,
}

/// Splits a command line into options, in order, and other words.
pub fn split(name: Name, words: Vec<String>) -> Result<(Vec<Given>, Vec<String>), Failure> {
    let (mut given, mut inputs) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "-" || !word.starts_with('-') {
            inputs.push(word);
            continue;
        }
        let (spec, option, attached) = recognise(name, &word).ok_or_else(|| {
            Failure::new(format!(
                "unknown option `{word}`: `{} --help` lists those that there are",
                name.as_str()
            ))
        })?;
        let value = match spec.takes {
            Takes::Nothing if attached.is_some() => {
                return Err(Failure::new(format!("`{word}`: {option} takes no value")));
            }
            Takes::Nothing => None,
            Takes::Optional(_) => attached.filter(|value| !value.is_empty()),
            Takes::Value(what) => match attached.or_else(|| words.next()) {
                Some(value) => Some(value),
                None => return Err(Failure::new(format!("{option} needs a value: {what}"))),
            },
        };
        given.push(Given {
            does: spec.does,
            name: option,
            value,
        });
    }
    Ok((given, inputs))
}

/// Splits a word into the option, its name and an attached value: `--name`, `--name=value`, `-n`,
/// `-nvalue`, `-name`.
fn recognise(name: Name, word: &str) -> Option<(&'static Spec, String, Option<String>)> {
    if let Some(spec) = find(name, word) {
        return Some((spec, word.to_owned(), None));
    }
    if word.starts_with("--") {
        let (option, value) = word.split_once('=')?;
        return Some((
            find(name, option)?,
            option.to_owned(),
            Some(value.to_owned()),
        ));
    }
    let (option, value) = (word.get(..2)?, word.get(2..)?);
    Some((
        find(name, option)?,
        option.to_owned(),
        Some(value.to_owned()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_for_two_options() {
        for name in [Name::BackEnd, Name::Driver] {
            let mut seen = std::collections::HashSet::new();
            for option in options(name).flat_map(|spec| spec.names) {
                assert!(seen.insert(option), "{option} twice in {name:?}");
            }
        }
    }

    #[test]
    fn values_stand_in_the_same_word_or_the_next() {
        let words = [
            "-Iinc",
            "-I",
            "more",
            "--std=p4-16",
            "-MD",
            "-O2",
            "-vvv",
            "-",
            "--Wdisable",
        ];
        let split = split(Name::BackEnd, words.map(str::to_owned).to_vec());
        let (given, inputs) = split.unwrap();
        let values: Vec<_> = given.iter().map(|given| given.value.as_deref()).collect();
        let expected = ["inc", "more", "p4-16", "", "2", "vv", ""];
        assert_eq!(
            values,
            expected.map(|text| Some(text).filter(|text| !text.is_empty()))
        );
        assert_eq!(inputs, ["-"]);
    }
}
