//! The store in etcd, against real nodes.
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::ops::Range;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use conference_store::{Etcd, EtcdConfig, StoreError, Write};
use testkit::etcd::EtcdCluster;
use tokio::time::timeout;

/// The environment variable that names the cluster's nodes to the other process, which leads.
const ENDPOINTS: &str = "REPRISE_TEST_ETCD_ENDPOINTS";
/// Guards against hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

fn config(endpoints: Vec<String>) -> EtcdConfig {
    EtcdConfig {
        endpoints,
        prefix: "/reprise/".to_owned(),
        tls: None,
    }
}

fn put(key: impl Into<String>, value: impl Into<String>) -> Write {
    (key.into(), Some(value.into()))
}

async fn records(store: &Etcd) -> BTreeMap<String, String> {
    store.read_all().await.unwrap().into_iter().collect()
}

/// Becomes the leader.
async fn lead(config: &EtcdConfig) -> Etcd {
    let leads = timeout(TIMEOUT, Etcd::lead(config));
    leads.await.expect("it leads in time").unwrap()
}

/// Writes a record with this number until the write is acknowledged. Returns how long that took.
async fn write_until_done(store: &Etcd, number: usize) -> Duration {
    let began = Instant::now();
    loop {
        let write = put(format!("{number:05}"), number.to_string());
        match store.write(vec![vec![write]]).await {
            Ok(()) => return began.elapsed(),
            Err(StoreError::Failed(_)) => while store.read_all().await.is_err() {},
            Err(error) => unreachable!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_any_node_is_killed() {
    let test = "nothing_acknowledged_is_lost_when_any_node_is_killed";
    let folder = tempfile::tempdir().unwrap();
    let Some(mut cluster) = EtcdCluster::start(test, folder.path(), 3) else {
        return;
    };
    let store = lead(&config(cluster.endpoints())).await;
    let term = store.term();
    let mut number = 0;
    // The test kills each node in turn: so also the node that the store calls (the first), and the node that leads the
    // cluster.
    for node in 0..3 {
        for _ in 0..20 {
            write_until_done(&store, number).await;
            number += 1;
        }
        cluster.kill(node);
        for _ in 0..20 {
            let took = write_until_done(&store, number).await;
            assert!(took < TIMEOUT, "after node {node} was killed: {took:?}");
            number += 1;
        }
        cluster.restart(node);
    }
    let there = records(&store).await;
    let all = (0..number).map(|it| (format!("{it:05}"), it.to_string()));
    assert_eq!(there, all.collect());
    assert_eq!(store.term(), term);
    store.check().await.expect("it leads still");
}

/// Another process that leads.
struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acknowledged: usize,
}

impl Other {
    /// Starts this test again in another process, which leads and writes: [`lead_and_write`].
    fn start(test: &str, config: &EtcdConfig) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(ENDPOINTS, config.endpoints.join(","))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Other {
            child,
            lines,
            acknowledged: 0,
        }
    }

    /// Reads up to the next line that begins with `what`, and returns the rest of that line.
    fn expect(&mut self, what: &str) -> String {
        for line in &mut self.lines {
            let line = line.unwrap();
            if let Some(number) = line.strip_prefix("acknowledged ") {
                self.acknowledged = number.parse().unwrap();
            }
            if let Some(rest) = line.strip_prefix(what) {
                return rest.to_owned();
            }
        }
        unreachable!("it ended without {what:?}")
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Kills the process, and reads its remaining lines. Returns the last number whose write was acknowledged.
    fn kill(mut self) -> usize {
        self.child.kill().unwrap();
        for line in self.lines.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("acknowledged ") {
                // The kill may have cut the last line off, so that it has no number.
                self.acknowledged = self.acknowledged.max(number.parse().unwrap_or(0));
            }
        }
        self.child.wait().unwrap();
        self.acknowledged
    }
}

/// Leads, writes one number after the other, and prints the numbers whose writes are acknowledged.
async fn lead_and_write(endpoints: &str) {
    let endpoints = endpoints.split(',').map(str::to_owned);
    let store = Etcd::lead(&config(endpoints.collect())).await.unwrap();
    // The test harness has begun a line, so this begins a new one.
    println!("\nterm {}", store.term());
    for number in 1.. {
        let key = format!("{}/{number:06}", store.term());
        match store.write(vec![vec![put(key, "x")]]).await {
            Ok(()) => println!("acknowledged {number}"),
            Err(StoreError::NoLeader) => break,
            Err(_) => {
                // This call may fail too, because another service leads. Then the next write returns `NoLeader`.
                let _ = store.read_all().await;
            }
        }
    }
    println!(
        "refused: {}",
        store.write(vec![vec![put("late", "x")]]).await.unwrap_err()
    );
    assert!(timeout(Duration::ZERO, store.lost()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_stopped_or_killed_is_replaced_and_can_write_nothing() {
    let test = "a_leader_that_is_stopped_or_killed_is_replaced_and_can_write_nothing";
    if let Ok(endpoints) = std::env::var(ENDPOINTS) {
        return lead_and_write(&endpoints).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(cluster) = EtcdCluster::start(test, folder.path(), 3) else {
        return;
    };
    let config = config(cluster.endpoints());
    let mut stopped = Other::start(test, &config);
    let first: u64 = stopped.expect("term ").parse().unwrap();
    stopped.expect("acknowledged 20");
    let standby = timeout(Duration::from_secs(6), Etcd::lead(&config));
    assert!(standby.await.is_err(), "two services lead");
    stopped.signal("STOP");
    let store = lead(&config).await;
    assert!(store.term() > first, "{} after {first}", store.term());
    let before = records(&store).await;
    stopped.signal("CONT");
    let refused = stopped.expect("refused: ");
    assert_eq!(refused, "another service leads now");
    assert!(stopped.child.wait().unwrap().success());
    assert_eq!(records(&store).await, before);
    let of = |term: u64, records: &BTreeMap<String, String>| {
        let prefix = format!("{term}/");
        records.keys().filter(|it| it.starts_with(&prefix)).count()
    };
    assert!(of(first, &before) >= stopped.acknowledged);

    store.resign().await;
    let refused = store.write(vec![vec![put("late", "x")]]).await;
    assert!(matches!(refused, Err(StoreError::NoLeader)), "{refused:?}");
    let mut killed = Other::start(test, &config);
    let second: u64 = killed.expect("term ").parse().unwrap();
    assert!(second > store.term());
    killed.expect("acknowledged 20");
    let n_acknowledged = killed.kill();
    let store = lead(&config).await;
    assert!(store.term() > second, "{} after {second}", store.term());
    let there = records(&store).await;
    assert!(of(second, &there) >= n_acknowledged);
    assert!(!there.contains_key("late"));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_more_than_an_answer_are_read_in_pages() {
    let test = "records_of_more_than_an_answer_are_read_in_pages";
    let folder = tempfile::tempdir().unwrap();
    let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
        return;
    };
    let store = lead(&config(cluster.endpoints())).await;
    let mut all = BTreeMap::new();
    for n in 0..2_500 {
        all.insert(format!("a/{n:04}"), n.to_string());
    }
    for n in 0..12 {
        all.insert(format!("b/{n:02}"), n.to_string().repeat(600_000));
    }
    for n in 0..2_500 {
        all.insert(format!("c/{n:04}"), n.to_string());
    }
    let groups = all.iter().map(|(key, value)| vec![put(key, value)]);
    store.write(groups.collect()).await.unwrap();
    let read = store.read_all().await.unwrap();
    assert!(read.is_sorted());
    assert_eq!(read.len(), all.len());
    assert!(read.into_iter().collect::<BTreeMap<_, _>>() == all);
}

/// Writes thousands of records. On a busy machine etcd may need longer for them than a call may take. Then the function
/// reads all records, without which the store refuses further writes, and writes again.
async fn write(store: &Etcd, writes: Vec<Vec<Write>>) {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        match store.write(writes.clone()).await {
            Err(StoreError::Failed(_)) if Instant::now() < until => {
                // If this read fails too, so does the next write, and the loop reads again.
                let _ = store.read_all().await;
            }
            done => return done.unwrap(),
        }
    }
}

/// Returns the greatest of these numbers for which `is_good` holds. The condition must hold for the first number, and
/// if it fails for a number, it must fail for all later ones.
fn greatest(numbers: Range<usize>, is_good: impl Fn(usize) -> bool) -> usize {
    let first = numbers.start;
    let numbers: Vec<usize> = numbers.collect();
    first + numbers.partition_point(|n| is_good(*n)) - 1
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_whole_and_those_with_no_room_are_refused_before_anything_is_written() {
    let test = "groups_are_whole_and_those_with_no_room_are_refused_before_anything_is_written";
    let folder = tempfile::tempdir().unwrap();
    let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
        return;
    };
    let store = lead(&config(cluster.endpoints())).await;
    // The test first finds out how many short writes fit into one group, and how large a single value may be.
    let short = |n| put(format!("{n:05}"), "x");
    let n_short = greatest(1..20_000, |n| {
        let group: Vec<Write> = (0..n).map(short).collect();
        store.check_group(&group).is_ok()
    });
    assert!(n_short > 10_000, "{n_short}");
    let short: Vec<Write> = (0..n_short).map(short).collect();
    write(&store, vec![short.clone()]).await;
    assert_eq!(records(&store).await.len(), n_short);
    let large = |len| vec![put("large", "x".repeat(len))];
    let len = greatest(1_400_000..1_600_000, |len| {
        store.check_group(&large(len)).is_ok()
    });
    write(&store, vec![large(len)]).await;
    let gone = short.into_iter().map(|(key, _)| (key, None)).collect();
    // These two groups need two transactions.
    write(&store, vec![gone, large(len)]).await;
    assert_eq!(records(&store).await.len(), 1);

    let refused = store.write(vec![vec![put("small", "x")], large(2_000_000)]);
    let refused = refused.await.expect_err("there is no room");
    assert!(
        matches!(refused, StoreError::TooLarge { n_writes: 1, .. }),
        "{refused}"
    );
    store
        .write(vec![vec![put("after", "x")]])
        .await
        .expect("it goes on");
    let there: Vec<String> = records(&store).await.into_keys().collect();
    assert_eq!(there, ["after", "large"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_an_answer_ends_in_time_and_reading_finds_out() {
    let test = "a_write_without_an_answer_ends_in_time_and_reading_finds_out";
    let folder = tempfile::tempdir().unwrap();
    let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
        return;
    };
    let store = lead(&config(cluster.endpoints())).await;
    cluster.stop(0);
    let began = Instant::now();
    let failed = store
        .write(vec![vec![put("a", "1")]])
        .await
        .expect_err("no answer");
    assert!(matches!(failed, StoreError::Failed(_)), "{failed}");
    // A call takes at most 2 s. The test allows more, because the machine may be busy.
    assert!(began.elapsed() < TIMEOUT);
    let failed = store
        .write(vec![vec![put("b", "1")]])
        .await
        .expect_err("not known");
    assert!(
        failed.to_string().contains("read everything first"),
        "{failed}"
    );
    cluster.resume(0);
    let found = loop {
        if let Ok(found) = store.read_all().await {
            break found;
        }
    };
    store
        .write(vec![vec![put("c", "1")]])
        .await
        .expect("it goes on");
    let mut expected: BTreeMap<_, _> = found.into_iter().collect();
    expected.insert("c".to_owned(), "1".to_owned());
    assert_eq!(records(&store).await, expected);
    assert!(!expected.contains_key("b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_cannot_reach_etcd_stops_leading_by_itself() {
    let test = "a_service_that_cannot_reach_etcd_stops_leading_by_itself";
    let folder = tempfile::tempdir().unwrap();
    let Some(mut cluster) = EtcdCluster::start(test, folder.path(), 1) else {
        return;
    };
    let config = config(cluster.endpoints());
    let store = lead(&config).await;
    cluster.kill(0);
    let lost = timeout(TIMEOUT, store.lost()).await;
    lost.expect("it stops leading within the lease's time");
    let standby = tokio::spawn({
        let config = config.clone();
        async move { lead(&config).await }
    });
    cluster.restart(0);
    let again = standby.await.unwrap();
    assert!(again.term() > store.term());
    let refused = store.read_all().await.expect_err("another one leads");
    assert!(matches!(refused, StoreError::NoLeader), "{refused}");
}
