//! A store in etcd (v3). Several services can share it: one leads, and the others wait until they may lead.
//!
//! | key | value |
//! | --- | --- |
//! | `PREFIX/leader` | who leads; bound to a lease |
//! | `PREFIX/term` | the term: the create revision of the leader's key, or more if an earlier term was as great |
//! | `PREFIX/format` | the format of the records |
//! | `PREFIX/records/KEY` | a record |
//!
//! Each write is a transaction. It compares that the leader's key has the create revision of this service, so a service
//! that has been replaced can write nothing. It also compares the modification revision of the leader's key with the
//! one that this service's previous write left, and writes the leader's key again. A write whose answer was lost may
//! still be on its way. Therefore, a service that reads all records writes the leader's key before it reads; after
//! that, the late write cannot be done any more.

mod nodes;
mod transactions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, Error, GetOptions, KeyValue, LeaseGrantResponse, PutOptions, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep};
use tonic::Code;

pub use self::nodes::EtcdTls;

use self::nodes::{CALL, CallError, Nodes};
use crate::{Existing, StoreError, Write};

const FORMAT: u32 = 1;
/// The value of the format's key during a restore. While it is there, no service leads.
const RESTORING: &str = "restoring";
/// When the leader has given no sign of life for this many seconds, another service may lead.
const TTL_S: i64 = 5;
const TTL: Duration = Duration::from_secs(5);
/// How often the lease is kept alive.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// The pause after a failed attempt to keep the lease alive. It is so short that the service can try every node before
/// the lease ends.
const KEEP_ALIVE_RETRY: Duration = Duration::from_millis(100);
/// How often a service that stands by checks whether another service still leads.
const LOOK: Duration = Duration::from_millis(500);
/// A service that stands by and has logged an error logs no other error for this time.
const OTHER_ERROR: Duration = Duration::from_secs(60);
/// How many records are read at once. Fewer are read if their answer would be larger than the 4 MiB that the client
/// takes.
const PAGE: i64 = 1_024;

/// Where the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The nodes, as `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// The prefix of all keys. It ends with `/`.
    pub prefix: String,
    pub tls: Option<EtcdTls>,
}

/// A store in etcd, of the service that leads. All clones share one store.
#[derive(Clone)]
pub struct Etcd {
    leader: Arc<Leader>,
    is_lost: watch::Receiver<bool>,
}

struct Leader {
    nodes: Arc<Nodes>,
    prefix: String,
    lease: i64,
    /// The create revision of the leader's key.
    created: i64,
    term: AtomicU64,
    /// The modification revision of the leader's key after the last write; `None` if the outcome of that write is
    /// unknown.
    last: Mutex<Option<i64>>,
    is_lost: Arc<watch::Sender<bool>>,
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "etcd {} term {}", self.leader.prefix, self.term())
    }
}

/// For what purpose a process leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Serve,
    Restore,
}

/// The outcome of an attempt to lead.
enum Attempt {
    Leads(Etcd),
    /// Another process leads. This is the value of the leader's key, which says who leads.
    StandsBy(String),
}

impl Etcd {
    /// Waits until this service leads: for ever, if another service goes on leading or etcd does not answer.
    ///
    /// # Errors
    /// The settings are not possible, or the records are of another version.
    pub async fn lead(config: &EtcdConfig) -> Result<Etcd, StoreError> {
        let nodes = Arc::new(Nodes::new(&config.endpoints, config.tls.as_ref())?);
        let (mut was, mut was_error, mut said) = (String::new(), false, Instant::now());
        loop {
            let (now, is_error) = match attempt(&nodes, &config.prefix, Purpose::Serve).await {
                Ok(Attempt::Leads(etcd)) => return Ok(etcd),
                Ok(Attempt::StandsBy(leader)) => (format!("{leader} leads"), false),
                Err(error @ (StoreError::Failed(_) | StoreError::NoLeader)) => {
                    (error.to_string(), true)
                }
                Err(error) => return Err(error),
            };
            // The service logs the reason why it stands by only when the reason changes. Nodes may return different
            // errors, so an error after another error counts as a change only after `OTHER_ERROR`.
            let is_known = is_error && was_error && said.elapsed() < OTHER_ERROR;
            if now != was && !is_known {
                tracing::info!(why = %now, "this service stands by");
                (was, was_error, said) = (now, is_error, Instant::now());
            }
            sleep(LOOK).await;
        }
    }

