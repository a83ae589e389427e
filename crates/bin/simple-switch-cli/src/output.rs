//! Writes to standard output, with a buffer that is flushed when someone may wait for the output, and to standard
//! error. Control sequences in text from a program's author or the switch do not reach the terminal.

use std::fmt::Arguments;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use crate::error::Ended;
use crate::limits::{INTERRUPT_RETRY, INTERRUPT_TRIES};

/// Standard output. Clones share the buffer.
#[derive(Clone)]
pub struct Output(Arc<Mutex<BufWriter<Stdout>>>);

impl Output {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(BufWriter::new(io::stdout()))))
    }

    /// Locks the output: no other thread writes while the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, BufWriter<Stdout>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the output. Returns `None` if another thread does not release the lock: a reader that has stopped reading
    /// then blocks that thread.
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

    /// Writes text without a newline.
    pub fn text(&self, text: &str) -> Result<(), Ended> {
        let written = self.lock().write_all(printable::lines(text).as_bytes());
        written.map_err(|_| Ended::Output)
    }

    /// Writes one line, even if a name contains a newline.
    pub fn line(&self, line: Arguments<'_>) -> Result<(), Ended> {
        let line = one_line(&line.to_string());
        writeln!(self.lock(), "{line}").map_err(|_| Ended::Output)
    }

    /// Writes text of any number of lines, and a newline.
    pub fn lines(&self, text: &str) -> Result<(), Ended> {
        writeln!(self.lock(), "{}", printable::lines(text)).map_err(|_| Ended::Output)
    }

    pub fn flush(&self) -> Result<(), Ended> {
        self.lock().flush().map_err(|_| Ended::Output)
    }

    /// Writes a line to standard error, after flushing standard output.
    pub fn error_line(&self, line: Arguments<'_>) -> Result<(), Ended> {
        self.flush()?;
        error_line(line);
        Ok(())
    }
}

/// Writes a line to standard error, and ignores errors: nobody has to read it.
pub fn error_line(line: Arguments<'_>) {
    let line = one_line(&line.to_string());
    let _ = writeln!(io::stderr(), "{line}");
}

/// Makes one printable line of a text. Tabs stay, because they separate the parts of a line.
fn one_line(text: &str) -> String {
    let parts: Vec<_> = text.split('\t').map(printable::line).collect();
    parts.join("\t")
}
