//! Liveness, for a supervisor that restarts the switch, and readiness, for senders and load balancers.
//!
//! The switch lives if every event loop finishes an empty piece of work within a second. A stuck loop gets only one
//! such piece at a time, however often somebody asks whether the switch lives. The switch is ready if it has a program,
//! and if every port has its interface and serves all queues of this interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use control::{LinkState, PortStatus, SwitchContext, SwitchHandle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Served;
use crate::handle::LoopHandle;

/// Timeout of an event loop's iteration; under the heaviest overload an iteration takes some milliseconds.
const ITERATION_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of the checks whether a loop has answered.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Counts the probes that each loop has answered. A probe is an empty piece of work.
pub(crate) struct Probes(Vec<Arc<Probe>>);

#[derive(Default)]
struct Probe {
    n_done: AtomicU64,
    /// Whether a probe is in the loop's queue.
    is_asked: AtomicBool,
}

impl Probes {
    pub(crate) fn of(n_workers: usize) -> Probes {
        Probes((0..n_workers).map(|_| Arc::default()).collect())
    }

    /// Returns the workers whose loops did not answer in time.
    async fn stuck(&self, handle: &LoopHandle) -> Vec<usize> {
        let before: Vec<u64> = self.0.iter().map(|probe| probe.n_done()).collect();
        for (worker, probe) in self.0.iter().enumerate() {
            if !probe.is_asked.swap(true, Ordering::AcqRel) {
                let probe = Arc::clone(probe);
                handle.submit(worker, Box::new(move |_| probe.done()));
            }
        }
        let until = Instant::now() + ITERATION_TIMEOUT;
        loop {
            let probes = self.0.iter().zip(&before).enumerate();
            let stuck = probes.filter(|(_, (probe, before))| probe.n_done() == **before);
            let stuck: Vec<usize> = stuck.map(|(worker, _)| worker).collect();
            if stuck.is_empty() || Instant::now() >= until {
                return stuck;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

impl Probe {
    fn n_done(&self) -> u64 {
        self.n_done.load(Ordering::Acquire)
    }

    fn done(&self) {
        // The flag is cleared first, so that a thread that has seen the new count can submit again.
        self.is_asked.store(false, Ordering::Release);
        self.n_done.fetch_add(1, Ordering::AcqRel);
    }
}

pub(super) async fn healthz(State(served): State<Arc<Served>>) -> (StatusCode, String) {
    answer(
        served
            .probes
            .stuck(&served.handle)
            .await
            .into_iter()
            .map(stuck),
    )
}

pub(super) async fn readyz(State(served): State<Arc<Served>>) -> (StatusCode, String) {
    let stuck_loops = served.probes.stuck(&served.handle).await;
    if !stuck_loops.is_empty() {
        return answer(stuck_loops.into_iter().map(stuck));
    }
    let (sender, lacks) = oneshot::channel();
    let look = |context: &mut SwitchContext<'_>| {
        // The caller may have gone.
        let _ = sender.send(lacking(context));
    };
    served.handle.submit(0, Box::new(look));
    let lacks = tokio::time::timeout(ITERATION_TIMEOUT, lacks).await;
    // An error means that the loop answers too late, or that the switch has stopped.
    let lacks = lacks.ok().and_then(Result::ok);
    answer(lacks.unwrap_or_else(|| vec![stuck(0)]))
}

fn stuck(worker: usize) -> String {
    let seconds = ITERATION_TIMEOUT.as_secs();
    format!("the event loop of worker {worker} has not finished an iteration for {seconds} s")
}

/// Returns the faults that keep the switch from forwarding, a line for each.
fn lacking(context: &SwitchContext<'_>) -> Vec<String> {
    let mut lacks = Vec::new();
    if context.switch.program().is_none() {
        lacks.push("no pipeline is set".to_owned());
    }
    let lost = context
        .ports
        .iter()
        .filter(|port| port.link == LinkState::Lost);
    lacks.extend(lost.map(|port| format!("port {}@{} has no interface", port.id, port.name)));
    let unserved = context.ports.iter().filter(|port| port.unserved_queues > 0);
    lacks.extend(unserved.map(|port| {
        let PortStatus { id, name, .. } = port;
        format!(
            "port {id}@{name} does not serve {} of its interface's receive queues",
            port.unserved_queues
        )
    }));
    lacks
}

fn answer(faults: impl IntoIterator<Item = String>) -> (StatusCode, String) {
    let faults: Vec<String> = faults.into_iter().map(|fault| fault + "\n").collect();
    if faults.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, faults.concat())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use control::{Device, DrainWaiters, Registers};
    use dataplane::{PortId, Switch, SwitchConfig};
    use p4runtime_server::{Server, ServerConfig};

    use crate::handle::{self, Mailbox};
    use crate::metrics::{Recent, Selection};

    use super::*;

    fn served(n_workers: usize) -> (Arc<Served>, Vec<Mailbox>) {
        let (handle, mailboxes) = handle::mailboxes(n_workers).expect("mailboxes");
        let config = ServerConfig {
            device_id: 1,
            cpu_port: None,
        };
        let device = Device::new(Arc::new(handle.clone()), Registers::OfTheSwitch);
        let server = Server::new(config, Arc::new(device));
        let served = Served::new(
            handle,
            server,
            Selection::default(),
            Recent::new(),
            "native",
        );
        (Arc::new(served), mailboxes)
    }

    /// Runs the queued work of a loop with a port; returns how many pieces there were.
    fn run_work(mailbox: &Mailbox, link: LinkState) -> usize {
        let mut switch = Switch::new(SwitchConfig::default());
        let port = PortStatus {
            id: PortId(2),
            name: "b1".into(),
            link,
            ..PortStatus::default()
        };
        let works = std::iter::from_fn(|| mailbox.next_work());
        let works = works.map(|work| {
            work(&mut SwitchContext {
                switch: &mut switch,
                now: 0,
                ports: std::slice::from_ref(&port),
                drain_waiters: &mut DrainWaiters::default(),
                n_updates: 0,
                rest: None,
            });
        });
        works.count()
    }

    #[tokio::test]
    async fn a_loop_that_is_stuck_is_reported_and_asked_once() {
        let (served, mailboxes) = served(2);
        for _ in 0..2 {
            let (status, said) = healthz(State(Arc::clone(&served))).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(
                said,
                "the event loop of worker 0 has not finished an iteration for 1 s\n\
                 the event loop of worker 1 has not finished an iteration for 1 s\n"
            );
        }
        let (status, _) = readyz(State(Arc::clone(&served))).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        let done = [0, 1].map(|worker| run_work(&mailboxes[worker], LinkState::Up));
        assert_eq!(
            done,
            [1, 1],
            "one question each, however often it was asked for"
        );
    }

    #[tokio::test]
    async fn a_switch_whose_loops_iterate_lives_and_says_what_it_lacks_to_be_ready() {
        let (served, mailboxes) = served(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let event_loop = thread::spawn(move || {
            while !over.load(Ordering::Acquire) {
                run_work(&mailboxes[0], LinkState::Lost);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let (status, said) = healthz(State(Arc::clone(&served))).await;
        assert_eq!((status, said.as_str()), (StatusCode::OK, "ok\n"));
        let (status, said) = readyz(State(Arc::clone(&served))).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(said, "no pipeline is set\nport 2@b1 has no interface\n");
        is_over.store(true, Ordering::Release);
        event_loop.join().expect("it ends");
    }
}
