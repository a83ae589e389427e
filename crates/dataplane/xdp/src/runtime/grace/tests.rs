use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(120);

/// The processors' words, which are odd during a NAPI poll; set by a test.
#[derive(Clone)]
struct Words(Arc<Vec<AtomicU64>>);

impl Words {
    fn new(words: &[u64]) -> Words {
        Words(Arc::new(
            words.iter().copied().map(AtomicU64::new).collect(),
        ))
    }

    fn set(&self, processor: usize, word: u64) {
        self.0[processor].store(word, Ordering::SeqCst);
    }

    fn read(&self) -> Option<ReadPolls> {
        let words = Arc::clone(&self.0);
        let load = |word: &AtomicU64| word.load(Ordering::SeqCst);
        Some(Box::new(move || words.iter().map(load).collect()))
    }

    /// Makes grace periods that only these words end.
    fn graces(&self) -> Graces {
        Graces::new(never, self.read())
    }
}

/// A wait for RCU that never returns, as if a program kept running.
fn never() -> io::Result<()> {
    loop {
        thread::park();
    }
}

/// Waits, in another thread, until a grace period has ended that began after this call.
fn waiter(graces: &Arc<Graces>) -> JoinHandle<io::Result<()>> {
    let graces = Arc::clone(graces);
    let moment = graces.now();
    thread::spawn(move || graces.wait_past(moment))
}

#[test]
fn a_period_counts_for_what_was_done_before_it_began() {
    let graces = Graces::new(bpf::wait_for_programs, None);
    assert!(graces.is_past(Moment::NEVER));
    let before = graces.now();
    let mut within = before;
    let ended = graces.during(|| {
        within = graces.now();
        Ok(())
    });
    ended.expect("a period");
    assert!(graces.is_past(before));
    assert!(!graces.is_past(within), "it had begun already");
    graces.during(|| Ok(())).expect("a period");
    assert!(graces.is_past(within));
}

#[test]
fn who_waits_is_notified_of_a_stop_and_of_a_failure() {
    for polls in [None, Words::new(&[0, 1]).read()] {
        let graces = Arc::new(Graces::new(bpf::wait_for_programs, polls));
        let waiter = waiter(&graces);
        let refused = graces.during(|| Err(io::ErrorKind::Unsupported.into()));
        assert!(refused.is_err());
        let error = waiter.join().expect("no panic").expect_err("a failure");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(graces.check().is_err());
    }
    for polls in [None, Words::new(&[0, 1]).read()] {
        let graces = Arc::new(Graces::new(bpf::wait_for_programs, polls));
        let waiter = waiter(&graces);
        graces.stop();
        let error = waiter.join().expect("no panic").expect_err("a stop");
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}

#[test]
fn polls_that_were_there_end_a_period_and_no_others_do() {
    let words = Words::new(&[0, 7, 2, 9]);
    let graces = words.graces();
    let moment = graces.now();
    graces.ask(moment);
    assert!(!graces.is_past(moment));
    let later = graces.now();
    // A poll that begins now sees the new data.
    words.set(0, 1);
    words.set(1, 8);
    assert!(!graces.look().has_ended, "the last processor's goes on");
    // The last processor's poll has ended, and another has begun there.
    words.set(3, 11);
    assert!(graces.look().has_ended && graces.is_past(moment));
    assert!(!graces.look().has_ended, "that was said");
    // The period began before the moment `later`.
    assert!(!graces.is_past(later));
    graces.ask(later);
    words.set(3, 12);
    assert!(!graces.look().has_ended, "the first one's goes on");
    words.set(0, 2);
    assert!(graces.look().has_ended && graces.is_past(later));
}

#[test]
fn where_no_processor_is_within_a_poll_a_period_is_over_at_once() {
    let graces = Words::new(&[0, 4, 2]).graces();
    for _ in 0..3 {
        let moment = graces.now();
        assert!(!graces.is_past(moment));
        graces.ask(moment);
        assert!(graces.is_past(moment));
        // The next look reports the end of that period, although nobody asked again.
        let (has_ended, again) = (true, None);
        assert_eq!(graces.look(), Looked { has_ended, again });
        graces.wait_past(graces.now()).expect("no other period");
    }
    assert_eq!(graces.look().again, None, "nobody asks");
}

#[test]
fn rcu_ends_what_a_processor_would_hold_up_that_stays_within_a_poll() {
    let words = Words::new(&[1, 0]);
    let graces = Arc::new(Graces::new(|| Ok(()), words.read()));
    let thread = graces.start(|| ()).expect("a thread");
    for _ in 0..3 {
        waiter(&graces).join().expect("no panic").expect("it ends");
    }
    // There is no reason to look again.
    let looked = graces.look();
    assert_eq!((looked.has_ended, looked.again), (true, None));
    assert!(!graces.look().has_ended);
    // Polls end periods again once the first processor's poll ends.
    words.set(0, 2);
    let moment = graces.now();
    graces.ask(moment);
    assert!(graces.is_past(moment));
    graces.stop();
    thread.join().expect("no panic");
}

#[test]
fn a_look_is_worth_it_for_a_short_time_alone() {
    let words = Words::new(&[1]);
    let graces = words.graces();
    let moment = graces.now();
    graces.ask(moment);
    assert!(graces.look().again.is_some());
    let start = std::time::Instant::now();
    while graces.look().again.is_some() {
        assert!(start.elapsed() < TIMEOUT);
        thread::yield_now();
    }
    assert!(!graces.is_past(moment));
    // A later look still counts the period.
    words.set(0, 2);
    assert!(graces.look().has_ended && graces.is_past(moment));
}

#[test]
fn who_waits_looks_by_himself() {
    let words = Words::new(&[1]);
    let graces = Arc::new(words.graces());
    let waiter = waiter(&graces);
    thread::sleep(Duration::from_millis(1));
    assert!(!waiter.is_finished(), "the poll goes on");
    words.set(0, 2);
    waiter
        .join()
        .expect("no panic")
        .expect("the poll has ended");
}

#[test]
fn rcu_is_not_asked_for_what_polls_end_soon() {
    static N_WAITS: AtomicUsize = AtomicUsize::new(0);
    static IS_DUE: AtomicBool = AtomicBool::new(false);
    let wait = || {
        assert!(IS_DUE.load(Ordering::SeqCst), "polls end it");
        N_WAITS.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let words = Words::new(&[0, 0]);
    let graces = Arc::new(Graces::new(wait, words.read()));
    let (notify, notified) = std::sync::mpsc::channel();
    let thread = graces.start(move || notify.send(()).expect("it listens"));
    let thread = thread.expect("a thread");
    for _ in 0..100 {
        graces.wait_past(graces.now()).expect("at once");
    }
    // A job runs on the thread, and counts as a period of RCU.
    let (done, is_done) = std::sync::mpsc::channel();
    graces.do_within(Box::new(move || done.send(()).map_err(io::Error::other)));
    is_done.recv_timeout(TIMEOUT).expect("the thread has time");
    notified.recv_timeout(TIMEOUT).expect("it says so");
    IS_DUE.store(true, Ordering::SeqCst);
    words.set(1, 1);
    waiter(&graces).join().expect("no panic").expect("RCU's");
    notified.recv_timeout(TIMEOUT).expect("it says so");
    assert_eq!(N_WAITS.load(Ordering::SeqCst), 1);
    graces.stop();
    thread.join().expect("no panic");
}
