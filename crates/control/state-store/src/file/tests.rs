//! Tests of a store that fails or stops between any two of its steps.

use std::fs::OpenOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use control::{Batch, ClientData, Update};
use dataplane::{MulticastGroup, PortId, Replica};
use redb::StorageBackend;

use super::*;
use control::Origin;

/// A disk that is full after some number of steps that change something.
#[derive(Debug)]
struct Failing(FileBackend, Arc<AtomicI64>);

impl Failing {
    fn step(&self) -> io::Result<()> {
        match self.1.fetch_sub(1, Ordering::Relaxed) {
            1.. => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.step()?;
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.step()?;
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.step()?;
        self.0.write(offset, data)
    }
}

struct Json;

impl Origin for Json {
    fn kind(&self) -> &'static str {
        "json"
    }

    fn config(&self) -> Vec<u8> {
        b"{}".to_vec()
    }
}

fn group(id: u32) -> Operation {
    let port = PortId(1);
    let group = MulticastGroup {
        id,
        replicas: vec![Replica { port, instance: 0 }],
        backups: Vec::new(),
    };
    of_group(Update::Insert(group))
}

fn of_group(update: Update<MulticastGroup>) -> Operation {
    Operation::MulticastGroup(update, ClientData::default())
}

fn kept(operations: Vec<Operation>, sets_pipeline: bool) -> Kept {
    let results = vec![Ok(()); operations.len()].into();
    let (origin, batch): (OriginOf, _) = (Some(Arc::new(Json)), Arc::new(Batch::new(operations)));
    if sets_pipeline {
        Kept::Pipeline(Slot::Forwards, origin, batch, results)
    } else {
        Kept::Written(Slot::Forwards, origin, batch, results)
    }
}

fn operations(contents: Contents) -> Vec<Operation> {
    contents.forwards.expect("a pipeline").operations
}

fn open(path: &Path) -> (StateFile, Contents) {
    StateFile::open(path).expect("a state file")
}

/// Makes a state file with one group, on a disk that fails after `n_steps` steps.
fn failing(path: &Path, n_steps: i64) -> StateFile {
    let (file, _) = open(path);
    file.keep(kept(vec![group(1)], true)).expect("stored");
    drop(file);
    let backend = OpenOptions::new().read(true).write(true).open(path);
    let backend = FileBackend::new(backend.expect("the file")).expect("its lock");
    let steps = Arc::new(AtomicI64::new(i64::MAX));
    let failing = Failing(backend, Arc::clone(&steps));
    let database = Database::builder().create_with_backend(failing);
    steps.store(n_steps, Ordering::Relaxed);
    let seen = File::open(path).expect("the file");
    StateFile {
        identity: Identity::of(path).expect("the file"),
        path: path.to_owned(),
        opened: Mutex::new(Opened {
            left: Left::of(&seen).expect("the file"),
            database: Some(database.expect("it is one")),
            behind: Vec::new(),
            learned: [0; 2],
        }),
        seen,
    }
}

#[test]
fn what_is_not_acknowledged_is_there_wholly_or_not() {
    let batch = || vec![group(2), group(3)];
    let all = vec![group(1), group(2), group(3)];
    let mut n_failed = 0;
    for n_steps in 0..1_000 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let file = failing(&path, n_steps);
        let stored = file.keep(kept(batch(), false));
        // The process stops here.
        drop(file);
        let found = operations(open(&path).1);
        match stored {
            Ok(()) => {
                assert_eq!(found, all);
                assert!(n_failed > 2, "a commit has more steps");
                return;
            }
            Err(error) => {
                assert!(error.to_string().contains("state"), "{error}");
                assert!(
                    found == all || found == [group(1)],
                    "step {n_steps}: {found:?}"
                );
                n_failed += 1;
            }
        }
    }
    unreachable!("it was never stored");
}

