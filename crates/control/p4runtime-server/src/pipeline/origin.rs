//! The parts of a pipeline that are stored, so that the pipeline can be restored after a restart: its config, and which
//! names (strings in the controller's messages) stand for which numbers.

use control::Origin;
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use prost::Message;

use super::{Pipeline, PipelineError, PipelineResult};

/// What `Origin::kind` returns for a pipeline that was set by P4Runtime.
pub const ORIGIN_KIND: &str = "p4runtime";

/// For each translated type: the name of the type, and each of its strings with the number that the string stands for.
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
        // The sum grows with each name that a type gets or loses.
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
    /// Decodes the result of [`Origin::config`].
    pub(crate) fn read_config(bytes: &[u8]) -> PipelineResult<ForwardingPipelineConfig> {
        ForwardingPipelineConfig::decode(bytes)
            .map_err(|error| PipelineError(format!("the stored pipeline config: {error}")))
    }

    /// Binds the names in the result of [`Origin::learned`] to their numbers again.
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
