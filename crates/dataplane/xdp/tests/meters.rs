//! Tests meters in the kernel: they give the same colours as the interpreter's meters, the control plane sets their
//! rates and reads their counts, and no meter of `p4/conference.p4` is left to the engine in user space. The tests
//! cannot stop the kernel's clock, so most rates here are 0: a bucket then starts with the tokens of its burst and
//! never gets more tokens.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Barrier;
use std::time::{Duration, Instant};

use dataplane::color::{GREEN, RED, YELLOW};
use dataplane::engine::ir::{Int, Matcher};
use dataplane::{
    CounterValue, DropReason, MatchField, MeterConfig, MeterCounts, PortId, Switch, SwitchConfig,
    TableEntry,
};
use dataplane_xdp::compile::compile;
use dataplane_xdp::image::{MeterLayout, NEVER, Room};
use fastrand::Rng;
use testkit::namespace::{in_root_namespace, interface_index};
use testkit::repository::root;
use testkit::xdp::beside::{Beside, burst as bursts, frame, left, packets};
use testkit::xdp::kernel::{End, Kernel};
use testkit::xdp::program_at;

const CELL: u16 = 3;
const N_CELLS: u16 = 8;
const OUT: PortId = PortId(2);
/// What the program writes where no meter has given a colour.
const NO_COLOR: u8 = 3;

fn program() -> dataplane::Program {
    program_at(&root().join("crates/dataplane/xdp/tests/programs/meters.p4")).unwrap()
}

/// The program in the kernel, with an entry for frames to address 1.
struct Alone {
    kernel: Kernel,
    direct: MeterLayout,
    cells: MeterLayout,
}

impl Alone {
    fn new(cell: u16) -> Self {
        let mut kernel = Kernel::new(&program()).unwrap();
        assert_eq!(kernel.image.left, []);
        kernel.forward_to(OUT, true);
        let layout = kernel.image.tables[0].clone();
        let args = [Int::from(OUT.0), Int::from(cell)];
        kernel.put_slot(&layout, 1, 0, 0, &layout.encode_slot(0, &args));
        kernel.put_slot(&layout, 1, 1, NEVER, &layout.encode_slot(0, &args));
        let key = u64::from_be_bytes([0, 0, 2, 0, 0, 0, 0, 1]);
        kernel.put_key(&layout, &[Matcher::Exact(key.into())], 1);
        let forward_all = layout.encode_slot(0, &args);
        kernel.put_slot(&layout, 0, 0, 0, &forward_all);
        kernel.put_slot(&layout, 0, 1, NEVER, &forward_all);
        Self {
            direct: kernel.image.direct_meters[0].clone().unwrap(),
            cells: kernel.image.meters[0].clone().unwrap(),
            kernel,
        }
    }

    fn set(&self, layout: &MeterLayout, cell: u32, config: Option<MeterConfig>) {
        let slot = layout.encode_slot(config, bpf::kernel_clock_ns());
        self.kernel.put_slot(&layout.cells, cell, 0, 0, &slot);
        self.kernel.put_slot(&layout.cells, cell, 1, NEVER, &slot);
    }

