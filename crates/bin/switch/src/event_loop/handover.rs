//! How an event loop hands its ports over to an event loop of another process, and how the other loop takes them over.
//!
//! The old loop receives no more frames, runs the switch until it is empty, and sends the frames that are left. Then it
//! passes on the state that packets have changed, and waits. Frames that come meanwhile wait in the receive rings,
//! which both processes share. If the other process fails, the old loop forwards as before.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use control::CellValue;
use dataplane::{CounterValue, MatchField, Nanos, PortId, Switch, TableId};
use packet_io::{HandedPort, PortState};
use serde::{Deserialize, Serialize};

use super::{EventLoop, LoopError, Share};

/// How long a loop may need until its switch is empty, in nanoseconds. If no rates are set and the ports accept all
/// frames, a loop needs less than a millisecond.
const EMPTYING_NS_MAX: Nanos = 50_000_000;

/// Pause between two checks of a switch whose packets wait for a time or for a port.
const EMPTYING_POLL: Duration = Duration::from_micros(100);

/// A request of a takeover to an event loop.
pub(crate) enum Handover {
    /// Answers with duplicates of the ports' sockets; the loop goes on.
    Offer(Sender<Result<Vec<(PortId, HandedPort)>, String>>),
    /// Stops forwarding.
    Pause(Pause),
    /// Takes over the state of a paused loop of another process, before the first frame.
    GoOnFrom(Box<PacketState>, Sender<Result<(), String>>),
}

/// Stops forwarding between two packets, answers with the state, and waits for the outcome. If the sender of the outcome
/// is gone, the loop goes on.
pub(crate) struct Pause {
    pub(crate) paused: Sender<Result<PacketState, String>>,
    pub(crate) outcome: Receiver<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The loop forwards again.
    GoOn,
    /// The other process forwards; the loop ends.
    HandedOver,
}

/// What packets have changed in a worker: where its ports stopped, and the program's registers and counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PacketState {
    pub(crate) ports: Vec<(u16, PortState)>,
    /// All cells of registers, and the cells of counters whose value is not zero.
    cells: Vec<(CellValue, Range<u64>)>,
    entries: Vec<EntryCount>,
}

/// The direct counter of a table entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EntryCount {
    table: TableId,
    key: Vec<MatchField>,
    priority: i32,
    count: CounterValue,
}

impl PacketState {
    /// Whether the ports of this state are the ports in `offered`, on the same sockets.
    pub(crate) fn is_of_offer<'a>(
        &self,
        offered: impl ExactSizeIterator<Item = &'a (u16, PortState)>,
    ) -> bool {
        let same = |(ours, theirs): (&(u16, PortState), &(u16, PortState))| {
            ours.0 == theirs.0 && ours.1.is_of_same_socket(&theirs.1)
        };
        self.ports.len() == offered.len() && self.ports.iter().zip(offered).all(same)
    }

    fn of(switch: &Switch, ports: Vec<(u16, PortState)>) -> PacketState {
        let mut state = PacketState {
            ports,
            ..PacketState::default()
        };
        let Some(program) = switch.program() else {
            return state;
        };
        for (register, _) in program.registers() {
            let cells = 0..switch.register_size(register);
            let value = |cell| switch.register_cell(register, cell).unwrap_or_default();
            let runs = runs(cells, value).into_iter();
            let written = runs.map(|(value, cells)| (CellValue::Register(register, value), cells));
            state.cells.extend(written);
        }
        for (counter, _) in program.counters() {
            let cells = 0..switch.counter_size(counter);
            let value = |cell| switch.counter_cell(counter, cell).unwrap_or_default();
            let runs = runs(cells, value).into_iter();
            let counted = runs.filter(|(value, _)| *value != CounterValue::default());
            let counted = counted.map(|(value, cells)| (CellValue::Counter(counter, value), cells));
            state.cells.extend(counted);
        }
        for (table, info) in program.tables() {
            if !info.with_counters {
                continue;
            }
            let entries = switch.entries(table).into_iter();
            let counted = entries.filter(|entry| entry.counter != CounterValue::default());
            state.entries.extend(counted.map(|entry| EntryCount {
                table,
                key: entry.key,
                priority: entry.priority,
                count: entry.counter,
            }));
        }
        state
    }

    /// Writes the state into a switch that has the same program and entries.
    fn write_to(self, switch: &mut Switch) -> Result<(), String> {
        for (value, cells) in self.cells {
            let written = match &value {
                CellValue::Register(register, value) => {
                    switch.set_register_cells(*register, cells, value)
                }
                CellValue::Counter(counter, value) => {
                    switch.set_counter_cells(*counter, cells, *value)
                }
                // The buckets of meters are not handed over.
                CellValue::Meter(..) | CellValue::MeterAnew(..) => Ok(()),
            };
            written.map_err(|error| error.message)?;
        }
        for entry in self.entries {
            let EntryCount {
                table,
                key,
                priority,
                count,
            } = entry;
            let written = switch.set_direct_counter(table, &key, priority, count);
            written.map_err(|error| error.message)?;
        }
        Ok(())
    }
}

