//! Lets ffmpeg write a track as Matroska or Ogg, without decoding it.
//!
//! ffmpeg receives plain RTP on two ports of 127.0.0.1. Any program on this machine that may send to these ports can
//! add packets to ffmpeg's file. The pcapng file has only packets that the switch has sent.

use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conference_api::TrackKind;
use conference_client::relay::{Pair, is_rtcp};
use conference_client::sdp;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::catalog::MediaFile;
use super::writer::Message;
use crate::commands::serve::find;

/// Maximum number of packets of a track that wait until ffmpeg takes them.
pub const QUEUE: usize = 8_192;
/// How long ffmpeg may take until it listens.
const START_MAX: Duration = Duration::from_secs(20);
/// The pause between two checks whether ffmpeg listens.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How long ffmpeg may take to end a file.
const END_MAX: Duration = Duration::from_secs(5);
/// How often the recorder checks whether ffmpeg still runs.
const LOOK: Duration = Duration::from_millis(200);
/// If ffmpeg ends by itself after less than this time, it does not understand the track, and is not started again.
const RAN_MIN: Duration = Duration::from_secs(20);
/// Maximum number of packets that are sent without a pause: the buffer of ffmpeg's socket is small.
const BURST: u32 = 32;
const BURST_PAUSE: Duration = Duration::from_millis(1);
/// An empty receiver report (RFC 3550, section 6.4.2), which changes nothing.
const REPORT: [u8; 8] = [0x80, 201, 0, 1, 0, 0, 0, 0];
/// An empty receiver report with a "goodbye" (RFC 3550, section 6.6), after which ffmpeg takes its input for complete.
/// The report is there because ffmpeg ignores packets of less than twelve bytes.
const BYE: [u8; 16] = [
    0x80, 201, 0, 1, 0, 0, 0, 0, 0x81, BYE_TYPE, 0, 1, 0, 0, 0, 0,
];
const BYE_TYPE: u8 = 203;

/// A track that ffmpeg writes to files.
pub struct Media {
    pub number: u32,
    pub folder: PathBuf,
    /// The names of the track's files, without their extension.
    pub stem: String,
    pub kind: TrackKind,
    pub sdp: String,
    pub packets: mpsc::Receiver<Arc<[u8]>>,
    pub left_out: Arc<AtomicU64>,
    pub files: mpsc::Sender<Message>,
}

/// Why the writing of a file has ended.
enum Ended {
    /// The track has ended.
    Track,
    /// ffmpeg has ended by itself, after it has run for this time.
    Ffmpeg(Duration),
}

impl Media {
    /// Writes a file until the track ends. If ffmpeg ends earlier, begins another file.
    pub async fn run(mut self) {
        for part in 0.. {
            let name = match part {
                0 => format!("{}.{}", self.stem, self.extension()),
                n => format!("{}.part{}.{}", self.stem, n + 1, self.extension()),
            };
            let log = self.folder.join(format!("{name}.log"));
            self.say(part, Some(&name), None).await;
            let ended = self.write(&name, &log).await;
            let is_there = self.folder.join(&name).exists();
            let problem = match &ended {
                Ok(Ended::Track) if is_there => None,
                Ok(Ended::Track) => Some("no packet came that ffmpeg understands".to_owned()),
                Ok(Ended::Ffmpeg(_)) => Some(last_line(&log)),
                Err(error) => Some(format!("ffmpeg: {error}")),
            };
            if problem.is_none() {
                remove_if_empty(&log);
            }
            let file = is_there.then_some(name.as_str());
            self.say(part, file, problem).await;
            match ended {
                Ok(Ended::Ffmpeg(ran)) if ran >= RAN_MIN => {}
                _ => return,
            }
        }
    }

