//! Ports that are down or disabled: whoever watches them is told.

use crate::{
    ActionProfileId, ControlErrorKind, Controlled, DropReason, PortId, engine::Change,
    model::PortSet, refuse, switch::Switch,
};

impl Switch {
    /// Says whether a port's link is up, as every port's is at first. What watches it follows between two
    /// passes: members of action profiles, and replicas with backups. Frames to it are given out all the same.
    pub fn set_port_up(&mut self, port: PortId, is_up: bool) {
        let before = self.model.state.ports_down();
        self.model.state.links_down.set(port, !is_up);
        self.tell_ports_down(before);
    }

    /// Enables a port, as every port is at first, or disables it: frames that come by it or are to leave
    /// by it are dropped then ([`DropReason::PortDisabled`]), those too that wait in a queue, and whoever
    /// watches it takes it for down. Generators' frames are not the port's and come all the same. It stays so
    /// whatever the program, and as long as a port is disabled an offload punts all.
    pub fn set_port_enabled(&mut self, port: PortId, is_enabled: bool) {
        let before = self.model.state.ports_down();
        if !self.model.state.ports_disabled.set(port, !is_enabled) {
            return;
        }
        if !is_enabled {
            self.stop_offload(DropReason::OffloadStopped);
        }
        self.tell_ports_down(before);
        self.load_offload();
    }

    /// Whether a port is enabled.
    pub fn is_port_enabled(&self, port: PortId) -> bool {
        !self.model.state.ports_disabled.contains(port)
    }

    pub(in crate::switch) fn tell_ports_down(&mut self, before: PortSet) {
        let state = &mut self.model.state;
        let down = state.ports_down();
        if down == before {
            return;
        }
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

    /// Refuses to watch a port that the switch does not have. The switch of a pipeline that waits
    /// for its commit has no ports; it leaves the check to the switch that has them.
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
