//! Standard output, kept back until somebody may wait for it, and standard error. What a program's author or the switch
//! chose does not command the terminal.

use std::fmt::Arguments;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use crate::error::Ended;
use crate::limits::{INTERRUPT_RETRY, INTERRUPT_TRIES};

/// Standard output. Clones are the same.
#[derive(Clone)]
pub struct Output(Arc<Mutex<BufWriter<Stdout>>>);

impl Output {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(BufWriter::new(io::stdout()))))
    }

    /// As long as the lock is held, nothing else is written.
    pub fn lock(&self) -> MutexGuard<'_, BufWriter<Stdout>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless what is written is not taken for so long that nobody can be waiting for it.
    pub fn lock_soon(&self) -> Option<MutexGuard<'_, BufWriter<Stdout>>> {
        for _ in 0..INTERRUPT_TRIES {
            match self.0.try_lock() {
                Ok(stdout) => return Some(stdout),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => thread::sleep(INTERRUPT_RETRY),
            }
        }
        None
    }

    /// Text without a line's end.
    pub fn text(&self, text: &str) -> Result<(), Ended> {
        let written = self.lock().write_all(printable::lines(text).as_bytes());
        written.map_err(|_| Ended::Output)
    }

    /// A line.
    pub fn line(&self, line: Arguments<'_>) -> Result<(), Ended> {
        let line = line.to_string();
        writeln!(self.lock(), "{}", printable::lines(&line)).map_err(|_| Ended::Output)
    }

    /// Everything so far is for its reader to see.
    pub fn flush(&self) -> Result<(), Ended> {
        self.lock().flush().map_err(|_| Ended::Output)
    }

    /// A line on standard error, behind what was written so far.
    pub fn error_line(&self, line: Arguments<'_>) -> Result<(), Ended> {
        self.flush()?;
        error_line(line);
        Ok(())
    }
}

/// A line on standard error, which nobody has to read.
pub fn error_line(line: Arguments<'_>) {
    let line = line.to_string();
    let _ = writeln!(io::stderr(), "{}", printable::line(&line));
}
