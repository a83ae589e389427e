//! The ports of an event loop: their places (indices), links and statistics, and the frames that are still to be sent.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use control::{LinkState, MulticastCounters, PortStatus};
use dataplane::{Nanos, PortCounters, PortId, Switch, Transmit, limits};
use packet_io::{Port, PortError, PortStatistics};

use super::{Arrival, LoopError};
use crate::interfaces::LinkStatus;
use crate::multicast_counters;
use crate::ports::OpenPort;
use crate::totals::PortTotals;

pub(super) struct AttachedPort {
    pub(super) id: PortId,
    pub(super) port: Box<dyn Port>,
    /// Index of the port's descriptor in the waiter's list.
    pub(super) wait_place: Option<usize>,
    /// Whether the port may have frames that it has not sent yet.
    has_queued: bool,
    /// Statistics of the ports that were in this place before.
    earlier: PortStatistics,
    /// State of the interface, if it is watched.
    link: Option<Arc<LinkStatus>>,
    pub(super) is_offloaded: bool,
    /// Whether an offload serves or has served the port, so that the port's statistics lack some of its frames.
    pub(super) was_offloaded: bool,
    /// The state of the link as last reported to the switch.
    is_up: bool,
    multicast: MulticastCounters,
    /// Whether the switch was asked to hold frames for the port.
    is_held: bool,
}

impl AttachedPort {
    /// Gives the switch up to `frames_max` of the port's frames.
    #[inline]
    pub(super) fn receive(
        &mut self,
        switch: &mut Switch,
        now: Nanos,
        arrival: Arrival,
        frames_max: usize,
    ) -> Result<usize, PortError> {
        let Self {
            id,
            port,
            multicast,
            ..
        } = self;
        let is_enabled = switch.is_port_enabled(*id);
        port.receive(now, frames_max, &mut |frame| {
            multicast_counters::count_received(multicast, is_enabled, frame);
            switch.handle_frame(arrival.time(), *id, frame)
        })
    }

    pub(super) fn set_offloaded(&mut self, is_offloaded: bool) {
        self.is_offloaded = is_offloaded;
        self.was_offloaded |= is_offloaded;
    }

    fn flush(&mut self) -> Result<(), LoopError> {
        self.has_queued = false;
        let id = self.id;
        let flushed = self.port.flush();
        flushed.map_err(|source| LoopError::Port { id, source })
    }

    /// The statistics of all ports that were ever in this port's place.
    fn statistics(&mut self) -> PortStatistics {
        let mut statistics = self.earlier;
        statistics.add(&self.port.statistics());
        statistics
    }
}

/// The ports, in the order in which they were added.
pub(super) struct AttachedPorts {
    all: Vec<AttachedPort>,
    /// Index in `all` by port number.
    places: Vec<Option<usize>>,
    statuses: Vec<PortStatus>,
}

