//! `StreamChannel`: arbitration, packet-out, packet-in.
//!
//! Source: P4Runtime 1.5.0, "P4Runtime Stream Messages".

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use control::{IdleTimeoutNotice, PacketInFrame};
use p4runtime_proto::p4::v1::stream_error::Details;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::stream_message_response::Update;
use p4runtime_proto::p4::v1::{
    DigestListAck, DigestListAckError, IdleTimeoutNotification, MasterArbitrationUpdate, PacketIn,
    PacketOut, PacketOutError, StreamError, StreamMessageRequest, StreamMessageResponse,
    StreamOtherError,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::Stream;
use tonic::{Code, Status, Streaming};

use crate::arbitration::{ClientId, Notify};
use crate::device::{Device, Target, lock};
use crate::entity::table_entry;
use crate::error::{EntityError, EntityResult};
use crate::limits::{IDLE_TIMEOUT_QUEUE_MAX, PACKET_IN_QUEUE_MAX, UNREAD_MESSAGES_MAX};
use crate::malformed::refused;

type Message = Result<StreamMessageResponse, Status>;

/// The way to one controller. Packet-ins and idle timeouts are bounded, everything else always fits, but
/// of a controller that leaves too much of it unread no more requests are read.
#[derive(Clone)]
pub(crate) struct StreamSender {
    messages: UnboundedSender<Message>,
    n_packets: Arc<AtomicUsize>,
    n_idle_timeouts: Arc<AtomicUsize>,
    others: Arc<Others>,
}

/// Answers and errors that wait for the controller.
#[derive(Default)]
struct Others {
    n_waiting: AtomicUsize,
    /// One was read, or nobody reads any more.
    read: tokio::sync::Notify,
}

/// What the controller reads.
pub(crate) struct StreamReceiver {
    messages: UnboundedReceiver<Message>,
    n_packets: Arc<AtomicUsize>,
    n_idle_timeouts: Arc<AtomicUsize>,
    others: Arc<Others>,
}

pub(crate) fn stream_pair() -> (StreamSender, StreamReceiver) {
    let (sender, receiver) = unbounded_channel();
    let n_packets = Arc::new(AtomicUsize::new(0));
    let n_idle_timeouts = Arc::new(AtomicUsize::new(0));
    let others = Arc::<Others>::default();
    (
        StreamSender {
            messages: sender,
            n_packets: Arc::clone(&n_packets),
            n_idle_timeouts: Arc::clone(&n_idle_timeouts),
            others: Arc::clone(&others),
        },
        StreamReceiver {
            messages: receiver,
            n_packets,
            n_idle_timeouts,
            others,
        },
    )
}

impl StreamSender {
    pub(crate) fn arbitration(&self, update: MasterArbitrationUpdate) {
        self.send(Ok(Update::Arbitration(update)));
    }

    /// Whether the packet was taken; a controller that reads too slowly loses it.
    pub(crate) fn packet_in(&self, packet: PacketIn) -> bool {
        if self.n_packets.load(Ordering::Relaxed) >= PACKET_IN_QUEUE_MAX {
            return false;
        }
        self.n_packets.fetch_add(1, Ordering::Relaxed);
        self.send(Ok(Update::Packet(packet)));
        true
    }

    /// Whether it was taken; a controller that reads too slowly loses it.
    fn idle_timeout(&self, notification: IdleTimeoutNotification) -> bool {
        if self.n_idle_timeouts.load(Ordering::Relaxed) >= IDLE_TIMEOUT_QUEUE_MAX {
            return false;
        }
        self.n_idle_timeouts.fetch_add(1, Ordering::Relaxed);
        self.send(Ok(Update::IdleTimeoutNotification(notification)));
        true
    }

    fn error(&self, error: EntityError, details: Details) {
        self.send(Ok(Update::Error(StreamError {
            canonical_code: error.code as i32,
            message: error.message,
            details: Some(details),
            ..Default::default()
        })));
    }

    fn end(&self, status: Status) {
        self.send(Err(status));
    }

    /// Waits until not too much waits for the controller.
    async fn room(&self) {
        let Others { n_waiting, read } = &*self.others;
        while n_waiting.load(Ordering::Relaxed) >= UNREAD_MESSAGES_MAX && !self.messages.is_closed()
        {
            read.notified().await;
        }
    }

    /// A receiver that is gone means a stream that is about to be removed.
    fn send(&self, update: Result<Update, Status>) {
        let message = update.map(|update| StreamMessageResponse {
            update: Some(update),
        });
        if is_other(&message) {
            self.others.n_waiting.fetch_add(1, Ordering::Relaxed);
        }
        let _ = self.messages.send(message);
    }
}

impl Stream for StreamReceiver {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let message = self.messages.poll_recv(cx);
        if let Poll::Ready(Some(message)) = &message
            && is_other(message)
        {
            self.others.n_waiting.fetch_sub(1, Ordering::Relaxed);
            self.others.read.notify_one();
        }
        if let Poll::Ready(Some(Ok(message))) = &message {
            let counted = match message.update {
                Some(Update::Packet(_)) => Some(&self.n_packets),
                Some(Update::IdleTimeoutNotification(_)) => Some(&self.n_idle_timeouts),
                _ => None,
            };
            if let Some(counted) = counted {
                counted.fetch_sub(1, Ordering::Relaxed);
            }
        }
        message
    }
}