    fn extension(&self) -> &'static str {
        let is_opus = self.sdp.to_ascii_lowercase().contains(" opus/");
        match self.kind {
            TrackKind::Audio if is_opus => "ogg",
            TrackKind::Audio => "mka",
            TrackKind::Video | TrackKind::Screen | TrackKind::Data => "mkv",
        }
    }

    async fn say(&self, part: usize, file: Option<&str>, problem: Option<String>) {
        let file = MediaFile {
            file: file.map(str::to_owned),
            problem,
            left_out: self.left_out.load(Ordering::Relaxed),
        };
        // If the thread that writes files has ended, the recorder reports why.
        let _ = self
            .files
            .send(Message::Media(self.number, part, file))
            .await;
    }

    /// Writes one file.
    async fn write(&mut self, name: &str, log: &Path) -> io::Result<Ended> {
        // These ports are free now. If another program takes one of them before ffmpeg does, ffmpeg ends with an error.
        let port = Pair::bind_any().await?.port()?;
        let rtp = connected(port).await?;
        let rtcp = connected(port + 1).await?;
        let mut ffmpeg = Ffmpeg::start(
            &sdp::for_receiver(&self.sdp, port),
            &self.folder.join(name),
            log,
        )?;
        let began = Instant::now();
        while !is_heard(&rtcp).await {
            if ffmpeg.has_ended()? {
                return Ok(Ended::Ffmpeg(began.elapsed()));
            }
            if began.elapsed() > START_MAX {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it does not listen",
                ));
            }
            // If the track ends before ffmpeg listens, the packets in the queue are still written.
        }
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut n_sent = 0_u32;
        loop {
            tokio::select! {
                packet = self.packets.recv() => {
                    let Some(packet) = packet else {
                        until_taken(port).await;
                        ffmpeg.end(&rtcp).await?;
                        return Ok(Ended::Track);
                    };
                    // The packet is refused if ffmpeg has ended. The next check, at the interval `LOOK`, notices that.
                    let _ = if is_rtcp(&packet) {
                        rtcp.send(before_bye(&packet)).await
                    } else {
                        rtp.send(&packet).await
                    };
                    n_sent = n_sent.wrapping_add(1);
                    if n_sent.is_multiple_of(BURST) && !self.packets.is_empty() {
                        sleep(BURST_PAUSE).await;
                    }
                }
                _ = looks.tick() => if ffmpeg.has_ended()? {
                    return Ok(Ended::Ffmpeg(began.elapsed()));
                }
            }
        }
    }
}

async fn connected(port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.connect((Ipv4Addr::LOCALHOST, port)).await?;
    Ok(socket)
}

/// Whether ffmpeg listens on the RTCP port: if nobody listens there, the system answers a datagram with "connection
/// refused". ffmpeg opens the RTCP port after the RTP port.
async fn is_heard(rtcp: &UdpSocket) -> bool {
    let sent = rtcp.send(&REPORT).await;
    sleep(ASK_AGAIN).await;
    let mut nothing = [0; 1];
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let read = rtcp.try_recv(&mut nothing);
    !sent.is_err_and(|error| refused(&error)) && !read.is_err_and(|error| refused(&error))
}

/// Waits until nothing is left in the buffer of the socket on this port: ffmpeg takes no more packets once it has a
/// "goodbye".
async fn until_taken(port: u16) {
    let began = Instant::now();
    while began.elapsed() < END_MAX && bytes_waiting(&sockets(), port) > 0 {
        sleep(ASK_AGAIN).await;
    }
}

/// Returns the system's UDP sockets over IPv4 as text (proc_net_udp in the kernel's documentation), or an empty text if
/// they cannot be read.
fn sockets() -> String {
    std::fs::read_to_string("/proc/net/udp").unwrap_or_default()
}

/// The bytes in the receive buffers of the sockets on a port.
fn bytes_waiting(sockets: &str, port: u16) -> u64 {
    let waiting_on = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (_, of) = words.next()?.rsplit_once(':')?;
        let (_, waiting) = words.nth(2)?.split_once(':')?;
        let is_it = u16::from_str_radix(of, 16).ok()? == port;
        is_it.then(|| u64::from_str_radix(waiting, 16).ok())?
    };
    sockets.lines().filter_map(waiting_on).sum()
}

/// A process of ffmpeg. It ends with the recorder, also if the recorder is killed.
struct Ffmpeg(Child);