#[test]
fn what_could_not_be_stored_is_stored_before_anything_else() {
    for n_steps in 0..4 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let file = failing(&path, n_steps);
        if file.keep(kept(vec![group(2)], false)).is_ok() {
            continue;
        }
        file.catch_up().expect("there is room again");
        let deletion = vec![of_group(Update::Delete(1)), group(3)];
        file.keep(kept(deletion, false)).expect("stored");
        drop(file);
        assert_eq!(operations(open(&path).1), [group(2), group(3)]);
    }
}

#[test]
fn a_file_that_is_removed_moved_or_replaced_takes_no_call_until_it_is_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let [path, away] = ["state", "away"].map(|name| folder.path().join(name));
    let (file, _) = open(&path);
    file.keep(kept(vec![group(1)], true)).expect("stored");
    fs::rename(&path, &away).expect("moved");
    let said = |refused: std::result::Result<(), StoreError>| {
        refused.expect_err("it would be lost").to_string()
    };
    assert!(!file.is_current());
    assert!(said(file.catch_up()).contains("removed or moved"));
    assert!(said(file.keep(kept(vec![group(2)], false))).contains("removed or moved"));
    drop(open(&path));
    assert!(said(file.catch_up()).contains("another file"));
    fs::rename(&away, &path).expect("moved back");
    file.catch_up().expect("stored");
    assert!(file.is_current());
    drop(file);
    assert_eq!(operations(open(&path).1), [group(1), group(2)]);
}

#[test]
fn a_file_that_others_write_to_in_place_takes_no_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let [path, earlier] = ["state", "earlier"].map(|name| folder.path().join(name));
    let writable = |path: &Path| OpenOptions::new().write(true).open(path).expect("the file");
    let cut_to = |n_bytes: u64| writable(&path).set_len(n_bytes).expect("cut");
    for (others, expected) in [
        (&(|| cut_to(0)) as &dyn Fn(), "was cut short"),
        (&|| cut_to(4096), "was cut short"),
        (
            &|| {
                fs::copy(&earlier, &path).expect("copied");
            },
            "state",
        ),
        (
            &|| {
                let n_bytes = fs::metadata(&path).expect("the file").len();
                cut_to(0);
                cut_to(n_bytes);
            },
            "was written to by somebody else",
        ),
    ] {
        let _ = fs::remove_file(&path);
        let (file, _) = open(&path);
        file.keep(kept(vec![group(1)], true)).expect("stored");
        fs::copy(&path, &earlier).expect("a copy");
        file.keep(kept(vec![group(2)], false)).expect("stored");
        file.catch_up().expect("it is as it was left");
        assert!(file.is_current());
        others();
        assert!(!file.is_current());
        let refused = file.catch_up().expect_err("it would be lost").to_string();
        assert!(refused.contains(expected), "{refused}");
        let refused = file.keep(kept(vec![group(3)], false));
        refused.expect_err("it would be lost");
    }
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo is installed").success());
    for path in [&path, folder.path()] {
        let refused = StateFile::open(path).err().expect("it is refused");
        assert!(refused.to_string().contains("no regular file"), "{refused}");
    }
}

#[test]
fn a_file_of_another_format_is_refused_and_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    drop(open(&path));
    let database = Database::open(&path).expect("redb's");
    let transaction = database.begin_write().expect("begun");
    let mut about = transaction.open_table(ABOUT).expect("there");
    about.insert("format", FORMAT + 1).expect("written");
    drop(about);
    transaction.commit().expect("written");
    drop(database);
    for _ in 0..2 {
        let refused = StateFile::open(&path).err().expect("it is refused");
        assert!(
            matches!(refused, OpenError::Format(found) if found == FORMAT + 1),
            "{refused}"
        );
    }
}

/// Returns the bytes of a file with some groups, and the operations in it. The switch closed the file, unless
/// `is_killed`.
fn bytes_of_a_file(path: &Path, n_groups: u32, is_killed: bool) -> (Vec<u8>, Vec<Operation>) {
    let (file, _) = open(path);
    let all: Vec<Operation> = (1..=n_groups).map(group).collect();
    file.keep(kept(all.clone(), true)).expect("stored");
    let killed = fs::read(path).expect("there");
    drop(file);
    let stopped = fs::read(path).expect("there");
    (if is_killed { killed } else { stopped }, all)
}

