//! Takes time stamps from the monotonic clock and from the processor's time stamp counter. The counter's frequency does
//! not depend on the processor's current frequency. The counter's frequency is measured, never assumed.
#![expect(
    unsafe_code,
    reason = "the time stamp counter and processor affinity have no safe call"
)]

use std::{sync::OnceLock, time::Instant};

#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    at: Instant,
    ticks: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// The time of the clock, in nanoseconds.
    pub ns: f64,
    /// The ticks of the time stamp counter, or 0 if the processor has no readable counter.
    pub ticks: f64,
}

impl Stamp {
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            ticks: ticks(),
        }
    }

    pub fn elapsed(self) -> Span {
        let now = Self::now();
        Span {
            ns: (now.at - self.at).as_secs_f64() * 1e9,
            ticks: now.ticks.wrapping_sub(self.ticks) as f64,
        }
    }
}

/// Returns the time stamp that the first call of this function took.
pub fn start() -> Stamp {
    static START: OnceLock<Stamp> = OnceLock::new();
    *START.get_or_init(Stamp::now)
}

/// Returns the ticks per second, measured since [`start`], or `None` if there is no counter.
pub fn tsc_hz() -> Option<f64> {
    let span = start().elapsed();
    (span.ticks > 0.0).then(|| span.ticks / span.ns * 1e9)
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

/// Restricts the calling thread to these processors.
///
/// # Errors
/// The kernel refuses.
pub fn pin(cpus: impl IntoIterator<Item = usize>) -> Result<(), String> {
    // SAFETY: `cpu_set_t` is a set of bits, and all zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let mut named = Vec::new();
    for cpu in cpus {
        named.push(cpu);
        if cpu < libc::CPU_SETSIZE as usize {
            // SAFETY: the number is within the set.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
    }
    // SAFETY: `set` is a complete `cpu_set_t`, and lives until the call returns.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if answer == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(format!("cannot run on processors {named:?}: {error}"))
}

/// Returns the processors on which the calling thread may run.
pub fn processors() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is a set of bits, and all zeros are the empty set. The call below fills the set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a complete `cpu_set_t`, and lives until the call returns.
    let answer = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if answer != 0 {
        return Vec::new();
    }
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the number is within the set.
    all.filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_runs_at_one_frequency() {
        let frequency = || {
            let from = Stamp::now();
            let mut span = from.elapsed();
            while span.ns < 1e6 {
                span = from.elapsed();
            }
            span.ticks / span.ns
        };
        // A thread may be stopped between reading the two clocks, so the median of several readings is used.
        let [one, other] = [(); 2].map(|()| {
            let mut measured = [(); 9].map(|()| frequency());
            measured.sort_by(f64::total_cmp);
            measured[4]
        });
        assert!((one - other).abs() <= one * 0.05, "{one} and {other} GHz");
    }

    #[test]
    fn a_processor_that_is_not_there_is_reported() {
        let error = pin([libc::CPU_SETSIZE as usize - 1]).unwrap_err();
        assert!(
            error.starts_with("cannot run on processors [1023]"),
            "{error}"
        );
        assert!(!processors().is_empty());
    }
}
