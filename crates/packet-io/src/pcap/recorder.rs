//! What a port received and sent, as two captures.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use pcap_file::TsResolution;

use super::Output;
use crate::limits::PCAP_SNAPLEN_BYTES;
use crate::{Nanos, Observer, PortError};

/// Writes the frames of a port into two capture files with microseconds, which every reader knows. One that cannot
/// be written further ends after its last whole frame; the other goes on.
pub struct Recorder {
    received: Option<Output>,
    sent: Option<Output>,
    epoch_ns: u64,
    /// Why files ended, until somebody asks.
    ends: VecDeque<PortError>,
}

impl Recorder {
    /// Makes both files. The time 0 of the port's clock is `epoch_ns` after 1970.
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
        // Whoever looks before the first frame finds captures without frames.
        recorder.flush();
        match recorder.take_end() {
            Some(error) => Err(error),
            None => Ok(recorder),
        }
    }

    /// Why a file has ended, once for each.
    pub fn take_end(&mut self) -> Option<PortError> {
        self.ends.pop_front()
    }
}

/// Does something with a file, unless it has ended; why it ends here, if it does.
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
        // A drop would write its remaining bytes behind half a frame.
        let (file, _) = buffered.into_parts();
        // Nobody counts the frames that are not in it.
        let _ = tail.cut_off(&file);
        PortError::CaptureFile {
            path,
            operation: "write",
            source,
        }
    }

    /// A frame that is too long for any capture is cut there, not on its way.
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
