//! Reads the counters of a running SFU, and computes rates from two readings.

use std::collections::BTreeMap;

use p4runtime_client::field_match::Match;
use p4runtime_client::objects::{self, Count};
use p4runtime_client::{Client, ClientError, entities, id_of};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{entity, table_action};
use p4runtime_proto::reprise::v1::GetCountersResponse;
use serde::Serialize;

use crate::backend::{GroupTotals, SfuProgram, Snapshot};
use crate::model::GroupId;

/// All counters of an SFU and its switch.
#[derive(Debug)]
pub struct Reading {
    /// The conference that the counts belong to.
    pub snapshot: Snapshot,
    /// Counts of each group and its viewers.
    pub totals: BTreeMap<GroupId, GroupTotals>,
    /// Count of each verdict, in the order of the keys of the program's table `verdicts`.
    pub verdicts: Vec<Verdict>,
    /// The switch's own counters. Their timestamp is the time of this reading.
    pub switch: GetCountersResponse,
}

/// Number of arrived packets with one verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// Name of the verdict's action in the program.
    pub verdict: String,
    /// Packets and bytes with this verdict.
    #[serde(flatten)]
    pub count: Count,
}

/// A rate between two readings.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Rate {
    /// Packets per second.
    pub packets_per_s: f64,
    /// Bits per second, of whole frames.
    pub bits_per_s: f64,
}

/// Reads all counters.
///
/// # Errors
/// A call failed.
pub async fn read(
    client: &mut Client,
    p4info: &P4Info,
    program: &SfuProgram,
) -> Result<Reading, ClientError> {
    let mut snapshot = program.read(client).await?;
    if !snapshot.foreign.is_empty() {
        // Another controller may have written during the reading.
        snapshot = program.read_steady(client).await?.unwrap_or(snapshot);
    }
    let totals = program.totals(client, &snapshot).await?;
    let verdicts = verdicts(client, p4info).await?;
    let switch = client.counters().await?;
    Ok(Reading {
        snapshot,
        totals,
        verdicts,
        switch,
    })
}

impl Reading {
    /// Returns the seconds from an earlier reading to this one, by the switch's clock.
    pub fn seconds_since(&self, earlier: &Reading) -> f64 {
        self.switch
            .timestamp_ns
            .saturating_sub(earlier.switch.timestamp_ns) as f64
            / 1e9
    }

    /// A viewer's rate; `None` if the earlier reading lacks the viewer, or no time has passed.
    pub fn viewer_rate(&self, earlier: &Reading, group: GroupId, idx: usize) -> Option<Rate> {
        let key = self
            .snapshot
            .conference
            .groups()
            .get(&group)?
            .viewers
            .get(idx)?
            .key();
        let before = earlier.snapshot.conference.groups().get(&group)?;
        let before_idx = before
            .viewers
            .iter()
            .position(|viewer| viewer.key() == key)?;
        let before = *earlier.totals.get(&group)?.viewers.get(before_idx)?;
        let now = *self.totals.get(&group)?.viewers.get(idx)?;
        rate(before, now, self.seconds_since(earlier))
    }

    /// A presenter's rate; `None` if a reading lacks the group, or no time has passed.
    pub fn presenter_rate(&self, earlier: &Reading, group: GroupId) -> Option<Rate> {
        let before = earlier.totals.get(&group)?.received;
        rate(
            before,
            self.totals.get(&group)?.received,
            self.seconds_since(earlier),
        )
    }
}

fn rate(before: Count, now: Count, seconds: f64) -> Option<Rate> {
    // A counter that decreased was reset between the readings, so there is no rate.
    let packets = now.packets.checked_sub(before.packets)?;
    let bytes = now.bytes.checked_sub(before.bytes)?;
    (seconds > 0.0).then(|| Rate {
        packets_per_s: packets as f64 / seconds,
        bits_per_s: bytes as f64 * 8.0 / seconds,
    })
}

async fn verdicts(client: &mut Client, p4info: &P4Info) -> Result<Vec<Verdict>, ClientError> {
    let Ok(table) = objects::table_info(p4info, "verdicts") else {
        return Ok(Vec::new());
    };
    let all = entities::wildcard_table(id_of(table.preamble.as_ref()));
    let mut verdicts: Vec<(Vec<u8>, Verdict)> = Vec::new();
    for entity in client.read(vec![all]).await? {
        let Some(entity::Entity::TableEntry(entry)) = entity.entity else {
            continue;
        };
        let action = entry.action.and_then(|action| action.r#type);
        let Some(table_action::Type::Action(action)) = action else {
            continue;
        };
        if entry.is_default_action {
            continue;
        }
        let mut named = p4info.actions.iter().filter_map(|a| a.preamble.as_ref());
        let name = named.find(|p| p.id == action.action_id);
        let key = entry
            .r#match
            .iter()
            .filter_map(|field| match Match::of(field)? {
                Match::Exact(value) => Some(value),
                _ => None,
            });
        let count = entry.counter_data.as_ref().map(Count::from);
        let verdict = Verdict {
            verdict: name.map(|p| p.alias.clone()).unwrap_or_default(),
            count: count.unwrap_or_default(),
        };
        verdicts.push((key.flatten().collect(), verdict));
    }
    verdicts.sort_by_key(|(key, _)| (key.len(), key.clone()));
    Ok(verdicts.into_iter().map(|(_, verdict)| verdict).collect())
}
