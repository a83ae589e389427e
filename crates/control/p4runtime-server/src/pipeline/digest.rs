//! Binds each digest of the P4Info to the digest of the program.

use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;

use super::data::{DataType, data_type};
use super::translation::Types;
use super::{PipelineError, PipelineResult};

pub(crate) struct Digest {
    pub(crate) id: u32,
    /// The program's name for the digest.
    pub(crate) name: String,
    pub(crate) data: DataType,
}

pub(super) fn digests(
    p4info: &P4Info,
    json: &bmv2_json::Program,
    types: &mut Types<'_>,
) -> PipelineResult<Vec<Digest>> {
    let mut bind = |digest: &p4info::Digest| {
        let preamble = digest.preamble.clone().unwrap_or_default();
        let error = |message: String| {
            PipelineError(format!("P4Info digest \"{}\": {message}", preamble.name))
        };
        let mut lists = json.learn_lists.iter();
        let list = lists
            .find(|list| list.name == preamble.name)
            .ok_or_else(|| error("the device config has no such digest".into()))?;
        let data = data_type(p4info, digest.type_spec.as_ref(), types, None).map_err(&error)?;
        let (found, expected) = (data.n_numbers(), list.elements.len());
        if data.unsupported().is_none() && found != expected {
            return Err(error(format!(
                "has {found} values, but {expected} in the device config"
            )));
        }
        Ok(Digest {
            id: preamble.id,
            data,
            name: preamble.name,
        })
    };
    p4info.digests.iter().map(&mut bind).collect()
}
