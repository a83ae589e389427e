//! Collects digests into lists. A digest that was sent is not sent again until its list is acknowledged or the
//! timeout for the acknowledgement has passed. The module has no I/O.
//!
//! Source: P4Runtime 1.5.0, "DigestEntry".

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use p4runtime_proto::p4::v1::DigestListAck;
use tokio::time::Instant;

use crate::entity::digest::DigestConfig;
use crate::limits::{DIGESTS_PER_LIST_MAX, DIGESTS_UNACKNOWLEDGED_MAX};

/// A digest's fields as the data plane delivers them.
pub(crate) type Numbers = Vec<Vec<u8>>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) digest_id: u32,
    pub(crate) list_id: u64,
    pub(crate) digests: Vec<Numbers>,
}

/// The digests of a pipeline that wait to be sent, or that were sent but not acknowledged.
#[derive(Default)]
pub(crate) struct DigestLists {
    generation: u64,
    kinds: BTreeMap<u32, Kind>,
    /// The last list id; ids are unique across kinds.
    n_lists: u64,
}

/// The digests of one kind, which are those with the same digest id.
struct Kind {
    config: DigestConfig,
    waiting: Vec<Numbers>,
    /// When the oldest waiting digest arrived; `None` if none waits.
    since: Option<Instant>,
    /// Digests that wait to be sent, or that were sent but not acknowledged. Duplicates of them are dropped.
    known: HashSet<Numbers>,
    /// Sent lists and when they were sent, the oldest first. Some may be acknowledged.
    sent: VecDeque<(u64, Instant)>,
    lists: HashMap<u64, Vec<Numbers>>,
}

impl Kind {
    fn new(config: DigestConfig) -> Self {
        Self {
            config,
            waiting: Vec::new(),
            since: None,
            known: HashSet::new(),
            sent: VecDeque::new(),
            lists: HashMap::new(),
        }
    }

    /// When the waiting digests must be sent.
    fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + self.config.max_timeout)
    }

    fn is_full(&self) -> bool {
        let size = self.config.max_list_size.min(DIGESTS_PER_LIST_MAX);
        self.waiting.len() >= size
    }

    /// Takes all waiting digests as a list. Keeps a copy of the list until the list is acknowledged, unless the timeout
    /// for the acknowledgement is 0.
    fn list(&mut self, list_id: u64, now: Instant) -> Vec<Numbers> {
        let digests = std::mem::take(&mut self.waiting);
        self.since = None;
        if self.config.ack_timeout.is_zero() {
            self.forget(&digests);
        } else {
            self.sent.push_back((list_id, now));
            self.lists.insert(list_id, digests.clone());
        }
        digests
    }

    fn forget(&mut self, digests: &[Numbers]) {
        for digest in digests {
            self.known.remove(digest);
        }
    }

    fn acknowledge(&mut self, list_id: u64) {
        if let Some(digests) = self.lists.remove(&list_id) {
            self.forget(&digests);
        }
    }

    /// Forgets lists that were not acknowledged before their timeout. If too many digests are known, also forgets the
    /// oldest lists until there are few enough.
    fn expire(&mut self, now: Instant) {
        while let Some((list_id, since)) = self.sent.front().copied() {
            let is_over = now.saturating_duration_since(since) >= self.config.ack_timeout;
            let is_much = self.known.len() > DIGESTS_UNACKNOWLEDGED_MAX;
            if self.lists.contains_key(&list_id) && !is_over && !is_much {
                return;
            }
            self.sent.pop_front();
            self.acknowledge(list_id);
        }
    }
}

impl DigestLists {
    /// Records which pipeline forwards. If this is another pipeline than before, all digests are forgotten.
    pub(crate) fn begin(&mut self, generation: u64) {
        if self.generation != generation {
            self.generation = generation;
            self.kinds.clear();
        }
    }

    pub(crate) fn set(&mut self, digest_id: u32, config: Option<DigestConfig>) {
        match (config, self.kinds.get_mut(&digest_id)) {
            (Some(config), Some(kind)) => kind.config = config,
            (Some(config), None) => {
                self.kinds.insert(digest_id, Kind::new(config));
            }
            (None, _) => {
                self.kinds.remove(&digest_id);
            }
        }
    }

    /// Adds a digest. Returns a list if the digest completes one. Fails if the digest is not configured.
    pub(crate) fn push(
        &mut self,
        digest_id: u32,
        digest: Numbers,
        now: Instant,
    ) -> Result<Option<List>, NotWanted> {
        let kind = self.kinds.get_mut(&digest_id).ok_or(NotWanted)?;
        kind.expire(now);
        if !kind.known.insert(digest.clone()) {
            return Ok(None);
        }
        kind.waiting.push(digest);
        kind.since.get_or_insert(now);
        let is_due = kind.config.max_timeout.is_zero() || kind.is_full();
        Ok(is_due.then(|| self.list(digest_id, now)).flatten())
    }

