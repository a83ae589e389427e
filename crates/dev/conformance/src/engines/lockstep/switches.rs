//! The compared switches. All switches get the same input. The output of the reference switch is right by definition,
//! and everything visible of the other switches must be the same. The reference switch runs once, regardless of the
//! number of compared switches.

use std::{fmt::Debug, iter};

use dataplane::{Nanos, OwnedTransmit, Switch, Transmit, engine::Frame};

use super::{Case, Step, state};

/// Maximum number of frames that one poll of a compared switch requests. From poll to poll the requested number grows
/// by one, and after the maximum it starts again at 1.
const FRAMES_AT_ONCE_MAX: usize = 5;

/// Counts of the reference switch's work in a case, for the report of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    pub packets: u64,
    /// Number of control calls that succeeded.
    pub calls: u64,
    pub transmitted: u64,
    pub clones: u64,
    /// Number of replicas beyond the first of each packet.
    pub replicas: u64,
    pub digests: u64,
    pub packet_ins: u64,
    pub dropped: u64,
}

impl Activity {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            calls: self.calls + other.calls,
            transmitted: self.transmitted + other.transmitted,
            clones: self.clones + other.clones,
            replicas: self.replicas + other.replicas,
            digests: self.digests + other.digests,
            packet_ins: self.packet_ins + other.packet_ins,
            dropped: self.dropped + other.dropped,
        }
    }
}

/// A difference between one switch and the reference.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unequal {
    /// The position of the differing switch among the compared switches.
    pub engine: usize,
    pub expected: String,
    pub found: String,
}

/// A difference, and the step that showed it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub step: usize,
    pub unequal: Unequal,
}

/// The switches, with ports and program.
pub(super) struct Lockstep {
    pub reference: Switch,
    pub engines: Vec<Switch>,
    now: Nanos,
    n_calls: u64,
    /// The number of times that frames were polled.
    n_polls: usize,
}

impl Lockstep {
    pub(super) fn new(reference: Switch, engines: Vec<Switch>) -> Self {
        Self {
            reference,
            engines,
            now: 0,
            n_calls: 0,
            n_polls: 0,
        }
    }

    pub(super) fn run(mut self, case: &Case) -> Result<Activity, Difference> {
        for (position, step) in case.steps.iter().enumerate() {
            self.step(step).map_err(|unequal| Difference {
                step: position,
                unequal,
            })?;
        }
        self.state().map_err(|unequal| Difference {
            step: case.steps.len(),
            unequal,
        })?;
        let counters = self.reference.counters();
        Ok(Activity {
            packets: counters.received,
            calls: self.n_calls,
            transmitted: counters.transmitted,
            clones: counters.created_by_clone,
            replicas: counters.created_by_replication,
            digests: counters.digests,
            packet_ins: counters.to_cpu,
            dropped: counters.dropped_total(),
        })
    }

    fn step(&mut self, step: &Step) -> Result<(), Unequal> {
        match step {
            Step::Write(write) => {
                let expected = write.apply(&mut self.reference);
                self.n_calls += u64::from(expected.is_ok());
                for (number, engine) in self.engines.iter_mut().enumerate() {
                    equal(number, "answer", &expected, &write.apply(engine))?;
                }
                Ok(())
            }
            Step::Wait(ns) => {
                self.now += ns;
                let now = self.now;
                self.all(|switch| switch.handle_timeout(now));
                self.poll()
            }
            Step::Queue(port, frame) => {
                let now = self.now;
                self.all(|switch| switch.handle_frame(now, *port, frame));
                Ok(())
            }
            Step::Frame(port, frame) => {
                let now = self.now;
                self.all(|switch| switch.handle_frame(now, *port, frame));
                self.poll()
            }
        }
    }

    fn all(&mut self, mut to_do: impl FnMut(&mut Switch)) {
        to_do(&mut self.reference);
        self.engines.iter_mut().for_each(to_do);
    }