    /// Runs the program on a frame. Returns the colours that the entry's meter and the array's meter have given to it,
    /// or `None` if the frame is punted.
    fn colors(&self, frame: &[u8]) -> Option<[u8; 2]> {
        match self.kernel.run(PortId(1), frame).end {
            End::Send(OUT, frame) => Some([frame[18], frame[19]]),
            End::Punt => None,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns a switch that runs the same program in the interpreter.
fn interpreter(direct: MeterConfig, cell: MeterConfig) -> Switch {
    let mut switch = Switch::new(SwitchConfig::default());
    switch.add_port(PortId(1));
    switch.add_port(OUT);
    let program = program();
    let table = program.table("ExchangeIngress.addresses").unwrap();
    let action = program.action_of(table, "ExchangeIngress.forward");
    let action = action.unwrap();
    let meter = program.meter("ExchangeIngress.rates").unwrap();
    switch.set_program(program);
    let args = [OUT.0, CELL].map(|arg| arg.to_be_bytes().to_vec()).to_vec();
    let call = dataplane::ActionCall { action, args };
    let mut entry = TableEntry::new(vec![MatchField::Exact(vec![2, 0, 0, 0, 0, 1])], 0, call);
    entry.meter = Some(direct);
    switch.insert_entry(table, entry).unwrap();
    switch
        .set_meter_cell(meter, CELL.into(), Some(cell))
        .unwrap();
    switch
}

fn interpreted(switch: &mut Switch, frame: &[u8]) -> [u8; 2] {
    switch.handle_frame(0, PortId(1), frame);
    let sent = switch.poll_transmit(0).unwrap().to_owned();
    [sent.frame[18], sent.frame[19]]
}

fn burst(committed_burst: u64, peak_burst: u64) -> MeterConfig {
    MeterConfig {
        committed_burst,
        peak_burst,
        ..MeterConfig::default()
    }
}

#[test]
fn colors_of_bursts_are_the_interpreter_s() {
    let alone = Alone::new(CELL);
    let mut seen = [[0; 3]; 2];
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let direct = burst(rng.u64(..8_000), rng.u64(..12_000));
        let cell = burst(rng.u64(..12), rng.u64(..16));
        alone.set(&alone.direct, 1, Some(direct));
        alone.set(&alone.cells, CELL.into(), Some(cell));
        let mut switch = interpreter(direct, cell);
        for n in 0..20 {
            let mut frame = frame(1, n);
            frame.resize(rng.usize(60..1_400), 7);
            let expected = interpreted(&mut switch, &frame);
            assert_eq!(alone.colors(&frame), Some(expected), "seed {seed}, {n}");
            for (seen, color) in seen.iter_mut().zip(expected) {
                seen[usize::from(color)] += 1;
            }
        }
    }
    let n_seen = seen.as_flattened();
    assert!(n_seen.iter().all(|n| *n > 50), "{seen:?}");
}

#[test]
fn without_rates_all_is_green_and_without_a_cell_nothing_is_written() {
    let alone = Alone::new(CELL);
    assert_eq!(alone.colors(&frame(1, 0)), Some([GREEN, GREEN]));
    alone.set(&alone.direct, 1, None);
    assert_eq!(alone.colors(&frame(1, 0)), Some([GREEN, GREEN]));
    // On a miss no entry's meter runs.
    alone.set(&alone.direct, 0, Some(burst(0, 0)));
    assert_eq!(alone.colors(&frame(9, 0)), Some([NO_COLOR, GREEN]));
    let beyond = Alone::new(N_CELLS);
    assert_eq!(beyond.colors(&frame(1, 0)), Some([GREEN, NO_COLOR]));
}

#[test]
fn an_excess_burst_is_left_to_the_engine() {
    let alone = Alone::new(CELL);
    let excess = MeterConfig {
        excess_burst: 1,
        ..MeterConfig::default()
    };
    alone.set(&alone.cells, CELL.into(), Some(excess));
    assert_eq!(alone.colors(&frame(1, 0)), None);
    alone.set(&alone.cells, CELL.into(), None);
    alone.set(&alone.direct, 1, Some(excess));
    assert_eq!(alone.colors(&frame(1, 0)), None);
}

#[test]
fn tokens_come_as_time_passes() {
    const RATE: u64 = 500;
    const BURST: u64 = 5;
    let alone = Alone::new(CELL);
    let rates = MeterConfig {
        committed_rate: RATE,
        committed_burst: BURST,
        peak_rate: 2 * RATE,
        peak_burst: 2 * BURST,
        ..MeterConfig::default()
    };
    alone.set(&alone.cells, CELL.into(), Some(rates));
    let start = Instant::now();
    let mut n = [0_u64; 3];
    while start.elapsed() < Duration::from_millis(200) {
        let [_, color] = alone.colors(&frame(1, 0)).unwrap();
        n[usize::from(color)] += 1;
    }
    let micros = start.elapsed().as_micros() as u64;
    let [green, yellow, red] = n;
    let most = |rate, burst| rate * micros / 1_000_000 + burst + 1;
    assert!(green <= most(RATE, BURST), "{n:?} in {micros} us");
    assert!(green + yellow <= most(2 * RATE, 2 * BURST), "{n:?}");
    // The test sends all the time, so no bucket overflows and loses tokens, unless the machine pauses for longer than a
    // bucket takes to fill.
    assert!(green > BURST && yellow > BURST && red > 0, "{n:?}");
}

/// The program in the kernel beside a switch, on real ports.
struct Metered(Beside);

impl Metered {
    /// Starts the program, and inserts an entry with these rates for frames to address 1.
    fn new(config: Option<MeterConfig>) -> Self {
        let mut metered = Self(Beside::with("meters.p4", |_| {}));
        metered.0.assert_forwards();
        metered.insert(config);
        metered.0.drain();
        metered
    }

    fn entry(&self, cell: u16, meter: Option<MeterConfig>) -> TableEntry {
        let mut entry = self.0.entry(1, "forward", &[1, cell]);
        entry.meter = meter;
        entry
    }

    fn insert(&mut self, meter: Option<MeterConfig>) {
        let entry = self.entry(CELL, meter);
        self.0.switch.insert_entry(self.0.table, entry).unwrap();
    }

    /// Sends frames of 100 bytes and asserts that they leave with these colours.
    fn assert_colors(&mut self, expected: &[[u8; 2]]) {
        let n = expected.len();
        self.0.send(0, (0..n).map(|n| frame(1, n as u32)));
        let colored =
            |(n, colors): (usize, &[u8; 2])| left(1, n as u32, u16::from_be_bytes(*colors));
        let expected: Vec<_> = expected.iter().enumerate().map(colored).collect();
        assert_eq!(self.0.receive(1, n), expected);
    }

    fn set_cell(&mut self, config: Option<MeterConfig>) {
        let program = self.0.switch.program().unwrap();
        let meter = program.meter("ExchangeIngress.rates").unwrap();
        let set = self.0.switch.set_meter_cell(meter, CELL.into(), config);
        set.unwrap();
        self.0.drain();
    }

    fn cell_counts(&mut self) -> MeterCounts {
        self.0.switch.collect();
        let program = self.0.switch.program().unwrap();
        let meter = program.meter("ExchangeIngress.rates").unwrap();
        self.0.switch.meter_counts(meter, CELL.into()).unwrap()
    }

    fn counts(&mut self) -> MeterCounts {
        self.0.switch.collect();
        let key = self.0.key(1);
        self.0
            .switch
            .entry(self.0.table, &key, 0)
            .unwrap()
            .meter_counts
    }
}

fn counts(colors: [u64; 3]) -> MeterCounts {
    let [green, yellow, red]: [CounterValue; 3] = colors.map(packets);
    MeterCounts { green, yellow, red }
}

const G: u8 = GREEN;
const Y: u8 = YELLOW;
const R: u8 = RED;

#[test]
fn rates_are_written_and_counts_are_read() {
    in_root_namespace(|| {
        let mut metered = Metered::new(Some(burst(200, 300)));
        metered.assert_colors(&[[G, G], [G, G], [Y, G], [R, G]]);
        assert_eq!(metered.counts(), counts([2, 1, 1]));
        assert_eq!(metered.cell_counts(), counts([4, 0, 0]));

        // Setting a cell of the array fills its buckets, also if the cell was set before.
        for _ in 0..2 {
            metered.set_cell(Some(burst(1, 2)));
            metered.assert_colors(&[[R, G], [R, Y], [R, R]]);
        }
        assert_eq!(metered.cell_counts(), counts([6, 2, 2]));
        metered.set_cell(None);

        // The entry keeps its bucket when its action changes, also if the new action uses another cell.
        let entry = metered.entry(CELL, None);
        let table = metered.0.table;
        metered.0.switch.modify_entry(table, entry).unwrap();
        metered.0.drain();
        metered.assert_colors(&[[R, G]]);

        // The entry's meter can be set by itself, or together with the entry.
        let (key, config) = (metered.0.key(1), Some(burst(100, 100)));
        let set = metered.0.switch.set_direct_meter(table, &key, 0, config);
        set.unwrap();
        metered.0.drain();
        metered.assert_colors(&[[G, G], [R, G]]);
        let entry = metered.entry(CELL, Some(burst(0, 100)));
        metered.0.switch.modify_entry(table, entry).unwrap();
        metered.0.drain();
        metered.assert_colors(&[[Y, G], [R, G]]);
        assert_eq!(metered.counts(), counts([3, 2, 10]));

        // After a reset, the counts start again at 0; the buckets keep their tokens.
        let key = metered.0.key(1);
        let reset = metered.0.switch.reset_direct_meter_counts(table, &key, 0);
        reset.unwrap();
        metered.assert_colors(&[[R, G]]);
        assert_eq!(metered.counts(), counts([0, 0, 1]));
        metered.0.assert_accounted();
        assert_eq!(metered.0.n_punted, 0);
    });
}

#[test]
fn an_entry_in_place_of_another_has_a_meter_of_its_own() {
    in_root_namespace(|| {
        let mut metered = Metered::new(Some(burst(100, 100)));
        metered.assert_colors(&[[G, G], [R, G]]);
        for is_one_batch in [true, false] {
            if is_one_batch {
                metered.0.switch.begin_batch();
            }
            metered.0.delete(1);
            metered.insert(Some(burst(100, 200)));
            if is_one_batch {
                metered.0.switch.end_batch();
            }
            metered.0.drain();
            metered.assert_colors(&[[G, G], [Y, G], [R, G]]);
            assert_eq!(metered.counts(), counts([1, 1, 1]));
        }
        metered.0.delete(1);
        metered.insert(None);
        metered.0.drain();
        metered.assert_colors(&[[G, G], [G, G]]);
        assert_eq!(metered.0.n_punted, 0);
    });
}

#[test]
fn processors_share_a_bucket() {
    in_root_namespace(|| {
        const BURSTS: u32 = 1_000;
        const N_GREEN: u64 = 60_000;
        const N_YELLOW: u64 = 40_000;
        // Each processor may let one packet too many pass: a packet that has lost every race for a bucket.
        let n_spare = bpf::n_possible_processors().unwrap() as u64;
        let both = Barrier::new(2);
        let mut metered = Metered::new(None);
        metered.set_cell(Some(burst(N_GREEN, N_GREEN + N_YELLOW)));
        std::thread::scope(|scope| {
            for port in ["out0", "out2"] {
                let interface = interface_index(port);
                let both = &both;
                scope.spawn(move || {
                    both.wait();
                    bursts::send(interface, &frame(0, 0), &[1], BURSTS);
                });
            }
        });
        // A port's ring loses frames when it is full. The program handles the frames that are left in the ring before
        // it handles the frame that is sent here, which it drops. So once the program has dropped a frame, the ring is
        // empty.
        for port in [0, 2] {
            let n_before = metered.0.counters().dropped(DropReason::IngressDrop);
            while metered.0.counters().dropped(DropReason::IngressDrop) == n_before {
                metered.0.send(port, [frame(9, 0)]);
            }
        }
        let counts = metered.cell_counts();
        let [green, yellow, red] = [counts.green, counts.yellow, counts.red].map(|it| it.packets);
        assert!(red > 0, "{counts:?}");
        assert!((N_GREEN..=N_GREEN + n_spare).contains(&green), "{counts:?}");
        let n_served = N_GREEN + N_YELLOW;
        assert!(
            (n_served..=n_served + n_spare).contains(&(green + yellow)),
            "{counts:?}"
        );
        metered.0.assert_accounted();
    });
}

#[test]
fn a_meter_with_an_excess_burst_is_the_native_engine_s() {
    in_root_namespace(|| {
        let excess = MeterConfig {
            committed_burst: 1,
            excess_burst: 1,
            ..MeterConfig::default()
        };
        let mut metered = Metered::new(None);
        metered.set_cell(Some(excess));
        metered.0.send(0, (0..3).map(|n| frame(1, n)));
        metered.0.forward_punted(3);
        let expected = [G, Y, R].into_iter().zip(0..);
        let expected: Vec<_> = expected
            .map(|(color, n)| left(1, n, color.into()))
            .collect();
        assert_eq!(metered.0.receive(1, 3), expected);
        // Each punted frame is counted only once.
        assert_eq!(metered.cell_counts(), counts([1, 1, 1]));
        assert_eq!(metered.counts(), counts([3, 0, 0]));
        metered.set_cell(None);
        metered.assert_colors(&[[G, G]]);
        assert_eq!(metered.0.n_punted, 3);
    });
}

#[test]
fn no_meter_of_the_conference_program_is_left_to_the_engine() {
    let program = program_at(&root().join("p4/conference.p4")).unwrap();
    let image = compile(&program, &Room::default()).unwrap();
    let names = |it: &dataplane::engine::Interpreted| format!("{}: {}", it.place, it.reason);
    let left: Vec<_> = image.left.iter().map(names).collect();
    println!("{left:#?}");
    assert!(!left.iter().any(|it| it.contains("meter")), "{left:#?}");
    assert!(!left.iter().any(|it| it.contains("sockets")), "{left:#?}");
    let n_cells = image.meters.iter().flatten().map(|it| it.cells.body.n);
    assert_eq!(n_cells.collect::<Vec<_>>(), [4096, 512]);
    let n_direct = image.direct_meters.iter().flatten().count();
    assert_eq!(n_direct, 1);
    // The verifier accepts the program.
    Kernel::new(&program).unwrap();
}
