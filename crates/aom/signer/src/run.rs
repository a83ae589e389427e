//! Runs the signer on a port until a signal.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use packet_io::{Nanos, Port, PortError};
use reprise_signer::args::RunOptions;
use reprise_signer::key::{Key, KeyError, VARIABLE};
use reprise_signer::limits::FILL_NONCES;
use reprise_signer::nonces::Pool;
use reprise_signer::{Counters, Signer};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

/// The most frames that are read before the first of them is sent.
const FRAMES_AT_ONCE: usize = 64;
/// The longest wait for a frame. The wait is bounded because a signal that comes just before the wait does not
/// interrupt it.
const WAIT_MAX: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(
        "--fill {fill}: expected as many nonces as the pool has room for at most, {pool} (--pool)"
    )]
    Fill { fill: u32, pool: u32 },
    #[error("{0}")]
    Io(#[from] io::Error),
}

pub(crate) fn run(options: &RunOptions) -> Result<(), RunError> {
    let fill = options.fill.unwrap_or(options.pool.min(FILL_NONCES));
    if fill > options.pool {
        return Err(RunError::Fill {
            fill,
            pool: options.pool,
        });
    }
    let key = Key::find(options.key.as_deref(), std::env::var(VARIABLE).ok())?;
    privileges::gain_none()?;
    let mut port = packet_io::open(&options.interface)?;
    // Privileges are dropped before the nonce threads start, so that these threads have none either. The port stays
    // open, and nothing is opened later.
    privileges::keep_none()?;
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&is_over))?;
    }
    let pool = if options.fresh_nonces {
        Pool::without()?
    } else {
        let pool = Pool::new(options.pool as usize, options.threads as usize)?;
        pool.fill(fill as usize);
        pool
    };
    let mut signer = Signer::new(key, pool);
    println!("ready: {}", printable::line(&options.interface));
    io::stdout().flush()?;
    let served = serve(&mut *port, &mut signer, &is_over, options.spin);
    report(&signer, &mut *port, options.json)?;
    served
}

fn serve(
    port: &mut dyn Port,
    signer: &mut Signer,
    is_over: &AtomicBool,
    spin: bool,
) -> Result<(), RunError> {
    let began = Instant::now();
    let mut waiter = packet_io::Waiter::default();
    let mut frames: Vec<Vec<u8>> = vec![Vec::new(); FRAMES_AT_ONCE];
    while !is_over.load(Ordering::Relaxed) {
        let n_frames = take(port, began, &mut frames)?;
        let now = began.elapsed();
        for frame in &mut frames[..n_frames] {
            send_on(port, now, |out| signer.handle_frame(now, frame, out))?;
        }
        if signer.poll_timeout().is_some_and(|at| at <= now) {
            send_on(port, now, |out| signer.handle_timeout(now, out))?;
        }
        port.flush()?;
        if n_frames == 0 && !spin {
            let left = signer
                .poll_timeout()
                .map(|at| at.saturating_sub(began.elapsed()));
            let wait = left.unwrap_or(WAIT_MAX).min(WAIT_MAX);
            waiter.wait(port.poll_fd(), Some(wait))?;
        }
    }
    let now = began.elapsed();
    send_on(port, now, |out| signer.finish(now, out))?;
    Ok(port.close()?)
}

fn take(port: &mut dyn Port, began: Instant, frames: &mut [Vec<u8>]) -> Result<usize, PortError> {
    let mut n_frames = 0;
    port.receive(nanos(began.elapsed()), frames.len(), &mut |frame| {
        frames[n_frames].clear();
        frames[n_frames].extend_from_slice(frame);
        n_frames += 1;
    })?;
    Ok(n_frames)
}

/// Runs `work`, and passes to it a function that sends frames on the port. Returns the port's first error.
fn send_on(
    port: &mut dyn Port,
    now: Duration,
    work: impl FnOnce(&mut dyn FnMut(&[u8])),
) -> Result<(), PortError> {
    let mut sent = Ok(());
    work(&mut |frame| {
        if sent.is_ok() {
            sent = port.transmit(nanos(now), frame.into());
        }
    });
    sent
}

fn nanos(since: Duration) -> Nanos {
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn report(signer: &Signer, port: &mut dyn Port, as_json: bool) -> io::Result<()> {
    let named = named(&signer.counters());
    let drops = port.statistics().drops();
    let mut out = io::stdout().lock();
    if as_json {
        let signer: serde_json::Map<_, _> = named
            .iter()
            .map(|(name, n)| ((*name).to_owned(), json!(n)))
            .collect();
        let port: serde_json::Map<_, _> = drops
            .iter()
            .map(|(name, n)| ((*name).to_owned(), json!(n)))
            .collect();
        return writeln!(out, "{}", json!({"signer": signer, "port_drops": port}));
    }
    for (name, n) in named {
        writeln!(out, "{name:>16} {n}")?;
    }
    for (name, n) in drops.into_iter().filter(|(_, n)| *n > 0) {
        writeln!(out, "{name:>16} {n} (dropped at the port)")?;
    }
    Ok(())
}

fn named(counters: &Counters) -> [(&'static str, u64); 11] {
    let Counters {
        received,
        linked,
        signed,
        signed_late,
        wrong_digest,
        not_stamped,
        repeated,
        old_epoch,
        gaps,
        ended_unsigned,
        evicted,
    } = *counters;
    [
        ("received", received),
        ("linked", linked),
        ("signed", signed),
        ("signed late", signed_late),
        ("wrong digest", wrong_digest),
        ("not stamped", not_stamped),
        ("repeated", repeated),
        ("old epoch", old_epoch),
        ("gaps", gaps),
        ("ended unsigned", ended_unsigned),
        ("evicted", evicted),
    ]
}
