//! Action profiles and selectors, bound to the program's.

use dataplane::{ActionProfileId, Program};
use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::config::v1::action_profile::SelectorSizeSemantics;

use super::{PipelineError, PipelineResult};

/// An action profile as a controller sees it.
pub(crate) struct Profile {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) profile: ActionProfileId,
    /// Its tables, whose actions are the same.
    pub(crate) tables: Vec<u32>,
    pub(crate) has_groups: bool,
    /// A group's size at most; 0 is any.
    pub(crate) max_group_size: u32,
    /// Members of a group have no weights.
    pub(crate) weights_disallowed: bool,
    pub(crate) size: GroupSize,
}

/// What a group's size is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupSize {
    /// The sum of the weights.
    Weights,
    /// The number of members, each of a weight at most; 0 is any.
    Members(u32),
}

/// Every action profile of the P4Info, found in the program.
pub(super) fn profiles(p4info: &P4Info, program: &Program) -> PipelineResult<Vec<Profile>> {
    let profiles = p4info.action_profiles.iter();
    profiles.map(|profile| bind(profile, program)).collect()
}

fn bind(profile: &p4info::ActionProfile, program: &Program) -> PipelineResult<Profile> {
    let preamble = profile.preamble.clone().unwrap_or_default();
    let error = |message: String| {
        PipelineError(format!(
            "P4Info action profile \"{}\": {message}",
            preamble.name
        ))
    };
    let (id, info) = program
        .action_profile(&preamble.name)
        .and_then(|id| Some((id, program.action_profile_info(id)?)))
        .ok_or_else(|| error("the device config has no such action profile".into()))?;
    let has_selector = info.selector.is_some();
    if profile.with_selector != has_selector {
        return Err(error(format!(
            "with_selector is {}, in the device config it is {}",
            profile.with_selector, has_selector
        )));
    }
    let max_group_size = u32::try_from(profile.max_group_size).map_err(|_| {
        let size = profile.max_group_size;
        error(format!("expected a max_group_size from 0, found {size}"))
    })?;
    let size = match &profile.selector_size_semantics {
        Some(SelectorSizeSemantics::SumOfMembers(sum)) => {
            GroupSize::Members(u32::try_from(sum.max_member_weight).unwrap_or(0))
        }
        Some(SelectorSizeSemantics::SumOfWeights(_)) | None => GroupSize::Weights,
    };
    Ok(Profile {
        id: preamble.id,
        profile: id,
        tables: profile.table_ids.clone(),
        has_groups: has_selector,
        max_group_size,
        weights_disallowed: profile.weights_disallowed,
        size,
        name: preamble.name,
    })
}
