//! The contents of a state file when it is opened.

use control::{Operation, Slot};
use dataplane::PortId;
use redb::{Database, ReadableDatabase, ReadableTable};
use serde::{Deserialize, Serialize};

use crate::file::{PIPELINES, PORTS_DISABLED, Result, STATE, decode, decode_pipeline};
use crate::key;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The pipeline that forwards.
    pub forwards: Option<StoredPipeline>,
    /// The pipeline that waits for its commit.
    pub saved: Option<StoredPipeline>,
    /// Ports that were disabled, independently of the pipeline.
    pub ports_disabled: Vec<PortId>,
    /// Whether the last transaction was damaged, so that these contents lack it.
    pub is_rolled_back: bool,
    /// Set if other users than the owner could read or write the file until now.
    pub was_open_to: Option<OpenTo>,
}

/// Permissions of a file beyond those of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTo {
    /// The mode that the file had.
    pub mode: u32,
    /// Why the permissions could not be removed; `None` if they were removed.
    pub still: Option<String>,
}

/// A pipeline and the operations that were written to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPipeline {
    /// What [`control::Origin::kind`] returned for the pipeline.
    pub kind: String,
    /// What [`control::Origin::config`] returned for the pipeline.
    pub config: Vec<u8>,
    /// The last state that [`control::Origin::learned`] returned for the pipeline; empty if there is none.
    pub learned: Vec<u8>,
    /// The operations, in an order that a switch with the pipeline accepts.
    pub operations: Vec<Operation>,
}

pub(crate) fn read(database: &Database) -> Result<Contents> {
    let transaction = database.begin_read()?;
    let pipelines = transaction.open_table(PIPELINES)?;
    let state = transaction.open_table(STATE)?;
    let operations = |(from, to): ([u8; 1], [u8; 1])| -> Result<Vec<Operation>> {
        let mut all = Vec::new();
        for kept in state.range(&from[..]..&to[..])? {
            all.extend(decode(kept?.1.value())?);
        }
        Ok(all)
    };
    let pipeline = |slot| -> Result<Option<StoredPipeline>> {
        let Some(kept) = pipelines.get(key::slot_byte(slot))? else {
            return Ok(None);
        };
        let (config, learned) = kept.value();
        let (kind, config) = decode_pipeline(config)?;
        Ok(Some(StoredPipeline {
            kind,
            config,
            learned: learned.to_vec(),
            operations: operations(key::slot_range(slot))?,
        }))
    };
    let mut forwards = pipeline(Slot::Forwards)?;
    if let Some(forwards) = &mut forwards {
        forwards.operations.extend(operations(key::switch_range())?);
    }
    let saved = pipeline(Slot::Saved)?;
    let ports = transaction.open_table(PORTS_DISABLED)?;
    let ports = ports.iter()?.map(|port| Ok(PortId(port?.0.value())));
    Ok(Contents {
        forwards,
        saved,
        ports_disabled: ports.collect::<Result<_>>()?,
        is_rolled_back: false,
        was_open_to: None,
    })
}
