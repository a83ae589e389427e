//! Receives one track.
//!
//! Each track has its own socket with its own leg, which is the socket's connection to the service. If one leg had many
//! subscriptions, only the SSRC would tell tracks apart, and the senders choose their SSRCs. A socket for each track
//! also gives a burst of one track room in a buffer, whatever the other tracks send. The cost is one hello message a
//! second for each leg: a hundred a second for a hundred tracks.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use conference_api::{Leg, TrackKind};
use conference_client::{MediaSocket, NotSignedIn, PacketBuffer};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::catalog::rtp;
use super::now_ms;
use super::writer::Message;

/// Maximum number of packets of one track that are taken in a row, before other tracks can take theirs.
const BATCH: usize = 64;
/// Maximum number of sources of a track that are asked for a whole picture.
const SOURCES_MAX: usize = 16;
/// The first four bytes of a "picture loss indication" (RFC 4585, section 6.3.1). Two SSRCs follow: first the
/// recorder's own, then that of the source that is asked.
const PLI: [u8; 4] = [0x81, 206, 0, 2];

/// A track to receive.
pub struct Track {
    pub number: u32,
    pub kind: TrackKind,
    pub leg: Leg,
    /// Receives the leg that replaces the current leg, after a service has lost the current leg.
    pub legs: mpsc::Receiver<Leg>,
    pub stop: oneshot::Receiver<()>,
    pub files: mpsc::Sender<Message>,
    /// Takes the packets to ffmpeg.
    pub media: Option<mpsc::Sender<Arc<[u8]>>>,
    /// Counts the packets that found no room in `media`.
    pub left_out: Arc<std::sync::atomic::AtomicU64>,
}

/// Receives the packets of a track until the recorder stops the recording of this track.
///
/// # Errors
/// The system gives no socket.
pub async fn receive(mut track: Track) -> Result<(), NotSignedIn> {
    let mut socket = Socket::open(&track.leg).await?;
    let mut buffer = PacketBuffer::default();
    loop {
        tokio::select! {
            () = socket.media.ready() => {}
            Some(leg) = track.legs.recv() => {
                track.drain(&mut socket, &mut buffer).await;
                socket = Socket::open(&leg).await?;
            }
            // The recorder has dropped the channel's sender, to stop the recording of this track.
            _ = &mut track.stop => break,
        }
        for _ in 0..BATCH {
            if !track.take(&mut socket, &mut buffer).await {
                break;
            }
        }
    }
    track.drain(&mut socket, &mut buffer).await;
    // This fails only if the thread that writes files has ended, which reports the reason itself.
    let _ = track
        .files
        .send(Message::Close(track.number, now_ms()))
        .await;
    Ok(())
}

struct Socket {
    media: MediaSocket,
    from: SocketAddr,
    to: SocketAddr,
    n_dropped: u32,
    /// Sources that were asked for a picture.
    asked: BTreeSet<u32>,
}

impl Socket {
    async fn open(leg: &Leg) -> Result<Socket, NotSignedIn> {
        let media = MediaSocket::open(leg).await?;
        let from = media.peer();
        let to = media
            .local()
            .map_err(|error| NotSignedIn::Socket { to: from, error })?;
        Ok(Socket {
            media,
            from,
            to,
            n_dropped: 0,
            asked: BTreeSet::new(),
        })
    }
}

impl Track {
    /// Takes the packets that have come already, but not more than a socket can hold.
    async fn drain(&self, socket: &mut Socket, buffer: &mut PacketBuffer) {
        const DRAINED_MAX: usize = 65_536;
        for _ in 0..DRAINED_MAX {
            if !self.take(socket, buffer).await {
                return;
            }
        }
    }

    /// Takes a packet. Returns whether there was one.
    async fn take(&self, socket: &mut Socket, buffer: &mut PacketBuffer) -> bool {
        let Some(arrival) = socket.media.take(buffer) else {
            return false;
        };
        let packet: Arc<[u8]> = buffer.packet(&arrival).into();
        let mut n_dropped = 0;
        if let Some(n) = arrival.n_dropped {
            n_dropped = n.wrapping_sub(socket.n_dropped);
            socket.n_dropped = n;
        }
        self.ask_for_picture(socket, &packet).await;
        if let Some(media) = &self.media
            && let Err(TrySendError::Full(_)) = media.try_send(packet.clone())
        {
            self.left_out
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        let message = Message::Packet {
            track: self.number,
            time_ns: arrival.time_ns,
            from: socket.from,
            to: socket.to,
            packet,
        };
        // If the disk is so slow that the queue is full, the packet is dropped and counted. This task does not wait for
        // room, since it would then miss packets that come to the socket.
        if let Err(TrySendError::Full(_)) = self.files.try_send(message) {
            n_dropped += 1;
        }
        if n_dropped > 0 {
            let dropped = Message::Dropped(self.number, n_dropped.into());
            let _ = self.files.send(dropped).await;
        }
        true
    }

    /// Asks a source for a whole picture (a key frame) when the source is first seen: a file that begins with a whole
    /// picture can be shown from its beginning.
    async fn ask_for_picture(&self, socket: &mut Socket, packet: &[u8]) {
        if !matches!(self.kind, TrackKind::Video | TrackKind::Screen) {
            return;
        }
        let Some((ssrc, _)) = rtp(packet) else {
            return;
        };
        if socket.asked.len() >= SOURCES_MAX || !socket.asked.insert(ssrc) {
            return;
        }
        let mut request = PLI.to_vec();
        // The recorder uses the track's number as its own SSRC. It sends nothing else with this SSRC.
        request.extend(self.number.to_be_bytes());
        request.extend(ssrc.to_be_bytes());
        // The request may be lost like any packet.
        let _ = socket.media.send(&request).await;
    }
}