impl Drop for StreamReceiver {
    fn drop(&mut self) {
        self.messages.close();
        self.others.read.notify_one();
    }
}

/// Neither a packet-in nor an idle timeout.
fn is_other(message: &Message) -> bool {
    let update = message.as_ref().ok().and_then(|it| it.update.as_ref());
    !matches!(
        update,
        Some(Update::Packet(_) | Update::IdleTimeoutNotification(_))
    )
}

/// Serves one stream until it ends on either side; then its controller is no longer live.
pub(crate) async fn serve_stream(
    device: Arc<Device>,
    mut requests: Streaming<StreamMessageRequest>,
    sender: StreamSender,
) {
    let client = lock(&device.arbitration).new_client();
    let end = tokio::select! {
        end = handle_requests(&device, client, &mut requests, &sender) => end,
        () = device.shutdown_begun() => Err(Status::unavailable("the switch stops")),
    };
    lock(&device.arbitration).remove(client);
    if let Err(status) = end {
        sender.end(status);
    }
}

async fn handle_requests(
    device: &Arc<Device>,
    client: ClientId,
    requests: &mut Streaming<StreamMessageRequest>,
    sender: &StreamSender,
) -> Result<(), Status> {
    loop {
        sender.room().await;
        let Some(request) = requests.message().await.map_err(refused)? else {
            return Ok(());
        };
        match request.update {
            Some(RequestUpdate::Arbitration(update)) => {
                arbitrate(device, client, &update, sender)?;
            }
            Some(RequestUpdate::Packet(packet)) => {
                // Further ones wait with the controller.
                let Ok(turn) = Arc::clone(&device.packet_outs).acquire_owned().await else {
                    return Err(Status::unavailable("the switch stops"));
                };
                if let Err(error) = packet_out(device, client, &packet, sender, turn) {
                    packet_out_error(sender, error, packet);
                }
            }
            Some(RequestUpdate::DigestAck(ack)) => {
                let error = digest_ack_error(device, &ack);
                let digest_list_ack = Some(ack);
                let details = DigestListAckError { digest_list_ack };
                sender.error(error, Details::DigestListAck(details));
            }
            Some(RequestUpdate::Other(other)) => {
                let error = EntityError::unimplemented(format!(
                    "stream messages of type {} are not supported",
                    other.type_url
                ));
                let details = StreamOtherError { other: Some(other) };
                sender.error(error, Details::Other(details));
            }
            None => {
                let error = EntityError::invalid("expected a stream message, found an empty one");
                sender.error(error, Details::Other(StreamOtherError::default()));
            }
        }
    }
}

fn arbitrate(
    device: &Arc<Device>,
    client: ClientId,
    update: &MasterArbitrationUpdate,
    sender: &StreamSender,
) -> Result<(), Status> {
    {
        let mut arbitration = lock(&device.arbitration);
        match arbitration.update(client, update, sender)? {
            Notify::Sender => arbitration.notify(client),
            Notify::All => arbitration.notify_all_but(None),
            Notify::OthersThenPrimary => {
                arbitration.notify_all_but(Some(client));
                drop(arbitration);
                // Work runs in the order of submission: when this runs, the former primary's
                // writes have ended.
                let device_there = Arc::clone(device);
                device
                    .control
                    .after_work(move || lock(&device_there.arbitration).notify(client));
            }
        }
    }
    Ok(())
}

fn packet_out_error(sender: &StreamSender, error: EntityError, packet: PacketOut) {
    let packet_out = Some(packet);
    sender.error(error, Details::PacketOut(PacketOutError { packet_out }));
}

fn packet_out(
    device: &Device,
    client: ClientId,
    packet: &PacketOut,
    sender: &StreamSender,
    turn: OwnedSemaphorePermit,
) -> EntityResult {
    // Held while submitting: a former primary's packets go before its successor is told.
    let arbitration = lock(&device.arbitration);
    if !arbitration.is_primary(client) {
        return Err(EntityError::denied("only the primary may send packets"));
    }
    let target = device.committed().ok_or(control::Error::NoPipeline)?;
    let port = device
        .config
        .cpu_port
        .ok_or_else(|| EntityError::new(Code::FailedPrecondition, "the switch has no CPU port"))?;
    let mut frame = match target.pipeline.packet_out() {
        Some(header) => header.encode(&packet.metadata)?,
        None if packet.metadata.is_empty() => Vec::new(),
        None => {
            return Err(EntityError::invalid(
                "expected no metadata, since the P4Info has no packet_out header",
            ));
        }
    };
    frame.extend_from_slice(&packet.payload);
    let (packet, sender) = (packet.clone(), sender.clone());
    let done = move |sent: Result<(), control::Error>| {
        if let Err(error) = sent {
            packet_out_error(&sender, error.into(), packet);
        }
        drop(turn);
    };
    device.control.packet_out(&target.device, port, frame, done);
    Ok(())
}

