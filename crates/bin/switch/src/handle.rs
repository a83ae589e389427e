//! Access to the event loops of all workers from other threads.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use control::{
    DigestNotice, DigestSender, IdleTimeoutNotice, IdleTimeoutSender, LinkSender, NoticeSender,
    PacketInFrame, PacketInSender, Subscriber, SwitchHandle, Work,
};
use dataplane::{PayloadSignature, PortId};
use packet_io::{Port, Waker};

use crate::event_loop::Handover;

#[derive(Clone, Default)]
struct Subscribers {
    packet_ins: Arc<Mutex<Vec<PacketInSender>>>,
    idle_timeouts: Arc<Mutex<Vec<IdleTimeoutSender>>>,
    digests: Arc<Mutex<Vec<DigestSender>>>,
    links: Arc<Mutex<Vec<LinkSender>>>,
}

fn subscribe<T>(to: &Mutex<Vec<NoticeSender<T>>>, sender: NoticeSender<T>) {
    to.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(sender);
}

fn has_subscribers<T>(to: &Mutex<Vec<NoticeSender<T>>>) -> bool {
    let subscribers = to.lock().unwrap_or_else(PoisonError::into_inner);
    !subscribers.is_empty()
}

/// Sends a notice to all subscribers; false if there are none.
fn publish<T: Clone>(to: &Mutex<Vec<NoticeSender<T>>>, notice: &T) -> bool {
    let mut subscribers = to.lock().unwrap_or_else(PoisonError::into_inner);
    subscribers.retain(|subscriber| subscriber.send(notice.clone()));
    !subscribers.is_empty()
}

#[derive(Clone)]
pub(crate) struct LoopHandle {
    workers: Arc<[ToWorker]>,
    subscribers: Subscribers,
    payload_signatures: Arc<[PayloadSignature]>,
    is_stopped: Arc<AtomicBool>,
}

/// A port that replaces the port with the same number. The loop returns the old port through `replaced`, and the
/// receiver closes it.
pub(crate) struct PortChange {
    pub(crate) id: PortId,
    pub(crate) port: Box<dyn Port>,
    pub(crate) replaced: Sender<Box<dyn Port>>,
}

struct ToWorker {
    work: Sender<Work>,
    port_changes: Sender<PortChange>,
    handovers: Sender<Handover>,
    waker: Arc<Waker>,
}

/// The event loop's ends of the channels of a [`LoopHandle`]. Dropping the mailbox drops all work that was not run.
pub(crate) struct Mailbox {
    work: Receiver<Work>,
    port_changes: Receiver<PortChange>,
    handovers: Receiver<Handover>,
    subscribers: Subscribers,
    is_stopped: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

pub(crate) fn mailboxes(n_workers: usize) -> io::Result<(LoopHandle, Vec<Mailbox>)> {
    let (subscribers, is_stopped) = (Subscribers::default(), Arc::default());
    let (mut workers, mut mailboxes) = (Vec::new(), Vec::new());
    for _ in 0..n_workers {
        let (sender, receiver) = mpsc::channel();
        let (port_sender, port_changes) = mpsc::channel();
        let (handover_sender, handovers) = mpsc::channel();
        let waker = Arc::new(Waker::new()?);
        workers.push(ToWorker {
            work: sender,
            port_changes: port_sender,
            handovers: handover_sender,
            waker: Arc::clone(&waker),
        });
        mailboxes.push(Mailbox {
            work: receiver,
            port_changes,
            handovers,
            subscribers: subscribers.clone(),
            is_stopped: Arc::clone(&is_stopped),
            waker,
        });
    }
    let handle = LoopHandle {
        workers: workers.into(),
        subscribers,
        payload_signatures: Arc::default(),
        is_stopped,
    };
    Ok((handle, mailboxes))
}

impl LoopHandle {
    pub(crate) fn with_payload_signatures(self, signatures: Vec<PayloadSignature>) -> LoopHandle {
        LoopHandle {
            payload_signatures: signatures.into(),
            ..self
        }
    }

    /// Ends every loop after its current iteration.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.wake();
    }

    /// Replaces a port in every worker, waits until the loops have done so, and returns the old ports. Loops that have
    /// ended keep their old ports.
    pub(crate) fn replace_port(&self, id: PortId, ports: Vec<Box<dyn Port>>) -> Vec<Box<dyn Port>> {
        let mut replaced = Vec::new();
        for (worker, port) in self.workers.iter().zip(ports) {
            let (sender, receiver) = mpsc::channel();
            let change = PortChange {
                id,
                port,
                replaced: sender,
            };
            if worker.port_changes.send(change).is_ok() {
                worker.waker.wake();
                replaced.push(receiver);
            }
        }
        let replaced = replaced.into_iter();
        replaced
            .filter_map(|receiver| receiver.recv().ok())
            .collect()
    }

    /// Sends each worker a request of a takeover. A loop that has ended drops its request.
    pub(crate) fn hand_over(&self, requests: impl IntoIterator<Item = Handover>) {
        for (worker, request) in self.workers.iter().zip(requests) {
            // If the loop has ended, the request is dropped with its answer channel, and the closed channel tells the
            // requester.
            let _ = worker.handovers.send(request);
            worker.waker.wake();
        }
    }

