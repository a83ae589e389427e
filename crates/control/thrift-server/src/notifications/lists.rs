//! Collects digests, which BMv2 calls samples, into messages as BMv2's learn lists do: a message is sent after a number
//! of samples or a timeout. A sample that was sent is not sent again until it is acknowledged. The module has no I/O.
//!
//! Source: behavioral-model, `bm_sim/learning.cpp`. Differences: a sample that reached no subscriber may be sent
//! again, and the oldest samples without acknowledgement are forgotten if there are too many.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::message;
use crate::limits::{LEARN_MESSAGE_BYTES_MAX, SAMPLES_UNACKNOWLEDGED_MAX};

/// BMv2's defaults, until a call changes them.
const SAMPLES: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(1);

/// No list has this id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSuchList;

#[derive(Debug, Default)]
pub(crate) struct Lists {
    device_id: u64,
    generation: u64,
    lists: Vec<List>,
}

#[derive(Debug)]
struct List {
    id: i32,
    name: String,
    /// The size in bytes that each member of a sample has in BMv2's messages.
    widths: Vec<usize>,
    samples_max: usize,
    /// How long a sample waits for further samples; `None` means without a timeout.
    timeout: Option<Duration>,
    /// The waiting samples, and when the oldest arrived.
    waiting: Vec<Arc<[u8]>>,
    since: Option<Instant>,
    /// The id of the buffer with the waiting samples.
    buffer: u64,
    /// The samples that wait or were sent without acknowledgement. Duplicates of them are dropped.
    known: HashSet<Arc<[u8]>>,
    /// The samples of each sent buffer. Samples that were acknowledged individually are `None`.
    sent: BTreeMap<u64, Vec<Option<Arc<[u8]>>>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Learned {
    list: i32,
    buffer: u64,
    pub(crate) message: Vec<u8>,
}

impl Lists {
    pub(crate) fn new(device_id: u64) -> Self {
        Self {
            device_id,
            ..Self::default()
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Replaces all lists by the lists of a program in BMv2 JSON.
    pub(crate) fn begin(&mut self, generation: u64, json: &Value) {
        self.generation = generation;
        let all = json["learn_lists"].as_array().into_iter().flatten();
        self.lists = all.filter_map(|list| List::read(list, json)).collect();
    }

    /// Adds a digest. Returns a message if the digest completes one.
    pub(crate) fn push(
        &mut self,
        name: &str,
        members: &[Vec<u8>],
        now: Instant,
    ) -> Option<Learned> {
        let device_id = self.device_id;
        let list = self.lists.iter_mut().find(|list| list.name == name)?;
        list.push(members, now).then(|| list.take(device_id))
    }

    /// When to call `Lists::due` next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.lists.iter().filter_map(List::due).min()
    }

    /// Takes a message from each list that is due or whose buffer is full.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Learned> {
        let device_id = self.device_id;
        let due = self.lists.iter_mut();
        due.filter(|list| list.due().is_some_and(|due| due <= now) || list.is_full())
            .map(|list| list.take(device_id))
            .collect()
    }

    /// Forgets a message that nobody received, so that its samples may be sent again.
    pub(crate) fn forget(&mut self, learned: &Learned) {
        // Fails only if a new program has replaced the list.
        let _ = self.acknowledge(learned.list, learned.buffer, None);
    }

    /// Acknowledges the samples at these places of a buffer, or all if `samples` is `None`. They may be sent again from
    /// now on.
    pub(crate) fn acknowledge(
        &mut self,
        list: i32,
        buffer: u64,
        samples: Option<&[i32]>,
    ) -> Result<(), NoSuchList> {
        let list = self.list(list)?;
        match samples {
            None => list.acknowledge(buffer),
            Some(samples) => list.acknowledge_some(buffer, samples),
        }
        Ok(())
    }

    /// Sets how long a sample waits for further samples. With `None` it waits until the buffer is full.
    pub(crate) fn set_timeout(
        &mut self,
        list: i32,
        timeout: Option<Duration>,
    ) -> Result<(), NoSuchList> {
        self.list(list)?.timeout = timeout;
        Ok(())
    }

    /// Sets how many samples fill the buffer.
    pub(crate) fn set_samples_max(
        &mut self,
        list: i32,
        samples_max: usize,
    ) -> Result<(), NoSuchList> {
        self.list(list)?.samples_max = samples_max.max(1);
        Ok(())
    }

