//! Digests of an offload wake a sleeping loop, and delay nothing even if they come without end.

use control::DigestNotice;
use testkit::offload::a_digest;
use tokio::sync::mpsc::Receiver;

use super::*;

/// Number of digests, each of which is sent when the previous digest has arrived. A loop that took digests only once a
/// second would be too slow.
const N_DIGESTS: u8 = 20;

fn subscribe(beside: &Beside, capacity: usize) -> Receiver<DigestNotice> {
    let (sender, digests) = DigestSender::channel(capacity);
    beside.handle.subscribe(Subscriber::Digests(sender));
    digests
}

#[test]
fn a_digest_wakes_the_loop_and_comes_once() {
    for wait in [Wait::Sleep, Wait::Spin] {
        let beside = Beside::start(wait);
        let mut digests = subscribe(&beside, 64);
        let start = Instant::now();
        for number in 0..N_DIGESTS {
            beside.core().digest(a_digest(number));
            let notice = digests.blocking_recv().expect("the loop runs");
            assert_eq!(notice.digest, a_digest(number));
        }
        assert!(start.elapsed() < TIMEOUT);
        let totals = beside.stop();
        assert_eq!(totals["packets"]["digests_lost"], 0);
        assert!(digests.blocking_recv().is_none(), "no more than there were");
    }
}

#[test]
fn frames_and_calls_go_on_while_digests_come_without_end() {
    for wait in [Wait::Sleep, Wait::Spin] {
        let mut beside = Beside::start(wait);
        // Nobody reads this channel, so what does not fit is lost here.
        let _digests = subscribe(&beside, 4);
        beside.core().is_flooding = true;
        beside.core().digest(a_digest(1));
        for kind in 3..10 {
            beside.write(&[(kind, 2)]);
            beside
                .one
                .transmit(0, frame(kind)[..].into())
                .expect("sending");
            assert_eq!(receive(&mut beside.two, 1), [frame(kind)]);
        }
        beside.core().is_flooding = false;
        beside.stop();
    }
}

#[test]
fn digests_that_nobody_wants_fill_the_queue_and_wake_nobody_until_somebody_does() {
    let beside = Beside::start(Wait::Sleep);
    beside.core().is_flooding = true;
    beside.core().digest(a_digest(1));
    let n_made = || {
        let (report, reported) = mpsc::channel();
        let look = move |context: &mut SwitchContext<'_>| {
            let n_digests = context.switch.counters().digests;
            let is_waited_for = context.switch.offloaded_digests_fd().is_some();
            report
                .send((n_digests, is_waited_for))
                .expect("somebody waits");
        };
        beside.handle.submit(0, Box::new(look));
        reported.recv().expect("the loop runs")
    };
    let start = Instant::now();
    while n_made().1 {
        assert!(start.elapsed() < TIMEOUT);
    }
    let full = limits::DIGEST_QUEUE_MAX as u64;
    assert_eq!(n_made(), (full, false));
    beside.core().is_flooding = false;
    let mut digests = subscribe(&beside, limits::DIGEST_QUEUE_MAX + 1);
    let flood = std::iter::repeat_n(0, limits::DIGEST_QUEUE_MAX);
    for number in flood.chain([1]) {
        let notice = digests.blocking_recv().expect("the loop runs");
        assert_eq!(notice.digest, a_digest(number));
    }
    assert_eq!(beside.stop()["packets"]["digests_lost"], 0);
}

/// Number of digests that are made at once: more than one iteration takes.
const N_AT_ONCE: u16 = 1000;

#[test]
fn what_waits_when_the_switch_stops_comes_too() {
    let beside = Beside::start(Wait::Sleep);
    let mut digests = subscribe(&beside, 2 * usize::from(N_AT_ONCE));
    let (core, handle) = (Arc::clone(&beside.core), beside.handle.clone());
    let make_and_stop = move |_: &mut SwitchContext<'_>| {
        let mut core = core.lock().expect("no panic");
        (0..N_AT_ONCE).for_each(|n| core.digest(a_digest((n % 251) as u8)));
        handle.stop();
    };
    beside.handle.submit(0, Box::new(make_and_stop));
    let totals = beside.stop();
    assert_eq!(totals["packets"]["digests_lost"], 0);
    for n in 0..N_AT_ONCE {
        let notice = digests.blocking_recv().expect("all that was made");
        assert_eq!(notice.digest, a_digest((n % 251) as u8));
    }
}
