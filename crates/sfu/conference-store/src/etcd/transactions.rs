//! Packs writes into transactions that etcd takes. This module sends nothing.

use std::collections::BTreeMap;

use etcd_client::{Txn, TxnOp};

use crate::{StoreError, Write};

/// The most operations of one level of a transaction. etcd takes 128 operations along a path from the outermost to the
/// innermost level (`--max-txn-ops`). Such a path has the operations of three levels, and one more operation, on the
/// leader's key, in the outermost level.
const LEVEL_MAX: usize = 40;
/// The most writes of a transaction, in three levels.
pub(super) const WRITES_MAX: usize = LEVEL_MAX * LEVEL_MAX * LEVEL_MAX;
/// The most bytes of a transaction. etcd takes 1.5 MiB, including its own envelope around the transaction
/// (`--max-request-bytes`).
pub(super) const BYTES_MAX: usize = 3 * 512 * 1024 - 16 * 1024;
/// How many bytes the fields around a key and its value take in a message, at most: five tags with lengths of up to
/// four bytes, for each of the three levels.
const AROUND: usize = 75;

/// The writes of one transaction. Of several writes of a key, only the last one is kept, since etcd refuses a
/// transaction that writes a key twice.
pub(super) type Batch = BTreeMap<String, Option<String>>;

/// Refuses a group, whose writes must all be done in one transaction, if no transaction has room for it.
pub(super) fn check(prefix: &str, group: &[Write]) -> Result<(), StoreError> {
    let n_bytes: usize = group.iter().map(|it| len_of(prefix, it)).sum();
    if group.len() <= WRITES_MAX && n_bytes <= BYTES_MAX {
        return Ok(());
    }
    Err(StoreError::TooLarge {
        n_writes: group.len(),
        n_bytes,
        writes_max: WRITES_MAX,
        bytes_max: BYTES_MAX,
    })
}

/// Puts groups into batches, in the order of the groups, and as many groups into each batch as it can hold. All writes
/// of a group are in the same batch.
pub(super) fn pack(prefix: &str, groups: Vec<Vec<Write>>) -> Result<Vec<Batch>, StoreError> {
    for group in &groups {
        check(prefix, group)?;
    }
    let mut batches = Vec::new();
    let (mut batch, mut n_writes, mut n_bytes) = (Batch::new(), 0, 0);
    for group in groups {
        let group_bytes: usize = group.iter().map(|it| len_of(prefix, it)).sum();
        if n_writes + group.len() > WRITES_MAX || n_bytes + group_bytes > BYTES_MAX {
            batches.push(std::mem::take(&mut batch));
            (n_writes, n_bytes) = (0, 0);
        }
        n_writes += group.len();
        n_bytes += group_bytes;
        batch.extend(group);
    }
    batches.push(batch);
    batches.retain(|batch| !batch.is_empty());
    Ok(batches)
}

/// Makes the operations of one transaction from a batch: the writes themselves, or nested transactions without
/// conditions that contain the writes.
pub(super) fn operations(prefix: &str, batch: Batch) -> Vec<TxnOp> {
    let writes = batch.into_iter();
    let operations = writes.map(|(key, value)| {
        let key = format!("{prefix}{key}");
        match value {
            Some(value) => TxnOp::put(key, value, None),
            None => TxnOp::delete(key, None),
        }
    });
    let mut level: Vec<TxnOp> = operations.collect();
    while level.len() > LEVEL_MAX {
        let inner = level.chunks(LEVEL_MAX);
        level = inner
            .map(|inner| TxnOp::txn(Txn::new().and_then(inner)))
            .collect();
    }
    level
}

fn len_of(prefix: &str, (key, value): &Write) -> usize {
    prefix.len() + key.len() + value.as_ref().map_or(0, String::len) + AROUND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: String, len: usize) -> Write {
        (key, Some("x".repeat(len)))
    }

    #[test]
    fn a_group_is_never_in_two_batches() {
        let groups: Vec<Vec<Write>> = (0..40)
            .map(|group| {
                let writes = (0..7).map(|n| put(format!("{group:02}/{n}"), 30_000));
                writes.collect()
            })
            .collect();
        let batches = pack("/p/", groups).expect("each group fits");
        assert_eq!(batches.len(), 6);
        let mut seen = Vec::new();
        for batch in &batches {
            let groups: std::collections::BTreeSet<&str> =
                batch.keys().map(|key| &key[..2]).collect();
            assert_eq!(batch.len(), groups.len() * 7);
            seen.extend(groups.into_iter().map(str::to_owned));
        }
        let all: Vec<String> = (0..40).map(|group| format!("{group:02}")).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn the_last_write_of_a_key_counts() {
        let first = vec![put("a".to_owned(), 1), put("a".to_owned(), 2)];
        let second = vec![("a".to_owned(), None)];
        let batches = pack("/p/", vec![first, second]).expect("it fits");
        assert_eq!(batches, [Batch::from([("a".to_owned(), None)])]);
    }

    #[test]
    fn a_group_that_no_transaction_holds_is_refused() {
        let large = vec![put("a".to_owned(), 800_000), put("b".to_owned(), 800_000)];
        let small = vec![put("c".to_owned(), 1)];
        let refused = pack("/p/", vec![small, large]).expect_err("too large");
        assert!(
            matches!(refused, StoreError::TooLarge { n_writes: 2, .. }),
            "{refused}"
        );
        let many = (0..=WRITES_MAX).map(|n| (n.to_string(), None)).collect();
        let refused = pack("", vec![many]).expect_err("too many");
        assert!(refused.to_string().contains("64000"), "{refused}");
    }
}
