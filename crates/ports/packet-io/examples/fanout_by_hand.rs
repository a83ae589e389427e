//! Measures the capacity of a port: a bare loop sends every arriving frame back as N copies.
//!
//!     cargo run --release -p packet-io --example fanout_by_hand -- afxdp:v1 v0 64 3
//!
//! The first interface gets the loop. The second one, its veth peer, sends 1,400-byte frames and counts the copies that
//! come back; it keeps some hundred copies on their way. The last number is seconds. The loop and the peer spin, so the
//! program takes two cores. Prints copies per second, and the loop's time per copy: the first percentile of its
//! iterations, and the median, which a busy machine disturbs less.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use packet_io::{
    AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, Port, PortError, PortStatistics,
};

const FRAME_BYTES: usize = 1400;

/// Bytes that each copy has of its own: Ethernet, IPv4 and UDP headers.
const HEAD_BYTES: usize = 42;

/// Copies on their way at once.
const WINDOW_COPIES: usize = 256;

/// Copies that have not come after this time are lost.
const TIMEOUT: Duration = Duration::from_millis(20);

fn open(name: &str) -> Result<Box<dyn Port>, PortError> {
    match name.strip_prefix("afxdp:") {
        Some(name) => {
            let port = AfXdpPort::open(name, &AfXdpConfig::default())?;
            println!("{name}: {}", port.mode());
            Ok(Box::new(port))
        }
        None => Ok(Box::new(AfPacketPort::open(
            name,
            AfPacketConfig::default(),
        )?)),
    }
}

/// Iterations whose time is kept.
const SAMPLES: usize = 100_000;

/// Sends every frame back `n_copies` times, with its addresses swapped, until `stop`. Returns the nanoseconds per copy
/// of each iteration.
fn fan_out(port: &mut dyn Port, n_copies: usize, stop: &AtomicBool) -> Result<Vec<u64>, PortError> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut samples = Vec::with_capacity(SAMPLES);
    while !stop.load(Ordering::Relaxed) {
        let (start, mut n_frames) = (Instant::now(), 0);
        port.receive(0, 64, &mut |frame| {
            if frames.len() == n_frames {
                frames.push(Vec::new());
            }
            frames[n_frames].clear();
            frames[n_frames].extend_from_slice(frame);
            n_frames += 1;
        })?;
        for frame in &frames[..n_frames] {
            let (head, payload) = frame.split_at(HEAD_BYTES);
            let mut head: [u8; HEAD_BYTES] = head.try_into().unwrap_or([0; HEAD_BYTES]);
            head[..12].rotate_left(6);
            for _ in 0..n_copies {
                port.transmit(0, [&head, payload].into())?;
            }
        }
        port.flush()?;
        if n_frames > 0 && samples.len() < SAMPLES {
            let n_sent = (n_frames * n_copies) as u64;
            samples.push(start.elapsed().as_nanos() as u64 / n_sent);
        }
    }
    samples.sort_unstable();
    Ok(samples)
}

/// Keeps a window of copies on its way. Returns how many came and how long it took.
fn load(
    port: &mut dyn Port,
    n_copies: usize,
    time: Duration,
) -> Result<(u64, Duration), PortError> {
    let mut frame = vec![0xab; FRAME_BYTES];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    let n_frames = (WINDOW_COPIES / n_copies).max(1);
    let (start, mut n_received) = (Instant::now(), 0);
    while start.elapsed() < time {
        for _ in 0..n_frames {
            port.transmit(0, frame.as_slice().into())?;
        }
        port.flush()?;
        let (mut n_missing, last) = (n_frames * n_copies, Instant::now());
        while n_missing > 0 && last.elapsed() < TIMEOUT {
            let n = port.receive(0, 64, &mut |_| ())?;
            n_received += n as u64;
            n_missing = n_missing.saturating_sub(n);
        }
    }
    Ok((n_received, start.elapsed()))
}

fn print(name: &str, statistics: &PortStatistics) {
    for (reason, count) in statistics
        .drops()
        .into_iter()
        .filter(|(_, count)| *count > 0)
    {
        println!("{name}: {reason} {count}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [inner, outer, n_copies, seconds] = &words[..] else {
        return Err("expected PORT PEER COPIES SECONDS, for example afxdp:v1 v0 64 3".into());
    };
    let (n_copies, seconds): (usize, u64) = (n_copies.parse()?, seconds.parse()?);
    let (mut inside, mut outside) = (open(inner)?, open(outer)?);
    let stop = AtomicBool::new(false);
    let time = Duration::from_secs(seconds.min(60));
    let (samples, (received, took)) = thread::scope(|scope| {
        let forwarder = scope.spawn(|| fan_out(inside.as_mut(), n_copies.max(1), &stop));
        let loaded = load(outside.as_mut(), n_copies.max(1), time);
        stop.store(true, Ordering::Relaxed);
        match forwarder.join() {
            Ok(samples) => Ok::<_, PortError>((samples?, loaded?)),
            Err(panicked) => std::panic::resume_unwind(panicked),
        }
    })?;
    let per_second = received as f64 / took.as_secs_f64();
    println!(
        "{n_copies} copies: {per_second:.0} copies/s, {:.0} ns a copy",
        1e9 / per_second
    );
    if let (Some(best), Some(median)) = (
        samples.get(samples.len() / 100),
        samples.get(samples.len() / 2),
    ) {
        println!("{best} ns a copy in the loop at best, {median} in the median");
    }
    print(inner, &inside.statistics());
    print(outer, &outside.statistics());
    Ok(())
}
