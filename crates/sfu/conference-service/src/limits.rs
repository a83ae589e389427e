//! Limits how often strangers and participants may make requests. The memory for the counts is bounded, whatever
//! addresses the requests come from.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conference_api::Name;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use serde::Deserialize;

/// How many sources, or participants, have their requests counted at a time.
const KEYS_MAX: usize = 65_536;

/// A limit: how many requests may come at once, and how many a second in the long run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// How many requests may come a second in the long run.
    pub per_second: NonZeroU32,
    /// How many requests may come at once after a pause.
    pub burst: NonZeroU32,
}

/// The table `[limits]` of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// The limit of a source, which applies before the token of a request is checked. A source is an IPv4 address, or a
    /// network of 64 bits of IPv6.
    pub address: Rate,
    /// The limit of a source for requests without a good token.
    pub bad_tokens: Rate,
    /// The limit of a participant, wherever its requests come from.
    pub participant: Rate,
}

fn rate(per_second: u32, burst: u32) -> Rate {
    let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    Rate {
        per_second: number(per_second),
        burst: number(burst),
    }
}

impl Default for LimitsConfig {
    /// Returns limits that are enough for 500 participants behind one address translator who join at 100 a second. Each
    /// of them makes some ten requests, and reads the conference now and then.
    fn default() -> LimitsConfig {
        LimitsConfig {
            address: rate(4_000, 20_000),
            bad_tokens: rate(10, 100),
            participant: rate(100, 2_000),
        }
    }
}

/// A source of requests: an IPv4 address, or a network of 64 bits of IPv6, in which one host may have any address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The bits of an address.
    V4(u32),
    /// The first 64 bits of an address.
    V6(u64),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(v4) => Source::V4(v4.to_bits()),
            IpAddr::V6(v6) => Source::V6((v6.to_bits() >> 64) as u64),
        }
    }
}

/// A request that exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected at most {rate} a second, after a burst; try again in {retry_s} s", rate = rate.per_second)]
pub struct TooMany {
    what: &'static str,
    rate: Rate,
    /// After how many seconds a request is served again.
    pub retry_s: u32,
}

/// The counts of recent requests.
#[derive(Default)]
pub struct Limits {
    counted: Mutex<Option<Counted>>,
}

struct Counted {
    config: LimitsConfig,
    addresses: Keyed<Source>,
    bad_tokens: Keyed<Source>,
    participants: Keyed<(Name, Name)>,
}

impl std::fmt::Debug for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("limits")
    }
}

impl Limits {
    /// Counts a request of an address.
    ///
    /// # Errors
    /// The request is one too many.
    pub fn request(&self, config: LimitsConfig, source: Source) -> Result<(), TooMany> {
        let what = "too many requests of this address";
        self.with(config, |counted| counted.addresses.take(&source, what))
    }

    /// Counts a request without a good token.
    ///
    /// # Errors
    /// The request is one too many.
    pub fn bad_token(&self, config: LimitsConfig, source: Source) -> Result<(), TooMany> {
        let what = "too many requests without a good token of this address";
        self.with(config, |counted| counted.bad_tokens.take(&source, what))
    }

    /// Counts a request of a participant.
    ///
    /// # Errors
    /// The request is one too many.
    pub fn participant(
        &self,
        config: LimitsConfig,
        conference: &Name,
        participant: &Name,
    ) -> Result<(), TooMany> {
        let what = "too many requests of this participant";
        let key = (conference.clone(), participant.clone());
        self.with(config, |counted| counted.participants.take(&key, what))
    }

    /// Calls `take` with the counts. If the limits have changed, all counts begin anew.
    fn with<T>(&self, config: LimitsConfig, take: impl FnOnce(&mut Counted) -> T) -> T {
        let mut counted = self.lock();
        if counted.as_ref().is_none_or(|it| it.config != config) {
            *counted = None;
        }
        take(counted.get_or_insert_with(|| Counted {
            config,
            addresses: Keyed::new(config.address),
            bad_tokens: Keyed::new(config.bad_tokens),
            participants: Keyed::new(config.participant),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Keyed<K: Hash + Eq + Clone> {
    rate: Rate,
    limiter: DefaultKeyedRateLimiter<K>,
}

impl<K: Hash + Eq + Clone> Keyed<K> {
    fn new(rate: Rate) -> Keyed<K> {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        Keyed {
            rate,
            limiter: DefaultKeyedRateLimiter::keyed(quota),
        }
    }

    fn take(&mut self, key: &K, what: &'static str) -> Result<(), TooMany> {
        self.make_room();
        let now = DefaultClock::default().now();
        self.limiter.check_key(key).map_err(|until| {
            let wait = until.wait_time_from(now);
            TooMany {
                what,
                rate: self.rate,
                retry_s: seconds(wait),
            }
        })
    }

    /// Forgets the keys (sources or participants) that have made no request for a while. If more than half of
    /// `KEYS_MAX` keys are left, forgets all keys: whoever has so many addresses is not limited by a count of each
    /// address anyway, and nobody is kept out. Afterwards at most half of `KEYS_MAX` keys are left, so all keys are
    /// searched again only after at least half of `KEYS_MAX` new keys have come.
    fn make_room(&mut self) {
        if self.limiter.len() < KEYS_MAX {
            return;
        }
        self.limiter.retain_recent();
        if self.limiter.len() > KEYS_MAX / 2 {
            *self = Keyed::new(self.rate);
        }
    }
}

fn seconds(wait: Duration) -> u32 {
    let whole = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
    whole.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().expect("an address").into()
    }

    #[test]
    fn a_host_has_one_count_whatever_address_of_its_network_it_takes() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1:2:3"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.2"), source("10.0.0.1"));
    }

    #[test]
    fn who_asks_too_often_waits_and_others_do_not() {
        let limits = Limits::default();
        let config = LimitsConfig {
            address: rate(1, 3),
            ..LimitsConfig::default()
        };
        let (one, other) = (source("10.0.0.1"), source("10.0.0.2"));
        for _ in 0..3 {
            limits.request(config, one).expect("within the burst");
        }
        let refused = limits.request(config, one).expect_err("too many");
        assert!((1..=2).contains(&refused.retry_s), "{refused}");
        assert!(
            refused
                .to_string()
                .starts_with("too many requests of this address: expected at most 1 a second"),
            "{refused}"
        );
        limits.request(config, other).expect("another one");
        limits.bad_token(config, one).expect("another count");
        // With other limits the counts begin anew.
        let wider = LimitsConfig {
            address: rate(2, 4),
            ..config
        };
        limits.request(wider, one).expect("a new count");
    }

    #[test]
    fn many_addresses_take_no_more_memory() {
        let mut keyed = Keyed::new(rate(1, 1));
        for n in 0..3 * u64::try_from(KEYS_MAX).expect("it fits") {
            keyed.take(&Source::V6(n), "").expect("the first of each");
            assert!(keyed.limiter.len() <= KEYS_MAX);
        }
    }

    #[test]
    fn five_hundred_behind_one_address_join_at_a_hundred_a_second() {
        let limits = Limits::default();
        let config = LimitsConfig::default();
        // All 500 participants come at once, which the limits bear less easily than 100 a second.
        for n in 0..500 {
            let name = Name::new(format!("p{n}")).expect("a name");
            for _ in 0..20 {
                limits
                    .request(config, source("10.0.0.1"))
                    .expect("within the burst");
                limits
                    .participant(config, &name, &name)
                    .expect("within the burst");
            }
        }
    }
}
