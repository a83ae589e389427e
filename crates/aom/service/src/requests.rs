//! Requests of operators. The service checks a request completely before anything changes, then saves the new state,
//! carries the request out and answers.

use std::collections::BTreeSet;

use aom::limits::RECEIVERS_MAX;
use aom_config::message::check_name;

use crate::epochs;
use crate::operator::{Answer, GroupAdd, GroupState, GroupView, MemberAdd, MemberView, Request};
use crate::service::{Core, ServiceError};
use crate::state::{BYZANTINE_MEMBERS_MIN, GROUPS_MAX, Group, Mac, Member, Past, Phase};

/// A message for the operator, or an error that ends the service.
#[derive(Debug)]
enum Refusal {
    Request(String),
    Service(ServiceError),
}

impl From<String> for Refusal {
    fn from(error: String) -> Refusal {
        Refusal::Request(error)
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Refusal {
        Refusal::Service(error)
    }
}

impl Core {
    /// Carries out a request. A refused request gets an answer that says so; an error ends the service.
    pub(crate) async fn answer(&mut self, request: Request) -> Result<Answer, ServiceError> {
        let answered = match request {
            Request::GroupShow { group } => self.show(group.as_deref()).await,
            Request::GroupAdd(what) => self.group_add(&what).await,
            Request::GroupRemove { group } => self.group_remove(&group).await,
            Request::MemberAdd(what) => self.member_add(&what).await,
            Request::MemberRemove { group, member } => self.member_remove(&group, &member).await,
            Request::MemberFile { group, member } => self.member_file(&group, &member).await,
            Request::EpochAdvance { group } => self.epoch_advance(&group).await,
        };
        match answered {
            Ok(answer) => Ok(answer),
            Err(Refusal::Request(error)) => Ok(Answer::Failed { error }),
            Err(Refusal::Service(error)) => Err(error),
        }
    }

    async fn group_add(&mut self, what: &GroupAdd) -> Result<Answer, Refusal> {
        let name = &what.group;
        check_name("group", name)?;
        if self.state.groups.contains_key(name) {
            return Err(format!("there is a group \"{name}\" already: choose another name").into());
        }
        self.options.sequencer.check(&what.variant)?;
        self.check_address(what)?;
        let number = self.number_for(what.number)?;
        let slot = self.state.free_slot();
        let slot =
            slot.ok_or_else(|| format!("the sequencer has its {GROUPS_MAX} groups: remove one"))?;
        let past = self
            .state
            .retired
            .remove(&number)
            .unwrap_or(Past { last_epoch: 0 });
        let group = Group {
            number,
            slot,
            address: what.address,
            variant: what.variant.clone(),
            byzantine: what.byzantine,
            members: Vec::new(),
            past,
            current: None,
            next: None,
            ended: None,
            phase: Phase::Resting(
                "it has no members: add one with `reprise aom member add`".to_owned(),
            ),
        };
        self.state.groups.insert(name.clone(), group);
        self.save()?;
        let message = format!("group \"{name}\" has number {number}");
        Ok(self.done(name, message, None).await)
    }

    fn check_address(&self, what: &GroupAdd) -> Result<(), String> {
        let Some(address) = what.address else {
            return Ok(());
        };
        if address.is_unspecified() || address.is_broadcast() || address.is_loopback() {
            return Err(format!(
                "{address} is no address of a group: expected an address to which senders can send, best an IPv4 multicast address (239.0.0.0 to 239.255.255.255)"
            ));
        }
        let mut groups = self.state.groups.iter();
        match groups.find(|(_, group)| group.address == Some(address)) {
            Some((other, _)) => Err(format!(
                "{address} is group \"{other}\"'s address: choose another"
            )),
            None => Ok(()),
        }
    }

    fn number_for(&self, wanted: Option<u16>) -> Result<u16, String> {
        let Some(number) = wanted else {
            let free = self.state.free_number();
            return free.ok_or_else(|| {
                "every number from 1 to 65535 is or was a group's: give the number of a removed group with --id"
                    .to_owned()
            });
        };
        if number == 0 {
            return Err(
                "expected a number from 1 to 65535, found 0: a request without a group's number has 0"
                    .to_owned(),
            );
        }
        let mut groups = self.state.groups.iter();
        match groups.find(|(_, group)| group.number == number) {
            Some((other, _)) => Err(format!(
                "{number} is group \"{other}\"'s number: choose another, or leave --id out"
            )),
            None => Ok(number),
        }
    }