impl AttachedPorts {
    pub(super) fn new() -> Self {
        Self {
            all: Vec::new(),
            places: vec![None; usize::from(limits::DROP_PORT) + 1],
            statuses: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, added: OpenPort) {
        let OpenPort {
            id,
            name,
            port,
            link,
            ..
        } = added;
        self.places[usize::from(id.0)] = Some(self.all.len());
        self.statuses.push(PortStatus {
            id,
            name,
            ..PortStatus::default()
        });
        self.all.push(AttachedPort {
            id,
            port,
            wait_place: None,
            has_queued: false,
            earlier: PortStatistics::default(),
            link,
            is_offloaded: false,
            was_offloaded: false,
            is_up: true,
            multicast: MulticastCounters::default(),
            is_held: false,
        });
        self.number_wait_places();
    }

    /// Puts a port into a place, and returns the port that was there before.
    pub(super) fn replace(&mut self, place: usize, port: Box<dyn Port>) -> Box<dyn Port> {
        let attached = &mut self.all[place];
        let mut old = std::mem::replace(&mut attached.port, port);
        attached.earlier.add(&old.abandon());
        attached.has_queued = false;
        self.number_wait_places();
        old
    }

    /// Gives each port with a descriptor its index in the waiter's list, which begins with the mailbox's waker.
    fn number_wait_places(&mut self) {
        let mut next = 1;
        for attached in &mut self.all {
            attached.wait_place = attached.port.poll_fd().map(|_| next);
            next += usize::from(attached.wait_place.is_some());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn place_of(&self, id: PortId) -> Option<usize> {
        self.places.get(usize::from(id.0)).copied().flatten()
    }

    pub(super) fn at(&mut self, place: usize) -> &mut AttachedPort {
        &mut self.all[place]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AttachedPort> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut AttachedPort> {
        self.all.iter_mut()
    }

    /// Returns the ports' descriptors, in the order of [`AttachedPort::wait_place`].
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().filter_map(|it| it.port.poll_fd())
    }

    pub(super) fn has_descriptors(&self) -> bool {
        self.all.iter().any(|it| it.wait_place.is_some())
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.all.iter().any(|it| it.port.has_unsent())
    }

    /// Queues a frame at its port, or returns the port's error. The switch transmits only to ports that were added.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        now: Nanos,
        transmit: Transmit<'_>,
    ) -> Result<(), (PortId, PortError)> {
        let Some(place) = self.place_of(transmit.port) else {
            return Ok(());
        };
        let attached = &mut self.all[place];
        attached.has_queued = true;
        multicast_counters::count_sent(&mut attached.multicast, &transmit.frame);
        let sent = attached.port.transmit(now, transmit.frame);
        sent.map_err(|source| (attached.id, source))
    }

    /// Sends the frames that were queued since the last flush.
    pub(super) fn flush_queued(&mut self) -> Result<(), LoopError> {
        let mut queued = self.all.iter_mut().filter(|it| it.has_queued);
        queued.try_for_each(AttachedPort::flush)
    }

    /// Sends queued frames, and retries frames that could not be sent.
    pub(super) fn flush_all(&mut self) -> Result<(), LoopError> {
        self.all.iter_mut().try_for_each(AttachedPort::flush)
    }

    pub(super) fn close(&mut self) -> Result<(), LoopError> {
        for AttachedPort { id, port, .. } in &mut self.all {
            let id = *id;
            port.close()
                .map_err(|source| LoopError::Port { id, source })?;
        }
        Ok(())
    }

    /// Reports to the switch which ports have become full, and which ports are no longer full.
    pub(super) fn report_full(&mut self, switch: &mut Switch) {
        for attached in &mut self.all {
            // Frames for a disabled port are dropped, so they do not wait.
            let is_full = attached.port.is_full() && switch.is_port_enabled(attached.id);
            if std::mem::replace(&mut attached.is_held, is_full) != is_full {
                switch.hold_port(attached.id, is_full);
            }
        }
    }

    /// Tells the switch which ports went down or came up, before the switch gets the next frame.
    pub(super) fn report_links(&mut self, switch: &mut Switch) {
        for attached in &mut self.all {
            let Some(link) = &attached.link else { continue };
            let is_up = !matches!(link.state(), LinkState::Down | LinkState::Lost);
            if std::mem::replace(&mut attached.is_up, is_up) != is_up {
                switch.set_port_up(attached.id, is_up);
            }
        }
    }

    pub(super) fn statuses(&self) -> &[PortStatus] {
        &self.statuses
    }

    pub(super) fn refresh_statuses(&mut self) {
        for (attached, status) in self.all.iter_mut().zip(&mut self.statuses) {
            let statistics = attached.statistics();
            status.rx_dropped = statistics.rx_dropped();
            status.tx_dropped = statistics.tx_dropped();
            if let Some(link) = &attached.link {
                status.link = link.state();
                status.link_down_events = link.down_events();
                status.link_up_events = link.up_events();
                status.lost_events = link.lost_events();
                status.unserved_queues = link.unserved_queues();
                status.interface = link.interface();
                status.link_changed_ns = link.changed_ns();
                status.link_transitions = link.transitions();
                status.mtu = link.mtu();
            }
            // The loop does not see frames that an offload forwards.
            status.multicast = (!attached.was_offloaded).then_some(attached.multicast);
            status.drops.clear();
            status.drops.extend(statistics.drops());
        }
    }

    /// Updates what earlier work of an iteration may have changed: which ports are enabled, and on which an offload
    /// forwards.
    pub(super) fn refresh_switched(
        &mut self,
        switch: &Switch,
        is_forwarded: impl Fn(PortId) -> bool,
    ) {
        for (attached, status) in self.all.iter().zip(&mut self.statuses) {
            let id = attached.id;
            status.is_disabled = !switch.is_port_enabled(id);
            status.is_offloaded = attached.is_offloaded.then(|| is_forwarded(id));
        }
    }

    /// Returns the totals of all ports. If an offload serves a port, or served it before the port's interface was
    /// removed, the port's frames are those that the switch has counted, which include the frames that the offload
    /// forwarded.
    pub(super) fn totals(&mut self, counted: impl Fn(PortId) -> PortCounters) -> Vec<PortTotals> {
        let ports = self.all.iter_mut().zip(&self.statuses);
        let totals = ports.map(|(attached, status)| {
            let link = attached.link.clone().unwrap_or_default();
            let mut statistics = attached.statistics();
            if attached.was_offloaded {
                count_both(&mut statistics, counted(attached.id));
            }
            PortTotals {
                id: attached.id,
                name: status.name.clone(),
                statistics,
                link_down_events: link.down_events(),
                lost_events: link.lost_events(),
            }
        });
        totals.collect()
    }
}

/// Sets frames and bytes to what the switch has counted, for engine and offload together.
fn count_both(statistics: &mut PortStatistics, counters: PortCounters) {
    statistics.rx_frames = counters.rx_packets;
    statistics.rx_bytes = counters.rx_bytes;
    statistics.tx_frames = counters.tx_packets;
    statistics.tx_bytes = counters.tx_bytes;
}
