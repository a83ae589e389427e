//! Compares the frames that each port has sent with the frames that are expected from it, in order.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use data_encoding::HEXLOWER;
use serde::Serialize;

use crate::{command::Expected, difference::Difference};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Line of the command, from 1; 0 for the end of the test.
    pub line: usize,
    pub message: String,
    /// The expected and the found bytes, if a frame differs from the expected frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

impl Failure {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
            difference: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => writeln!(f, "at the end: {}", self.message)?,
            line => writeln!(f, "line {line}: {}", self.message)?,
        }
        match &self.difference {
            Some(difference) => difference.fmt(f),
            None => Ok(()),
        }
    }
}

/// A sent frame, and the line of the packet that caused it.
struct Left {
    line: usize,
    frame: Vec<u8>,
}

/// An expected frame, and the line that expects it.
struct Wanted {
    line: usize,
    expected: Option<Expected>,
}

/// A port's unmatched items: sent frames or expectations, never both.
#[derive(Default)]
struct Port {
    left: VecDeque<Left>,
    wanted: VecDeque<Wanted>,
}

#[derive(Default)]
pub(crate) struct Frames {
    ports: BTreeMap<u16, Port>,
    pub(crate) failures: Vec<Failure>,
}

impl Frames {
    /// Records a sent frame.
    pub(crate) fn left(&mut self, line: usize, port: u16, frame: Vec<u8>) {
        let open = self.ports.entry(port).or_default();
        match open.wanted.pop_front() {
            Some(wanted) => {
                let failure = compare(port, &wanted, &frame);
                self.failures.extend(failure);
            }
            None => open.left.push_back(Left { line, frame }),
        }
    }

    pub(crate) fn expect(&mut self, line: usize, port: u16, expected: Option<Expected>) {
        let open = self.ports.entry(port).or_default();
        let wanted = Wanted { line, expected };
        match open.left.pop_front() {
            Some(left) => {
                let failure = compare(port, &wanted, &left.frame);
                self.failures.extend(failure);
            }
            None => open.wanted.push_back(wanted),
        }
    }

    /// Fails for every sent frame that no line expects.
    pub(crate) fn expect_none(&mut self, line: usize) {
        for (port, open) in &mut self.ports {
            for left in open.left.drain(..) {
                let message = format!(
                    "port {port}: expected no frame, found one that line {} caused: {}",
                    left.line,
                    HEXLOWER.encode(&left.frame)
                );
                self.failures.push(Failure::new(line, message));
            }
        }
    }

    /// Ends the test: fails for every unmatched item. `missing` returns text about a port; this text ends the message
    /// about a frame that is missing on the port.
    pub(crate) fn finish(mut self, missing: impl Fn(u16) -> String) -> Vec<Failure> {
        self.expect_none(0);
        for (port, open) in self.ports {
            for wanted in open.wanted {
                let message = format!(
                    "expected a frame on port {port}, found none{}",
                    missing(port)
                );
                self.failures.push(Failure::new(wanted.line, message));
            }
        }
        self.failures
    }
}

fn compare(port: u16, wanted: &Wanted, frame: &[u8]) -> Option<Failure> {
    let difference = Difference::between(wanted.expected.as_ref()?, frame)?;
    let n_digits = difference.expected.trim_end_matches('$').len();
    let n_wanted = n_digits.div_ceil(2);
    let message = match frame.len() {
        found if found < n_wanted => {
            format!("port {port}: expected {n_wanted} bytes, found {found}")
        }
        found if difference.bytes.first() == Some(&n_wanted) => {
            format!("port {port}: expected {n_wanted} bytes and no more, found {found}")
        }
        _ => format!("port {port}: the frame differs from the expected one"),
    };
    Some(Failure {
        line: wanted.line,
        message,
        difference: Some(difference),
    })
}