    fn list(&mut self, id: i32) -> Result<&mut List, NoSuchList> {
        let list = self.lists.iter_mut().find(|list| list.id == id);
        list.ok_or(NoSuchList)
    }
}

impl List {
    /// `None` if the JSON is malformed.
    fn read(list: &Value, json: &Value) -> Option<Self> {
        let elements = list["elements"].as_array()?.iter();
        Some(Self {
            id: list["id"].as_i64()?.try_into().ok()?,
            name: list["name"].as_str()?.to_owned(),
            widths: elements
                .map(|element| n_bytes(element, json))
                .collect::<Option<_>>()?,
            samples_max: SAMPLES,
            timeout: Some(TIMEOUT),
            waiting: Vec::new(),
            since: None,
            buffer: 0,
            known: HashSet::new(),
            sent: BTreeMap::new(),
        })
    }

    fn is_full(&self) -> bool {
        let n_bytes = self.widths.iter().sum::<usize>() * self.waiting.len();
        let n = self.waiting.len();
        n > 0 && (n >= self.samples_max || n_bytes >= LEARN_MESSAGE_BYTES_MAX)
    }

    fn due(&self) -> Option<Instant> {
        Some(self.since? + self.timeout?)
    }

    /// Adds a sample, and returns whether the buffer is full now.
    fn push(&mut self, members: &[Vec<u8>], now: Instant) -> bool {
        let mut sample = Vec::with_capacity(self.widths.iter().sum());
        for (width, member) in self.widths.iter().zip(members) {
            // A member arrives without leading zeros.
            sample.resize(sample.len() + width.saturating_sub(member.len()), 0);
            sample.extend_from_slice(member);
        }
        let sample: Arc<[u8]> = sample.into();
        if !self.known.insert(Arc::clone(&sample)) {
            return false;
        }
        self.waiting.push(sample);
        self.since.get_or_insert(now);
        self.is_full()
    }

    /// Takes the waiting samples as a message.
    fn take(&mut self, device_id: u64) -> Learned {
        let samples = std::mem::take(&mut self.waiting);
        self.since = None;
        let buffer = self.buffer;
        self.buffer += 1;
        let message = message::learn(device_id, self.id, buffer, &samples);
        self.sent
            .insert(buffer, samples.into_iter().map(Some).collect());
        while self.known.len() > SAMPLES_UNACKNOWLEDGED_MAX
            && let Some(oldest) = self.sent.keys().next().copied()
        {
            self.acknowledge(oldest);
        }
        Learned {
            list: self.id,
            buffer,
            message,
        }
    }

    fn acknowledge(&mut self, buffer: u64) {
        let samples = self.sent.remove(&buffer).into_iter().flatten();
        for sample in samples.flatten() {
            self.known.remove(&sample);
        }
    }

