//! Snapshots of the device's ports, which gNMI calls interfaces.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use control::{Device, Port};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::{Code, Status};

pub(crate) struct Interface {
    pub name: String,
    pub port: Port,
}

pub(crate) struct Snapshot {
    /// The interfaces. In every snapshot they have the order of the ports on the command line.
    pub interfaces: Vec<Interface>,
    /// Nanoseconds since 1970.
    pub taken_ns: i64,
    /// When the reading began.
    began: Instant,
}

impl Snapshot {
    pub(crate) fn named(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|it| it.name == name)
    }
}

pub(crate) struct Interfaces {
    device: Arc<Device>,
    last: Mutex<Option<Arc<Snapshot>>>,
}

impl Interfaces {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        let last = Mutex::default();
        Self { device, last }
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Returns a snapshot whose reading began no earlier than `since`. A caller that arrives during an earlier
    /// reading waits until that reading has ended, and shares the next reading with the other waiting callers.
    pub(crate) async fn look(&self, since: Instant) -> Result<Arc<Snapshot>, Status> {
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.began >= since) {
            return Ok(Arc::clone(last));
        }
        let began = Instant::now();
        // The time is taken before the reading, so any change that the snapshot lacks is later than this time.
        let taken_ns = now_ns();
        let ports = self.device.ports().await.map_err(status)?;
        let snapshot = Arc::new(Snapshot {
            interfaces: named(ports),
            taken_ns,
            began,
        });
        *last = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

/// Gives each interface the name that its port has on the command line. If several ports have the same name, the port
/// number is put in front.
fn named(ports: Vec<Port>) -> Vec<Interface> {
    let names: Vec<String> = ports.iter().map(|port| port.status.name.clone()).collect();
    let is_alone = |name: &str| names.iter().filter(|other| *other == name).count() == 1;
    let interface = |port: Port| {
        let name = &port.status.name;
        let name = if is_alone(name) {
            name.clone()
        } else {
            format!("{}@{name}", port.status.id)
        };
        Interface { name, port }
    };
    ports.into_iter().map(interface).collect()
}

/// Returns the nanoseconds since 1970, as timestamps have them in the gNMI specification (section 2.2.1).
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX)
}

pub(crate) fn status(error: control::Error) -> Status {
    let code = match &error {
        control::Error::Stopped => Code::Unavailable,
        _ => Code::Internal,
    };
    Status::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use dataplane::PortId;

    use super::*;

    #[test]
    fn ports_of_one_name_are_told_apart_by_their_numbers() {
        let port = |id, name: &str| {
            let mut port = Port::default();
            port.status.id = PortId(id);
            port.status.name = name.to_owned();
            port
        };
        let named = named(vec![
            port(1, "veth1"),
            port(2, "in.pcap"),
            port(3, "in.pcap"),
        ]);
        let names: Vec<_> = named
            .iter()
            .map(|interface| interface.name.as_str())
            .collect();
        assert_eq!(names, ["veth1", "2@in.pcap", "3@in.pcap"]);
    }
}
