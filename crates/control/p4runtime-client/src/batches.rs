//! Divides updates into requests.

use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use p4runtime_proto::p4::v1::{Update, entity};

use crate::limits::WRITE_BATCH_UPDATES;

/// Divides updates into requests of at most [`WRITE_BATCH_UPDATES`] updates, and keeps the order of the updates. A
/// replica counts as an update, as in the switch's limit for a batch that is done as a whole. An update with more
/// replicas than [`WRITE_BATCH_UPDATES`] gets a request of its own.
pub fn batches(mut updates: &[Update]) -> impl Iterator<Item = &[Update]> {
    std::iter::from_fn(move || {
        let mut sum = 0;
        let n_fitting = updates
            .iter()
            .take_while(|update| {
                sum += size(update);
                sum <= WRITE_BATCH_UPDATES
            })
            .count();
        let (batch, rest) = updates.split_at(n_fitting.max(1).min(updates.len()));
        updates = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

fn size(update: &Update) -> usize {
    let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
    let Some(entity::Entity::PacketReplicationEngineEntry(entry)) = entity else {
        return 1;
    };
    1 + match &entry.r#type {
        Some(Type::MulticastGroupEntry(group)) => group.replicas.len(),
        Some(Type::CloneSessionEntry(session)) => session.replicas.len(),
        None => 0,
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
}
