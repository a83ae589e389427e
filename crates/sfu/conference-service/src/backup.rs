//! A backup: all records as lines of JSON. The first line says that this is a backup, and how many records follow, so
//! that a file that was cut off is recognized.

use std::collections::BTreeSet;

use conference_model::{BadRecord, Key, Model, Record};
use serde::{Deserialize, Serialize};

/// The format that this version writes and reads.
const FORMAT: u32 = 1;

/// The first line of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The format of the lines that follow.
    pub format: u32,
    /// The version of the service that wrote the backup.
    pub version: String,
    /// When the backup was made, in milliseconds since 1970.
    pub time_ms: u64,
    /// How many lines follow.
    pub records: usize,
}

/// One of the lines after the first: a record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    record: serde_json::Value,
}

/// Why a text is no backup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBackup {
    /// The first line is not the first line of a backup.
    #[error("line 1: expected a backup of a conference service, {0}")]
    Head(String),
    #[error(
        "line 1: expected a backup of format {FORMAT}, found format {found} of version {version}: restore it with that version"
    )]
    Format {
        found: u32,
        /// The version of the service that wrote the backup.
        version: String,
    },
    #[error("line {line}: expected a record, {why}")]
    Line {
        /// The line's number in the backup, from 1.
        line: usize,
        why: String,
    },
    /// A line's record is of another version.
    #[error("line {line}: {error}")]
    Record {
        /// The line's number in the backup, from 1.
        line: usize,
        error: BadRecord,
    },
    /// Lines are missing, or there are too many.
    #[error("expected {expected} records as line 1 says, found {found}: take a whole copy")]
    Length {
        /// The number of records that line 1 announces.
        expected: usize,
        found: usize,
    },
}

/// Returns a backup of all records at this moment, as lines without their line ends.
#[must_use]
pub fn lines(model: &Model, time_ms: u64) -> Vec<String> {
    let mut lines = vec![String::new()];
    lines.extend(model.records().map(|(key, record)| {
        // A name needs no escape in JSON, and a record is JSON.
        format!(r#"{{"key":"{key}","record":{}}}"#, record.to_json())
    }));
    let head = Head {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time_ms,
        records: lines.len() - 1,
    };
    // The head has only texts and numbers, which JSON can express.
    lines[0] = serde_json::to_string(&head).unwrap_or_else(|_| unreachable!());
    lines
}

/// Reads a backup, and checks that each record is one that this version can use.
///
/// # Errors
/// The text is no backup, the backup is incomplete, or another version wrote it.
pub fn read(text: &str) -> Result<(Head, Vec<(String, String)>), BadBackup> {
    let mut lines = text.lines();
    let head: Head = serde_json::from_str(lines.next().unwrap_or_default())
        .map_err(|error| BadBackup::Head(error.to_string()))?;
    if head.format != FORMAT {
        return Err(BadBackup::Format {
            found: head.format,
            version: head.version,
        });
    }
    let mut records = Vec::new();
    let mut keys = BTreeSet::new();
    for (idx, text) in lines.enumerate() {
        let line = idx + 2;
        let bad = |why: String| BadBackup::Line { line, why };
        let Line { key, record } =
            serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let of_version = |error| BadBackup::Record { line, error };
        let key: Key = key.parse().map_err(of_version)?;
        let record = Record::from_json(&key, &record.to_string()).map_err(of_version)?;
        let key = key.to_string();
        if !keys.insert(key.clone()) {
            return Err(bad(format!("found {key} again")));
        }
        records.push((key, record.to_json()));
    }
    if records.len() != head.records {
        return Err(BadBackup::Length {
            expected: head.records,
            found: records.len(),
        });
    }
    Ok((head, records))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use conference_api::Name;
    use conference_model::{BindingRecord, ConferenceRecord, LegRecord, ParticipantRecord};

    use super::*;

    fn model() -> Model {
        let name = |text| Name::new(text).expect("a name");
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let conference = ConferenceRecord {
            title: "a \"title\"\nof two lines".to_owned(),
            created_ms: 1,
        };
        let leg = LegRecord {
            number: 7,
            key: [9; hello::KEY_LEN],
        };
        let participant = ParticipantRecord {
            display_name: "Ann".to_owned(),
            joined_ms: 2,
            expires_ms: 3,
            legs: [(name("cam"), leg)].into(),
            tracks: [].into(),
            subscriptions: [].into(),
        };
        let binding = BindingRecord {
            port: 1,
            mac: [2; 6],
            address: ip("10.0.0.1"),
            udp_port: 5_000,
            own_mac: [4; 6],
            own_address: ip("10.0.0.2"),
        };
        let records = [
            (Key::Conference(name("c")), Record::Conference(conference)),
            (
                Key::Participant(name("c"), name("ann")),
                Record::Participant(participant),
            ),
            (Key::Binding(7), Record::Binding(binding)),
        ];
        let (model, orphans) = Model::load(records);
        assert_eq!(orphans, []);
        model
    }

    #[test]
    fn what_was_backed_up_is_read_again() {
        let model = model();
        let text = lines(&model, 5).join("\n");
        let (head, records) = read(&text).expect("a backup");
        assert_eq!((head.records, head.time_ms), (3, 5));
        let expected = model
            .records()
            .map(|(key, record)| (key.to_string(), record.to_json()));
        assert_eq!(records, expected.collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_whole_backup_of_this_version_is_refused() {
        let lines = lines(&model(), 5);
        let text = lines.join("\n");
        let why = |text: &str| read(text).expect_err("refused").to_string();
        for cut in [0, lines[0].len() / 2] {
            assert!(why(&text[..cut]).starts_with("line 1: expected a backup"));
        }
        let cut = &lines[..3].join("\n");
        assert!(why(cut).contains("expected 3 records as line 1 says, found 2"));
        assert!(why(&text[..text.len() - 2]).starts_with("line 4: expected a record"));
        let other = text.replacen("\"format\":1", "\"format\":9", 1);
        assert!(why(&other).contains("expected a backup of format 1, found format 9"));
        let older = text.replacen("\"joined_ms\":2,", "", 1);
        assert!(why(&older).starts_with("line 3: the store's record participant/c/ann"));
        let twice = format!("{text}\n{}", lines[1]);
        assert!(why(&twice).contains("found conference/c again"));
    }
}
