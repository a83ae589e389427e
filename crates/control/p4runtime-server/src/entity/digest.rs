//! `DigestEntry`: whether a controller receives a digest, and in which lists.
//!
//! Source: P4Runtime 1.5.0, "DigestEntry".

use std::time::Duration;

use control::{ClientData, Operation, Update};
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::digest_entry::Config;
use p4runtime_proto::p4::v1::update::Type;
use prost::Message;

use super::update;
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{Digest, Pipeline};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DigestConfig {
    /// How long a digest may wait for further digests before its list is sent.
    pub(crate) max_timeout: Duration,
    pub(crate) max_list_size: usize,
    /// How long the server waits for the acknowledgement of a digest before it may send an equal digest again.
    pub(crate) ack_timeout: Duration,
}

/// Checks and translates an update of a digest's configuration. The pipeline stores the configuration as an opaque
/// record.
pub(super) fn operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::DigestEntry,
) -> EntityResult<Operation> {
    let digest = pipeline.digest(entry.digest_id)?;
    let name = digest.name.clone();
    if kind == Type::Delete {
        return Ok(Operation::Digest(name, Update::Delete(())));
    }
    if let Some(part) = digest.data.unsupported() {
        return Err(EntityError::unimplemented(format!(
            "digest \"{name}\": values of type {part} are not supported"
        )));
    }
    // A missing config means defaults: clients omit a message whose values are all 0.
    let config = entry.config.unwrap_or_default();
    digest_config(&config, &name)?;
    let client_data = ClientData {
        bytes: config.encode_to_vec(),
        form: u32::from(entry.config.is_some()),
        ..ClientData::default()
    };
    Ok(Operation::Digest(name, update(kind, client_data)))
}

fn digest_config(config: &Config, name: &str) -> EntityResult<DigestConfig> {
    let refused = |what: &str, found: i64| {
        EntityError::invalid(format!(
            "digest \"{name}\": expected a {what} from 0, found {found}"
        ))
    };
    let time = |what: &str, ns: i64| -> EntityResult<Duration> {
        let ns = u64::try_from(ns).map_err(|_| refused(what, ns))?;
        Ok(Duration::from_nanos(ns))
    };
    let size = usize::try_from(config.max_list_size);
    let size = size.map_err(|_| refused("max_list_size", config.max_list_size.into()))?;
    Ok(DigestConfig {
        max_timeout: time("max_timeout_ns", config.max_timeout_ns)?,
        max_list_size: if size == 0 { usize::MAX } else { size },
        ack_timeout: time("ack_timeout_ns", config.ack_timeout_ns)?,
    })
}

/// Decodes a digest's configuration.
pub(crate) fn of_client_data(client_data: &ClientData) -> Option<DigestConfig> {
    let config = Config::decode(client_data.bytes.as_slice()).ok()?;
    digest_config(&config, "").ok()
}

pub(crate) fn to_proto(digest: &Digest, client_data: &ClientData) -> v1::DigestEntry {
    let config = Config::decode(client_data.bytes.as_slice()).ok();
    v1::DigestEntry {
        digest_id: digest.id,
        config: config.filter(|_| client_data.form != 0),
    }
}
