//! Members and groups of action profiles.

use crate::{
    ActionCall, ActionProfileId, ControlErrorKind, Controlled, ProfileGroup, ProfileMember,
    engine::Change,
    invalid,
    match_action::{self, Call, Profile},
    missing, refuse,
    switch::Switch,
};

impl Switch {
    fn profile_mut(&mut self, id: ActionProfileId) -> Controlled<&mut Profile> {
        let profile = self.loaded_mut()?.tables.profiles.get_mut(id.index());
        profile.ok_or_else(|| missing("action profile", id.index()))
    }

    fn profile_with_groups(&mut self, id: ActionProfileId) -> Controlled<&mut Profile> {
        let info = self.loaded()?.program.action_profile_info(id);
        if let Some(info) = info.filter(|info| info.selector.is_none()) {
            let message = format!("action profile \"{}\" has no groups", info.name);
            return refuse(ControlErrorKind::FailedPrecondition, message);
        }
        self.profile_mut(id)
    }

    /// Checks and converts the call of an action. Some table of the profile must have the action.
    fn profile_call(&self, id: ActionProfileId, call: &ActionCall) -> Controlled<Call> {
        let program = &self.loaded()?.program;
        let tables = program.tables.iter();
        let mut tables = tables.filter(|table| table.action_profile == Some(id));
        let table = tables.find(|table| table.actions.contains(&call.action));
        if let Some(table) = table {
            return match_action::to_call(table, &program.actions, call);
        }
        let info = program.action_profile_info(id);
        let info = info.ok_or_else(|| missing("action profile", id.index()))?;
        let (name, action) = (&info.name, call.action.index());
        let found = format!("action {action} is in none of its tables");
        invalid(format!("action profile \"{name}\": {found}"))
    }

    /// Adds a member.
    ///
    /// # Errors
    /// `InvalidArgument` if the action is in no table of the profile or its arguments do not fit,
    /// `AlreadyExists`, `ResourceExhausted`, `NotFound` for the profile.
    pub fn insert_member(&mut self, profile: ActionProfileId, member: ProfileMember) -> Controlled {
        let call = self.profile_call(profile, &member.action)?;
        self.profile_mut(profile)?.insert_member(member.id, call)?;
        self.done(&Change::Profile(profile))
    }

    /// Replaces the action of a member, for every entry and group that refers to it.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`.
    pub fn modify_member(&mut self, profile: ActionProfileId, member: ProfileMember) -> Controlled {
        let call = self.profile_call(profile, &member.action)?;
        self.profile_mut(profile)?.modify_member(member.id, call)?;
        self.done(&Change::Profile(profile))
    }

    /// Removes a member.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition` if an entry or a group refers to the member.
    pub fn delete_member(&mut self, profile: ActionProfileId, id: u32) -> Controlled {
        self.profile_mut(profile)?.delete_member(id)?;
        self.done(&Change::Profile(profile))
    }

    /// Whether a profile has members or groups.
    pub fn has_members(&self, profile: ActionProfileId) -> bool {
        let profile = self.model.state.tables.profile(profile);
        profile.is_some_and(Profile::has_members)
    }

    /// Number of entries, in the profile's tables, with a one-shot group.
    pub fn n_one_shots(&self, profile: ActionProfileId) -> usize {
        let profile = self.model.state.tables.profile(profile);
        profile.map_or(0, Profile::n_one_shots)
    }

    /// Every member; empty if the profile does not exist.
    pub fn members(&self, profile: ActionProfileId) -> Vec<ProfileMember> {
        let Some(profile) = self.model.state.tables.profile(profile) else {
            return Vec::new();
        };
        let actions = &self.model.state.program.actions;
        let member = |(id, call): (u32, &Call)| {
            let action = call.to_control(actions.get(call.action.index())?);
            Some(ProfileMember { id, action })
        };
        profile.members().filter_map(member).collect()
    }

    /// Adds a group.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `NotFound` for the profile or a
    /// member, `FailedPrecondition` if the profile has no selector.
    pub fn insert_group(&mut self, profile: ActionProfileId, group: ProfileGroup) -> Controlled {
        self.check_watched(group.watched.iter().map(|(_, port)| *port))?;
        self.profile_with_groups(profile)?.insert_group(&group)?;
        self.done(&Change::Profile(profile))
    }

    /// Replaces the members of a group; its maximum size is fixed.
    ///
    /// # Errors
    /// The same as for [`Switch::insert_group`], `NotFound` for the group, `InvalidArgument` for another size.
    pub fn modify_group(&mut self, profile: ActionProfileId, group: ProfileGroup) -> Controlled {
        self.check_watched(group.watched.iter().map(|(_, port)| *port))?;
        self.profile_with_groups(profile)?.modify_group(&group)?;
        self.done(&Change::Profile(profile))
    }

    /// Removes a group; its members stay.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition` if an entry refers to the group.
    pub fn delete_group(&mut self, profile: ActionProfileId, id: u32) -> Controlled {
        self.profile_mut(profile)?.delete_group(id)?;
        self.done(&Change::Profile(profile))
    }

    /// Every group, sorted by id; empty if the profile does not exist.
    pub fn groups(&self, profile: ActionProfileId) -> Vec<ProfileGroup> {
        let profile = self.model.state.tables.profile(profile);
        profile.map_or_else(Vec::new, |profile| profile.groups().collect())
    }
}