impl Drop for Ffmpeg {
    fn drop(&mut self) {
        // The process has usually ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ffmpeg {
    /// Starts ffmpeg. The session description goes to its standard input through a pipe.
    fn start(sdp: &str, file: &Path, log: &Path) -> io::Result<Ffmpeg> {
        let mut command = match find("setpriv") {
            // The kernel sends ffmpeg SIGKILL when the recorder's thread ends, however it ends. Nobody sends packets
            // any more then, and what is in the file can be played.
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--", "ffmpeg"]);
                command
            }
            None => Command::new("ffmpeg"),
        };
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error"]);
        // Options for the input. ffmpeg only needs packets of a known codec, and does not wait until it knows a frame
        // rate.
        command.args([
            "-protocol_whitelist",
            "pipe,udp,rtp",
            "-analyzeduration",
            "15000000",
        ]);
        command.args(["-fpsprobesize", "0", "-buffer_size", "4194304"]);
        command.args(["-f", "sdp", "-i", "pipe:0", "-c", "copy"]);
        // Options for the output. It is written in pieces of less than a second. A piece is written when it is
        // complete; a piece of an Ogg file, when the next piece is complete.
        command.args(["-flush_packets", "1"]);
        if file.extension().is_some_and(|it| it == "ogg") {
            command.args(["-f", "ogg", "-page_duration", "250000"]);
        } else {
            command.args(["-f", "matroska", "-cluster_time_limit", "500"]);
        }
        command.arg("-n").arg(file);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // Ctrl-C must not reach ffmpeg: the recorder handles it, and lets ffmpeg complete its file.
        command.process_group(0);
        command.stderr(std::fs::File::create(log)?);
        let mut ffmpeg = Ffmpeg(command.spawn()?);
        if let Some(mut input) = ffmpeg.0.stdin.take() {
            // The description is shorter than a pipe's buffer, so this does not block.
            input.write_all(sdp.as_bytes())?;
        }
        Ok(ffmpeg)
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    /// Lets ffmpeg complete the file, by sending it a "goodbye". A signal would not do: while no packets come, ffmpeg
    /// ignores the first signal, and after the second it writes nothing more.
    async fn end(&mut self, rtcp: &UdpSocket) -> io::Result<()> {
        let began = Instant::now();
        while !self.has_ended()? {
            if began.elapsed() > END_MAX {
                self.0.kill()?;
                self.0.wait()?;
                let why = "it did not complete the file in time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            // The packet is refused if ffmpeg ends just now.
            let _ = rtcp.send(&BYE).await;
            sleep(ASK_AGAIN).await;
        }
        Ok(())
    }
}

/// Returns the part of a compound RTCP packet that stands before a "goodbye". ffmpeg does not get the "goodbye", since
/// the publisher that has sent it may go on, or another publisher may follow.
fn before_bye(packet: &[u8]) -> &[u8] {
    let mut at = 0;
    while let Some(&[_, kind, high, low]) = packet.get(at..at + 4) {
        if kind == BYE_TYPE {
            return &packet[..at];
        }
        at += 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
    }
    packet
}

/// Makes a message with the last line that ffmpeg has written to its log.
fn last_line(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let said = line.unwrap_or("nothing").trim().to_owned();
    format!("ffmpeg has ended; it said: {said}")
}

fn remove_if_empty(log: &Path) {
    if std::fs::metadata(log).is_ok_and(|file| file.len() == 0) {
        // If the empty log cannot be removed, it does no harm.
        let _ = std::fs::remove_file(log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_socket_has_not_read_is_found() {
        let sockets = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
            1: 0100007F:1F90 00000000:0000 07 00000000:00000A00 00:00000000 00000000 0\n\
            2: 00000000:1F91 00000000:0000 07 00000010:00000000 00:00000000 00000000 0\n";
        assert_eq!(bytes_waiting(sockets, 8_080), 2_560);
        assert_eq!(bytes_waiting(sockets, 8_081), 0);
        assert_eq!(bytes_waiting(sockets, 8_082), 0);
        assert_eq!(bytes_waiting("", 8_080), 0);
    }

    #[test]
    fn ffmpeg_gets_no_goodbye_of_a_publisher() {
        let report = [0x80, 201, 0, 1, 0, 0, 0, 7];
        assert_eq!(before_bye(&report), report);
        assert_eq!(before_bye(&BYE), REPORT);
        assert_eq!(before_bye(&BYE[REPORT.len()..]), b"");
        // Length fields that lead beyond the packet's end.
        assert_eq!(before_bye(&[0x80, 201, 255, 255]), [0x80, 201, 255, 255]);
        assert_eq!(before_bye(&[0x80, 201]), [0x80, 201]);
    }
}
