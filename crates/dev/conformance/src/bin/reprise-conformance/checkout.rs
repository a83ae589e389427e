//! Reads a checkout of p4c: its samples, and the lists in which p4c declares its v1model programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::cmake::{self, Argument, Variables};
use crate::failure::Failure;
use crate::files;
use crate::golden;
use crate::sample::{Check, Sample};

/// The file in which the BMv2 back end lists its tests.
const LISTS: &str = "backends/bmv2/CMakeLists.txt";
/// The variable that stands for the root of the checkout in the file `LISTS`.
const ROOT: &str = "${P4C_SOURCE_DIR}/";
/// The script with which the file `LISTS` runs tests on simple_switch without PTF.
const DRIVER: &str = "run-bmv2-test.py";
const ERRORS: [&str; 2] = ["testdata/p4_16_errors", "testdata/p4_16_bmv_errors"];
const OTHER_ARCHITECTURES: [&str; 9] = [
    "psa.p4",
    "pna.p4",
    "dpdk",
    "ebpf_model.p4",
    "ubpf_model.p4",
    "xdp_model.p4",
    "tc/",
    "tofino",
    "tna.p4",
];

#[derive(Debug)]
pub struct Checkout {
    /// The samples, in the order of the report.
    pub samples: Vec<Sample>,
    /// Number of samples in the error folders that are left out, by reason.
    pub skipped: BTreeMap<&'static str, usize>,
}

pub fn read(root: &Path) -> Result<Checkout, Failure> {
    let path = root.join(LISTS);
    if !path.is_file() {
        return Err(Failure::in_file(
            root,
            &format!(
                "expected the root of a checkout of p4c (p4lang/p4c), found no {LISTS} below it"
            ),
        ));
    }
    let text = files::text(&path, "p4c's lists of tests")?;
    let mut lists = Lists::new(root);
    cmake::evaluate(&text, |call, variables| lists.call(call, variables));
    if lists.accepted.is_empty() {
        return Err(Failure::in_file(
            &path,
            &"no test of v1model found: expected lists of tests with p4c_add_tests",
        ));
    }
    let expected_failures = std::mem::take(&mut lists.expected_failures);
    let mut samples: Vec<Sample> = lists
        .accepted
        .iter()
        .filter(|program| !expected_failures.contains(*program) && !is_to_be_refused(program))
        .map(|program| Sample::new(root, program, Check::Accepted))
        .collect();
    let mut skipped = BTreeMap::new();
    for folder in ERRORS {
        for program in files(root, folder, "p4")? {
            match to_be_refused(root, &program)? {
                Ok(check) => samples.push(Sample::new(root, &program, check)),
                Err(reason) => *skipped.entry(reason).or_default() += 1,
            }
        }
    }
    samples.extend(packet_tests(root, &lists.accepted)?);
    samples.extend(p4info_goldens(root, &lists.accepted, &expected_failures)?);
    for sample in &mut samples {
        let program = match &sample.check {
            Check::Packets { program } => program,
            _ => &sample.path,
        };
        let below_root = program.strip_prefix(root).unwrap_or(program);
        // p4c writes the P4Info before a back end checks the program and its externs.
        let is_p4info = matches!(sample.check, Check::P4Info { .. });
        sample.emit_externs = is_p4info
            || lists
                .with_externs
                .iter()
                .any(|listed| Path::new(listed) == below_root);
    }
    Ok(Checkout { samples, skipped })
}

struct Lists<'r> {
    root: &'r Path,
    /// Programs, by their paths below the root.
    accepted: BTreeSet<String>,
    expected_failures: BTreeSet<String>,
    with_externs: BTreeSet<String>,
}

impl<'r> Lists<'r> {
    fn new(root: &'r Path) -> Self {
        Self {
            root,
            accepted: BTreeSet::new(),
            expected_failures: BTreeSet::new(),
            with_externs: BTreeSet::new(),
        }
    }

