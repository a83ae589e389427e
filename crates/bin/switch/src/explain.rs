//! `--explain-engine` and `--listing`: they print how the engines run a program.

use dataplane::Switch;
use dataplane_xdp::compile::compile;
use dataplane_xdp::image::Room;

use crate::{say, say_lines};

/// Prints which engine runs the program, and which constructs it leaves to the interpreter.
pub(crate) fn engine(switch: &mut Switch) {
    let name = switch.engine_name();
    let interpreted = switch.interpreted();
    if interpreted.is_empty() {
        return say(&format!("engine: {name}, the whole program"));
    }
    say(&format!("engine: {name}; the interpreter runs:"));
    for construct in interpreted {
        say(&format!("  {}: {}", construct.place, construct.reason));
    }
}

/// Prints the eBPF code that the kernel engine would make of the program, whichever engine runs it. This needs neither
/// XDP ports nor permissions.
pub(crate) fn listing(switch: &mut Switch) {
    let Some(program) = switch.program() else {
        return say("listing: there is no program");
    };
    match compile(program, &Room::default()) {
        Ok(image) => say_lines(image.listing().trim_end()),
        Err(refused) => say(&format!(
            "listing: the kernel can run nothing of the program: {refused}"
        )),
    }
}
