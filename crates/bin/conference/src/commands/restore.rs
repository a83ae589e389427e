//! `reprise restore`: writes a backup into the store of a service that is stopped.

use conference_service::backup;
use conference_service::config::{Config, StoreConfig};
use conference_store::{Embedded, Etcd, Existing, Store};
use serde_json::json;

use crate::args::{Global, Restore};
use crate::failure::Failure;
use crate::files;
use crate::output;

pub async fn run(global: &Global, options: Restore) -> Result<(), Failure> {
    let file = &options.config;
    let text = files::text(file, "a configuration (TOML)")?;
    let config = Config::read(&text).map_err(|error| Failure::in_file(file, &error))?;
    let store = config
        .store()
        .map_err(|error| Failure::in_file(file, &error))?;
    // Core dumps must be forbidden before keys are in memory.
    secret_memory::no_core_dumps()?;
    let text = files::text(&options.from, "a backup of a conference service")?;
    let (_, records) =
        backup::read(&text).map_err(|error| Failure::in_file(&options.from, &error))?;
    let n_records = records.len();
    let store: Store = match &store {
        StoreConfig::File(path) => Embedded::open(path)?.into(),
        StoreConfig::Etcd(config) => Etcd::for_restore(config).await?.into(),
    };
    let existing = if options.replace {
        Existing::Replaced
    } else {
        Existing::Refused
    };
    let restored = store.restore(records, existing).await;
    store.resign().await;
    restored?;
    if global.json {
        output::json(&json!({ "records": n_records }));
    } else {
        let records = output::count(n_records, "record");
        output::text(format!("restored {records}: start the service"));
    }
    Ok(())
}
