//! Tests frames that the native engine parses before it has processed earlier frames. Output and counts must be the
//! same as in the interpreter, which processes one frame after the other, whatever the frames do and whatever control
//! calls come in between.

use conformance::{compile::program_at, engines::Case};
use dataplane_jit::NativeOptions;

const SEED: u64 = 0x0ea6_1e00;
const CASES: u64 = 40;
const FRAMES: usize = 120;

fn options() -> [NativeOptions; 3] {
    let [mut exact, mut packed] = [NativeOptions::ALL; 2];
    exact.megaflow_cache = false;
    packed.inline_editing = false;
    packed.incremental_checksum = false;
    [exact, packed, NativeOptions::ALL]
}

#[test]
fn frames_that_began_early_are_those_one_after_the_other() {
    let program = program_at("crates/dev/conformance/tests/programs/early.p4");
    for seed in SEED..SEED + CASES {
        let case = Case::random(&program, seed, FRAMES).with_frames_together(12);
        if let Some(difference) = case.compare(&program, &options()) {
            panic!("seed {seed:#x}, {difference}");
        }
    }
}
