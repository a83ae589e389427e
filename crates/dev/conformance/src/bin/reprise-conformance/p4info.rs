//! Compares our P4Info with p4c's: the messages must be equal, including the order of all lists.

use std::path::Path;

use p4_compiler::{Options, p4info_text};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::text_format;

use crate::worker::{first_error, output};

#[derive(Debug, PartialEq, Eq)]
pub enum Differs {
    Refused(String),
    So(String),
}

pub fn compare(program: &Path, golden: &Path, options: &Options) -> Result<(), Differs> {
    let output = output(program, options).map_err(Differs::So)?;
    let Some(ours) = output.p4info else {
        return Err(Differs::Refused(first_error(&output.diagnostics)));
    };
    let text = std::fs::read_to_string(golden)
        .map_err(|error| Differs::So(format!("{}: {error}", golden.display())))?;
    let theirs: P4Info = text_format::parse(&text)
        .map_err(|error| Differs::So(format!("{}: {error}", golden.display())))?;
    if ours == theirs {
        return Ok(());
    }
    let first = first_difference(&p4info_text(&ours), &p4info_text(&theirs));
    Err(Differs::So(first))
}

/// Describes the first line that differs, with the last `name` field before this line.
fn first_difference(ours: &str, theirs: &str) -> String {
    let mut name = None;
    let (mut ours, mut theirs) = (ours.lines(), theirs.lines());
    loop {
        match (ours.next(), theirs.next()) {
            (Some(line), Some(other)) if line == other => {
                name = line.trim().strip_prefix("name: ").or(name);
            }
            (line, other) => {
                let place = name.map_or_else(
                    || "before any name".to_owned(),
                    |name| format!("after the name {name}"),
                );
                let end = "no more lines";
                return format!(
                    "first difference {place}: p4c's P4Info has {}, ours has {}",
                    other.map_or(end, str::trim),
                    line.map_or(end, str::trim)
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_reported_with_the_name_before_it() {
        let ours = "tables {\n  name: \"a\"\n  size: 1\n}\n";
        let theirs = "tables {\n  name: \"a\"\n  size: 2\n}\n";
        assert_eq!(
            first_difference(ours, theirs),
            "first difference after the name \"a\": p4c's P4Info has size: 2, ours has size: 1"
        );
        assert_eq!(
            first_difference("", "tables {\n}\n"),
            "first difference before any name: p4c's P4Info has tables {, ours has no more lines"
        );
    }
}
