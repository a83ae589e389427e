//! Runs STF tests, and also gives their frames to the kernel program.

use std::path::Path;

use super::checked::{Report, checked_switch};

/// How many of a test's frames the kernel program punted, or why it got none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    NoPunt,
    SomePunted,
    AllPunted,
    /// No part of the program can run in the kernel, or the verifier refuses the program.
    Refused,
    /// No frame is long enough for Ethernet.
    NoFrame,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Self::NoPunt => "no punt",
            Self::SomePunted => "some punted",
            Self::AllPunted => "all punted",
            Self::Refused => "refused",
            Self::NoFrame => "no frame",
        }
    }

    pub fn of(report: &Report) -> Self {
        match (&report.refused, report.n_frames - report.n_kernel) {
            (Some(_), _) => Self::Refused,
            (_, _) if report.n_frames == 0 => Self::NoFrame,
            (_, 0) => Self::NoPunt,
            (_, n) if n == report.n_frames => Self::AllPunted,
            _ => Self::SomePunted,
        }
    }
}

/// Runs a test, and also gives the frames to the kernel program. The error describes where the interpreter differs from
/// the expectation of the test.
pub fn run(path: &Path) -> Result<Report, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let commands = stf::parse(&text).map_err(|error| error.to_string())?;
    let program = stf::program_beside(path).map_err(|error| error.to_string())?;
    let (switch, report) = checked_switch(dataplane::SwitchConfig::default());
    let (outcome, switch) = stf::run_on(switch, program, &commands, None);
    drop(switch);
    let failures: String = outcome.failures.iter().map(ToString::to_string).collect();
    if !failures.is_empty() {
        return Err(failures);
    }
    let report = report.lock().unwrap().clone();
    Ok(report)
}