    /// Becomes the leader in order to restore a backup, if nobody leads.
    ///
    /// # Errors
    /// A service leads, the settings are not possible, the records are of another version, or etcd does not answer.
    pub async fn for_restore(config: &EtcdConfig) -> Result<Etcd, StoreError> {
        let nodes = Arc::new(Nodes::new(&config.endpoints, config.tls.as_ref())?);
        match attempt(&nodes, &config.prefix, Purpose::Restore).await? {
            Attempt::Leads(etcd) => Ok(etcd),
            Attempt::StandsBy(leader) => Err(StoreError::Led(leader)),
        }
    }

    /// Replaces all records of the store by the given ones.
    ///
    /// | step | if the process is killed after this step |
    /// | --- | --- |
    /// | 1. The format's key gets the value that marks a restore. | no service leads until a restore is complete |
    /// | 2. Transactions remove the old records and write the new ones. | as after step 1 |
    /// | 3. The format's key gets the format again. | the restore is complete |
    ///
    /// # Errors
    /// The store has records, and `existing` forbids to replace them. Or etcd does not answer.
    pub async fn restore(
        &self,
        records: Vec<(String, String)>,
        existing: Existing,
    ) -> Result<(), StoreError> {
        let there = self.read_all().await?;
        if !there.is_empty() && existing == Existing::Refused {
            return Err(StoreError::NotEmpty(there.len()));
        }
        self.put_format(RESTORING).await?;
        let removed = there.into_iter().map(|(key, _)| vec![(key, None)]);
        let written = records
            .into_iter()
            .map(|(key, value)| vec![(key, Some(value))]);
        self.write(removed.chain(written).collect()).await?;
        self.put_format(&FORMAT.to_string()).await
    }

    async fn put_format(&self, value: &str) -> Result<(), StoreError> {
        let leader = &self.leader;
        let mut last = leader.last.lock().await;
        let before = last.take().ok_or_else(outcome_not_known)?;
        let put = TxnOp::put(format!("{}format", leader.prefix), value, None);
        *last = Some(leader.write(before, vec![put]).await?);
        Ok(())
    }