    async fn group_remove(&mut self, name: &str) -> Result<Answer, Refusal> {
        self.can_change(name)?;
        if let Some(group) = self.state.groups.get_mut(name) {
            group.phase = Phase::Remove;
        }
        self.save()?;
        self.reach("remove-begun")?;
        self.carry_out(name).await?;
        let message = match self.switch.connection {
            Some(_) => format!("group \"{name}\" is removed"),
            None => format!(
                "the removal of group \"{name}\" is saved; the sequencer does not answer, and the group is removed when it answers again"
            ),
        };
        Ok(self.done(name, message, None).await)
    }

    async fn member_add(&mut self, what: &MemberAdd) -> Result<Answer, Refusal> {
        let MemberAdd { group, member, .. } = what;
        check_name("member", member)?;
        let mac: Mac = what.mac.parse()?;
        self.check_member(what, mac)?;
        self.can_change(group)?;
        self.can_begin(group)?;
        let (file, fingerprint) = self.issuer.issue(group, member)?;
        let added = Member {
            name: member.clone(),
            mac,
            ip: what.ip,
            udp_port: what.udp_port,
            switch_port: what.switch_port,
            fingerprint,
            confirm_key: None,
        };
        let mut is_byzantine = false;
        if let Some(group) = self.state.groups.get_mut(group) {
            group.members.push(added);
            is_byzantine = group.byzantine;
        }
        if is_byzantine {
            // The member receives only after its join, since the join message contains the member's key.
            self.save()?
        } else {
            self.renew(group).await?
        }
        let when = if is_byzantine {
            ", and receives when it has joined"
        } else {
            ""
        };
        let message = format!("member \"{member}\" is added to group \"{group}\"{when}");
        Ok(self.done(group, message, Some(file)).await)
    }

    fn check_member(&self, what: &MemberAdd, mac: Mac) -> Result<(), String> {
        let MemberAdd {
            member,
            ip,
            udp_port,
            ..
        } = what;
        let group = self.group(&what.group)?;
        if group.is_full() {
            return Err(format!(
                "group \"{}\" has {RECEIVERS_MAX} members, as many as there can be: remove one",
                what.group
            ));
        }
        if group.member(member).is_some() {
            return Err(format!(
                "group \"{}\" has a member \"{member}\" already: choose another name, or make a new file for it with `reprise aom member file`",
                what.group
            ));
        }
        if *udp_port == 0 {
            return Err("expected a UDP port from 1 to 65535, found 0".to_owned());
        }
        let everybody = self.state.groups.iter();
        let mut everybody =
            everybody.flat_map(|(name, group)| group.members.iter().map(move |it| (name, it)));
        let is_same_place = |(_, it): &(&String, &Member)| (it.ip, it.udp_port) == (*ip, *udp_port);
        if let Some((other, it)) = everybody.clone().find(is_same_place) {
            return Err(format!(
                "{ip}:{udp_port} is where member \"{}\" of group \"{other}\" receives: choose another UDP port",
                it.name
            ));
        }
        // The switch sends frames to a MAC to one port only, so a MAC cannot be at two ports.
        let is_elsewhere =
            |(_, it): &(&String, &Member)| it.mac == mac && it.switch_port != what.switch_port;
        if let Some((other, it)) = everybody.find(is_elsewhere) {
            return Err(format!(
                "{mac} is at port {} of the switch, for member \"{}\" of group \"{other}\" is there: expected that port, found {}",
                it.switch_port, it.name, what.switch_port
            ));
        }
        Ok(())
    }

    async fn member_remove(&mut self, name: &str, member: &str) -> Result<Answer, Refusal> {
        self.member(name, member)?;
        self.can_change(name)?;
        self.can_begin(name)?;
        if let Some(group) = self.state.groups.get_mut(name) {
            group.members.retain(|it| it.name != member);
        }
        let because = format!("member \"{member}\" was removed from group \"{name}\"");
        self.renew(name).await?;
        self.sessions.refuse(name, Some(member), &because);
        self.late.remove(&(name.to_owned(), member.to_owned()));
        let message = because + &self.liars(name);
        Ok(self.done(name, message, None).await)
    }

