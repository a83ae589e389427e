//! Sends requests at a given rate into one interface, and receives every copy of each request from another interface.
//! One thread both sends and receives, so that a machine with two processors has one processor left for the switch.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use aom::wire::{LANES, UDP_PORT, Variant};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use packet_io::{Port, PortError};
use serde_json::{Value, json};

use crate::frames::{self, N_MARKS, PLAIN_UDP_PORT, Seen};

/// The quantiles that are reported, in percent. A quantile needs at least ten samples above it.
const QUANTILES_PCT: [f64; 9] = [0.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999];
/// The number of frames that are sent before the thread looks for received frames again.
const SENT_AT_ONCE: u32 = 8;
const RECEIVED_AT_ONCE: usize = 64;
/// The longest delay of the histogram, a minute. A longer delay counts as a minute.
const DELAY_MAX_NS: u64 = 60_000_000_000;
/// The outstanding packets count as lost after this time without a received packet.
const QUIET: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// AOM-HM
    Tagged,
    /// AOM-PK
    Signed,
    /// Frames as long as AOM-HM's, to a station that the switch does not know, so that the switch floods them
    Plain,
}

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The interface through which requests are sent: NAME or afpacket:NAME, or afxdp:NAME
    #[arg(long, value_name = "INTERFACE")]
    send: String,
    /// The interface through which copies are received
    #[arg(long, value_name = "INTERFACE")]
    receive: String,
    #[arg(long, value_enum)]
    kind: Kind,
    /// The group's address
    #[arg(long, value_name = "ADDRESS")]
    group: Ipv4Addr,
    /// The number of the group's receivers; for plain frames, the number of copies that the switch makes
    #[arg(long, value_name = "N")]
    receivers: u16,
    /// The last byte of the first receiver's address
    #[arg(long, value_name = "N")]
    first_receiver: u8,
    /// Requests per second
    #[arg(long, value_name = "N")]
    rate: f64,
    /// How long requests are sent, in seconds
    #[arg(long, value_name = "S")]
    seconds: f64,
    /// Bytes of a message, 4 of which identify the request
    #[arg(long, value_name = "N", default_value_t = 14)]
    message_bytes: usize,
    /// Write the histogram of the delays to this file: on each line a delay in nanoseconds and its count
    #[arg(long, value_name = "FILE")]
    delays: Option<std::path::PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("expected a rate and seconds above 0, found {0} and {1}")]
    Numbers(f64, f64),
    #[error("the histogram: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
    #[error("{0}: {1}")]
    File(String, std::io::Error),
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    sent_at: Instant,
    /// The number of the request's packets that the first receiver has not received yet. Of a request of
    /// `Kind::Tagged`, each receiver gets one packet for every `LANES` receivers of the group; of any other request,
    /// each receiver gets one packet.
    n_left: u16,
}

struct Counts {
    copies: u64,
    signed: u64,
    others: u64,
    whole: u64,
    delays_ns: Histogram<u64>,
}

impl Load {
    pub(crate) fn run(&self) -> Result<Value, LoadError> {
        if !(self.rate > 0.0 && self.seconds > 0.0) {
            return Err(LoadError::Numbers(self.rate, self.seconds));
        }
        let mut run = Run::new(self)?;
        let began = Instant::now();
        let n_requests = (self.rate * self.seconds).ceil() as u64;
        let mut latest = Duration::ZERO;
        while run.n_sent < n_requests {
            latest = latest.max(run.send_what_is_due(began, n_requests)?);
            run.receive()?;
        }
        let sending = began.elapsed();
        let copies_while_sending = run.seen.copies;
        let mut received_at = Instant::now();
        while run.seen.copies < run.n_due() && received_at.elapsed() < QUIET {
            if run.receive()? > 0 {
                received_at = Instant::now();
            }
        }
        self.write_delays(&run.seen.delays_ns)?;
        Ok(run.document(sending, copies_while_sending, latest))
    }

    fn variant(&self) -> Variant {
        match self.kind {
            Kind::Tagged | Kind::Plain => Variant::Tagged,
            Kind::Signed => Variant::Signed,
        }
    }

    /// Returns the number of packets that each receiver gets for a request.
    fn n_shards(&self) -> u16 {
        match self.kind {
            Kind::Tagged => self.receivers.div_ceil(LANES as u16),
            Kind::Signed | Kind::Plain => 1,
        }
    }

    fn write_delays(&self, delays_ns: &Histogram<u64>) -> Result<(), LoadError> {
        let Some(path) = &self.delays else {
            return Ok(());
        };
        let lines: String = delays_ns
            .iter_recorded()
            .map(|it| {
                format!(
                    "{},{}\n",
                    it.value_iterated_to(),
                    it.count_since_last_iteration()
                )
            })
            .collect();
        let failed = |error| LoadError::File(path.display().to_string(), error);
        std::fs::write(path, format!("delay_ns,count\n{lines}")).map_err(failed)
    }
}

