//! Measures the cost of a copy in the switch without a port. The switch gets one packet of 1400 bytes and makes a copy
//! for each viewer. Each copy is then written once into a ring, as a port does.
//!
//! `cargo run --release -p conformance --example fanout` prints CSV. The options after `--` restrict the run:
//! `--fanouts 64` to some fan-outs, `--engines native` to some engines, `--programs replication` to some programs.
//! `--rounds 50` sets the number of rounds, and `--copies 20000` the minimum number of copies in each round.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it measures time, and stops at what it did not expect"
)]

use std::{process::ExitCode, time::Instant};

use conformance::{
    engines::native,
    packet::presenter_frame,
    sfu::{SFU_PORT, Sfu, SfuProgram, Viewer},
};
use dataplane::{Switch, SwitchConfig, Transmit};
use dataplane_jit::NativeOptions;

/// Ethernet, IPv4 and UDP headers.
const HEADERS_BYTES: usize = 42;
const FRAME_BYTES: usize = 1_400;
/// The size of a slot in the ring, in bytes, as in a port's send ring.
const PLACE_BYTES: usize = 2_048;
const PLACES: usize = 512;

struct Arguments {
    engines: Vec<String>,
    programs: Vec<String>,
    fanouts: Vec<u16>,
    rounds: usize,
    copies: usize,
}

fn words(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}

fn arguments() -> Result<Arguments, String> {
    let mut out = Arguments {
        engines: words("interpreter,naive,native"),
        programs: words("replication,recirculation"),
        fanouts: vec![1, 8, 64, 512],
        rounds: 21,
        copies: 20_000,
    };
    let mut given = std::env::args().skip(1);
    while let Some(option) = given.next() {
        let text = given.next().unwrap_or_default();
        let number = || {
            let wrong = |_| format!("{option}: expected a number, found `{text}`");
            text.parse::<usize>().map_err(wrong)
        };
        match option.as_str() {
            "--engines" => out.engines = words(&text),
            "--programs" => out.programs = words(&text),
            "--fanouts" => {
                let numbers = text.split(',').map(str::parse);
                let wrong = |_| format!("--fanouts: expected numbers, found `{text}`");
                out.fanouts = numbers.collect::<Result<_, _>>().map_err(wrong)?;
            }
            "--rounds" => out.rounds = number()?.max(1),
            "--copies" => out.copies = number()?.max(1),
            other => {
                return Err(format!(
                    "unknown option `{other}`; there are --engines, --programs, --fanouts, \
                     --rounds, --copies"
                ));
            }
        }
    }
    Ok(out)
}

/// Makes a switch with the engine of this name: `interpreter`, `naive`, `native`, or `native-NAME` for the native
/// engine without the optimisation NAME.
fn switch(engine: &str) -> Result<Switch, String> {
    let config = SwitchConfig::default();
    let mut options = match engine {
        "interpreter" => return Ok(Switch::new(config)),
        "naive" => NativeOptions::NAIVE,
        _ => NativeOptions::ALL,
    };
    if let Some(name) = engine.strip_prefix("native-") {
        let names = NativeOptions::NAMES.join(", ");
        let unknown = || format!("no optimisation is called `{name}`; there are {names}");
        *options.by_name_mut(name).ok_or_else(unknown)? = false;
    } else if !["naive", "native"].contains(&engine) {
        return Err(format!(
            "no engine is called `{engine}`; there are interpreter, naive, native, native-NAME"
        ));
    }
    Ok(native(options)(config))
}

fn program(name: &str) -> Result<SfuProgram, String> {
    match name {
        "replication" => Ok(SfuProgram::Replication),
        "recirculation" => Ok(SfuProgram::Recirculation),
        other => Err(format!(
            "no program is called `{other}`; there are replication, recirculation"
        )),
    }
}

struct Ring {
    places: Vec<u8>,
    next: usize,
}

impl Ring {
    fn put(&mut self, transmit: Transmit<'_>) {
        let start = self.next * PLACE_BYTES;
        let place = &mut self.places[start..start + PLACE_BYTES];
        let (head, rest) = place.split_at_mut(transmit.frame.head.len());
        head.copy_from_slice(transmit.frame.head);
        rest[..transmit.frame.payload.len()].copy_from_slice(transmit.frame.payload);
        self.next = (self.next + 1) % PLACES;
    }
}

/// Returns the nanoseconds per copy of each round.
fn measure(arguments: &Arguments, sfu: &mut Sfu, fanout: usize) -> Vec<f64> {
    let frame = presenter_frame(64, &[0x5a; FRAME_BYTES - HEADERS_BYTES]);
    assert_eq!(frame.len(), FRAME_BYTES);
    let mut ring = Ring {
        places: vec![0; PLACES * PLACE_BYTES],
        next: 0,
    };
    let n_packets = arguments.copies.div_ceil(fanout);
    let mut now = 0;
    let mut round = || {
        let start = Instant::now();
        let mut n_copies = 0;
        for _ in 0..n_packets {
            now += 1_000;
            sfu.switches.reference.handle_frame(now, SFU_PORT, &frame);
            while let Some(transmit) = sfu.switches.reference.poll_transmit(now) {
                ring.put(transmit);
                n_copies += 1;
            }
        }
        assert_eq!(n_copies, n_packets * fanout);
        start.elapsed().as_nanos() as f64 / n_copies as f64
    };
    round();
    let mut times: Vec<f64> = (0..arguments.rounds).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn run() -> Result<(), String> {
    let arguments = arguments()?;
    println!("program,engine,fanout,ns_per_copy_median,ns_per_copy_best,copies_per_s_median");
    for name in &arguments.programs {
        for engine in &arguments.engines {
            for fanout in &arguments.fanouts {
                let mut sfu = Sfu::on(switch(engine)?, program(name)?);
                let viewers: Vec<Viewer> = (0..*fanout).map(Viewer::nth).collect();
                sfu.set_viewers(&viewers);
                let times = measure(&arguments, &mut sfu, usize::from(*fanout));
                let (best, median) = (times[0], times[times.len() / 2]);
                let rate = 1e9 / median;
                println!("{name},{engine},{fanout},{median:.1},{best:.1},{rate:.0}");
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("fanout: {message}");
            ExitCode::FAILURE
        }
    }
}