    fn call(&mut self, call: &cmake::Call, variables: &mut Variables) {
        match (call.name.as_str(), call.args.as_slice()) {
            ("p4c_find_tests", [patterns, out, filters @ ..]) => {
                let found = self.find(patterns, filters);
                variables.set(&out.concat(), found.into_iter().collect());
            }
            ("p4c_add_tests", [_, driver, suites, expected_failures, flags @ ..]) => {
                let is_driver = driver.concat().ends_with(DRIVER);
                let flags = flags.concat().concat();
                let is_ours = !flags.contains("--arch") || flags.contains("--arch v1model");
                if is_driver && is_ours {
                    let programs = self.find(suites, &[]);
                    self.accepted.extend(programs);
                    let failures = self.find(expected_failures, &[]);
                    self.expected_failures.extend(failures);
                }
            }
            // A test that is added individually replaces the same program's test in a list.
            ("p4c_add_test_with_args", [_, driver, _, _, program, args, ..])
                if driver.concat().ends_with(DRIVER)
                    && args.concat().contains("--emit-externs") =>
            {
                let program = self.find(program, &[]);
                self.with_externs.extend(program);
            }
            _ => {}
        }
    }

    /// Returns the P4_16 programs that match a path pattern and pass every filter. A filter is a word and a pattern. If
    /// the word is `INCLUDE`, a line of the program must match the pattern; if it is `EXCLUDE`, no line may match.
    fn find(&self, patterns: &Argument, filters: &[Argument]) -> BTreeSet<String> {
        let wanted: Vec<(bool, String)> = filters
            .chunks(2)
            .filter_map(|pair| Some((pair[0].concat() == "INCLUDE", pair.get(1)?.concat())))
            .collect();
        // If a variable consists of other variables, one item may contain several patterns.
        let patterns = patterns.iter().flat_map(|item| item.split(';'));
        patterns
            .flat_map(|pattern| expand(self.root, pattern.strip_prefix(ROOT).unwrap_or(pattern)))
            .filter(|program| !program.contains("p4_14"))
            .filter(|program| {
                wanted.is_empty()
                    || fs::read_to_string(self.root.join(program)).is_ok_and(|text| {
                        let lets_through = |(is_include, pattern): &(bool, String)| {
                            has_line(&text, pattern) == *is_include
                        };
                        wanted.iter().all(lets_through)
                    })
            })
            .collect()
    }
}

/// Returns whether a line contains the pieces of a pattern `a.*b` in this order. The lists use no other regular
/// expressions, and any other `.` matches only a dot.
fn has_line(text: &str, pattern: &str) -> bool {
    text.lines().any(|line| {
        let mut rest = Some(line);
        for piece in pattern.split(".*") {
            rest = rest.and_then(|rest| Some(rest.split_once(piece)?.1));
        }
        rest.is_some()
    })
}

/// Returns the files below the root that match a path with `*`, sorted.
fn expand(root: &Path, pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for part in pattern.split('/') {
        let below = |folder: &String| -> Vec<String> {
            let path = |name: &str| {
                if folder.is_empty() {
                    name.to_owned()
                } else {
                    format!("{folder}/{name}")
                }
            };
            if !part.contains('*') {
                return vec![path(part)];
            }
            let names = names(&root.join(folder)).into_iter();
            let fitting = names.filter(|name| fits(part, name));
            fitting.map(|name| path(&name)).collect()
        };
        found = found.iter().flat_map(below).collect();
    }
    found.retain(|path| root.join(path).is_file());
    found
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, rest)) => name.strip_prefix(before).is_some_and(|behind| {
            let mut ends = (0..=behind.len()).filter(|at| behind.is_char_boundary(*at));
            ends.any(|at| fits(rest, &behind[at..]))
        }),
    }
}

/// Returns the files with an extension in a folder, as sorted paths below the root.
fn files(root: &Path, folder: &str, extension: &str) -> Result<Vec<String>, Failure> {
    let path = root.join(folder);
    if !path.is_dir() {
        return Err(Failure::in_file(&path, &"no such folder in the checkout"));
    }
    Ok(expand(root, &format!("{folder}/*.{extension}")))
}