    /// Returns the term, a number that is greater with each new leader.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.leader.term.load(Ordering::Relaxed)
    }

    /// Makes the term at least `at_least`. The next leader's term is greater.
    ///
    /// # Errors
    /// Another service leads, or etcd does not answer.
    pub async fn raise_term(&self, at_least: u64) -> Result<(), StoreError> {
        let leader = &self.leader;
        let known = leader.last.lock().await.is_some();
        if !known {
            leader.fence().await?;
        }
        let mut last = leader.last.lock().await;
        let before = last.take().ok_or_else(outcome_not_known)?;
        let at_least = at_least.max(self.term());
        let operations = vec![leader.put_term(at_least)];
        *last = Some(leader.write(before, operations).await?);
        leader.term.fetch_max(at_least, Ordering::Relaxed);
        Ok(())
    }

    /// Reads all records, in the order of their keys, as they are at one revision. A write that began before this call
    /// cannot take effect after it.
    ///
    /// # Errors
    /// Another service leads, or etcd does not answer.
    pub async fn read_all(&self) -> Result<Vec<(String, String)>, StoreError> {
        let revision = self.leader.fence().await?;
        self.leader.records_at(revision).await
    }

    /// Writes groups of writes, in their order. All writes of a group are done, or none. As many groups as fit go into
    /// one transaction (1.5 MiB, 64,000 writes); so after an error the groups of earlier transactions are written.
    ///
    /// # Errors
    /// Another service leads. Or a group has no room in a transaction: then nothing was written. Or etcd does not
    /// answer: then nobody knows what was done, and nothing can be written until [`read_all`](Self::read_all) has
    /// succeeded.
    pub async fn write(&self, groups: Vec<Vec<Write>>) -> Result<(), StoreError> {
        let leader = &self.leader;
        let prefix = leader.records();
        let batches = transactions::pack(&prefix, groups)?;
        let mut last = leader.last.lock().await;
        for batch in batches {
            if *self.is_lost.borrow() {
                return Err(StoreError::NoLeader);
            }
            let before = last.take().ok_or_else(outcome_not_known)?;
            let operations = transactions::operations(&prefix, batch);
            *last = Some(leader.write(before, operations).await?);
        }
        Ok(())
    }

    /// Refuses a group that no transaction has room for.
    ///
    /// # Errors
    /// The group has more writes or bytes than etcd takes at once.
    pub fn check_group(&self, group: &[Write]) -> Result<(), StoreError> {
        transactions::check(&self.leader.records(), group)
    }

    /// Asks etcd whether this service leads.
    ///
    /// # Errors
    /// Another service leads, or etcd does not answer.
    pub async fn check(&self) -> Result<(), StoreError> {
        let leader = &self.leader;
        let there = get(&leader.nodes, &leader.key()).await?;
        if there.is_some_and(|it| it.create_revision() == leader.created) {
            return Ok(());
        }
        Err(leader.lose())
    }

    /// Waits until this service does not lead any more, or cannot know whether it does.
    pub async fn lost(&self) {
        let mut is_lost = self.is_lost.clone();
        // This cannot fail: the sender lives as long as `self`.
        let _ = is_lost.wait_for(|is_lost| *is_lost).await;
    }

    /// Stops leading, so that another service leads at once. If etcd does not answer, the lease ends by itself.
    pub async fn resign(&self) {
        self.leader.lose();
        revoke(&self.leader.nodes, self.leader.lease).await;
    }
}

impl Leader {
    fn key(&self) -> String {
        leader_key(&self.prefix)
    }

    fn records(&self) -> String {
        format!("{}records/", self.prefix)
    }

    fn lose(&self) -> StoreError {
        self.is_lost.send_replace(true);
        StoreError::NoLeader
    }

    fn leads(&self) -> Compare {
        Compare::create_revision(self.key(), CompareOp::Equal, self.created)
    }

    fn put_term(&self, term: u64) -> TxnOp {
        TxnOp::put(term_key(&self.prefix), term.to_string(), None)
    }

    /// Returns the operation that writes the leader's key again, with its value and lease.
    fn touch(&self) -> TxnOp {
        let options = PutOptions::new().with_lease(self.lease);
        TxnOp::put(self.key(), who(), Some(options))
    }

    /// Makes one transaction. `before` is the modification revision of the leader's key after the previous write.
    /// Returns the revision after this transaction.
    async fn write(&self, before: i64, mut operations: Vec<TxnOp>) -> Result<i64, StoreError> {
        let is_next = Compare::mod_revision(self.key(), CompareOp::Equal, before);
        operations.push(self.touch());
        let transaction = Txn::new()
            .when([self.leads(), is_next])
            .and_then(operations)
            .or_else([TxnOp::get(self.key(), None)]);
        let sent = self.nodes.call(
            CALL,
            |mut client| async move { client.txn(transaction).await },
        );
        let answer = sent.await.map_err(|error| self.failed(error))?;
        if answer.succeeded() {
            return Ok(revision_of(&answer));
        }
        if found(&answer, 0).is_some_and(|it| it.create_revision() == self.created) {
            let why = "etcd has a write that this service had given up: read everything first";
            return Err(StoreError::Failed(why.to_owned()));
        }
        Err(self.lose())
    }

