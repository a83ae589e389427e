//! Reads the known failures from the table in docs/conformance.md.

use std::collections::BTreeMap;

use crate::sample::Kind;

const DOCUMENT: &str = include_str!("../../../../../../docs/conformance.md");
const HEADING: &str = "## Known failures";

#[derive(Debug, Default)]
pub struct Known(BTreeMap<(Kind, String), String>);

impl Known {
    /// Returns the table as it was at build time.
    ///
    /// # Errors
    /// A row is invalid.
    pub fn built_in() -> Result<Self, String> {
        Self::read(DOCUMENT)
    }

    /// Reads the rows `| check | sample | reason |` below the heading.
    ///
    /// # Errors
    /// A row is invalid.
    pub fn read(document: &str) -> Result<Self, String> {
        let mut known = BTreeMap::new();
        let lines = document
            .lines()
            .skip_while(|line| line.trim() != HEADING)
            .skip(1)
            .take_while(|line| !line.starts_with("## "));
        // Skip the table's header and rule.
        for row in lines.filter(|line| line.starts_with('|')).skip(2) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [check, sample, reason] = cells[..] else {
                return Err(format!(
                    "expected three columns (check, sample, reason), found \"{row}\""
                ));
            };
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == check);
            let kind = kind.ok_or_else(|| {
                format!("expected accepted, errors, stf or p4info, found \"{check}\" in \"{row}\"")
            })?;
            if reason.is_empty() {
                return Err(format!("expected a reason in \"{row}\""));
            }
            let sample = sample.trim_matches('`').to_owned();
            known.insert((kind, sample), reason.to_owned());
        }
        Ok(Self(known))
    }

    pub fn reason(&self, kind: Kind, sample: &str) -> Option<&str> {
        let reason = self.0.get(&(kind, sample.to_owned()));
        reason.map(String::as_str)
    }

    pub fn entries(&self) -> impl Iterator<Item = (Kind, &str)> {
        self.0.keys().map(|(kind, sample)| (*kind, sample.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_understood() {
        Known::built_in().unwrap();
    }

    #[test]
    fn a_row_is_a_check_a_sample_and_a_reason() {
        let table = "| check | sample | reason |\n|---|---|---|\n";
        let text =
            |rows: &str| format!("| a | b |\n\n{HEADING}\n\ntext\n\n{table}{rows}\n## more\n|x|\n");
        let known = Known::read(&text("| stf | `a/b.stf` | because |\n")).unwrap();
        assert_eq!(known.reason(Kind::Stf, "a/b.stf"), Some("because"));
        assert_eq!(known.reason(Kind::Errors, "a/b.stf"), None);
        assert_eq!(known.entries().count(), 1);
        assert!(Known::read(&text("| stf | a |\n")).is_err());
        assert!(Known::read(&text("| other | a | b |\n")).is_err());
        assert!(Known::read(&text("| stf | a | |\n")).is_err());
    }
}