    async fn member_file(&mut self, name: &str, member: &str) -> Result<Answer, Refusal> {
        self.member(name, member)?;
        let (file, fingerprint) = self.issuer.issue(name, member)?;
        let group = self.state.groups.get_mut(name);
        let mut members = group.into_iter().flat_map(|group| &mut group.members);
        if let Some(it) = members.find(|it| it.name == member) {
            it.fingerprint = fingerprint;
        }
        self.save()?;
        let because = format!("member \"{member}\" has a new member file: use that");
        self.sessions.refuse(name, Some(member), &because);
        let message = format!(
            "member \"{member}\" of group \"{name}\" has a new file; the one before is refused"
        );
        Ok(self.done(name, message, Some(file)).await)
    }

    async fn epoch_advance(&mut self, name: &str) -> Result<Answer, Refusal> {
        self.can_change(name)?;
        self.begin(name, false).await?;
        self.save()?;
        self.reach("stop-saved")?;
        self.carry_out(name).await?;
        let epoch = self.group(name)?.past.last_epoch;
        let message = format!("group \"{name}\" is in epoch {epoch}") + &self.liars(name);
        Ok(self.done(name, message, None).await)
    }

    /// Returns a suffix for a message about a Byzantine group's epoch. It says how many receivers may lie, and which
    /// members have not joined. For other groups the suffix is empty.
    fn liars(&self, name: &str) -> String {
        let group = self.state.groups.get(name).filter(|it| it.byzantine);
        let Some((group, epoch)) = group.and_then(|group| Some((group, group.announced()?))) else {
            return String::new();
        };
        let n_receivers = epoch.receivers.len();
        let may_lie = match epoch.liars_max() {
            0 => "none may lie: a single liar can make the others deliver different messages"
                .to_owned(),
            n => format!("at most {n} may lie"),
        };
        let absent = self.absent(name, group);
        let absent = if absent.is_empty() {
            String::new()
        } else {
            format!("; not joined, and without it: {}", absent.join(", "))
        };
        format!("; of its {n_receivers} receivers {may_lie}{absent}")
    }

    /// Begins a new epoch after a change of members. If no epoch can begin, the group is left without one.
    async fn renew(&mut self, name: &str) -> Result<(), ServiceError> {
        let waits = self
            .state
            .groups
            .get(name)
            .is_some_and(Group::waits_for_members);
        if !waits
            && let Err(because) = self.begin(name, false).await
            && let Some(group) = self.state.groups.get_mut(name)
        {
            group.phase = match group.phase {
                Phase::Resting(_) => Phase::Resting(because),
                _ => Phase::Halt(because),
            };
        }
        self.save()?;
        self.reach("stop-saved")?;
        self.carry_out(name).await
    }

    /// Carries out the group's phases. If the switch fails, the remaining phases wait for the next connection.
    async fn carry_out(&mut self, name: &str) -> Result<(), ServiceError> {
        let done = self.go_on(name).await;
        self.outcome(done)
    }

    async fn show(&mut self, name: Option<&str>) -> Result<Answer, Refusal> {
        if let Some(name) = name {
            self.group(name)?;
        }
        let names = self.state.groups.keys().cloned();
        let names: Vec<String> = names
            .filter(|it| name.is_none_or(|name| name == it))
            .collect();
        let mut groups = Vec::new();
        for name in names {
            groups.extend(self.view(&name).await);
        }
        Ok(Answer::Groups { groups })
    }

    /// Builds the answer. If the connection to the switch was lost meanwhile, the message says so.
    async fn done(&mut self, name: &str, message: String, member_file: Option<String>) -> Answer {
        let group = self.view(name).await.map(Box::new);
        let is_waiting = self.switch.connection.is_none() && group.is_some();
        let message = if is_waiting {
            format!(
                "{message}; the sequencer does not answer ({}), and the remaining steps are done when it does",
                self.switch.because
            )
        } else {
            message
        };
        Answer::Done {
            message,
            group,
            member_file,
        }
    }

    async fn view(&mut self, name: &str) -> Option<GroupView> {
        let group = self.state.groups.get(name)?;
        let sequence = match &mut self.switch.connection {
            Some(connection) if group.current.is_some() => {
                connection.last_number(group).await.ok().flatten()
            }
            _ => None,
        };
        let gap = self.gaps.get(name);
        Some(GroupView {
            group: name.to_owned(),
            number: group.number,
            address: group.address,
            variant: group.variant.clone(),
            byzantine: group.byzantine,
            epoch: group.announced().map_or(0, |epoch| epoch.number),
            liars_max: group
                .announced()
                .filter(|_| group.byzantine)
                .map(|epoch| epoch.liars_max()),
            state: self.state_of(name, group),
            sequence,
            last_gap_ms: gap.map(|gap| gap.as_micros().div_ceil(1000) as u64),
            members: group
                .members
                .iter()
                .map(|it| self.member_view(name, group, it))
                .collect(),
        })
    }

