//! A day of a conference service in virtual time: people come, publish, subscribe, mute and go, hosts vanish and move,
//! packets are forged, the switch and the service are restarted. A switch in memory runs `p4/conference.p4`. It is
//! driven by the service's own code: the model, the entries that the switch must have, sign-in, and what the switch has
//! counted. An oracle ([`book`]) says of each packet where it must go, and once a second what the switch and the store
//! must have.
//!
//! Everything is drawn at random from a seed, which is printed. `REPRISE_SEED` sets the seed, so that a day can be
//! repeated.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod actions;
mod book;
mod bucket;
mod counts;
mod day;
mod demands;
mod events;
mod frames;
mod hosts;
mod moves;
mod service;
mod switch;
mod traffic;

use day::{Day, Length};

fn seed() -> u64 {
    let given = std::env::var("REPRISE_SEED").ok();
    let given = given.map(|it| it.parse().expect("REPRISE_SEED is a number"));
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("REPRISE_SEED={seed}");
    seed
}

#[test]
fn half_an_hour() {
    let length = Length {
        seconds: 1_800,
        fault_every_s: 30,
        times_min: 1,
    };
    Day::begin(seed(), length).pass();
}

/// `cargo test -p conference-service --test day -- --ignored --nocapture`
#[test]
#[ignore = "a whole day takes some minutes of one processor, most of them for hellos' signatures without optimisation"]
fn a_day() {
    let length = Length {
        seconds: 86_400,
        fault_every_s: 300,
        times_min: 20,
    };
    Day::begin(seed(), length).pass();
}