    fn list(&mut self, digest_id: u32, now: Instant) -> Option<List> {
        let kind = self.kinds.get_mut(&digest_id)?;
        self.n_lists += 1;
        Some(List {
            digest_id,
            list_id: self.n_lists,
            digests: kind.list(self.n_lists, now),
        })
    }

    /// When to call `DigestLists::due` next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.kinds.values().filter_map(Kind::due).min()
    }

    /// For each kind whose waiting digests must be sent by now, takes these digests as a list.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<List> {
        let kinds = self.kinds.iter();
        let due = kinds.filter(|(_, kind)| kind.due().is_some_and(|due| due <= now));
        let due: Vec<u32> = due.map(|(id, _)| *id).collect();
        due.into_iter()
            .filter_map(|id| self.list(id, now))
            .collect()
    }

    /// Records that the controller has received a list. The list's digests may be sent again from now on.
    pub(crate) fn acknowledge(&mut self, ack: &DigestListAck) {
        if let Some(kind) = self.kinds.get_mut(&ack.digest_id) {
            kind.acknowledge(ack.list_id);
        }
    }

    /// Forgets which digests were sent, because a new primary has not received them.
    pub(crate) fn forget_sent(&mut self) {
        for kind in self.kinds.values_mut() {
            kind.sent.clear();
            kind.lists.clear();
            kind.known = kind.waiting.iter().cloned().collect();
        }
    }
}

/// No controller has configured the digest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotWanted;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ID: u32 = 7;

    fn lists(timeout_ms: u64, size: usize, ack_ms: u64) -> DigestLists {
        let mut lists = DigestLists::default();
        let config = DigestConfig {
            max_timeout: Duration::from_millis(timeout_ms),
            max_list_size: size,
            ack_timeout: Duration::from_millis(ack_ms),
        };
        lists.set(ID, Some(config));
        lists
    }

    fn digest(value: u8) -> Numbers {
        vec![vec![value]]
    }

    fn values(list: Option<List>) -> Option<Vec<u8>> {
        list.map(|list| list.digests.iter().map(|digest| digest[0][0]).collect())
    }

    #[test]
    fn a_list_is_reported_when_it_is_full_or_its_first_digest_has_waited() {
        let (mut lists, begin) = (lists(10, 2, 0), Instant::now());
        let push =
            |lists: &mut DigestLists, value| values(lists.push(ID, digest(value), begin).unwrap());
        assert_eq!(push(&mut lists, 1), None);
        assert_eq!(push(&mut lists, 1), None, "it waits already");
        assert_eq!(push(&mut lists, 2), Some(vec![1, 2]));
        assert_eq!(push(&mut lists, 1), None, "there are no acknowledgements");
        let due = begin + Duration::from_millis(10);
        assert_eq!(lists.next_due(), Some(due));
        assert_eq!(lists.due(begin), []);
        let sent = lists.due(due);
        assert_eq!(sent.len(), 1);
        assert_eq!((sent[0].list_id, &sent[0].digests), (2, &vec![digest(1)]));
        assert_eq!(lists.next_due(), None);
    }

    #[test]
    fn what_was_reported_is_not_reported_again_until_it_is_acknowledged_or_its_time_is_over() {
        let (mut lists, begin) = (lists(0, 9, 100), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        let list = lists.push(ID, digest(1), begin).unwrap().unwrap();
        assert_eq!(lists.push(ID, digest(1), at(50)), Ok(None));
        let ack = |digest_id, list_id| DigestListAck { digest_id, list_id };
        lists.acknowledge(&ack(ID, list.list_id + 1));
        lists.acknowledge(&ack(ID + 1, list.list_id));
        assert_eq!(lists.push(ID, digest(1), at(60)), Ok(None));
        lists.acknowledge(&ack(ID, list.list_id));
        assert_eq!(
            values(lists.push(ID, digest(1), at(70)).unwrap()),
            Some(vec![1])
        );
        assert_eq!(lists.push(ID, digest(1), at(169)), Ok(None));
        assert_eq!(
            values(lists.push(ID, digest(1), at(170)).unwrap()),
            Some(vec![1])
        );
        lists.forget_sent();
        assert_eq!(
            values(lists.push(ID, digest(1), at(171)).unwrap()),
            Some(vec![1])
        );
    }

    #[test]
    fn nobody_is_notified_who_has_not_asked_or_of_another_pipeline() {
        let (mut lists, now) = (lists(10, 9, 0), Instant::now());
        assert_eq!(lists.push(ID + 1, digest(1), now), Err(NotWanted));
        assert_eq!(lists.push(ID, digest(1), now), Ok(None));
        lists.set(ID, None);
        assert_eq!(lists.push(ID, digest(2), now), Err(NotWanted));
        lists.set(
            ID,
            Some(DigestConfig {
                max_timeout: Duration::ZERO,
                max_list_size: 1,
                ack_timeout: Duration::ZERO,
            }),
        );
        lists.begin(3);
        assert_eq!(lists.push(ID, digest(2), now), Err(NotWanted));
        assert_eq!(lists.next_due(), None);
    }
}
