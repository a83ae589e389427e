//! Observers of a port's frames: recordings and the log.

use std::path::Path;
use std::sync::{Arc, Mutex};

use data_encoding::HEXLOWER;
use dataplane::{PortId, Severity};
use packet_io::{ObservedPort, Observer, Port, PortError, Recorder, SharedObserver};

use super::{Bmv2, Log};
use crate::options::{PortOption, PortSource};

/// Observers of a port's frames, in the order in which they are called.
pub(crate) type Observers = Vec<SharedObserver>;

/// Makes the observers of a port. The time 0 of the event loop's clock is `epoch_ns` nanoseconds after the Unix epoch.
pub(crate) fn observe(
    options: &Bmv2,
    port: &PortOption,
    log: Option<&Log>,
    epoch_ns: u64,
) -> Result<Observers, PortError> {
    let mut observers = Observers::new();
    if let (Some(folder), PortSource::Interface(interface)) = (&options.recordings, &port.source) {
        observers.push(Recording::create(port.id, folder, interface, epoch_ns)?);
    }
    if let (Some(log), 1..) = (log, options.dumped_bytes) {
        observers.push(Arc::new(Mutex::new(Dump {
            log: log.clone(),
            port: port.id,
            n_bytes: options.dumped_bytes,
        })));
    }
    Ok(observers)
}

pub(crate) fn observed(port: Box<dyn Port>, observers: &[SharedObserver]) -> Box<dyn Port> {
    observers.iter().fold(port, |port, observer| {
        Box::new(ObservedPort::new(port, Arc::clone(observer)))
    })
}

/// Records a port's frames, and logs when a recording ends.
struct Recording {
    port: PortId,
    recorder: Recorder,
}

impl Recording {
    fn create(
        port: PortId,
        folder: &Path,
        interface: &str,
        epoch_ns: u64,
    ) -> Result<SharedObserver, PortError> {
        let file = |way: &str| folder.join(format!("{interface}_{way}.pcap"));
        let recorder = Recorder::create(&file("in"), &file("out"), epoch_ns)?;
        Ok(Arc::new(Mutex::new(Recording { port, recorder })))
    }

    fn log_ends(&mut self) {
        let port = self.port.0;
        while let Some(error) = self.recorder.take_end() {
            tracing::error!(
                event = "recording_ended",
                port,
                %error,
                "the recording of port {port} ends, the port goes on forwarding: {error}"
            );
        }
    }
}

impl Observer for Recording {
    fn received(&mut self, now: u64, frame: &[u8]) {
        self.recorder.received(now, frame);
    }

    fn sent(&mut self, now: u64, frame: &[u8]) {
        self.recorder.sent(now, frame);
    }

    /// The port calls this after every batch of frames, so that a recording's end is logged in time.
    fn flush(&mut self) {
        self.recorder.flush();
        self.log_ends();
    }
}

/// Logs the first bytes of each frame.
struct Dump {
    log: Log,
    port: PortId,
    n_bytes: usize,
}

impl Dump {
    fn log(&self, what: &str, frame: &[u8]) {
        let bytes = HEXLOWER.encode(&frame[..frame.len().min(self.n_bytes)]);
        let (len, port) = (frame.len(), self.port);
        let text = format!("{what} packet of length {len} on port {port}: {bytes}");
        self.log.gather(Severity::Info, &text);
    }
}

impl Observer for Dump {
    fn received(&mut self, _: u64, frame: &[u8]) {
        self.log("Received", frame);
    }

    fn sent(&mut self, _: u64, frame: &[u8]) {
        self.log("Sending", frame);
    }

    fn flush(&mut self) {
        self.log.write();
    }
}