    /// Acknowledges the samples at these places of a buffer. Places that the buffer does not have are ignored.
    fn acknowledge_some(&mut self, buffer: u64, samples: &[i32]) {
        let Some(sent) = self.sent.get_mut(&buffer) else {
            return;
        };
        for sample in samples {
            let place = usize::try_from(*sample).ok();
            if let Some(sample) = place.and_then(|place| sent.get_mut(place)?.take()) {
                self.known.remove(&sample);
            }
        }
        if sent.iter().all(Option::is_none) {
            self.sent.remove(&buffer);
        }
    }
}

fn n_bytes(element: &Value, json: &Value) -> Option<usize> {
    let named = |list: &str, name: &Value| {
        let mut all = json[list].as_array()?.iter();
        all.find(|it| it["name"] == *name)
    };
    let header = named("headers", &element["value"][0])?;
    let of_type = named("header_types", &header["header_type"])?;
    let mut fields = of_type["fields"].as_array()?.iter();
    let field = fields.find(|field| field[0] == element["value"][1])?;
    let width = usize::try_from(field[1].as_u64()?).ok()?;
    Some(width.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIST: i32 = 4;

    fn lists() -> Lists {
        let mut lists = Lists::new(7);
        let json = json!({
            "header_types": [{"name": "scalars_0", "id": 0, "fields": [["mac", 48, false], ["port", 9, false]]}],
            "headers": [{"name": "scalars", "id": 0, "header_type": "scalars_0"}],
            "learn_lists": [{"id": LIST, "name": "learn_t", "elements": [
                {"type": "field", "value": ["scalars", "mac"]},
                {"type": "field", "value": ["scalars", "port"]},
            ]}],
        });
        lists.begin(3, &json);
        lists
    }

    fn push(lists: &mut Lists, port: u8, now: Instant) -> Option<Vec<u8>> {
        let learned = lists.push("learn_t", &[vec![0xaa, 0xbb], vec![port]], now);
        learned.map(|learned| learned.message)
    }

    fn ports(message: &[u8]) -> Vec<u8> {
        message[32..].chunks(8).map(|sample| sample[7]).collect()
    }

    #[test]
    fn a_message_has_bmv2s_header_and_each_field_in_whole_bytes() {
        let (mut lists, now) = (lists(), Instant::now());
        lists.set_samples_max(LIST, 2).unwrap();
        assert_eq!(push(&mut lists, 1, now), None);
        let message = push(&mut lists, 2, now).unwrap();
        let expected = [
            &b"LEA|"[..],
            &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
            &[0, 0, 0, 0, 0xaa, 0xbb, 0, 1, 0, 0, 0, 0, 0xaa, 0xbb, 0, 2],
        ];
        assert_eq!(message, expected.concat());
    }

    #[test]
    fn samples_are_reported_when_there_are_enough_or_the_first_has_waited() {
        let (mut lists, begin) = (lists(), Instant::now());
        for port in 0..15 {
            assert_eq!(push(&mut lists, port, begin), None);
        }
        let first = push(&mut lists, 15, begin).unwrap();
        assert_eq!(ports(&first), (0..16).collect::<Vec<_>>());
        assert_eq!(lists.next_due(), None);
        push(&mut lists, 16, begin);
        let due = begin + TIMEOUT;
        assert_eq!(lists.next_due(), Some(due));
        assert_eq!(lists.due(begin), []);
        let learned = lists.due(due);
        assert_eq!((learned.len(), learned[0].buffer), (1, 1));
        assert_eq!(ports(&learned[0].message), [16]);
        lists.set_timeout(LIST, None).unwrap();
        push(&mut lists, 17, due);
        assert_eq!(lists.next_due(), None);
        lists.set_samples_max(LIST, 1).unwrap();
        assert_eq!(lists.due(due).len(), 1, "there are enough now");
    }

    #[test]
    fn a_sample_is_reported_again_once_it_is_acknowledged() {
        let (mut lists, now) = (lists(), Instant::now());
        lists.set_samples_max(LIST, 2).unwrap();
        push(&mut lists, 1, now);
        push(&mut lists, 2, now).unwrap();
        assert_eq!(push(&mut lists, 1, now), None);
        assert_eq!(push(&mut lists, 2, now), None);
        assert_eq!(lists.next_due(), None, "both are known");
        lists
            .acknowledge(LIST, 0, Some(&[1, 1, -1, 9, i32::MAX]))
            .unwrap();
        push(&mut lists, 1, now);
        push(&mut lists, 2, now);
        assert_eq!(ports(&lists.due(now + TIMEOUT)[0].message), [2]);
        lists.acknowledge(LIST, 0, None).unwrap();
        lists.acknowledge(LIST, 0, None).unwrap();
        lists.acknowledge(LIST, 1, None).unwrap();
        push(&mut lists, 1, now);
        let again = push(&mut lists, 2, now).unwrap();
        assert_eq!(ports(&again), [1, 2]);
        assert_eq!(lists.acknowledge(LIST + 1, 0, None), Err(NoSuchList));
    }

    #[test]
    fn what_nobody_received_or_acknowledges_is_not_kept_for_ever() {
        let (mut lists, now) = (lists(), Instant::now());
        lists.set_samples_max(LIST, 1).unwrap();
        let learned = lists.push("learn_t", &[vec![1], vec![1]], now).unwrap();
        lists.forget(&learned);
        assert!(lists.push("learn_t", &[vec![1], vec![1]], now).is_some());
        for number in 0..SAMPLES_UNACKNOWLEDGED_MAX as u32 + 9 {
            let number = number.to_be_bytes().to_vec();
            lists.push("learn_t", &[number, vec![2]], now).unwrap();
        }
        assert_eq!(lists.lists[0].known.len(), SAMPLES_UNACKNOWLEDGED_MAX);
        assert_eq!(lists.lists[0].sent.len(), SAMPLES_UNACKNOWLEDGED_MAX);
    }

    #[test]
    fn a_message_is_never_long_whatever_a_client_asks_for() {
        let (mut lists, now) = (lists(), Instant::now());
        lists.set_samples_max(LIST, usize::MAX).unwrap();
        let mut number = 0_u32;
        let message = loop {
            number += 1;
            let member = number.to_be_bytes().to_vec();
            if let Some(learned) = lists.push("learn_t", &[member, vec![2]], now) {
                break learned.message;
            }
        };
        assert_eq!(message.len(), 32 + LEARN_MESSAGE_BYTES_MAX);
    }
}
