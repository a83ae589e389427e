//! The shell's stream: packets, digests and idle timeouts are queued until a `watch`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use p4runtime_client::{Client, ClientError, Object};
use p4runtime_proto::p4::v1::stream_message_response::Update as Message;
use p4runtime_proto::p4::v1::{self as p4, PacketOut, TableEntry};
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;

use super::command::{self, Watch};
use super::json as as_json;
use super::shell::{Done, Place, Shell, Stop, document, unless_interrupted};
use super::words::name_text;
use crate::output;

/// Maximum number of queued messages; when full, the oldest is dropped.
const WAITING_MAX: usize = 1_000;

impl Shell {
    /// Queues messages for `watch`, and returns a text about the first message of which a user must
    /// know at once. The future is pending until such a message comes.
    pub async fn next_notice(&mut self) -> String {
        loop {
            let message = self.client.next_message().await;
            if let Some(notice) = self.keep(message) {
                return notice;
            }
        }
    }

    fn keep(&mut self, message: Result<Message, ClientError>) -> Option<String> {
        let message = match message {
            Ok(message) => message,
            Err(ClientError::NotPrimary { message }) => {
                self.is_stale = true;
                return Some(format!(
                    "another controller ({message}) is primary now: this shell reads only; `primary take` takes the role back"
                ));
            }
            Err(error) => {
                self.is_stale = true;
                return Some(format!("{error}; the next command connects again"));
            }
        };
        let notice = match &message {
            Message::Error(error) => return Some(stream_error(error)),
            Message::Packet(_) => "a packet-in",
            Message::Digest(_) => "a list of digests",
            Message::IdleTimeoutNotification(_) => "an idle timeout",
            _ => return None,
        };
        let is_first = self.waiting.is_empty();
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
            self.n_lost += 1;
        }
        self.waiting.push_back(message);
        is_first.then(|| format!("{notice} came: `watch` prints the queued messages"))
    }

    /// Queues messages that have already arrived. Fails if one of them is an error, or reports that
    /// this shell is no longer primary.
    fn take_messages(&mut self) -> Done {
        loop {
            let Some(message) = ready_message(&mut self.client) else {
                return Ok(());
            };
            let is_kept = matches!(
                message,
                Ok(Message::Packet(_) | Message::Digest(_) | Message::IdleTimeoutNotification(_))
            );
            if let Some(notice) = self.keep(message)
                && !is_kept
            {
                return Err(Stop::failed(notice));
            }
        }
    }

    pub(super) async fn packet_out(&mut self, packet: PacketOut, place: &Place) -> Done {
        self.expect_primary().await?;
        self.client.packet_out(packet).await?;
        // The switch reports a refused packet-out on the stream before it answers the next call, so make a call.
        self.client.capabilities().await?;
        self.take_messages()?;
        self.print(place, json!({ "sent": 1 }), String::new);
        Ok(())
    }

    pub(super) async fn watch(&mut self, watch: Watch, place: &Place) -> Done {
        let limit = watch.time_ns.and_then(|ns| u64::try_from(ns).ok());
        let until = limit.map(|ns| Instant::now() + Duration::from_nanos(ns));
        if self.n_lost > 0 {
            let n = self.n_lost;
            output::error_line(format_args!(
                "reprise: the queue was full, so {n} older messages are lost"
            ));
            self.n_lost = 0;
        }
        let mut n = 0;
        while watch.count.is_none_or(|count| n < count) {
            let waiting = self.waiting.iter().position(|it| is_watched(&watch, it));
            if let Some(message) = waiting.and_then(|idx| self.waiting.remove(idx)) {
                self.print_message(&watch, message, place).await?;
                n += 1;
                continue;
            }
            // Only queued messages can be shown without the primary role.
            self.expect_primary().await?;
            let next = self.client.next_message();
            let wait = async {
                match until {
                    Some(until) => tokio::time::timeout_at(until, next).await.ok(),
                    None => Some(next.await),
                }
            };
            match unless_interrupted(&mut self.interrupts, wait).await {
                None if self.choices.is_interactive => break,
                None => return Err(Stop::Interrupted),
                Some(None) => break,
                Some(Some(message)) => {
                    let is_message =
                        matches!(message, Ok(ref it) if !matches!(it, Message::Error(_)));
                    if let Some(notice) = self.keep(message)
                        && !is_message
                    {
                        return Err(Stop::failed(notice));
                    }
                }
            }
        }
        if self.global.json {
            output::json(&document(place, json!({ "messages": n })));
        }
        match watch.count {
            Some(count) if n < count => Err(Stop::failed(format!(
                "expected {}, {n} came in time",
                output::count(usize::try_from(count).unwrap_or(usize::MAX), "message")
            ))),
            _ => Ok(()),
        }
    }

    async fn print_message(&mut self, watch: &Watch, message: Message, place: &Place) -> Done {
        let schema = Arc::clone(&self.schema);
        match message {
            Message::Packet(packet) => {
                self.print(place, as_json::packet_in(&schema, &packet), || {
                    let fields = as_json::packet_fields(&schema, &packet);
                    let fields = fields
                        .iter()
                        .map(|(name, text)| format!("{}={text} ", name_text(name)));
                    let fields: String = fields.collect();
                    format!("packet in {fields}{}", as_json::payload(&packet.payload))
                });
            }
            Message::Digest(list) => {
                self.print(place, as_json::digest_list(&schema, &list), || {
                    let name = name_text(&schema.short(Object::Digest, list.digest_id));
                    let values = as_json::digests(&schema, &list);
                    let lines = values.iter().map(|it| format!("digest {name} {it}"));
                    lines.collect::<Vec<_>>().join("\n")
                });
                if watch.acknowledges {
                    self.client
                        .acknowledge(list.digest_id, list.list_id)
                        .await?;
                }
            }
            Message::IdleTimeoutNotification(idle) => {
                let document = as_json::idle(&schema, &idle.table_entry, idle.timestamp);
                self.print(place, document, || {
                    let line = |entry: &TableEntry| {
                        let table = name_text(&schema.short(Object::Table, entry.table_id));
                        format!("idle {table} {}", command::key_words(&schema, entry))
                    };
                    let lines = idle.table_entry.iter().map(line);
                    lines.collect::<Vec<_>>().join("\n")
                });
            }
            _ => {}
        }
        Ok(())
    }
}

/// The next message, if it has already arrived.
fn ready_message(client: &mut Client) -> Option<Result<Message, ClientError>> {
    let next = std::pin::pin!(client.next_message());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match next.poll(&mut context) {
        std::task::Poll::Ready(message) => Some(message),
        std::task::Poll::Pending => None,
    }
}

fn is_watched(watch: &Watch, message: &Message) -> bool {
    match message {
        Message::Packet(_) => watch.packets,
        Message::Digest(_) => watch.digests,
        Message::IdleTimeoutNotification(_) => watch.idle,
        _ => false,
    }
}

fn stream_error(error: &p4::StreamError) -> String {
    use p4::stream_error::Details;
    let what = match error.details {
        Some(Details::PacketOut(_)) => "a packet-out",
        Some(Details::DigestListAck(_)) => "the acknowledgement of digests",
        _ => "a message of the stream",
    };
    let code = Code::from(error.canonical_code);
    format!("the switch refused {what}: {} ({code:?})", error.message)
}