fn is_to_be_refused(program: &str) -> bool {
    ERRORS.iter().any(|folder| program.starts_with(folder))
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = files::bytes(path, "a sample")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the expectation for a sample in an error folder, or the reason to leave the sample out.
fn to_be_refused(root: &Path, program: &str) -> Result<Result<Check, &'static str>, Failure> {
    let path = root.join(program);
    let includes_other = read_text(&path)?
        .lines()
        .filter(|line| line.trim_start().starts_with("#include") || line.contains("include"))
        .filter(|line| line.trim_start().starts_with('#'))
        .any(|line| OTHER_ARCHITECTURES.iter().any(|name| line.contains(name)));
    if includes_other {
        return Ok(Err("another architecture"));
    }
    let golden = golden_path(&path, "-stderr");
    if !golden.exists() {
        return Ok(Ok(Check::Refused { errors: None }));
    }
    let errors = golden::errors(&read_text(&golden)?);
    Ok(if errors.is_empty() {
        Err("p4c accepts it: its golden message has no error")
    } else {
        Ok(Check::Refused {
            errors: Some(errors),
        })
    })
}

/// Returns the path of an expected output. For `folder/name.p4`, p4c keeps the message in
/// `folder_outputs/name.p4-stderr` and the P4Info in `folder_outputs/name.p4.p4info.txtpb`.
fn golden_path(program: &Path, suffix: &str) -> PathBuf {
    let mut folder = program
        .parent()
        .unwrap_or(Path::new(""))
        .as_os_str()
        .to_owned();
    folder.push("_outputs");
    let mut name = program.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    PathBuf::from(folder).join(name)
}

fn folders(listed: &BTreeSet<String>) -> BTreeSet<&str> {
    listed
        .iter()
        .filter(|program| !is_to_be_refused(program))
        .filter_map(|program| Some(program.rsplit_once('/')?.0))
        .collect()
}

/// Finds the v1model programs with p4c's P4Info, in the folders of the listed samples.
fn p4info_goldens(
    root: &Path,
    listed: &BTreeSet<String>,
    expected_failures: &BTreeSet<String>,
) -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    for folder in folders(listed) {
        for program in files(root, folder, "p4")? {
            let path = root.join(&program);
            let golden = golden_path(&path, ".p4info.txtpb");
            let is_listed = listed.contains(&program);
            let is_ours = || {
                let text = read_text(&path)?;
                Ok::<_, Failure>(is_listed || has_line(&text, "include.*v1model.p4"))
            };
            if golden.is_file() && is_ours()? {
                let check = Check::P4Info {
                    golden,
                    is_listed: is_listed && !expected_failures.contains(&program),
                };
                samples.push(Sample::new(root, &program, check));
            }
        }
    }
    Ok(samples)
}

/// Finds the packet tests of the listed samples and of every other v1model program in the samples' folders.
fn packet_tests(root: &Path, listed: &BTreeSet<String>) -> Result<Vec<Sample>, Failure> {
    let mut tests = Vec::new();
    for folder in folders(listed) {
        for test in files(root, folder, "stf")? {
            let program = format!("{}.p4", test.trim_end_matches(".stf"));
            let path = root.join(&program);
            let is_ours = listed.contains(&program)
                || (path.is_file() && has_line(&read_text(&path)?, "include.*v1model.p4"));
            if is_ours {
                tests.push(Sample::new(root, &test, Check::Packets { program: path }));
            }
        }
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_part_of_a_name() {
        assert!(fits("*-bmv2.p4", "a-bmv2.p4"));
        assert!(fits("fabric_*", "fabric_"));
        assert!(fits("a*b*c", "a1b2b3c"));
        assert!(!fits("*.p4", "a.p4i"));
        assert!(!fits("a*", "ba"));
    }

    #[test]
    fn a_pattern_is_looked_for_in_one_line() {
        assert!(has_line(
            "x\n#include <v1model.p4>\n",
            "include.*v1model.p4"
        ));
        assert!(!has_line("include\nv1model.p4", "include.*v1model.p4"));
    }
}
