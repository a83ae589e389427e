//! Marks ports as down or disabled, and reports this to the action profiles and multicast groups that watch ports.

use crate::{
    ActionProfileId, ControlErrorKind, Controlled, DropReason, PortId, engine::Change,
    model::PortSet, refuse, switch::Switch,
};

impl Switch {
    /// Sets whether a port's link is up; initially every link is up. While the link is down, action profiles do not
    /// select members that watch the port, and multicast groups replace their replicas on this port by backups, if the
    /// replicas have backups. Frames still go to the port.
    pub fn set_port_up(&mut self, port: PortId, is_up: bool) {
        let before = self.model.state.ports_down();
        self.model.state.links_down.set(port, !is_up);
        self.notify_ports_down(before);
    }

    /// Enables or disables a port; initially every port is enabled. Frames that arrive or leave by a disabled port are
    /// dropped ([`DropReason::PortDisabled`]), including those already queued, and action profiles and multicast groups
    /// that watch the port treat it as down. Frames of packet generators still arrive. The setting survives a change of
    /// program. While a port is disabled, an offload punts everything.
    pub fn set_port_enabled(&mut self, port: PortId, is_enabled: bool) {
        let before = self.model.state.ports_down();
        if !self.model.state.ports_disabled.set(port, !is_enabled) {
            return;
        }
        if !is_enabled {
            self.stop_offload(DropReason::OffloadStopped);
        }
        self.notify_ports_down(before);
        self.load_offload();
    }

    /// Whether a port is enabled, as every port is initially.
    pub fn is_port_enabled(&self, port: PortId) -> bool {
        !self.model.state.ports_disabled.contains(port)
    }

    pub(in crate::switch) fn notify_ports_down(&mut self, before: PortSet) {
        let state = &mut self.model.state;
        let down = state.ports_down();
        if down == before {
            return;
        }
        state.tables.set_ports_down(down);
        let n_profiles = state.program.ir.action_profiles.len();
        let profiles = (0..).map(ActionProfileId).take(n_profiles);
        for profile in profiles.collect::<Vec<_>>() {
            self.notify(&Change::Profile(profile));
        }
        for group in self.model.traffic.groups.set_ports_down(down) {
            self.notify(&Change::MulticastGroup(group));
        }
    }

    /// Refuses to watch a port that the switch does not have. A switch without ports checks nothing: it only holds a
    /// saved pipeline, and the switch that later forwards with the pipeline makes this check.
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