    /// Takes and compares all output, and compares the state that is cheap to read.
    fn poll(&mut self) -> Result<(), Unequal> {
        self.frames()?;
        self.all_of("packet-in", Switch::poll_packet_in)?;
        self.all_of("digest", Switch::poll_digest)?;
        self.all_of("idle timeout", Switch::poll_idle_timeout)?;
        let reference = &self.reference;
        for (number, engine) in self.engines.iter().enumerate() {
            equal(number, "counters", reference.counters(), engine.counters())?;
            let inside = [reference, engine].map(Switch::packets_inside);
            equal(number, "packets inside", &inside[0], &inside[1])?;
            let timeout = [reference, engine].map(Switch::poll_timeout);
            equal(number, "timeout", &timeout[0], &timeout[1])?;
        }
        Ok(())
    }

    /// Takes frames one by one from the reference switch, and one or several at once from the compared switches.
    fn frames(&mut self) -> Result<(), Unequal> {
        loop {
            self.n_polls += 1;
            let max_frames = 1 + self.n_polls % FRAMES_AT_ONCE_MAX;
            let reference = &mut self.reference;
            let next = || Some(reference.poll_transmit(self.now)?.to_owned());
            let expected: Vec<_> = iter::from_fn(next).take(max_frames).collect();
            for (number, engine) in self.engines.iter_mut().enumerate() {
                leave_same(engine, number, self.now, max_frames, &expected)?;
            }
            if expected.len() < max_frames {
                return Ok(());
            }
        }
    }

    fn all_of<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        poll: impl Fn(&mut Switch) -> Option<T>,
    ) -> Result<(), Unequal> {
        loop {
            let expected = poll(&mut self.reference);
            for (number, engine) in self.engines.iter_mut().enumerate() {
                equal(number, what, &expected, &poll(engine))?;
            }
            if expected.is_none() {
                return Ok(());
            }
        }
    }

    fn state(&mut self) -> Result<(), Unequal> {
        let expected = state::of(&mut self.reference);
        let latency = self.reference.latency();
        for (number, engine) in self.engines.iter_mut().enumerate() {
            let found = state::of(engine);
            for (expected, found) in expected.iter().zip(&found) {
                equal(number, "state", expected, found)?;
            }
            equal(number, "lines of state", &expected.len(), &found.len())?;
            equal(number, "latency", &latency, &engine.latency())?;
        }
        Ok(())
    }
}

/// Takes and compares the output of one compared switch.
fn leave_same(
    switch: &mut Switch,
    number: usize,
    now: Nanos,
    max_frames: usize,
    expected: &[OwnedTransmit],
) -> Result<(), Unequal> {
    let mut left = expected.iter();
    let mut result = Ok(());
    let mut take = |found: Transmit<'_>| {
        let expected = left.next();
        if result.is_ok() && !expected.is_some_and(|expected| is_same(expected, &found)) {
            result = equal(number, "frame", &expected, &Some(&found.to_owned()));
        }
    };
    match max_frames {
        1 => {
            let found = switch.poll_transmit(now);
            found.into_iter().for_each(take);
        }
        _ => {
            let mut n_left = max_frames;
            while n_left > 0 {
                let transmitted = switch.transmit(now, n_left, &mut take);
                n_left -= transmitted.n_frames;
                if transmitted.is_idle {
                    break;
                }
            }
        }
    }
    result?;
    equal(number, "frame", &left.next(), &None)
}

/// Returns whether two frames have the same content, regardless of their division into pieces.
fn is_same(one: &OwnedTransmit, other: &Transmit<'_>) -> bool {
    let Frame { head, payload, .. } = other.frame;
    one.port == other.port
        && one.frame.len() == head.len() + payload.len()
        && one.frame[..head.len()] == *head
        && one.frame[head.len()..] == *payload
}

fn equal<T: PartialEq + Debug + ?Sized>(
    engine: usize,
    what: &str,
    expected: &T,
    found: &T,
) -> Result<(), Unequal> {
    if expected == found {
        Ok(())
    } else {
        Err(Unequal {
            engine,
            expected: format!("{what}: {expected:02x?}"),
            found: format!("{what}: {found:02x?}"),
        })
    }
}
