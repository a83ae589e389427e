//! Ports that are down: whoever watches them is told.

use crate::{
    ActionProfileId, ControlErrorKind, Controlled, PortId, engine::Change, refuse, switch::Switch,
};

impl Switch {
    /// Says whether a port is up, as every port is at first. What watches it follows between two passes:
    /// members of action profiles, and replicas with backups. Frames to it are given out all the same.
    pub fn set_port_up(&mut self, port: PortId, is_up: bool) {
        let state = &mut self.model.state;
        if !state.ports_down.set(port, !is_up) {
            return;
        }
        let down = state.ports_down;
        state.tables.set_ports_down(down);
        let n_profiles = state.program.ir.action_profiles.len();
        let profiles = (0..).map(ActionProfileId).take(n_profiles);
        for profile in profiles.collect::<Vec<_>>() {
            self.tell(&Change::Profile(profile));
        }
        for group in self.model.traffic.groups.set_ports_down(down) {
            self.tell(&Change::MulticastGroup(group));
        }
    }

    /// Only ports that are there can be watched. A switch that has none at all, that of a pipeline that
    /// waits for its commit, leaves it to the one that does.
    pub(super) fn check_watched(&self, ports: impl Iterator<Item = PortId>) -> Controlled {
        let counters = &self.model.state.counters;
        if counters.ports().next().is_none() {
            return Ok(());
        }
        let mut ports = ports;
        match ports.find(|port| !counters.has_port(*port)) {
            None => Ok(()),
            Some(port) => {
                let message = format!("expected a port of the switch to watch, found {port}");
                refuse(ControlErrorKind::InvalidArgument, message)
            }
        }
    }
}
