//! Members and groups of action profiles.

use crate::{
    ActionCall, ActionProfileId, ControlErrorKind, Controlled, ProfileGroup, ProfileMember,
    engine::{Change, State},
    match_action::{self, Call, Profile},
    program::ActionProfileInfo,
    refuse,
    switch::Switch,
};

/// An action profile with what is known of it.
struct Target<'a> {
    info: &'a ActionProfileInfo,
    profile: &'a mut Profile,
}

impl Target<'_> {
    fn with_groups(&self) -> Controlled {
        if self.info.has_selector {
            return Ok(());
        }
        let message = format!("action profile \"{}\" has no groups", self.info.name);
        refuse(ControlErrorKind::FailedPrecondition, message)
    }
}

/// Each call is atomic and takes effect between two passes.
impl Switch {
    fn profile_target(&mut self, id: ActionProfileId) -> Controlled<Target<'_>> {
        let State {
            program, tables, ..
        } = self.loaded_mut()?;
        let info = program.action_profiles.get(id.index());
        match (info, tables.profile_mut(id)) {
            (Some(info), Some(profile)) => Ok(Target { info, profile }),
            _ => refuse(
                ControlErrorKind::NotFound,
                format!("no action profile {}", id.index()),
            ),
        }
    }

    fn tell_profile(&mut self, profile: ActionProfileId) -> Controlled {
        self.tell(&Change::Profile(profile));
        Ok(())
    }

    /// An action that some table of the profile has.
    fn profile_call(&self, id: ActionProfileId, call: &ActionCall) -> Controlled<Call> {
        let program = &self.loaded()?.program;
        let tables = program.tables.iter();
        let mut tables = tables.filter(|table| table.action_profile == Some(id));
        let table = tables.find(|table| table.actions.contains(&call.action));
        match (table, program.action_profiles.get(id.index())) {
            (Some(table), _) => match_action::to_call(table, &program.actions, call),
            (None, Some(info)) => {
                let message = format!(
                    "action profile \"{}\": action {} is in none of its tables",
                    info.name,
                    call.action.index()
                );
                refuse(ControlErrorKind::InvalidArgument, message)
            }
            (None, None) => refuse(
                ControlErrorKind::NotFound,
                format!("no action profile {}", id.index()),
            ),
        }
    }

    /// Adds a member.
    ///
    /// # Errors
    /// `InvalidArgument` where the action is in no table of the profile or its arguments do not
    /// fit, `AlreadyExists`, `ResourceExhausted`, `NotFound` for the profile.
    pub fn insert_member(&mut self, profile: ActionProfileId, member: ProfileMember) -> Controlled {
        let call = self.profile_call(profile, &member.action)?;
        let target = self.profile_target(profile)?;
        target.profile.insert_member(member.id, call)?;
        self.tell_profile(profile)
    }

    /// Replaces the action of a member, for every entry and group that names it.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`.
    pub fn modify_member(&mut self, profile: ActionProfileId, member: ProfileMember) -> Controlled {
        let call = self.profile_call(profile, &member.action)?;
        let target = self.profile_target(profile)?;
        target.profile.modify_member(member.id, call)?;
        self.tell_profile(profile)
    }

    /// Takes a member away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition` where an entry or a group names it.
    pub fn delete_member(&mut self, profile: ActionProfileId, id: u32) -> Controlled {
        self.profile_target(profile)?.profile.delete_member(id)?;
        self.tell_profile(profile)
    }

    /// Every member; none of a profile that is not there.
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
    /// member, `FailedPrecondition` where the profile is no selector.
    pub fn insert_group(&mut self, profile: ActionProfileId, group: ProfileGroup) -> Controlled {
        let target = self.profile_target(profile)?;
        target.with_groups()?;
        let ProfileGroup {
            id,
            max_size,
            members,
        } = group;
        target.profile.insert_group(id, max_size, &members)?;
        self.tell_profile(profile)
    }

    /// Replaces the members of a group.
    ///
    /// # Errors
    /// As [`Switch::insert_group`], and `NotFound` for the group.
    pub fn modify_group(&mut self, profile: ActionProfileId, group: ProfileGroup) -> Controlled {
        let target = self.profile_target(profile)?;
        target.with_groups()?;
        let ProfileGroup {
            id,
            max_size,
            members,
        } = group;
        target.profile.modify_group(id, max_size, &members)?;
        self.tell_profile(profile)
    }

    /// Takes a group away; its members stay.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition` where an entry names it.
    pub fn delete_group(&mut self, profile: ActionProfileId, id: u32) -> Controlled {
        self.profile_target(profile)?.profile.delete_group(id)?;
        self.tell_profile(profile)
    }

    /// Every group, by id; none of a profile that is not there.
    pub fn groups(&self, profile: ActionProfileId) -> Vec<ProfileGroup> {
        let profile = self.model.state.tables.profile(profile);
        profile.map_or_else(Vec::new, |profile| {
            let groups = profile.groups();
            let group = |(id, max_size, members)| ProfileGroup {
                id,
                max_size,
                members,
            };
            groups.map(group).collect()
        })
    }
}