/// The state of a measurement.
struct Run<'a> {
    load: &'a Load,
    sender: Box<dyn Port>,
    receiver: Box<dyn Port>,
    frames: Vec<Vec<u8>>,
    under_way: Vec<Option<UnderWay>>,
    n_sent: u64,
    seen: Counts,
}

impl<'a> Run<'a> {
    fn new(load: &'a Load) -> Result<Run<'a>, LoadError> {
        let from = Ipv4Addr::new(10, 0, 0, 1);
        let udp_port = match load.kind {
            Kind::Plain => PLAIN_UDP_PORT,
            Kind::Tagged | Kind::Signed => UDP_PORT,
        };
        let to = (from, load.group);
        let frame = |mark| frames::frame(load.variant(), to, udp_port, mark, load.message_bytes);
        Ok(Run {
            load,
            sender: packet_io::open(&load.send)?,
            receiver: packet_io::open(&load.receive)?,
            frames: (0..N_MARKS).map(frame).collect(),
            under_way: vec![None; N_MARKS],
            n_sent: 0,
            seen: Counts {
                copies: 0,
                signed: 0,
                others: 0,
                whole: 0,
                delays_ns: Histogram::new_with_bounds(1, DELAY_MAX_NS, 2)?,
            },
        })
    }

    fn n_due(&self) -> u64 {
        let load = self.load;
        self.n_sent * u64::from(load.n_shards()) * u64::from(load.receivers)
    }

    /// Sends the requests that are due, at most `SENT_AT_ONCE`. Returns by how much the last request was late.
    fn send_what_is_due(&mut self, began: Instant, n_max: u64) -> Result<Duration, PortError> {
        let mut late = Duration::ZERO;
        for _ in 0..SENT_AT_ONCE {
            let due = began + Duration::from_secs_f64(self.n_sent as f64 / self.load.rate);
            let now = Instant::now();
            if now < due || self.n_sent == n_max {
                break;
            }
            late = now - due;
            let mark = self.n_sent as usize % N_MARKS;
            self.under_way[mark] = Some(UnderWay {
                sent_at: now,
                n_left: self.load.n_shards(),
            });
            let frame = self.frames[mark].as_slice().into();
            self.sender.transmit(0, frame)?;
            self.n_sent += 1;
        }
        self.sender.flush()?;
        Ok(late)
    }

    fn receive(&mut self) -> Result<usize, PortError> {
        let Run {
            load,
            receiver,
            under_way,
            seen,
            ..
        } = self;
        let variant = load.variant();
        receiver.receive(
            0,
            RECEIVED_AT_ONCE,
            &mut |frame| match frames::seen(frame, variant) {
                Some(copy) => take(load, under_way, seen, copy),
                None => seen.others += 1,
            },
        )
    }

    fn document(
        &mut self,
        sending: Duration,
        copies_while_sending: u64,
        latest: Duration,
    ) -> Value {
        let delays = &self.seen.delays_ns;
        let measured = QUANTILES_PCT.iter().filter(|pct| {
            let above = (100.0 - **pct) / 100.0 * delays.len() as f64;
            **pct == 0.0 || above >= 10.0
        });
        let quantiles =
            measured.map(|pct| (pct.to_string(), json!(delays.value_at_percentile(*pct))));
        let drops = self.receiver.statistics().drops();
        let drops = drops
            .into_iter()
            .map(|(name, n)| (name.to_owned(), json!(n)));
        json!({
            "sent": self.n_sent,
            "seconds": sending.as_secs_f64(),
            "latest_ns": latest.as_nanos() as u64,
            "copies": self.seen.copies,
            "copies_due": self.n_due(),
            "copies_while_sending": copies_while_sending,
            "signed_copies": self.seen.signed,
            "others": self.seen.others,
            "whole": self.seen.whole,
            "samples": delays.len(),
            "max_ns": delays.max(),
            "delay_ns": quantiles.collect::<serde_json::Map<_, _>>(),
            "receiver_drops": drops.collect::<serde_json::Map<_, _>>(),
        })
    }
}

fn take(load: &Load, under_way: &mut [Option<UnderWay>], seen: &mut Counts, copy: Seen) {
    seen.copies += 1;
    seen.signed += u64::from(copy.is_signed);
    if load.kind != Kind::Plain && copy.to != load.first_receiver {
        return;
    }
    let place = &mut under_way[copy.mark];
    let Some(request) = place else {
        return;
    };
    request.n_left -= 1;
    if request.n_left == 0 {
        let delay = request.sent_at.elapsed().as_nanos() as u64;
        seen.delays_ns.saturating_record(delay);
        seen.whole += 1;
        *place = None;
    }
}
