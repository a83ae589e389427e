//! What a port received and sent, as two captures.

use std::path::Path;

use pcap_file::TsResolution;

use super::Output;
use crate::limits::PCAP_SNAPLEN_BYTES;
use crate::{Nanos, Observer, PortError};

/// Writes the frames of a port into two capture files with microseconds, which every reader knows.
pub struct Recorder {
    received: Output,
    sent: Output,
    epoch_ns: u64,
}

impl Recorder {
    /// Makes both files. The time 0 of the port's clock is `epoch_ns` after 1970.
    ///
    /// # Errors
    /// [`PortError::CaptureFile`].
    pub fn create(received: &Path, sent: &Path, epoch_ns: u64) -> Result<Recorder, PortError> {
        let create = |path| Output::create(path, TsResolution::MicroSecond);
        let mut recorder = Recorder {
            received: create(received)?,
            sent: create(sent)?,
            epoch_ns,
        };
        // Whoever looks before the first frame finds captures without frames.
        recorder.flush()?;
        Ok(recorder)
    }
}

/// A frame that is too long for any capture is cut there, not on its way.
fn write(output: &mut Output, timestamp_ns: u64, frame: &[u8]) -> Result<(), PortError> {
    let kept = frame.len().min(PCAP_SNAPLEN_BYTES as usize);
    let written = output.write(timestamp_ns, &frame[..kept]);
    written.map_err(|source| PortError::CaptureFile {
        path: output.path.clone(),
        operation: "write",
        source,
    })
}

fn flush(output: &mut Output) -> Result<(), PortError> {
    output.flush().map_err(|source| PortError::CaptureFile {
        path: output.path.clone(),
        operation: "write",
        source,
    })
}

impl Observer for Recorder {
    fn received(&mut self, now: Nanos, frame: &[u8]) -> Result<(), PortError> {
        write(&mut self.received, self.epoch_ns.saturating_add(now), frame)
    }

    fn sent(&mut self, now: Nanos, frame: &[u8]) -> Result<(), PortError> {
        write(&mut self.sent, self.epoch_ns.saturating_add(now), frame)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        flush(&mut self.received)?;
        flush(&mut self.sent)
    }
}