fn digest_ack_error(device: &Device, ack: &DigestListAck) -> EntityError {
    let target = device.committed();
    let p4info = target.as_ref().and_then(|target| target.pipeline.p4info());
    let is_known = p4info.is_some_and(|p4info| {
        let mut preambles = p4info.digests.iter().filter_map(|d| d.preamble.as_ref());
        preambles.any(|preamble| preamble.id == ack.digest_id)
    });
    if is_known {
        EntityError::unimplemented("digests are not supported")
    } else {
        EntityError::invalid(format!("no digest has the id {}", ack.digest_id))
    }
}

/// Gives every packet-in to the primary, as long as the switch runs; what nobody can take is
/// counted.
pub(crate) async fn serve_packet_in(device: Arc<Device>, mut frames: Receiver<PacketInFrame>) {
    while let Some(frame) = frames.recv().await {
        packet_in(&device, &frame);
    }
}

fn packet_in(device: &Device, packet: &PacketInFrame) {
    let drops = &device.packet_in_drops;
    let committed = device.control.committed();
    let of = committed.as_ref().map_or(0, |it| it.generation());
    if of != packet.generation {
        return drops.pipeline_changed.add();
    }
    let target = committed.as_ref().and_then(Target::of);
    let frame = packet.frame.as_slice();
    let header = target.as_ref().and_then(|t| t.pipeline.packet_in());
    let (metadata, payload) = match header {
        None => (Vec::new(), frame),
        Some(header) => match header.decode(frame) {
            Some(parts) => parts,
            None => return drops.malformed.add(),
        },
    };
    let packet = PacketIn {
        payload: payload.to_vec(),
        metadata,
    };
    match lock(&device.arbitration).primary_sender() {
        None => drops.no_primary.add(),
        Some(primary) if primary.packet_in(packet) => {}
        Some(_) => drops.queue_full.add(),
    }
}

/// Tells the primary of idle entries; what cannot be told is counted.
pub(crate) async fn serve_idle_timeouts(
    device: Arc<Device>,
    mut notices: Receiver<IdleTimeoutNotice>,
) {
    while let Some(notice) = notices.recv().await {
        idle_timeout(&device, &notice);
    }
}

fn idle_timeout(device: &Device, notice: &IdleTimeoutNotice) {
    let drops = &device.idle_timeout_drops;
    let target = device.committed();
    let target = target.filter(|target| target.device.generation() == notice.generation);
    let table = target.as_ref().and_then(|target| {
        let mut tables = target.pipeline.tables();
        let table = tables.find(|table| table.table == notice.idle.table)?;
        Some((table, target))
    });
    let Some((table, target)) = table else {
        return drops.pipeline_changed.add();
    };
    let entry = table_entry::identified(table, &notice.idle.entry, &target.device.notes());
    let notification = IdleTimeoutNotification {
        table_entry: vec![entry],
        timestamp: unix_nanoseconds(),
    };
    match lock(&device.arbitration).primary_sender() {
        None => drops.no_primary.add(),
        Some(primary) if primary.idle_timeout(notification) => {}
        Some(_) => drops.queue_full.add(),
    }
}

/// The time of day, as notifications carry it; 1970 for a clock that is wrong by so much.
fn unix_nanoseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default().as_nanos();
    i64::try_from(since).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    #[tokio::test]
    async fn of_who_leaves_errors_unread_no_more_requests_are_read() {
        let (sender, mut receiver) = stream_pair();
        let error = || EntityError::invalid("no");
        for _ in 0..UNREAD_MESSAGES_MAX {
            sender.room().await;
            sender.error(error(), Details::Other(StreamOtherError::default()));
        }
        let waiting = tokio::spawn({
            let sender = sender.clone();
            async move { sender.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert!(matches!(receiver.next().await, Some(Ok(_))));
        waiting.await.unwrap();
        sender.error(error(), Details::Other(StreamOtherError::default()));
        let waiting = tokio::spawn(async move { sender.room().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(receiver);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_slow_controller_loses_packets_but_no_notification() {
        let (sender, mut receiver) = stream_pair();
        for _ in 0..PACKET_IN_QUEUE_MAX {
            assert!(sender.packet_in(PacketIn::default()));
        }
        assert!(!sender.packet_in(PacketIn::default()));
        sender.arbitration(MasterArbitrationUpdate::default());
        receiver.next().await.unwrap().unwrap();
        assert!(sender.packet_in(PacketIn::default()));
        assert!(!sender.packet_in(PacketIn::default()));
        let mut n_arbitrations = 0;
        for _ in 0..=PACKET_IN_QUEUE_MAX {
            let message = receiver.next().await.unwrap().unwrap();
            n_arbitrations += usize::from(matches!(message.update, Some(Update::Arbitration(_))));
        }
        assert_eq!(n_arbitrations, 1);
    }
}