    /// Makes etcd refuse this service's writes that are still on their way. Returns the revision of etcd from which on
    /// they are refused.
    async fn fence(&self) -> Result<i64, StoreError> {
        let mut last = self.last.lock().await;
        *last = None;
        let transaction = Txn::new().when([self.leads()]).and_then([self.touch()]);
        let sent = self.nodes.read(|mut client| {
            let transaction = transaction.clone();
            async move { client.txn(transaction).await }
        });
        let answer = sent.await.map_err(|error| self.failed(error))?;
        if !answer.succeeded() {
            return Err(self.lose());
        }
        let revision = revision_of(&answer);
        *last = Some(revision);
        Ok(revision)
    }

    fn failed(&self, error: CallError) -> StoreError {
        match error.code() {
            // The lease has ended.
            Some(Code::NotFound) => self.lose(),
            _ => error.into(),
        }
    }

    async fn records_at(&self, revision: i64) -> Result<Vec<(String, String)>, StoreError> {
        let prefix = self.records();
        let end = end_of(&prefix);
        let (mut from, mut page) = (prefix.clone().into_bytes(), PAGE);
        let mut records = Vec::new();
        loop {
            let options = GetOptions::new()
                .with_range(end.clone())
                .with_revision(revision)
                .with_limit(page);
            let sent = self.nodes.read(|mut client| {
                let (from, options) = (from.clone(), options.clone());
                async move { client.get(from, Some(options)).await }
            });
            let mut answer = match sent.await {
                // The answer is larger than the client takes.
                Err(error) if error.code() == Some(Code::OutOfRange) && page > 1 => {
                    page /= 2;
                    continue;
                }
                answer => answer?,
            };
            let is_more = answer.more();
            for record in answer.take_kvs() {
                let (key, value) = record.into_key_value();
                from.clone_from(&key);
                let key = text(key)?;
                let key = key.strip_prefix(&prefix).unwrap_or(&key).to_owned();
                records.push((key, text(value)?));
            }
            if !is_more {
                return Ok(records);
            }
            // Reading goes on at the first key after the last one that was read.
            from.push(0);
        }
    }
}

/// Tries to lead.
async fn attempt(
    nodes: &Arc<Nodes>,
    prefix: &str,
    purpose: Purpose,
) -> Result<Attempt, StoreError> {
    let key = leader_key(prefix);
    if let Some(leader) = get(nodes, &key).await? {
        let leader = String::from_utf8_lossy(leader.value()).into_owned();
        return Ok(Attempt::StandsBy(leader));
    }
    let asked = Instant::now();
    let granted = nodes.call(CALL, |mut client| async move {
        client.lease_grant(TTL_S, None).await
    });
    let lease = LeaseGrantResponse::id(&granted.await?);
    let begun = begin_term(nodes, prefix, lease, purpose).await;
    match begun {
        Ok(Some(etcd)) => {
            let (nodes, is_lost) = (Arc::clone(nodes), Arc::clone(&etcd.leader.is_lost));
            tokio::spawn(keep_alive(nodes, lease, asked, is_lost));
            Ok(Attempt::Leads(etcd))
        }
        Ok(None) => {
            revoke(nodes, lease).await;
            Ok(Attempt::StandsBy("another service".to_owned()))
        }
        // Despite the error etcd may have written the leader's key. The key is removed when the lease ends.
        Err(error) => {
            revoke(nodes, lease).await;
            Err(error)
        }
    }
}

