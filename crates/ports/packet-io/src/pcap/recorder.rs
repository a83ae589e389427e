//! Records what a port received and sent, as two captures.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use pcap_file::TsResolution;

use super::Output;
use crate::limits::PCAP_SNAPLEN_BYTES;
use crate::{Nanos, Observer, PortError};

/// Writes the frames of a port into two capture files with timestamps in microseconds, which every reader knows. A file
/// that cannot be written further ends after its last whole frame; the recorder continues to write the other file.
pub struct Recorder {
    received: Option<Output>,
    sent: Option<Output>,
    epoch_ns: u64,
    /// The errors that ended files, and that the caller has not taken yet.
    ends: VecDeque<PortError>,
}

impl Recorder {
    /// Creates both files. Time 0 of the port's clock is `epoch_ns` after 1970.
    ///
    /// # Errors
    /// [`PortError::CaptureFile`].
    pub fn create(received: &Path, sent: &Path, epoch_ns: u64) -> Result<Recorder, PortError> {
        let create = |path| Output::create(path, TsResolution::MicroSecond);
        let mut recorder = Recorder {
            received: Some(create(received)?),
            sent: Some(create(sent)?),
            epoch_ns,
            ends: VecDeque::new(),
        };
        // A reader that opens the files before the first frame finds empty captures.
        recorder.flush();
        match recorder.take_end() {
            Some(error) => Err(error),
            None => Ok(recorder),
        }
    }

    /// Returns the error that ended a file, once for each file; `None` if there is no further error.
    pub fn take_end(&mut self) -> Option<PortError> {
        self.ends.pop_front()
    }
}

/// Runs a step on a file, unless the file has ended. Returns the error if the step ends it.
fn go_on(
    file: &mut Option<Output>,
    step: impl FnOnce(&mut Output) -> io::Result<()>,
) -> Option<PortError> {
    let mut output = file.take()?;
    match step(&mut output) {
        Ok(()) => {
            *file = Some(output);
            None
        }
        Err(source) => Some(output.end(source)),
    }
}

impl Output {
    /// Cuts the file after its last whole frame.
    fn end(self, source: io::Error) -> PortError {
        let (path, buffered, tail) = self.into_parts();
        // Dropping the buffer would write its remaining bytes after half a frame.
        let (file, _) = buffered.into_parts();
        // A recorder counts no frames, so it ignores the frames that the file lacks.
        let _ = tail.cut_off(&file);
        PortError::CaptureFile {
            path,
            operation: "write",
            source,
        }
    }

    /// Writes a frame. A frame that is too long for any capture is cut in the file only.
    fn record(&mut self, timestamp_ns: u64, frame: &[u8]) -> io::Result<()> {
        let kept = frame.len().min(PCAP_SNAPLEN_BYTES as usize);
        self.write(timestamp_ns, &frame[..kept])
    }
}

impl Observer for Recorder {
    fn received(&mut self, now: Nanos, frame: &[u8]) {
        let at = self.epoch_ns.saturating_add(now);
        let end = go_on(&mut self.received, |file| file.record(at, frame));
        self.ends.extend(end);
    }

    fn sent(&mut self, now: Nanos, frame: &[u8]) {
        let at = self.epoch_ns.saturating_add(now);
        let end = go_on(&mut self.sent, |file| file.record(at, frame));
        self.ends.extend(end);
    }

    fn flush(&mut self) {
        for file in [&mut self.received, &mut self.sent] {
            let end = go_on(file, Output::flush);
            self.ends.extend(end);
        }
    }
}
