//! The destination of the packet trace.

use std::io::{self, BufWriter, LineWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use dataplane::{TraceEvent, TraceRenderer, TraceSink};

use crate::error::SwitchError;
use crate::event_loop::AfterReplay;
use crate::options::Options;
use crate::owners_file;
use crate::say;

type Trace = (Box<dyn TraceSink>, TraceEnd);

pub(crate) fn sink(options: &Options) -> Result<Option<Trace>, SwitchError> {
    let out: Box<dyn Write + Send> = match &options.trace_to {
        _ if options.trace => Box::new(io::stdout()),
        Some(path) => Box::new(
            owners_file::emptied(path).map_err(|source| SwitchError::File {
                operation: "write the trace to",
                path: path.clone(),
                source,
            })?,
        ),
        None => return Ok(None),
    };
    // A live trace shows each line as soon as it is complete. A replay is over soon, so its trace may be buffered.
    let out: Box<dyn Write + Send> = if options.after_replay() == AfterReplay::End {
        Box::new(BufWriter::new(out))
    } else {
        Box::new(LineWriter::new(out))
    };
    let end = TraceEnd {
        path: options.trace_to.clone(),
        error: Arc::default(),
    };
    let trace = TextTrace {
        renderer: TraceRenderer::default(),
        out,
        is_broken: false,
        error: Arc::clone(&end.error),
    };
    Ok(Some((Box::new(trace), end)))
}

/// The result of a trace, to be read after the trace was dropped.
pub(crate) struct TraceEnd {
    /// `None`: standard output.
    path: Option<PathBuf>,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl TraceEnd {
    /// # Errors
    /// Part of the trace could not be written. A closed standard output is no error, since its reader wants no more.
    pub(crate) fn result(self) -> Result<(), SwitchError> {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match (error.take(), self.path) {
            (None, _) => Ok(()),
            (Some(source), None) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            (Some(source), None) => Err(SwitchError::System {
                operation: "print the trace",
                source,
            }),
            (Some(source), Some(path)) => Err(SwitchError::File {
                operation: "write the trace to",
                path,
                source,
            }),
        }
    }
}

/// Writes events as text; flushes when it is dropped.
struct TextTrace {
    renderer: TraceRenderer,
    out: Box<dyn Write + Send>,
    is_broken: bool,
    /// Shared with [`TraceEnd`].
    error: Arc<Mutex<Option<io::Error>>>,
}

impl TextTrace {
    /// Ends the trace at its first error, with a warning; the exit code reports the error too. The switch goes on
    /// forwarding.
    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && !self.is_broken
        {
            self.is_broken = true;
            say(&format!("warning: the trace ends here: {error}"));
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

impl TraceSink for TextTrace {
    fn event(&mut self, event: &TraceEvent) {
        if !self.is_broken {
            let result = self.out.write_all(self.renderer.render(event).as_bytes());
            self.note(result);
        }
    }
}

impl Drop for TextTrace {
    fn drop(&mut self) {
        if !self.is_broken {
            let result = self.out.flush();
            self.note(result);
        }
    }
}