/// Makes the leader's key. Returns `None` if the key exists, that is, if another process leads.
async fn begin_term(
    nodes: &Arc<Nodes>,
    prefix: &str,
    lease: i64,
    purpose: Purpose,
) -> Result<Option<Etcd>, StoreError> {
    let key = leader_key(prefix);
    let format = format!("{prefix}format");
    let options = PutOptions::new().with_lease(lease);
    let campaign = Txn::new()
        .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
        .and_then([
            TxnOp::get(format.clone(), None),
            TxnOp::get(term_key(prefix), None),
            TxnOp::put(key, who(), Some(options)),
        ]);
    let sent = nodes.call(CALL, |mut client| async move { client.txn(campaign).await });
    let answer = sent.await?;
    if !answer.succeeded() {
        return Ok(None);
    }
    let created = revision_of(&answer);
    let earlier = found(&answer, 1).and_then(|it| it.value_str().ok()?.parse::<u64>().ok());
    let term = earlier.map_or(0, |it| it.saturating_add(1));
    let term = term.max(u64::try_from(created).unwrap_or(0));
    let (is_lost, receiver) = watch::channel(false);
    let leader = Leader {
        nodes: Arc::clone(nodes),
        prefix: prefix.to_owned(),
        lease,
        created,
        term: AtomicU64::new(term),
        last: Mutex::new(None),
        is_lost: Arc::new(is_lost),
    };
    // The term is stored before the service uses it as its election id at the switch.
    let mut operations = vec![leader.put_term(term)];
    match found(&answer, 0) {
        None => operations.push(TxnOp::put(format, FORMAT.to_string(), None)),
        Some(there) if there.value() == FORMAT.to_string().as_bytes() => {}
        Some(there) if there.value() == RESTORING.as_bytes() => match purpose {
            Purpose::Restore => {}
            Purpose::Serve => {
                return Err(StoreError::HalfRestored(format!("etcd's key {format}")));
            }
        },
        Some(there) => {
            let found = String::from_utf8_lossy(there.value()).parse();
            return Err(StoreError::Format {
                path: format!("etcd's key {format}"),
                expected: FORMAT,
                found: found.unwrap_or(u32::MAX),
            });
        }
    }
    let after = leader.write(created, operations).await?;
    *leader.last.lock().await = Some(after);
    Ok(Some(Etcd {
        leader: Arc::new(leader),
        is_lost: receiver,
    }))
}

/// Keeps a lease alive until the last clone of the store is dropped, or until the lease may have ended.
async fn keep_alive(
    nodes: Arc<Nodes>,
    lease: i64,
    asked: Instant,
    is_lost: Arc<watch::Sender<bool>>,
) {
    // When etcd has answered a request to keep the lease alive, the lease lives at least for its whole time from the
    // moment at which this request was made.
    let mut alive = asked;
    let mut pause = KEEP_ALIVE;
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = is_lost.closed() => return revoke(&nodes, lease).await,
        }
        let asked = Instant::now();
        let kept = nodes.call(KEEP_ALIVE, |mut client| async move {
            client.lease_keep_alive(lease).await
        });
        let ended = match kept.await {
            Ok(_) => {
                (alive, pause) = (asked, KEEP_ALIVE);
                None
            }
            Err(CallError {
                error: Some(Error::LeaseKeepAliveError(_)),
                ..
            }) => Some("the lease has ended".to_owned()),
            Err(error) => {
                pause = KEEP_ALIVE_RETRY;
                (alive.elapsed() >= TTL).then(|| error.to_string())
            }
        };
        if let Some(why) = ended {
            tracing::warn!(%why, "this service does not lead any more");
            is_lost.send_replace(true);
            return;
        }
    }
}

/// Ends a lease. If etcd cannot be reached, the lease ends by itself.
async fn revoke(nodes: &Nodes, lease: i64) {
    let revoked = nodes.read(|mut client| async move { client.lease_revoke(lease).await });
    if let Err(error) = revoked.await
        && error.code() != Some(Code::NotFound)
    {
        tracing::info!(%error, "a lease is left to end by itself");
    }
}