    /// Makes the loops look at the links before the next frame, and notifies subscribers. Called after a link has
    /// changed.
    pub(crate) fn notify_links(&self) {
        self.wake();
        let links = self.subscribers.links.lock();
        let links = links.unwrap_or_else(PoisonError::into_inner);
        links.iter().for_each(LinkSender::notify);
    }

    /// Wakes the loops, so that they check again what other threads have changed or finished.
    pub(crate) fn wake(&self) {
        self.workers.iter().for_each(|worker| worker.waker.wake());
    }
}

impl SwitchHandle for LoopHandle {
    fn n_workers(&self) -> usize {
        self.workers.len()
    }

    fn payload_signatures(&self) -> Vec<PayloadSignature> {
        self.payload_signatures.to_vec()
    }

    fn submit(&self, worker: usize, work: Work) {
        // If the loop has ended, the work is dropped without being run, as the trait says.
        if let Some(to) = self.workers.get(worker)
            && to.work.send(work).is_ok()
        {
            to.waker.wake();
        }
    }

    fn subscribe(&self, subscriber: Subscriber) {
        let to = &self.subscribers;
        match subscriber {
            Subscriber::PacketIns(sender) => subscribe(&to.packet_ins, sender),
            Subscriber::IdleTimeouts(sender) => subscribe(&to.idle_timeouts, sender),
            Subscriber::Digests(sender) => subscribe(&to.digests, sender),
            Subscriber::Links(sender) => to
                .links
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(sender),
        }
    }
}

impl Mailbox {
    pub(crate) fn next_work(&self) -> Option<Work> {
        self.work.try_recv().ok()
    }

    pub(crate) fn next_port_change(&self) -> Option<PortChange> {
        self.port_changes.try_recv().ok()
    }

    pub(crate) fn next_handover(&self) -> Option<Handover> {
        self.handovers.try_recv().ok()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the loop's waker, for use in another thread.
    pub(crate) fn shared_waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Sends a packet-in to all subscribers; false if there are none.
    pub(crate) fn publish_packet_in(&self, packet: &PacketInFrame) -> bool {
        publish(&self.subscribers.packet_ins, packet)
    }

    /// Whether there are subscribers to idle timeouts.
    pub(crate) fn sends_idle_timeouts(&self) -> bool {
        has_subscribers(&self.subscribers.idle_timeouts)
    }

    pub(crate) fn publish_idle_timeout(&self, notice: &IdleTimeoutNotice) {
        publish(&self.subscribers.idle_timeouts, notice);
    }

    /// Whether there are subscribers to digests.
    pub(crate) fn sends_digests(&self) -> bool {
        has_subscribers(&self.subscribers.digests)
    }

    pub(crate) fn publish_digest(&self, notice: &DigestNotice) {
        publish(&self.subscribers.digests, notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_ins_go_to_everybody_who_still_listens() -> io::Result<()> {
        let (handle, mailboxes) = mailboxes(2)?;
        let [mailbox, other] = &mailboxes[..] else {
            panic!("two workers");
        };
        let packet = |number| PacketInFrame {
            generation: 1,
            frame: vec![number],
        };
        assert!(!mailbox.publish_packet_in(&packet(1)));
        let (sender, mut first) = PacketInSender::channel(1);
        let sender_of_first = sender.clone();
        handle.subscribe(Subscriber::PacketIns(sender));
        let (sender, mut second) = PacketInSender::channel(1);
        handle.subscribe(Subscriber::PacketIns(sender));
        assert!(mailbox.publish_packet_in(&packet(2)));
        assert_eq!(
            (first.try_recv(), second.try_recv()),
            (Ok(packet(2)), Ok(packet(2)))
        );
        drop(second);
        assert!(other.publish_packet_in(&packet(3)));
        assert_eq!(first.try_recv(), Ok(packet(3)));
        let full = sender_of_first.n_lost();
        assert!(mailbox.publish_packet_in(&packet(5)) && mailbox.publish_packet_in(&packet(6)));
        assert_eq!(first.try_recv(), Ok(packet(5)));
        assert_eq!((full, sender_of_first.n_lost()), (0, 1));
        drop(first);
        assert!(!mailbox.publish_packet_in(&packet(4)));
        Ok(())
    }

    #[test]
    fn work_is_dropped_unrun_when_the_loop_is_gone() -> io::Result<()> {
        let (handle, mailboxes) = mailboxes(1)?;
        let witness = Arc::new(());
        let held = Arc::clone(&witness);
        handle.submit(0, Box::new(move |_| drop(held)));
        assert_eq!(Arc::strong_count(&witness), 2);
        drop(mailboxes);
        assert_eq!(Arc::strong_count(&witness), 1);
        let held = Arc::clone(&witness);
        handle.submit(0, Box::new(move |_| drop(held)));
        assert_eq!(Arc::strong_count(&witness), 1);
        Ok(())
    }
}
