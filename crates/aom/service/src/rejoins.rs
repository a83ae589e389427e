//! Limits how often members cause a new epoch. In a Byzantine group each process of a member has its own key for
//! confirms, so each start of a process needs a new epoch. A member that restarts again and again must neither stop the
//! group nor keep other members from joining again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// A token bucket, in which each new epoch takes a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How many epochs may begin without a wait between them; at least 1.
    pub burst: u32,
    /// The interval at which one more epoch is allowed.
    pub every: Duration,
}

/// How often members may cause a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejoinLimits {
    /// The limit of each member: a process that crashes again and again costs the group one epoch a minute.
    pub member: Pace,
    /// The limit of all members of a group together. An epoch includes all waiting members, so a member waits at most
    /// one interval because of the others.
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

/// The buckets of members and groups.
#[derive(Debug)]
pub(crate) struct Rejoins {
    limits: RejoinLimits,
    members: BTreeMap<(String, String), Bucket>,
    groups: BTreeMap<String, Bucket>,
}

/// The time at which the bucket is full again; `None` if it is full.
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

    /// Returns how often a member may cause an epoch, as a text for a message.
    pub(crate) fn pace(&self) -> String {
        let every = self.limits.member.every;
        format!("every {} s", every.as_secs_f64())
    }

    /// How long the member must wait before it may cause an epoch.
    pub(crate) fn wait(&self, group: &str, member: &str, now: Instant) -> Duration {
        let of_member = self.members.get(&(group.to_owned(), member.to_owned()));
        let of_member = of_member.copied().unwrap_or_default();
        let of_group = self.groups.get(group).copied().unwrap_or_default();
        let of_member = of_member.wait(self.limits.member, now);
        of_member.max(of_group.wait(self.limits.group, now))
    }

    /// Charges the group and these members for one epoch.
    pub(crate) fn take(&mut self, group: &str, members: &[&str], now: Instant) {
        let of_group = self.groups.entry(group.to_owned()).or_default();
        of_group.take(self.limits.group, now);
        for member in members {
            let key = (group.to_owned(), (*member).to_owned());
            let of_member = self.members.entry(key).or_default();
            of_member.take(self.limits.member, now);
        }
        // A full bucket needs no entry.
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
        let began = Instant::now();
        for _ in 0..2 {
            assert_eq!(rejoins.wait("g", "m0", began), Duration::ZERO);
            rejoins.take("g", &["m0"], began);
        }
        assert_eq!(rejoins.wait("g", "m0", began), Duration::from_secs(60));
        assert_eq!(rejoins.wait("g", "m1", began), Duration::ZERO);
        assert_eq!(rejoins.wait("h", "m0", began), Duration::ZERO);
        let mut n_epochs = 0;
        for second in 0..3600 {
            let now = began + Duration::from_secs(second);
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
        let began = Instant::now();
        let mut n_epochs = 0;
        // Each second another member restarts.
        for second in 0..600 {
            let now = began + Duration::from_secs(second);
            let member = format!("m{second}");
            if rejoins.wait("g", &member, now).is_zero() {
                rejoins.take("g", &[&member], now);
                n_epochs += 1;
            }
        }
        assert_eq!(n_epochs, 2 + 60);
        let later = began + Duration::from_secs(10_000);
        rejoins.take("g", &["m0"], later);
        assert_eq!(rejoins.members.len(), 1);
    }
}