async fn get(nodes: &Nodes, key: &str) -> Result<Option<KeyValue>, StoreError> {
    let mut there = nodes
        .read(|mut client| async move { client.get(key, None).await })
        .await?;
    Ok(there.take_kvs().pop())
}

fn leader_key(prefix: &str) -> String {
    format!("{prefix}leader")
}

fn term_key(prefix: &str) -> String {
    format!("{prefix}term")
}

fn outcome_not_known() -> StoreError {
    let why = "the outcome of an earlier write is not known: read everything first";
    StoreError::Failed(why.to_owned())
}

/// Returns a text by which people can tell which process leads: the process id and the host.
fn who() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("process {} on {}", std::process::id(), host.trim())
}

fn revision_of(answer: &TxnResponse) -> i64 {
    answer
        .header()
        .map_or(0, etcd_client::ResponseHeader::revision)
}

/// Returns what a get operation of a transaction has found. The operations are numbered from 0 on.
fn found(answer: &TxnResponse, number: usize) -> Option<KeyValue> {
    match answer.op_responses().into_iter().nth(number)? {
        TxnOpResponse::Get(mut got) => got.take_kvs().pop(),
        _ => None,
    }
}

fn text(bytes: Vec<u8>) -> Result<String, StoreError> {
    String::from_utf8(bytes)
        .map_err(|error| StoreError::Failed(format!("expected a text in UTF-8: {error}")))
}

