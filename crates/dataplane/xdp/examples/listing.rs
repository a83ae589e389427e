//! Prints a P4 program as eBPF, and the constructs at which packets are punted (left to the engine in user space):
//! `listing FILE.p4`.

use std::path::Path;

use dataplane_xdp::{compile::compile, image::Room};

fn main() -> Result<(), String> {
    let path = std::env::args().nth(1).ok_or("which P4 program?")?;
    let program = stf::load(Path::new(&path), &p4_compiler::Options::default());
    let program = program.map_err(|error| error.to_string())?;
    let image = compile(&program, &Room::default()).map_err(|error| error.to_string())?;
    print!("{}", image.listing());
    for left in &image.left {
        println!("; left: {}: {}", left.place, left.reason);
    }
    Ok(())
}
