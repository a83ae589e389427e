//! Measures what a flow cache's key costs, depending on the number of its fields and on their places in a packet's
//! block (the header vector). The benchmark repeats, with the native engine's hash, an experiment of the paper on
//! PISCES (a P4 software switch). That experiment hashes five fields or two, and moves the hashed fields into the first
//! cache line.
//!
//! `taskset -c 1 cargo bench -p dataplane-jit --bench hash_fields` prints CSV. A packet's block has 512 bytes. Each
//! hashed field is one word. The hashed fields either lie side by side, from the block's first cache line on, or each
//! lies in a cache line of its own. The benchmark looks up `flows` packets in turn, each of a different flow. With many
//! flows, the processor therefore loads the blocks from the second-level cache or beyond, as it does in a switch for
//! packets that a port has just written to memory. Each printed time is the median of the rounds.

use std::{hint::black_box, time::Instant};

use dataplane_jit::lookup::{MISS, exact::ExactMap};

const LINES: usize = 8;
const LINE_WORDS: usize = 8;
const ROUNDS: usize = 15;
const LOOKUPS: usize = 200_000;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Block([u64; LINES * LINE_WORDS]);

#[derive(Clone, Copy)]
enum Placement {
    Together,
    Apart,
}

impl Placement {
    fn name(self) -> &'static str {
        match self {
            Self::Together => "side by side",
            Self::Apart => "a line each",
        }
    }

    fn word(self, field: usize) -> usize {
        match self {
            Self::Together => field,
            Self::Apart => field * LINE_WORDS,
        }
    }
}

#[inline(always)]
fn key<const FIELDS: usize>(block: &Block, placement: Placement) -> [u64; FIELDS] {
    std::array::from_fn(|field| block.0[placement.word(field)])
}

#[inline(never)]
fn round<const FIELDS: usize>(
    map: &ExactMap,
    blocks: &[Block],
    order: &[usize],
    placement: Placement,
) -> u64 {
    let mut found = 0u64;
    for n in 0..LOOKUPS {
        let block = &blocks[order[n % order.len()]];
        let key: [u64; FIELDS] = match placement {
            Placement::Together => key(block, Placement::Together),
            Placement::Apart => key(block, Placement::Apart),
        };
        // `black_box` keeps the compiler from optimising one lookup together with the next.
        let entry = black_box(map.lookup_words(&key));
        found += u64::from(entry != MISS);
    }
    found
}

fn measure<const FIELDS: usize>(flows: usize, placement: Placement) {
    let mut random = fastrand::Rng::with_seed(7);
    let mut map = ExactMap::new(FIELDS);
    let mut blocks = vec![Block([0; LINES * LINE_WORDS]); flows];
    for (number, block) in (0..).zip(&mut blocks) {
        for field in 0..FIELDS {
            block.0[placement.word(field)] = random.u64(..);
        }
        map.insert(&key::<FIELDS>(block, placement), number);
    }
    let mut order: Vec<usize> = (0..flows).collect();
    random.shuffle(&mut order);
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            let found = round::<FIELDS>(&map, &blocks, &order, placement);
            assert_eq!(found, LOOKUPS as u64, "every flow is there");
            begin.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (placed, median) = (placement.name(), times[ROUNDS / 2]);
    println!("{FIELDS},{placed},{flows},{median:.1}");
}

fn main() {
    println!("fields,placement,flows,ns_per_lookup");
    for flows in [1, 10_000] {
        for placement in [Placement::Together, Placement::Apart] {
            measure::<1>(flows, placement);
            measure::<2>(flows, placement);
            measure::<3>(flows, placement);
            measure::<4>(flows, placement);
            measure::<5>(flows, placement);
            measure::<6>(flows, placement);
            measure::<8>(flows, placement);
        }
    }
}
