//! Prints the nanoseconds that a packet takes in the kernel, by `BPF_PROG_TEST_RUN`: `kernel_speed [REPEAT]`, as root.
//!
//! For the pipelines of `p4/bench`, the example runs each frame of their STF tests; for `p4/sfu.p4`, a presenter's
//! packet and its copies.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it stops at what it did not expect"
)]

use dataplane::{PortId, SwitchConfig};
use testkit::repository::root;
use testkit::xdp::checked::{Report, checked_switch};
use testkit::xdp::kernel::Kernel;
use testkit::xdp::{program_at, sfu};

fn print(name: &str, report: &Report) {
    println!(
        "{name}: {} instructions, {} verified; ns a frame or copy: {:?}",
        report.n_instructions, report.n_verified, report.times_ns
    );
}

/// The cost of a run that only finds that its interface is not a port of ours.
fn baseline(repeat: u32) -> u128 {
    let program = program_at(&root().join("p4/bench/l3.p4")).unwrap();
    let kernel = Kernel::new(&program).unwrap();
    kernel.time_of_strangers(&sfu::frame(&[7; 1300]), repeat)
}

fn main() {
    let repeat = std::env::args().nth(1);
    let repeat: u32 = repeat.map_or(100_000, |repeat| repeat.parse().unwrap());
    println!("a frame of the host's: {} ns", baseline(repeat));
    let (mut switch, report) = checked_switch(SwitchConfig::default());
    report.lock().unwrap().repeat = repeat;
    (0..4).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program_at(&root().join("p4/sfu.p4")).unwrap());
    sfu::set_up(&mut switch, 3);
    switch.handle_frame(0, sfu::PORT, &sfu::frame(&[7; 1300]));
    while switch.poll_transmit(0).is_some() {}
    print("sfu", &report.lock().unwrap());
    for name in ["bench_l2", "bench_l3", "bench_l2l3", "bench_l2l3_acl"] {
        let path = root().join("testdata/realistic").join(name);
        let text = std::fs::read_to_string(path.with_extension("stf")).unwrap();
        let commands = stf::parse(&text).unwrap();
        let (switch, report) = checked_switch(SwitchConfig::default());
        report.lock().unwrap().repeat = repeat;
        let program = stf::program_beside(&path.with_extension("stf")).unwrap();
        stf::run_on(switch, program, &commands, None);
        print(name, &report.lock().unwrap());
    }
}
