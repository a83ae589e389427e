//! Binds the P4Info's action profiles and selectors to those of the program.

use dataplane::{ActionProfileId, Program};
use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::config::v1::action_profile::SelectorSizeSemantics;

use super::{PipelineError, PipelineResult};

pub(crate) struct Profile {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) profile: ActionProfileId,
    /// The tables that the profile implements. They have the same actions.
    pub(crate) tables: Vec<u32>,
    pub(crate) has_groups: bool,
    /// The largest size that a group may have; 0 means no limit.
    pub(crate) max_group_size: u32,
    pub(crate) weights_disallowed: bool,
    pub(crate) size: GroupSize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupSize {
    /// The size of a group is the sum of its members' weights.
    Weights,
    /// The size of a group is the number of its members. The value is the largest weight that a member may have; 0
    /// means no limit.
    Members(u32),
}

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
            "with_selector is {}, but {} in the device config",
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
