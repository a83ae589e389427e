//! How often members can make a group begin a new epoch. A process of a Byzantine group's member has a key of its own for
//! confirms, so each start of one needs a new epoch. A member that starts again and again must not stop the group, nor keep
//! the others from joining again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// So many epochs at once, and one more after each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// At once, from 1 on.
    pub burst: u32,
    /// Until there may be another one.
    pub every: Duration,
}

/// The paces of members' epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejoinLimits {
    /// Of one member: a process that crashes again and again costs the group an epoch a minute.
    pub member: Pace,
    /// Of all members of a group together. An epoch takes in all that wait, so a member waits no longer than that for the
    /// others'.
    pub group: Pace,
}

impl Default for RejoinLimits {
    fn default() -> RejoinLimits {
        RejoinLimits {
            member: Pace {
                burst: 3,
                every: Duration::from_secs(60),
            },
            group: Pace {
                burst: 6,
                every: Duration::from_secs(10),
            },
        }
    }
}

/// The epochs that members have caused.
#[derive(Debug)]
pub(crate) struct Rejoins {
    limits: RejoinLimits,
    members: BTreeMap<(String, String), Bucket>,
    groups: BTreeMap<String, Bucket>,
}

/// When everything that was taken is there again; none if it is.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket(Option<Instant>);

impl Bucket {
    fn wait(self, pace: Pace, now: Instant) -> Duration {
        let Bucket(full_at) = self;
        let taken = full_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        taken.saturating_sub(pace.every * pace.burst.saturating_sub(1))
    }

    fn take(&mut self, pace: Pace, now: Instant) {
        let from = self.0.map_or(now, |at| at.max(now));
        self.0 = Some(from + pace.every);
    }
}

impl Rejoins {
    pub(crate) fn new(limits: RejoinLimits) -> Rejoins {
        Rejoins {
            limits,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// How often a member may cause an epoch, in words.
    pub(crate) fn pace(&self) -> String {
        let every = self.limits.member.every;
        format!("every {} s", every.as_secs_f64())
    }

    /// How long until an epoch may begin for this member.
    pub(crate) fn wait(&self, group: &str, member: &str, now: Instant) -> Duration {
        let of_member = self.members.get(&(group.to_owned(), member.to_owned()));
        let of_member = of_member.copied().unwrap_or_default();
        let of_group = self.groups.get(group).copied().unwrap_or_default();
        let of_member = of_member.wait(self.limits.member, now);
        of_member.max(of_group.wait(self.limits.group, now))
    }

    /// An epoch begins that these members have caused.
    pub(crate) fn take(&mut self, group: &str, members: &[&str], now: Instant) {
        let of_group = self.groups.entry(group.to_owned()).or_default();
        of_group.take(self.limits.group, now);
        for member in members {
            let key = (group.to_owned(), (*member).to_owned());
            let of_member = self.members.entry(key).or_default();
            of_member.take(self.limits.member, now);
        }
        // Nothing is kept of those that have their whole burst again.
        self.members.retain(|_, it| it.0 > Some(now));
        self.groups.retain(|_, it| it.0 > Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RejoinLimits = RejoinLimits {
        member: Pace {
            burst: 2,
            every: Duration::from_secs(60),
        },
        group: Pace {
            burst: 3,
            every: Duration::from_secs(10),
        },
    };

    #[test]
    fn a_member_has_a_burst_and_then_an_epoch_a_period_and_others_are_not_held() {
        let mut rejoins = Rejoins::new(LIMITS);
        let begun = Instant::now();
        for _ in 0..2 {
            assert_eq!(rejoins.wait("g", "m0", begun), Duration::ZERO);
            rejoins.take("g", &["m0"], begun);
        }
        assert_eq!(rejoins.wait("g", "m0", begun), Duration::from_secs(60));
        assert_eq!(rejoins.wait("g", "m1", begun), Duration::ZERO);
        assert_eq!(rejoins.wait("h", "m0", begun), Duration::ZERO);
        let mut n_epochs = 0;
        for second in 0..3600 {
            let now = begun + Duration::from_secs(second);
            if rejoins.wait("g", "m0", now).is_zero() {
                rejoins.take("g", &["m0"], now);
                n_epochs += 1;
            }
        }
        assert_eq!(n_epochs, 59);
    }

    #[test]
    fn all_members_together_are_held_to_the_groups_pace() {
        let mut rejoins = Rejoins::new(LIMITS);
        let begun = Instant::now();
        let mut n_epochs = 0;
        // Each second another member of many starts again.
        for second in 0..600 {
            let now = begun + Duration::from_secs(second);
            let member = format!("m{second}");
            if rejoins.wait("g", &member, now).is_zero() {
                rejoins.take("g", &[&member], now);
                n_epochs += 1;
            }
        }
        assert_eq!(n_epochs, 2 + 60);
        let later = begun + Duration::from_secs(10_000);
        rejoins.take("g", &["m0"], later);
        assert_eq!(rejoins.members.len(), 1);
    }
}
