//! `reprise backup`: saves all records of a running service in a file.

use conference_service::backup;
use serde_json::json;

use crate::args::{Backup, Global};
use crate::failure::Failure;
use crate::files;
use crate::output;

pub async fn run(global: &Global, options: Backup) -> Result<(), Failure> {
    let text = super::api(&options.of)?.backup().await?;
    let (head, _) = backup::read(&text).map_err(|error| {
        let url = &options.of.url;
        Failure::new(format!("{url} did not send a whole backup: {error}"))
    })?;
    let path = &options.to;
    whole_file::write_private(path, text.as_bytes()).map_err(|error| {
        let why = files::why(&error);
        Failure::in_file(path, &format!("cannot be written: {why}"))
    })?;
    let records = head.records;
    if global.json {
        output::json(&json!({ "records": records, "file": path.display().to_string() }));
    } else {
        let records = output::count(records, "record");
        output::text(format!("{}: {records}", path.display()));
    }
    Ok(())
}
