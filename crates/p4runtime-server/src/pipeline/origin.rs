//! What a pipeline is made of again after a restart: its config, and the names that stand for numbers.

use control::Origin;
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use prost::Message;

use super::{Pipeline, PipelineError, PipelineResult};

/// By which a store's pipelines are known.
pub const ORIGIN_KIND: &str = "p4runtime";

/// Of each type its names and their numbers.
type Learned = Vec<(String, Vec<(Vec<u8>, u64)>)>;

impl Origin for Pipeline {
    fn kind(&self) -> &'static str {
        ORIGIN_KIND
    }

    fn config(&self) -> Vec<u8> {
        Pipeline::config(self).encode_to_vec()
    }

    fn learned(&self, after: u64) -> Option<(u64, Vec<u8>)> {
        let names = self.names();
        // One more than before with each change of any type.
        let number = names.iter().map(|names| names.n_changes()).sum();
        (number > after).then(|| {
            let of_type = names.iter().map(|it| (it.type_name().to_owned(), it.all()));
            let learned: Learned = of_type.collect();
            let bytes = postcard::to_stdvec(&learned);
            (
                number,
                bytes.expect("numbers and bytes are written to memory"),
            )
        })
    }
}

impl Pipeline {
    /// The config that [`Origin::config`] has given.
    pub(crate) fn read_config(bytes: &[u8]) -> PipelineResult<ForwardingPipelineConfig> {
        ForwardingPipelineConfig::decode(bytes)
            .map_err(|error| PipelineError(format!("the stored pipeline config: {error}")))
    }

    /// Binds the names that [`Origin::learned`] has given.
    pub(crate) fn learn_again(&self, bytes: &[u8]) -> PipelineResult<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let learned: Learned = postcard::from_bytes(bytes)
            .map_err(|error| PipelineError(format!("the stored names: {error}")))?;
        for (type_name, bound) in learned {
            let names = self.names().iter().find(|it| it.type_name() == type_name);
            if let Some(names) = names {
                names.bind_again(&bound);
            }
        }
        Ok(())
    }
}
