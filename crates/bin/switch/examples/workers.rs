//! Measures the gain from a second worker: copies a second on ports in memory, with the native engine and the
//! replication program of the SFU, alternately with one worker and with two.
//!
//! Run `cargo run --release -p reprise-switch --example workers -- [ROUNDS] [WORKERS]` in the project's folder. The
//! copies per second are meaningful only if each worker has a quiet core. The copies per second of the worker's
//! processor time need no quiet core, and show what workers cost each other. The last lines are the ratios of the
//! medians.

use std::{
    fs,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use packet_io::{Nanos, Port, PortError, PortStatistics};
use reprise_switch::Parts;

const DURATION: Duration = Duration::from_secs(1);
const FRAME_BYTES: usize = 1400;

/// Buffers for copies: as many as a port has in progress at once.
const SLOTS: usize = 64;

/// Batches between two readings of the thread's processor time, each of which takes some microseconds.
const BATCHES_PER_LOOK: u64 = 256;

/// A worker's processor time and copies so far.
#[derive(Debug, Clone, Copy)]
struct Look {
    cpu_ns: u64,
    copies: u64,
}

type Looks = Arc<Mutex<Option<[Look; 2]>>>;

/// A port that always has frames, and room for everything sent.
struct Endless {
    frame: Vec<u8>,
    slots: Vec<[u8; 2048]>,
    statistics: PortStatistics,
    n_batches: u64,
    looks: Looks,
}

impl Endless {
    fn new(looks: Looks) -> Endless {
        Endless {
            frame: presenter_frame(),
            slots: vec![[0; 2048]; SLOTS],
            statistics: PortStatistics::default(),
            n_batches: 0,
            looks,
        }
    }

    /// Records the calling thread's processor time and the copies so far. Must run on the worker's own thread.
    fn look(&self) {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let Some(Ok(cpu_ns)) = text.split_whitespace().next().map(str::parse) else {
            return;
        };
        let look = Look {
            cpu_ns,
            copies: self.statistics.tx_frames,
        };
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.get_or_insert([look; 2])[1] = look;
    }
}

/// A packet of the presenter of `testdata/trace/sfu.txtpb` to the SFU.
fn presenter_frame() -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 1, 4], [2, 0, 0, 0, 1, 0x64])
        .ipv4([10, 0, 1, 4], [10, 0, 1, 100], 64)
        .udp(40_000, 5004);
    let payload = vec![0xab; FRAME_BYTES - builder.size(0)];
    let mut frame = Vec::new();
    // Writing to a vector does not fail.
    let _ = builder.write(&mut frame, &payload);
    frame
}

impl Port for Endless {
    fn name(&self) -> &str {
        "memory"
    }

    fn receive(
        &mut self,
        _now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        if self.n_batches.is_multiple_of(BATCHES_PER_LOOK) {
            self.look();
        }
        self.n_batches += 1;
        for _ in 0..max_frames {
            self.statistics.rx_frames += 1;
            self.statistics.rx_bytes += self.frame.len() as u64;
            take(&self.frame);
        }
        Ok(max_frames)
    }

    fn transmit(&mut self, _now: Nanos, frame: packet_io::Frame<'_>) -> Result<(), PortError> {
        let n_bytes = frame.len();
        let slot = &mut self.slots[self.statistics.tx_frames as usize % SLOTS];
        if n_bytes > slot.len() {
            self.statistics.tx_too_long += 1;
            return Ok(());
        }
        slot[..frame.head.len()].copy_from_slice(frame.head);
        slot[frame.head.len()..n_bytes].copy_from_slice(frame.payload);
        self.statistics.tx_frames += 1;
        self.statistics.tx_bytes += n_bytes as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        std::hint::black_box(&self.slots);
        Ok(())
    }

    fn next_frame_at(&self) -> Option<Nanos> {
        Some(0)
    }

    fn statistics(&mut self) -> PortStatistics {
        self.statistics
    }
}

/// The rates of all workers together.
#[derive(Debug, Clone, Copy)]
struct Rates {
    real: f64,
    /// Copies in a second of each worker's processor time, summed over all workers.
    cpu: f64,
}

fn measure(n_workers: usize) -> Result<Rates, String> {
    let looks: Vec<Looks> = (0..n_workers).map(|_| Looks::default()).collect();
    let ports = looks.iter().map(|looks| {
        let port: Box<dyn Port> = Box::new(Endless::new(Arc::clone(looks)));
        vec![(1, port)]
    });
    let n = n_workers.to_string();
    let arguments = [
        "--workers",
        &n,
        "--engine",
        "native",
        "--wait",
        "spin",
        "--grpc",
        "127.0.0.1:0",
        "--entries",
        "testdata/trace/sfu.txtpb",
        "p4/sfu.p4",
    ];
    let forwarded =
        reprise_switch::forward(&arguments, &Parts::default(), ports.collect(), || {
            thread::sleep(DURATION)
        })?;
    let totals: serde_json::Value =
        serde_json::from_str(&forwarded.totals).map_err(|error| error.to_string())?;
    let copies = totals["packets"]["transmitted"].as_f64().unwrap_or(0.0);
    if copies == 0.0 {
        return Err(format!("nothing was forwarded: {totals}"));
    }
    let cpu_rates = looks.iter().map(|looks| {
        let looks = looks.lock().unwrap_or_else(PoisonError::into_inner);
        let [first, last] = looks.ok_or("the kernel tells no thread's processor time")?;
        let copies = (last.copies - first.copies) as f64;
        match last.cpu_ns - first.cpu_ns {
            0 => Err("a worker had no processor at all".to_owned()),
            cpu_ns => Ok(copies / (cpu_ns as f64 / 1e9)),
        }
    });
    Ok(Rates {
        real: copies / forwarded.elapsed.as_secs_f64(),
        cpu: cpu_rates.sum::<Result<f64, String>>()?,
    })
}

fn median(rates: &[Rates], of: fn(&Rates) -> f64) -> f64 {
    let mut values: Vec<f64> = rates.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), String> {
    let mut words = std::env::args().skip(1).map(|word| word.parse());
    let mut number = |default| words.next().unwrap_or(Ok(default));
    let said = |error: std::num::ParseIntError| format!("expected a number: {error}");
    let n_rounds = number(5).map_err(said)?.max(1);
    let n_workers = number(2).map_err(said)?.max(1);
    let (mut one, mut several) = (Vec::new(), Vec::new());
    println!("workers copies_per_s copies_per_cpu_s");
    for round in 0..n_rounds {
        let mut pair = [(1, &mut one), (n_workers, &mut several)];
        // Reverses the order in every second round.
        if round % 2 == 1 {
            pair.reverse();
        }
        for (workers, rates) in pair {
            let rate = measure(workers)?;
            println!("{workers} {:.0} {:.0}", rate.real, rate.cpu);
            rates.push(rate);
        }
    }
    let ratio = |of: fn(&Rates) -> f64| median(&several, of) / median(&one, of);
    println!(
        "{n_workers} workers give {:.2} times one in a second",
        ratio(|it| it.real)
    );
    println!(
        "{n_workers} workers give {:.2} times one in as much processor time each",
        ratio(|it| it.cpu)
    );
    Ok(())
}