/// Returns what a switch finds in a state file with these bytes; `None` if the switch does not start. In this case, the
/// file must be unchanged if the switch that wrote the bytes was stopped. If that switch was killed, redb may have
/// repaired a part of the file.
fn found(bytes: &[u8], is_killed: bool, what: &str) -> Option<(Vec<Operation>, bool)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged");
    fs::write(&path, bytes).expect("written");
    match StateFile::open(&path) {
        Ok((_, contents)) => {
            let operations = contents.forwards.map(|it| it.operations);
            Some((operations.unwrap_or_default(), contents.is_rolled_back))
        }
        Err(error) => {
            let left = fs::read(&path).expect("there");
            assert!(
                is_killed || left == bytes,
                "{what}: {error}: it was changed"
            );
            None
        }
    }
}

#[test]
fn a_file_that_was_cut_short_is_refused() {
    for is_killed in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let (bytes, all) = bytes_of_a_file(&folder.path().join("state"), 200, is_killed);
        let as_it_was = found(&bytes, is_killed, "as it was");
        assert!(as_it_was == Some((all, false)));
        let lengths = [1, 8, 63, 64, 300, 511, 512, 4_095, 4_096, 5_000];
        let quarters = (1..4).map(|n| bytes.len() * n / 4);
        for length in lengths.into_iter().chain(quarters) {
            let what = format!("{length} of {} bytes, killed {is_killed}", bytes.len());
            assert!(
                found(&bytes[..length], is_killed, &what).is_none(),
                "{what}"
            );
        }
    }
}

#[test]
fn of_a_file_of_which_bytes_are_others_no_other_state_is_made() {
    for is_killed in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let (bytes, all) = bytes_of_a_file(&folder.path().join("state"), 200, is_killed);
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .expect("not empty");
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut n_whole, mut n_refused, mut n_rolled_back) = (0, 0, 0);
        for _ in 0..100 {
            let mut damaged = bytes.clone();
            let place = rng.usize(..=used);
            damaged[place] ^= 1 << rng.u8(..8);
            let what = format!("byte {place}, killed {is_killed}");
            match found(&damaged, is_killed, &what) {
                None => n_refused += 1,
                Some((operations, is_rolled_back)) => {
                    // If the last commit is damaged and the switch was killed, redb uses the commit before it.
                    let is_before = is_killed && operations.is_empty();
                    assert!(operations == all || is_before, "{what}: {operations:?}");
                    assert_eq!(is_rolled_back, is_before, "{what}");
                    n_whole += 1;
                    n_rolled_back += u32::from(is_rolled_back);
                }
            }
        }
        assert_eq!(n_rolled_back > 0, is_killed, "{n_rolled_back}");
        // Both files have bytes that nothing uses, so some damaged files are read completely.
        assert!(n_whole > 0, "{n_whole}, {n_refused}");
        assert!(is_killed || n_refused > 0, "{n_whole}, {n_refused}");
    }
}

#[test]
fn disabled_ports_are_kept_whatever_becomes_of_the_pipeline() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let ports = |ports: &[(u16, bool)]| {
        let ports = ports
            .iter()
            .map(|(port, is_enabled)| (PortId(*port), *is_enabled));
        Kept::Ports(ports.collect())
    };
    let (file, contents) = open(&path);
    assert_eq!(contents, Contents::default());
    file.keep(ports(&[(3, false), (1, false), (7, false)]))
        .expect("stored");
    file.keep(kept(vec![group(1)], true)).expect("stored");
    file.keep(ports(&[(1, true), (2, true)])).expect("stored");
    file.keep(kept(vec![group(2)], true)).expect("stored");
    drop(file);
    let (_, contents) = open(&path);
    assert_eq!(contents.ports_disabled, [PortId(3), PortId(7)]);
    assert_eq!(operations(contents), [group(2)]);
}
