//! Divides updates into requests.

use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use p4runtime_proto::p4::v1::{Update, entity};

use crate::limits::{WHOLE_BATCH_UPDATES, WRITE_BATCH_UPDATES};

/// Divides updates into requests of at most [`WRITE_BATCH_UPDATES`] updates, and keeps the order of the updates. Each
/// replica of a group or session counts as one more update, as in the switch's limit for atomic batches. An update with
/// more replicas than [`WRITE_BATCH_UPDATES`] gets a request of its own.
pub fn batches(updates: &[Update]) -> impl Iterator<Item = &[Update]> {
    divided(updates, 0)
}

/// Divides updates like [`batches`], for requests that the switch executes atomically between two packets. Consecutive
/// updates of multicast groups and clone sessions stay in one request of at most [`WHOLE_BATCH_UPDATES`] updates. So a
/// receiver that moves from one group to another is at no time in both groups or in neither.
pub fn whole_batches(updates: &[Update]) -> impl Iterator<Item = &[Update]> {
    divided(updates, WHOLE_BATCH_UPDATES)
}

/// Ends a request before an update that would take its size above [`WRITE_BATCH_UPDATES`], or above `max_with_groups`
/// if that is larger and both this update and the update before it are of groups or sessions.
fn divided(mut updates: &[Update], max_with_groups: usize) -> impl Iterator<Item = &[Update]> {
    std::iter::from_fn(move || {
        let (mut sum, mut n_fitting, mut follows_group) = (0, 0, false);
        for update in updates {
            let replicas = replicas(update);
            sum += 1 + replicas.unwrap_or(0);
            let is_group = replicas.is_some();
            let max = if follows_group && is_group {
                max_with_groups.max(WRITE_BATCH_UPDATES)
            } else {
                WRITE_BATCH_UPDATES
            };
            if sum > max && n_fitting > 0 {
                break;
            }
            n_fitting += 1;
            follows_group = is_group;
        }
        let (batch, rest) = updates.split_at(n_fitting);
        updates = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Returns the number of replicas; `None` if the update is of no group or session.
fn replicas(update: &Update) -> Option<usize> {
    let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
    let Some(entity::Entity::PacketReplicationEngineEntry(entry)) = entity else {
        return None;
    };
    match &entry.r#type {
        Some(Type::MulticastGroupEntry(group)) => Some(group.replicas.len()),
        Some(Type::CloneSessionEntry(session)) => Some(session.replicas.len()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::v1::{
        Entity, MulticastGroupEntry, PacketReplicationEngineEntry, Replica,
    };

    use super::*;

    fn group(n_replicas: usize) -> Update {
        let group = MulticastGroupEntry {
            replicas: vec![Replica::default(); n_replicas],
            ..MulticastGroupEntry::default()
        };
        let entry = PacketReplicationEngineEntry {
            r#type: Some(Type::MulticastGroupEntry(group)),
        };
        let entity = Some(entity::Entity::PacketReplicationEngineEntry(entry));
        Update {
            entity: Some(Entity { entity }),
            ..Update::default()
        }
    }

    #[test]
    fn replicas_count_and_the_order_stays() {
        let lens = |updates: &[Update]| {
            let lens: Vec<usize> = batches(updates).map(<[Update]>::len).collect();
            assert_eq!(lens.iter().sum::<usize>(), updates.len());
            lens
        };
        assert!(lens(&[]).is_empty());
        assert_eq!(
            lens(&vec![Update::default(); WRITE_BATCH_UPDATES]),
            [WRITE_BATCH_UPDATES]
        );
        assert_eq!(
            lens(&vec![Update::default(); WRITE_BATCH_UPDATES + 1]),
            [WRITE_BATCH_UPDATES, 1]
        );
        // The groups of 64 participants who all receive each other. In each request the sum of the sizes is below the
        // limit.
        assert_eq!(lens(&vec![group(63); 64]), [31, 31, 2]);
        assert_eq!(
            lens(&[group(3), group(WRITE_BATCH_UPDATES), group(3)]),
            [1, 1, 1]
        );
    }

    #[test]
    fn groups_that_follow_each_other_stay_together_in_a_request_that_is_done_as_a_whole() {
        let lens = |updates: &[Update]| -> Vec<usize> {
            whole_batches(updates).map(<[Update]>::len).collect()
        };
        let others = |n| vec![Update::default(); n];
        assert_eq!(
            lens(&others(WRITE_BATCH_UPDATES + 1)),
            [WRITE_BATCH_UPDATES, 1]
        );
        let large = [group(2_000), group(2_000), group(5_000)];
        assert_eq!(lens(&large), [2, 1]);
        let mixed = [&others(1_990)[..], &large, &others(3)].concat();
        assert_eq!(lens(&mixed), [1_990, 2, 1, 3]);
        assert_eq!(lens(&vec![group(63); 64]), [64]);
        assert_eq!(lens(&vec![group(63); 129]), [128, 1]);
    }
}
