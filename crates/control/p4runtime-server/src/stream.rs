//! `StreamChannel`: arbitration, packet-out, packet-in, notifications.
//!
//! Source: P4Runtime 1.5.0, "P4Runtime Stream Messages".

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use control::{DigestNotice, IdleTimeoutNotice, PacketInFrame};
use p4runtime_proto::p4::v1::stream_error::Details;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::stream_message_response::Update;
use p4runtime_proto::p4::v1::{
    DigestList, DigestListAck, DigestListAckError, IdleTimeoutNotification,
    MasterArbitrationUpdate, PacketIn, PacketOut, PacketOutError, StreamError,
    StreamMessageRequest, StreamMessageResponse, StreamOtherError,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::Stream;
use tonic::{Code, Status, Streaming};

use crate::arbitration::{ClientId, Notify};
use crate::device::{Device, Target, lock};
use crate::digests::{List, NotWanted};
use crate::entity::{self, table_entry};
use crate::error::{EntityError, EntityResult};
use crate::limits::{
    DIGEST_LISTS_QUEUE_MAX, IDLE_TIMEOUT_QUEUE_MAX, PACKET_IN_QUEUE_MAX, UNREAD_MESSAGES_MAX,
};
use crate::malformed::refused;
use crate::roles::Access;
use crate::secrets;

type Message = Result<StreamMessageResponse, Status>;

/// Sends messages to one controller. Packet-ins, idle timeouts and digest lists have bounded queues and may be lost.
/// Other messages are never lost; if the controller leaves too many of these other messages unread, the server stops
/// reading the controller's requests.
#[derive(Clone)]
pub(crate) struct StreamSender {
    messages: UnboundedSender<Message>,
    waiting: Arc<Waiting>,
    others: Arc<Others>,
}

/// For each kind of message that may be lost: how many messages wait for the controller.
#[derive(Default)]
struct Waiting {
    packets: AtomicUsize,
    idle_timeouts: AtomicUsize,
    digest_lists: AtomicUsize,
}

impl Waiting {
    fn of(&self, update: &Update) -> Option<&AtomicUsize> {
        match update {
            Update::Packet(_) => Some(&self.packets),
            Update::IdleTimeoutNotification(_) => Some(&self.idle_timeouts),
            Update::Digest(_) => Some(&self.digest_lists),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Others {
    n_waiting: AtomicUsize,
    /// Notified when a message was read, and when the receiver is dropped.
    read: tokio::sync::Notify,
}

/// The receiving end of the queue, from which the transport takes the messages to the controller.
pub(crate) struct StreamReceiver {
    messages: UnboundedReceiver<Message>,
    waiting: Arc<Waiting>,
    others: Arc<Others>,
}

pub(crate) fn stream_pair() -> (StreamSender, StreamReceiver) {
    let (sender, receiver) = unbounded_channel();
    let (waiting, others) = (Arc::<Waiting>::default(), Arc::<Others>::default());
    (
        StreamSender {
            messages: sender,
            waiting: Arc::clone(&waiting),
            others: Arc::clone(&others),
        },
        StreamReceiver {
            messages: receiver,
            waiting,
            others,
        },
    )
}

impl StreamSender {
    pub(crate) fn arbitration(&self, update: MasterArbitrationUpdate) {
        self.send(Ok(Update::Arbitration(update)));
    }

    /// Sends a packet-in. Returns false if the packet is lost, because the controller reads too slowly and the queue is
    /// full.
    pub(crate) fn packet_in(&self, packet: PacketIn) -> bool {
        self.try_send(Update::Packet(packet), PACKET_IN_QUEUE_MAX)
    }

    /// Sends a notification. Returns false if the notification is lost, because the queue is full.
    fn idle_timeout(&self, notification: IdleTimeoutNotification) -> bool {
        let update = Update::IdleTimeoutNotification(notification);
        self.try_send(update, IDLE_TIMEOUT_QUEUE_MAX)
    }

    /// Sends a list. Returns false if the list is lost, because the queue is full.
    fn digest_list(&self, list: DigestList) -> bool {
        self.try_send(Update::Digest(list), DIGEST_LISTS_QUEUE_MAX)
    }

    fn try_send(&self, update: Update, max: usize) -> bool {
        if let Some(waiting) = self.waiting.of(&update) {
            if waiting.load(Ordering::Relaxed) >= max {
                return false;
            }
            waiting.fetch_add(1, Ordering::Relaxed);
        }
        self.send(Ok(update));
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

    /// Waits until fewer than `UNREAD_MESSAGES_MAX` answers and errors wait for the controller to read them.
    async fn room(&self) {
        let Others { n_waiting, read } = &*self.others;
        while n_waiting.load(Ordering::Relaxed) >= UNREAD_MESSAGES_MAX && !self.messages.is_closed()
        {
            read.notified().await;
        }
    }

    /// Sends a message. A missing receiver is no error, since the stream is about to be removed.
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
        if let Poll::Ready(Some(Ok(message))) = &message
            && let Some(waiting) = message.update.as_ref().and_then(|it| self.waiting.of(it))
        {
            waiting.fetch_sub(1, Ordering::Relaxed);
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

/// Whether a message is of a kind that is never lost.
fn is_other(message: &Message) -> bool {
    let update = message.as_ref().ok().and_then(|it| it.update.as_ref());
    update.is_none_or(|update| Waiting::default().of(update).is_none())
}

/// Serves one stream until either side ends it, and then removes its controller.
pub(crate) async fn serve_stream(
    device: Arc<Device>,
    mut requests: Streaming<StreamMessageRequest>,
    sender: StreamSender,
) {
    let client = lock(&device.arbitration).new_client();
    let end = tokio::select! {
        biased;
        () = device.shutdown_begun() => Err(Status::unavailable("the switch stops")),
        end = handle_requests(&device, client, &mut requests, &sender) => end,
        // The controller is gone. `handle_requests` does not notice while a request waits for the rate limit
        // or a permit. Requests that need no waiting are done before this branch, because the select is biased.
        () = sender.messages.closed() => Ok(()),
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
                // While this task waits for a permit, it reads no further requests, so further packet-outs wait at the
                // controller.
                let Ok(permit) = Arc::clone(&device.packet_outs).acquire_owned().await else {
                    return Err(Status::unavailable("the switch stops"));
                };
                if let Err(error) = packet_out(device, client, &packet, sender, permit) {
                    packet_out_error(sender, error, packet);
                }
            }
            Some(RequestUpdate::DigestAck(ack)) => {
                if let Err(error) = digest_ack(device, client, &ack) {
                    let digest_list_ack = Some(ack);
                    let details = DigestListAckError { digest_list_ack };
                    sender.error(error, Details::DigestListAck(details));
                }
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
            Notify::All => arbitration.notify_role_of(client, false),
            Notify::OthersThenPrimary => {
                arbitration.notify_role_of(client, true);
                drop(arbitration);
                lock(&device.digest_lists).forget_sent();
                // Work runs in the order of submission: when this closure runs, the former primary's writes have
                // ended.
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
    permit: OwnedSemaphorePermit,
) -> EntityResult {
    // The lock is held while the packet is submitted, so a former primary's packets precede the notification of its
    // successor.
    let arbitration = lock(&device.arbitration);
    match arbitration.primary_access(client) {
        Some(access) => access.expect_packet_out()?,
        None => return Err(EntityError::denied("only the primary may send packets")),
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
        drop(permit);
    };
    device.control.packet_out(&target.device, port, frame, done);
    Ok(())
}

fn digest_ack(device: &Device, client: ClientId, ack: &DigestListAck) -> EntityResult {
    let target = device.committed().ok_or(control::Error::NoPipeline)?;
    target.pipeline.digest(ack.digest_id)?;
    let arbitration = lock(&device.arbitration);
    let access = arbitration.primary_access(client);
    if !access.is_some_and(|access| access.has(&target.pipeline, ack.digest_id)) {
        return Err(EntityError::denied(
            "only a primary that receives the digest may acknowledge it",
        ));
    }
    lock(&device.digest_lists).acknowledge(ack);
    Ok(())
}

/// Sends digests to the primaries, in lists as configured, and counts digests and lists that it cannot send.
pub(crate) async fn serve_digests(device: Arc<Device>, mut notices: Receiver<DigestNotice>) {
    loop {
        let due = lock(&device.digest_lists).next_due();
        let wait = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            notice = notices.recv() => match notice {
                Some(notice) => digest(&device, notice),
                None => return,
            },
            () = wait => send_due_digests(&device),
            // A digest's configuration may have changed.
            () = device.digests_changed.notified() => drop(follow_digests(&device)),
        }
    }
}

/// Copies the committed pipeline's digest configuration into the lists.
fn follow_digests(device: &Device) -> Option<Target> {
    let target = device.committed()?;
    let wanted = target.device.digests();
    let mut lists = lock(&device.digest_lists);
    lists.begin(target.device.generation());
    for kind in target.pipeline.digests() {
        let config = wanted
            .get(&kind.name)
            .and_then(entity::digest::of_client_data);
        lists.set(kind.id, config);
    }
    drop(lists);
    Some(target)
}

fn digest(device: &Device, notice: DigestNotice) {
    let drops = &device.digest_drops;
    let target = follow_digests(device);
    let target = target.filter(|target| target.device.generation() == notice.generation);
    let Some(target) = target else {
        return drops.pipeline_changed.add();
    };
    let DigestNotice { digest, .. } = notice;
    let mut kinds = target.pipeline.digests();
    let kind = kinds.find(|kind| kind.name == digest.name);
    let now = tokio::time::Instant::now();
    let list = kind.map(|kind| lock(&device.digest_lists).push(kind.id, digest.members, now));
    match list {
        Some(Ok(Some(list))) => send_digests(device, &target, list),
        Some(Ok(None)) => {}
        Some(Err(NotWanted)) | None => drops.not_wanted.add(),
    }
}

fn send_due_digests(device: &Device) {
    let Some(target) = follow_digests(device) else {
        return;
    };
    let lists = lock(&device.digest_lists).due(tokio::time::Instant::now());
    for list in lists {
        send_digests(device, &target, list);
    }
}

fn send_digests(device: &Device, target: &Target, list: List) {
    let drops = &device.digest_drops;
    let List {
        digest_id,
        list_id,
        digests,
    } = list;
    let Ok(kind) = target.pipeline.digest(digest_id) else {
        return drops.pipeline_changed.add();
    };
    let data = digests.iter();
    let data = data.filter_map(|digest| kind.data.to_proto(&mut digest.iter()));
    let message = DigestList {
        digest_id,
        list_id,
        data: data.collect(),
        timestamp: unix_nanoseconds(),
    };
    let sent = to_primaries(device, |access, sender| {
        let is_receiver = access.has(&target.pipeline, digest_id);
        is_receiver.then(|| sender.digest_list(message.clone()))
    });
    match sent {
        Sent::Taken => {}
        Sent::NoPrimary => drops.no_primary.add(),
        Sent::Lost => drops.queue_full.add(),
    }
}

enum Sent {
    Taken,
    NoPrimary,
    /// At least one primary reads too slowly.
    Lost,
}

/// Calls `send` for every primary, with the primary's access. If `send` returns `None`, the primary does not get the
/// message. A primary whose queue is full does not keep the message from the other primaries.
fn to_primaries(device: &Device, send: impl Fn(&Access, &StreamSender) -> Option<bool>) -> Sent {
    let arbitration = lock(&device.arbitration);
    let taken = arbitration.primaries();
    let taken: Vec<bool> = taken.filter_map(|(access, to)| send(access, to)).collect();
    match taken[..] {
        [] => Sent::NoPrimary,
        _ if taken.contains(&false) => Sent::Lost,
        _ => Sent::Taken,
    }
}

/// Sends every packet-in to the primaries, as long as the switch runs, and counts packet-ins that it cannot send.
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
    let sent = to_primaries(device, |access, sender| {
        let is_receiver = access.receives(&packet);
        is_receiver.then(|| sender.packet_in(packet.clone()))
    });
    match sent {
        Sent::Taken => {}
        Sent::NoPrimary => drops.no_primary.add(),
        Sent::Lost => drops.queue_full.add(),
    }
}

/// Notifies the primaries of idle entries, and counts the notifications that it cannot send.
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
    let mut entry =
        table_entry::identified(table, &notice.idle.entry, &target.device.client_data());
    secrets::hide(table, &mut entry);
    let notification = IdleTimeoutNotification {
        table_entry: vec![entry],
        timestamp: unix_nanoseconds(),
    };
    let sent = to_primaries(device, |access, sender| {
        let is_receiver = access.has(&target.pipeline, table.id);
        is_receiver.then(|| sender.idle_timeout(notification.clone()))
    });
    match sent {
        Sent::Taken => {}
        Sent::NoPrimary => drops.no_primary.add(),
        Sent::Lost => drops.queue_full.add(),
    }
}

/// The current time, for the time stamp of a notification; 0 if the clock is before 1970.
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