/// Returns the end of the range of all keys with a prefix. The prefix must end with an ASCII character.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use testkit::etcd::EtcdCluster;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_write_that_arrives_after_everything_was_read_is_refused() {
        let test = "a_write_that_arrives_after_everything_was_read_is_refused";
        let folder = tempfile::tempdir().expect("a folder");
        let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
            return;
        };
        let config = EtcdConfig {
            endpoints: cluster.endpoints(),
            prefix: "/reprise/".to_owned(),
            tls: None,
        };
        let store = Etcd::lead(&config).await.expect("it leads");
        let leader = &store.leader;
        let before = leader.last.lock().await.expect("it is known");
        let late = || vec![TxnOp::put("/reprise/records/a", "late", None)];
        assert_eq!(store.read_all().await.expect("it is read"), []);
        let refused = leader.write(before, late()).await.expect_err("late");
        assert!(matches!(refused, StoreError::Failed(_)), "{refused}");
        assert_eq!(store.read_all().await.expect("it is read"), []);
        let before = leader.last.lock().await.expect("it is known");
        leader.write(before, late()).await.expect("in time");
        assert_eq!(store.read_all().await.expect("it is read").len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn etcd_itself_refuses_a_write_of_a_service_that_does_not_lead() {
        let test = "etcd_itself_refuses_a_write_of_a_service_that_does_not_lead";
        let folder = tempfile::tempdir().expect("a folder");
        let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
            return;
        };
        let config = EtcdConfig {
            endpoints: cluster.endpoints(),
            prefix: "/reprise/".to_owned(),
            tls: None,
        };
        let old = Etcd::lead(&config).await.expect("it leads");
        let before = old.leader.last.lock().await.expect("it is known");
        let late = || vec![TxnOp::put("/reprise/records/a", "late", None)];
        // The lease ends without the old leader's knowledge.
        revoke(&old.leader.nodes, old.leader.lease).await;
        let refused = old.leader.write(before, late()).await;
        assert!(matches!(refused, Err(StoreError::NoLeader)), "{refused:?}");
        let new = Etcd::lead(&config).await.expect("it leads");
        assert!(new.term() > old.term());
        let refused = old.raise_term(1 << 40).await;
        assert!(matches!(refused, Err(StoreError::NoLeader)), "{refused:?}");
        let refused = old.leader.write(before, late()).await;
        assert!(matches!(refused, Err(StoreError::NoLeader)), "{refused:?}");
        let refused = old.leader.fence().await;
        assert!(matches!(refused, Err(StoreError::NoLeader)), "{refused:?}");
        assert_eq!(new.read_all().await.expect("it is read"), []);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_term_that_was_raised_is_below_that_of_the_next_leader() {
        let test = "a_term_that_was_raised_is_below_that_of_the_next_leader";
        let folder = tempfile::tempdir().expect("a folder");
        let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
            return;
        };
        let config = EtcdConfig {
            endpoints: cluster.endpoints(),
            prefix: "/reprise/".to_owned(),
            tls: None,
        };
        let store = Etcd::lead(&config).await.expect("it leads");
        store.raise_term(1 << 40).await.expect("raised");
        store.raise_term(3).await.expect("it is more already");
        assert_eq!(store.term(), 1 << 40);
        // The store is now as after a write whose outcome is unknown.
        store.leader.last.lock().await.take();
        store
            .raise_term(1 << 41)
            .await
            .expect("raised all the same");
        let put = vec![("a".to_owned(), Some("1".to_owned()))];
        store.write(vec![put]).await.expect("written");
        store.resign().await;
        let next = Etcd::lead(&config).await.expect("it leads");
        assert_eq!(next.term(), (1 << 41) + 1);
        assert_eq!(next.read_all().await.expect("it is read").len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn records_of_another_format_are_left_as_they_are() {
        let test = "records_of_another_format_are_left_as_they_are";
        let folder = tempfile::tempdir().expect("a folder");
        let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
            return;
        };
        let config = EtcdConfig {
            endpoints: cluster.endpoints(),
            prefix: "/reprise/".to_owned(),
            tls: None,
        };
        let nodes = Nodes::new(&config.endpoints, None).expect("nodes");
        let put = |mut client: etcd_client::Client| async move {
            client.put("/reprise/format", "7", None).await
        };
        nodes.call(CALL, put).await.expect("written");
        let refused = Etcd::lead(&config).await.expect_err("another format");
        assert!(
            matches!(refused, StoreError::Format { found: 7, .. }),
            "{refused}"
        );
        let leader = get(&nodes, "/reprise/leader").await.expect("an answer");
        assert!(leader.is_none(), "{leader:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_restore_leads_alone_and_no_service_leads_before_it_is_done() {
        let test = "a_restore_leads_alone_and_no_service_leads_before_it_is_done";
        let folder = tempfile::tempdir().expect("a folder");
        let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
            return;
        };
        let config = EtcdConfig {
            endpoints: cluster.endpoints(),
            prefix: "/reprise/".to_owned(),
            tls: None,
        };
        let records = |n: usize| {
            let records = (0..n).map(|n| (format!("a/{n:03}"), "x".repeat(20_000)));
            records.collect::<Vec<_>>()
        };
        let service = Etcd::lead(&config).await.expect("it leads");
        let group = vec![("old".to_owned(), Some("1".to_owned()))];
        service.write(vec![group]).await.expect("written");
        let refused = Etcd::for_restore(&config).await.expect_err("led");
        assert!(matches!(refused, StoreError::Led(_)), "{refused}");
        service.resign().await;
        let restore = Etcd::for_restore(&config).await.expect("it leads");
        let refused = restore.restore(records(1), Existing::Refused).await;
        assert!(
            matches!(refused, Err(StoreError::NotEmpty(1))),
            "{refused:?}"
        );
        // The restore is stopped after its first step.
        restore.put_format(RESTORING).await.expect("written");
        restore.resign().await;
        let refused = Etcd::lead(&config).await.expect_err("not whole");
        assert!(matches!(refused, StoreError::HalfRestored(_)), "{refused}");
        let again = Etcd::for_restore(&config).await.expect("it leads");
        // These are more records than one transaction holds.
        let all = records(200);
        again
            .restore(all.clone(), Existing::Replaced)
            .await
            .expect("restored");
        again.resign().await;
        let service = Etcd::lead(&config).await.expect("it leads");
        assert_eq!(service.read_all().await.expect("it is read"), all);
    }
}
