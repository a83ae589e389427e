//! Members' connections: the current message to each, and the epochs that they acknowledged.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::members::{FromMember, Told};
use crate::service::{Core, ServiceError};
use crate::state::Group;

/// By group and member.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<(String, String), Session>);

#[derive(Debug)]
struct Session {
    told: watch::Sender<Told>,
    installed: Option<u64>,
}

impl Sessions {
    pub(crate) fn is_connected(&self, group: &str, member: &str) -> bool {
        self.get(group, member)
            .is_some_and(|session| !session.told.is_closed())
    }

    pub(crate) fn installed(&self, group: &str, member: &str) -> Option<u64> {
        self.get(group, member)?.installed
    }

    fn get(&self, group: &str, member: &str) -> Option<&Session> {
        self.0.get(&(group.to_owned(), member.to_owned()))
    }

    /// Replaces the member's earlier connection, which is told so.
    fn begin(&mut self, group: &str, member: &str, told: Told) -> watch::Receiver<Told> {
        let (sender, receiver) = watch::channel(told);
        let session = Session {
            told: sender,
            installed: None,
        };
        let before = self
            .0
            .insert((group.to_owned(), member.to_owned()), session);
        if let Some(before) = before {
            let reason = format!(
                "another connection of member \"{member}\" has taken its place: a member file is for one process"
            );
            before.told.send_replace(Told::Refused(reason));
        }
        receiver
    }

    /// Sends the group's members the current membership.
    pub(crate) fn tell(&mut self, name: &str, group: &Group) {
        for ((of, member), session) in &mut self.0 {
            if of == name {
                session.told.send_if_modified(|told| {
                    let now = told_of(name, group, member);
                    let is_new = *told != now;
                    *told = now;
                    is_new
                });
            }
        }
    }

    /// The last word to one member, or to all of the group.
    pub(crate) fn refuse(&mut self, group: &str, member: Option<&str>, reason: &str) {
        self.0.retain(|(of, who), session| {
            let is_meant = of == group && member.is_none_or(|member| member == who);
            if is_meant {
                session.told.send_replace(Told::Refused(reason.to_owned()));
            }
            !is_meant
        });
    }

    /// The receivers of the epoch that are connected and have not installed it yet.
    pub(crate) fn missing<'a>(&self, name: &str, group: &'a Group) -> Vec<&'a str> {
        let Some(epoch) = group.told() else {
            return Vec::new();
        };
        let names = epoch.receivers.iter().map(|it| it.name.as_str());
        let misses = |member: &&str| {
            self.is_connected(name, member) && self.installed(name, member) < Some(epoch.number)
        };
        names.filter(misses).collect()
    }
}

fn told_of(name: &str, group: &Group, member: &str) -> Told {
    match group.membership(name, member) {
        Some(membership) => Told::Membership(Box::new(membership)),
        None => Told::Nothing,
    }
}

impl Core {
    /// Handles a connection's message.
    pub(crate) fn hear(&mut self, message: FromMember) -> Result<(), ServiceError> {
        match message {
            FromMember::Installed {
                group,
                member,
                epoch,
            } => {
                if let Some(session) = self.sessions.0.get_mut(&(group, member)) {
                    session.installed = session.installed.max(Some(epoch));
                }
            }
            FromMember::Join {
                group,
                member,
                fingerprint,
                confirm_key,
                answer,
            } => {
                let joined = self.admit(&group, &member, fingerprint, confirm_key)?;
                // The caller may be gone again.
                let _ = answer.send(joined);
            }
        }
        Ok(())
    }

    /// The inner error is for the member, the outer one ends the service.
    fn admit(
        &mut self,
        name: &str,
        member_name: &str,
        fingerprint: crate::members::Fingerprint,
        confirm_key: Option<aom_config::keys::PublicKey>,
    ) -> Result<Result<watch::Receiver<Told>, String>, ServiceError> {
        let Some(group) = self.state.groups.get_mut(name) else {
            return Ok(Err(format!("there is no group \"{name}\": it was removed")));
        };
        let byzantine = group.byzantine;
        let found = group.members.iter_mut().find(|it| it.name == member_name);
        let Some(member) = found else {
            return Ok(Err(format!(
                "group \"{name}\" has no member \"{member_name}\": it was removed"
            )));
        };
        if member.fingerprint != fingerprint {
            return Ok(Err(format!(
                "this is not the newest certificate of member \"{member_name}\": use the newest member file, or have one made with `reprise aom member file`"
            )));
        }
        if byzantine && confirm_key.is_none() {
            return Ok(Err(format!(
                "group \"{name}\" is Byzantine: a member says with which key its confirms are checked, and this one did not"
            )));
        }
        if byzantine && member.confirm_key != confirm_key {
            member.confirm_key = confirm_key;
            self.save()?;
            self.due.insert(name.to_owned());
        }
        let told = match self.state.groups.get(name) {
            Some(group) => told_of(name, group, member_name),
            None => Told::Nothing,
        };
        Ok(Ok(self.sessions.begin(name, member_name, told)))
    }
}