/// Joins neighbouring cells that have equal values; returns each value with its range of cells.
fn runs<T: PartialEq>(cells: Range<u64>, value: impl Fn(u64) -> T) -> Vec<(T, Range<u64>)> {
    let mut runs: Vec<(T, Range<u64>)> = Vec::new();
    for cell in cells {
        let value = value(cell);
        match runs.last_mut() {
            Some((last, cells)) if *last == value => cells.end = cell + 1,
            _ => runs.push((value, cell..cell + 1)),
        }
    }
    runs
}

impl EventLoop {
    /// Serves the requests of a takeover. Afterwards the loop may have been handed over.
    pub(crate) fn serve_handovers(&mut self) -> Result<(), LoopError> {
        while let Some(request) = self.mailbox.next_handover() {
            match request {
                // If the requester has given up, nobody receives the answer.
                Handover::Offer(answer) => drop(answer.send(self.offer())),
                Handover::Pause(pause) => self.pause(&pause)?,
                Handover::GoOnFrom(state, answer) => drop(answer.send(self.go_on_from(*state))),
            }
            if self.is_handed_over {
                break;
            }
        }
        Ok(())
    }

    fn offer(&self) -> Result<Vec<(PortId, HandedPort)>, String> {
        let ports = self.ports.iter().map(|attached| {
            let (id, name) = (attached.id, attached.port.name());
            match attached.port.hand_over() {
                Ok(Some(handed)) => Ok((id, handed)),
                Ok(None) => Err(format!(
                    "port {id} ({name}) cannot pass to another process: its interface is lost, or it is of another kind than AF_PACKET or UDP"
                )),
                Err(error) => Err(format!("port {id} ({name}): {error}")),
            }
        });
        ports.collect()
    }

    fn pause(&mut self, pause: &Pause) -> Result<(), LoopError> {
        self.is_pausing = true;
        // Send the packet-outs that have come before the request.
        self.run_work()?;
        let is_empty = self.empty()?;
        self.is_pausing = false;
        let state = if is_empty {
            self.packet_state()
        } else {
            Err(format!(
                "packets still wait inside the switch after {} ms, for a rate or for a port that takes no more: try again later",
                EMPTYING_NS_MAX / 1_000_000
            ))
        };
        let mut outcome = Outcome::GoOn;
        if pause.paused.send(state).is_ok() {
            outcome = pause.outcome.recv().unwrap_or(Outcome::GoOn);
        }
        if outcome == Outcome::HandedOver {
            self.is_handed_over = true;
            self.ports.iter_mut().for_each(|it| it.port.leave());
        }
        // Frames have waited because of the takeover, not because the loop was stopped or not scheduled.
        self.last_look.at = self.clock.now();
        self.waiter.forget();
        Ok(())
    }

    /// Runs the switch until no packet is inside and the ports have sent everything; false if that takes too long.
    fn empty(&mut self) -> Result<bool, LoopError> {
        let end = self.clock.now().saturating_add(EMPTYING_NS_MAX);
        loop {
            let now = self.clock.now();
            self.share = Share::from(now);
            if self.switch.poll_timeout().is_some_and(|at| at <= now) {
                self.switch.handle_timeout(now);
            }
            self.run_switch(now)?;
            self.ports.flush_all()?;
            self.ports.report_full(&mut self.switch);
            if !self.is_busy && self.switch.is_engine_empty() && !self.ports.has_unsent() {
                return Ok(true);
            }
            if now >= end {
                return Ok(false);
            }
            if !self.is_busy {
                thread::sleep(EMPTYING_POLL);
            }
        }
    }

    fn packet_state(&mut self) -> Result<PacketState, String> {
        self.drain_waiters.notify(&self.switch);
        let ports = self.offer()?.into_iter();
        let ports = ports.map(|(id, handed)| (id.0, handed.state)).collect();
        self.switch.collect();
        Ok(PacketState::of(&self.switch, ports))
    }

    /// Takes over the state of a paused loop of another process.
    fn go_on_from(&mut self, mut state: PacketState) -> Result<(), String> {
        for (id, of_port) in std::mem::take(&mut state.ports) {
            let place = self.ports.place_of(PortId(id));
            let place = place.ok_or_else(|| format!("expected port {id} here too, found none"))?;
            let gone_on = self.ports.at(place).port.go_on_from(&of_port);
            gone_on.map_err(|error| format!("port {id}: {error}"))?;
        }
        state.write_to(&mut self.switch)
    }
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn equal_neighbours_are_one_run() {
        let cells = [0, 0, 7, 7, 7, 0];
        let found = runs(0..6, |cell| cells[cell as usize]);
        assert_eq!(found, [(0, 0..2), (7, 2..5), (0, 5..6)]);
        assert_eq!(runs(0..0, |_| 0), []);
    }
}
