//! Members' connections: for each connection the current message to the member, and the epoch that the member
//! acknowledged last.

use std::collections::BTreeMap;

use aom_config::keys::PublicKey;
use tokio::sync::watch;

use crate::members::{FromMember, Notice};
use crate::service::Core;
use crate::state::Group;

/// The sessions by group name and member name.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<(String, String), Session>);

#[derive(Debug)]
struct Session {
    notices: watch::Sender<Notice>,
    installed: Option<u64>,
    /// The confirm key of the member's process.
    confirm_key: Option<PublicKey>,
}

impl Sessions {
    pub(crate) fn is_connected(&self, group: &str, member: &str) -> bool {
        self.get(group, member)
            .is_some_and(|session| !session.notices.is_closed())
    }

    pub(crate) fn installed(&self, group: &str, member: &str) -> Option<u64> {
        self.get(group, member)?.installed
    }

    /// The confirm key of the member's process, if it is connected.
    pub(crate) fn confirm_key(&self, group: &str, member: &str) -> Option<PublicKey> {
        let session = self.get(group, member)?;
        session.confirm_key.filter(|_| !session.notices.is_closed())
    }

    fn get(&self, group: &str, member: &str) -> Option<&Session> {
        self.0.get(&(group.to_owned(), member.to_owned()))
    }

    /// Begins a session for a new connection. An earlier connection of the member gets a refusal.
    fn begin(
        &mut self,
        (group, member): (&str, &str),
        confirm_key: Option<PublicKey>,
        notice: Notice,
    ) -> watch::Receiver<Notice> {
        let (sender, receiver) = watch::channel(notice);
        let session = Session {
            notices: sender,
            installed: None,
            confirm_key,
        };
        let before = self
            .0
            .insert((group.to_owned(), member.to_owned()), session);
        if let Some(before) = before {
            let reason = format!(
                "another connection of member \"{member}\" has taken its place: a member file is for one process"
            );
            before.notices.send_replace(Notice::Refused(reason));
        }
        receiver
    }

    /// Sends the current membership to each of the group's connected members whose membership has changed.
    pub(crate) fn notify(&mut self, name: &str, group: &Group) {
        for ((of, member), session) in &mut self.0 {
            if of == name {
                session.notices.send_if_modified(|notice| {
                    let now = notice_of(name, group, member, session.confirm_key);
                    let is_new = *notice != now;
                    *notice = now;
                    is_new
                });
            }
        }
    }

    /// Refuses one member, or all members of the group, and ends their connections.
    pub(crate) fn refuse(&mut self, group: &str, member: Option<&str>, reason: &str) {
        self.0.retain(|(of, who), session| {
            let is_meant = of == group && member.is_none_or(|member| member == who);
            if is_meant {
                session
                    .notices
                    .send_replace(Notice::Refused(reason.to_owned()));
            }
            !is_meant
        });
    }

    /// Returns the names of connected receivers that have not acknowledged the announced epoch yet. The announced epoch
    /// is the epoch of the membership that the service sends to members.
    pub(crate) fn missing<'a>(&self, name: &str, group: &'a Group) -> Vec<&'a str> {
        let Some(epoch) = group.announced() else {
            return Vec::new();
        };
        let names = epoch.receivers.iter().map(|it| it.name.as_str());
        // A process that joined with another key after the epoch was prepared does not receive in this epoch.
        let receives = |member: &str| {
            !group.byzantine || epoch.confirm_key(member) == self.confirm_key(name, member)
        };
        let misses = |member: &&str| {
            self.is_connected(name, member)
                && receives(member)
                && self.installed(name, member) < Some(epoch.number)
        };
        names.filter(misses).collect()
    }
}

/// Returns the notice for a member's connection. In a Byzantine group, a process gets no membership of an epoch that
/// has the confirm key of another process of the same member: that other process may have confirmed messages already.
fn notice_of(name: &str, group: &Group, member: &str, confirm_key: Option<PublicKey>) -> Notice {
    let epoch = group.announced();
    let is_own = epoch.is_some_and(|it| it.confirm_key(member) == confirm_key);
    let membership = group.membership(name, member);
    match membership.filter(|_| is_own || !group.byzantine) {
        Some(membership) => Notice::Membership(Box::new(membership)),
        None => Notice::Nothing,
    }
}

impl Core {
    pub(crate) fn receive(&mut self, message: FromMember) {
        match message {
            FromMember::Installed {
                group,
                member,
                epoch,
            } => {
                let who = (group, member);
                if let Some(session) = self.sessions.0.get_mut(&who) {
                    session.installed = session.installed.max(Some(epoch));
                    self.late.remove(&who);
                }
            }
            FromMember::Join {
                group,
                member,
                fingerprint,
                confirm_key,
                answer,
            } => {
                let joined = self.admit(&group, &member, fingerprint, confirm_key);
                // Sending fails if the connection has ended meanwhile.
                let _ = answer.send(joined);
            }
        }
    }

    /// Returns the channel for a connection that joins, or an error message for the member.
    fn admit(
        &mut self,
        name: &str,
        member_name: &str,
        fingerprint: crate::members::Fingerprint,
        confirm_key: Option<PublicKey>,
    ) -> Result<watch::Receiver<Notice>, String> {
        let Some(group) = self.state.groups.get(name) else {
            return Err(format!("there is no group \"{name}\": it was removed"));
        };
        let Some(member) = group.member(member_name) else {
            return Err(format!(
                "group \"{name}\" has no member \"{member_name}\": it was removed"
            ));
        };
        if member.fingerprint != fingerprint {
            return Err(format!(
                "this is not the newest certificate of member \"{member_name}\": use the newest member file, or have one made with `reprise aom member file`"
            ));
        }
        if group.byzantine && confirm_key.is_none() {
            return Err(format!(
                "group \"{name}\" is Byzantine: a member says with which key its confirms are checked, and this one did not"
            ));
        }
        let notice = notice_of(name, group, member_name, confirm_key);
        let who = (name, member_name);
        Ok(self.sessions.begin(who, confirm_key, notice))
    }
}
