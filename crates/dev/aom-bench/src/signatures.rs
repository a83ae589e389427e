//! Measures the cost of a signature. Whole packets pass through the signer in memory. Measurements with a full pool of
//! nonces alternate with measurements in which each signature computes a new nonce.

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use aom::wire::{UDP_PORT, Variant};
use clap::Args;
use reprise_signer::Signer;
use reprise_signer::key::Key;
use reprise_signer::nonces::Pool;
use serde_json::{Value, json};

use crate::frames;

#[derive(Debug, Args)]
pub(crate) struct Signatures {
    /// Packets of one measurement
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    packets: u32,
    /// Measurements of each kind
    #[arg(long, value_name = "N", default_value_t = 9)]
    turns: usize,
}

impl Signatures {
    pub(crate) fn run(&self) -> io::Result<Value> {
        let mut pooled = Vec::new();
        let mut fresh = Vec::new();
        for _ in 0..self.turns {
            pooled.push(self.turn(true)?);
            fresh.push(self.turn(false)?);
        }
        Ok(json!({ "packets": self.packets, "pooled_per_s": pooled, "fresh_per_s": fresh }))
    }

    /// Signs the packets of one measurement. Returns the number of packets per second.
    fn turn(&self, is_pooled: bool) -> io::Result<f64> {
        // No thread refills the pool during the measurement. A full pool of this capacity stays above the low-water
        // mark; a pool of one nonce is either full or empty.
        let capacity = if is_pooled {
            2 * self.packets as usize
        } else {
            1
        };
        let pool = Pool::new(capacity, 0)?;
        if is_pooled {
            pool.fill(capacity);
        }
        let mut signer = Signer::new(Key::random(), pool);
        let mut frames: Vec<Vec<u8>> = (1..=self.packets).map(stamped).collect();
        let mut n_sent = 0;
        let began = Instant::now();
        for frame in &mut frames {
            if !is_pooled {
                signer.pool().fill(1);
            }
            signer.handle_frame(Duration::ZERO, frame, &mut |_| n_sent += 1);
        }
        let seconds = began.elapsed().as_secs_f64();
        let signed = signer.counters().signed;
        let all = u64::from(self.packets);
        if signed != all || n_sent != self.packets {
            return Err(io::Error::other(format!(
                "{signed} of {all} packets were signed, {n_sent} sent"
            )));
        }
        Ok(f64::from(self.packets) / seconds)
    }
}

/// Makes a packet as the sequencer sends it to its signer.
fn stamped(number: u32) -> Vec<u8> {
    let addresses = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(239, 1, 0, 1));
    let mut frame = frames::frame(Variant::Signed, addresses, UDP_PORT, number as usize, 4);
    let payload = &mut frame[frames::BEFORE..];
    payload[0] = 3;
    payload[4] = 1;
    payload[7] = 1;
    payload[8..12].copy_from_slice(&number.to_be_bytes());
    frame
}
