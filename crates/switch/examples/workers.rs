//! What a second worker brings: copies a second on ports in memory, the native engine and the
//! replication program of the SFU, one worker and two in turn.
//!
//! `cargo run --release -p reprise-switch --example workers -- [ROUNDS] [WORKERS]`, in the project's
//! folder, on a machine with a quiet core for each worker. The medians' ratio is the last line.

use std::time::Duration;

use packet_io::{Nanos, Port, PortError, PortStatistics};

const DURATION: Duration = Duration::from_secs(1);
const FRAME_BYTES: usize = 1400;

/// Where copies are put: as many as a port has in work at once.
const SLOTS: usize = 64;

/// Frames that have always just come, and room for all that leaves.
struct Endless {
    frame: Vec<u8>,
    slots: Vec<[u8; 2048]>,
    statistics: PortStatistics,
}

impl Endless {
    fn new() -> Endless {
        Endless {
            frame: presenter_frame(),
            slots: vec![[0; 2048]; SLOTS],
            statistics: PortStatistics::default(),
        }
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
        for _ in 0..max_frames {
            self.statistics.rx_frames += 1;
            self.statistics.rx_bytes += self.frame.len() as u64;
            take(&self.frame);
        }
        Ok(max_frames)
    }

    fn transmit(&mut self, _now: Nanos, frame: [&[u8]; 2]) -> Result<(), PortError> {
        let n_bytes = frame[0].len() + frame[1].len();
        let slot = &mut self.slots[self.statistics.tx_frames as usize % SLOTS];
        if n_bytes > slot.len() {
            self.statistics.tx_too_long += 1;
            return Ok(());
        }
        slot[..frame[0].len()].copy_from_slice(frame[0]);
        slot[frame[0].len()..n_bytes].copy_from_slice(frame[1]);
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

/// Copies a second.
fn measure(n_workers: usize) -> Result<f64, String> {
    let ports = (0..n_workers).map(|_| vec![(1, Box::new(Endless::new()) as Box<dyn Port>)]);
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
    let forwarded = reprise_switch::forward(&arguments, ports.collect(), DURATION)?;
    let totals: serde_json::Value =
        serde_json::from_str(&forwarded.totals).map_err(|error| error.to_string())?;
    let copies = totals["packets"]["transmitted"].as_f64().unwrap_or(0.0);
    if copies == 0.0 {
        return Err(format!("nothing was forwarded: {totals}"));
    }
    Ok(copies / forwarded.elapsed.as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
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
    println!("workers copies_per_s");
    for _ in 0..n_rounds {
        for (workers, rates) in [(1, &mut one), (n_workers, &mut several)] {
            let rate = measure(workers)?;
            println!("{workers} {rate:.0}");
            rates.push(rate);
        }
    }
    let (one, several) = (median(one), median(several));
    println!("{n_workers} workers give {:.2} times one", several / one);
    Ok(())
}