    fn state_of(&self, name: &str, group: &Group) -> GroupState {
        let inactive = |because: &str| GroupState::Inactive {
            because: because.to_owned(),
        };
        match &group.phase {
            Phase::Resting(_) if group.byzantine && !group.members.is_empty() => {
                inactive(&self.waits_for(name, group))
            }
            Phase::Resting(because) | Phase::Halt(because) => inactive(because),
            Phase::Remove => inactive("it is being removed"),
            _ if self.switch.connection.is_none() => inactive(&self.switch.because),
            Phase::Active => GroupState::Active,
            Phase::Stop | Phase::Hand | Phase::Write | Phase::Start => GroupState::Advancing,
        }
    }

    /// Tells the operator why a Byzantine group has no epoch yet.
    fn waits_for(&self, name: &str, group: &Group) -> String {
        let absent = self.absent(name, group);
        let n_members = group.members.len();
        let missing = if absent.is_empty() {
            format!("it has {n_members}")
        } else {
            format!("not joined yet: {}", absent.join(", "))
        };
        format!(
            "it begins by itself when all of its members have joined, and are at least {BYZANTINE_MEMBERS_MIN}, of which one may lie ({missing}); `reprise aom epoch advance` begins it with those that have joined"
        )
    }

    /// Tells the operator why a connected member does not receive.
    fn member_waits(&self, name: &str, group: &Group, member: &Member) -> Option<String> {
        let wanting = self.wanting(name, group);
        if !wanting.contains(&member.name.as_str()) {
            return None;
        }
        let now = tokio::time::Instant::now();
        let wait = self.rejoins.wait(name, &member.name, now).as_secs() + 1;
        Some(format!(
            "its process is new, and receives from the next epoch on, which begins within {wait} s: members that start again and again cause an epoch {} at most",
            self.rejoins.pace()
        ))
    }

    fn member_view(&self, name: &str, group: &Group, member: &Member) -> MemberView {
        let receivers = group.announced().map(|epoch| &epoch.receivers);
        let place = receivers.and_then(|it| it.iter().position(|it| it.name == member.name));
        MemberView {
            member: member.name.clone(),
            receiver: place.and_then(|place| u8::try_from(place).ok()),
            mac: member.mac.to_string(),
            ip: member.ip,
            udp_port: member.udp_port,
            switch_port: member.switch_port,
            is_connected: self.sessions.is_connected(name, &member.name),
            installed: self.sessions.installed(name, &member.name),
            waits: self.member_waits(name, group, member),
        }
    }

    fn group(&self, name: &str) -> Result<&Group, String> {
        let group = self.state.groups.get(name);
        group.ok_or_else(|| {
            let names: BTreeSet<&str> = self.state.groups.keys().map(String::as_str).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            if names.is_empty() {
                format!("there is no group \"{name}\", and no other: add one with `reprise aom group add`")
            } else {
                format!("there is no group \"{name}\"; there are: {names}")
            }
        })
    }

    fn member(&self, name: &str, member: &str) -> Result<(), String> {
        let group = self.group(name)?;
        if group.member(member).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = group.members.iter().map(|it| it.name.as_str()).collect();
        Err(if names.is_empty() {
            format!("group \"{name}\" has no members")
        } else {
            format!(
                "group \"{name}\" has no member \"{member}\"; it has: {}",
                names.join(", ")
            )
        })
    }

    /// Refuses a change of members if no number is left for the next epoch: in the old epoch a removed member would
    /// still receive.
    fn can_begin(&self, name: &str) -> Result<(), String> {
        let last = self.group(name)?.past.last_epoch;
        match epochs::next(last, self.options.clock.now()) {
            Ok(_) => Ok(()),
            Err(because) => Err(format!("{because}; nothing was changed")),
        }
    }

    /// Refuses a change if the switch is not connected, or if the group is being removed.
    fn can_change(&self, name: &str) -> Result<(), String> {
        if self.group(name)?.phase == Phase::Remove {
            return Err(format!("group \"{name}\" is being removed"));
        }
        match self.switch.connection {
            Some(_) => Ok(()),
            None => Err(format!(
                "the sequencer at {} is not there ({}): nothing was changed; start it, and ask again",
                self.options.switch, self.switch.because
            )),
        }
    }
}
