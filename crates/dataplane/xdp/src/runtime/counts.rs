//! Adds what the kernel programs have counted to the switch's own counts, its [`Accounts`].

use std::collections::{BTreeSet, HashMap};
use std::io;

use bpf::{Map, n_possible_processors};
use dataplane::offload::Accounts;
use dataplane::{
    CounterId, CounterValue, DropReason, MeterId, Nanos, PortId, Program, Stream, TableCounters,
    TableId,
};

use super::grace::{Graces, Moment};
use super::translator::Translator;
use super::transmit::{DeviceCount, TimeKey, Transmit};
use crate::image::{Counters, Image, Index, MapRole, MeterLayout};

pub(crate) struct Counts {
    layout: Counters,
    tables: Vec<TableCounts>,
    cells: Vec<CellCounts>,
    meters: Vec<MeterCounts>,
    makes_digests: bool,
    /// The last reading of each counter, by the counter's number.
    seen: Vec<CounterValue>,
    /// The interfaces of ports, with the last readings of their devices.
    devices: Vec<Device>,
    /// Every port that ever had an interface.
    ports: BTreeSet<PortId>,
    /// The last reading of the residence times (how long frames were inside the switch).
    times: HashMap<TimeKey, u64>,
    /// `n_begun` is the number of received packets plus the copies beyond the first of each packet; `n_ended` is how
    /// many of these have ended.
    n_begun: u64,
    n_ended: u64,
    /// A moment, and how many packets had begun by then. Once a grace period that began after the moment has ended, all
    /// these packets have ended or were lost.
    checked: Option<(Moment, u64)>,
}

struct Device {
    port: PortId,
    interface: u32,
    seen: DeviceCount,
    /// When the port stopped using the interface; `None` while the port uses it.
    retired: Option<Moment>,
}

pub(crate) struct Sources<'a> {
    pub(crate) counters: &'a Map,
    pub(crate) transmit: &'a Transmit,
    pub(crate) translator: &'a Translator,
    pub(crate) graces: &'a Graces,
}

struct TableCounts {
    table: TableId,
    first: u32,
    /// Hits of bodies ([`crate::image::Body`]) that now belong to another entry.
    hits: u64,
    /// The first counter of the entries' meters.
    meters: Option<u32>,
}

struct CellCounts {
    counter: CounterId,
    first: u32,
    n: u32,
}

struct MeterCounts {
    meter: MeterId,
    first: u32,
    n_cells: u32,
}

/// The meaning of a counter's packets.
#[derive(Clone, Copy)]
enum Kind {
    Received(PortId),
    Dropped(DropReason),
    Replicated,
}

impl Counts {
    pub(crate) fn new(program: &Program, image: &Image) -> Counts {
        let layout = image.counters.clone();
        let tables = program.tables().zip(&image.tables).zip(&layout.tables);
        let tables = tables
            .filter(|((_, table), _)| !matches!(table.index, Index::Left))
            .map(|(((table, _), _), first)| TableCounts {
                table,
                first: *first,
                hits: 0,
                meters: of_meter(&image.direct_meters, table.index()).map(|it| it.counters),
            });
        let meters = program.meters().filter_map(|(meter, _)| {
            let layout = of_meter(&image.meters, meter.index())?;
            Some(MeterCounts {
                meter,
                first: layout.counters,
                n_cells: layout.cells.body.n,
            })
        });
        let cells = program.counters().zip(&layout.cells);
        let arrays = cells.zip(&program.ir().counters);
        let cells = arrays.filter_map(|(((counter, _), first), array)| {
            Some(CellCounts {
                counter,
                first: (*first)?,
                n: u32::try_from(array.cells).ok()?,
            })
        });
        Counts {
            tables: tables.collect(),
            cells: cells.collect(),
            meters: meters.collect(),
            makes_digests: image.map(MapRole::Digests).is_some(),
            seen: vec![CounterValue::default(); layout.n as usize],
            layout,
            devices: Vec::new(),
            ports: BTreeSet::new(),
            times: HashMap::new(),
            n_begun: 0,
            n_ended: 0,
            checked: None,
        }
    }

    pub(crate) fn add_device(&mut self, port: PortId, interface: u32) {
        self.ports.insert(port);
        let mut devices = self.devices.iter_mut();
        // A port has used this interface before. The packets counted at the interface until now remain that port's.
        if let Some(device) = devices.find(|it| it.interface == interface) {
            device.port = port;
            device.retired = None;
            return;
        }
        self.devices.push(Device {
            port,
            interface,
            seen: DeviceCount::default(),
            retired: None,
        });
    }

    /// Marks an interface that its port stops using. Packets that are still on their way to the interface are counted
    /// as usual.
    pub(crate) fn retire_device(&mut self, port: PortId, interface: u32, now: Moment) {
        let mut devices = self.devices.iter_mut();
        let device = devices.find(|it| it.port == port && it.interface == interface);
        if let Some(device) = device {
            device.retired = Some(now);
        }
    }

    /// Forgets interfaces that no packet can reach any more. Call this function after the interfaces' counts were read.
    fn forget_devices(&mut self, from: &Sources<'_>, past: &[u32]) -> io::Result<()> {
        self.devices.retain(|it| !past.contains(&it.interface));
        for interface in past {
            let times = self.times.extract_if(|key, _| key.interface == *interface);
            let times: Vec<TimeKey> = times.map(|(key, _)| key).collect();
            from.transmit.forget(*interface, &times)?;
        }
        let retired = self.devices.iter().filter_map(|it| it.retired);
        if let Some(moment) = retired.max() {
            from.graces.ask(moment);
        }
        Ok(())
    }

    /// Returns how many packets have begun and not ended: they are inside the switch.
    pub(crate) fn n_inside(&self) -> u64 {
        self.n_begun.saturating_sub(self.n_ended)
    }

    /// Adds everything counted since the last call to the accounts. Reads the counters of ended packets before the
    /// counters of received packets, so that it never finds more packets ended than received.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn collect(
        &mut self,
        from: &Sources<'_>,
        now: Nanos,
        accounts: &mut Accounts<'_>,
    ) -> io::Result<()> {
        let counters = from.counters;
        let is_past = |(moment, _): &mut (Moment, u64)| from.graces.is_past(*moment);
        let checked = self.checked.take_if(is_past);
        let past = self.devices.iter().filter(|it| {
            let retired = it.retired;
            retired.is_some_and(|moment| from.graces.is_past(moment))
        });
        let past: Vec<u32> = past.map(|it| it.interface).collect();
        self.devices(from.transmit, accounts)?;
        self.times(from.transmit, accounts)?;
        self.forget_devices(from, &past)?;
        self.dropped(counters, accounts)?;
        self.tables(counters, from.translator, now, accounts)?;
        self.cells(counters, accounts)?;
        self.meters(counters, accounts)?;
        self.digests(counters, accounts)?;
        self.begun(counters, accounts)?;
        if let Some((_, n_begun)) = checked {
            self.lose(n_begun, accounts);
        }
        if self.checked.is_none() && self.n_inside() > 0 {
            let now = from.graces.now();
            self.checked = Some((now, self.n_begun));
            from.graces.ask(now);
        }
        accounts.inside(self.n_inside());
        Ok(())
    }

    /// Counts the packets that are inside the switch as dropped.
    pub(crate) fn give_up(&mut self, reason: DropReason, accounts: &mut Accounts<'_>) {
        accounts.dropped(reason, self.n_inside());
        self.n_ended = self.n_begun;
        accounts.inside(0);
    }

    /// Adds the counts that a body (an entry's memory, [`crate::image::Body`]) has so far to the table, before another
    /// entry gets the body.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn change_owner(
        &mut self,
        counters: &Map,
        table: usize,
        body: u32,
    ) -> io::Result<()> {
        let mut tables = self.tables.iter();
        let Some(place) = tables.position(|it| it.table.index() == table) else {
            return Ok(());
        };
        if let Some(meters) = self.tables[place].meters {
            // The colours counted so far belong to the removed entry. This reading excludes them from later readings.
            let first = meters + MeterLayout::N_COLORS * body;
            self.read(counters, first, MeterLayout::N_COLORS)?;
        }
        let new = self.read(counters, self.tables[place].first + body, 1)?;
        self.tables[place].hits += new.first().map_or(0, |count| count.packets);
        Ok(())
    }

    fn devices(&mut self, transmit: &Transmit, accounts: &mut Accounts<'_>) -> io::Result<()> {
        for device in &mut self.devices {
            let Device {
                port,
                interface,
                seen,
                ..
            } = device;
            let count = transmit.count(*interface)?;
            let sent = since(&mut seen.sent, count.sent);
            let refused = since(&mut seen.refused, count.refused);
            accounts.sent(*port, sent.packets, sent.bytes);
            accounts.dropped(DropReason::DeviceRefused, refused.packets);
            self.n_ended += sent.packets + refused.packets;
        }
        Ok(())
    }

    fn times(&mut self, transmit: &Transmit, accounts: &mut Accounts<'_>) -> io::Result<()> {
        for (key, n) in transmit.times()? {
            let seen = self.times.entry(key).or_default();
            let new = n.saturating_sub(std::mem::replace(seen, n));
            let mut devices = self.devices.iter();
            let device = devices.find(|it| it.interface == key.interface);
            let (Some(Device { port, .. }), 1..) = (device, new) else {
                continue;
            };
            let stream = match key.stream {
                0 => Stream::Unicast,
                group => Stream::MulticastGroup(group),
            };
            accounts.latency(*port, stream, key.time_ns(), new);
        }
        Ok(())
    }

    fn dropped(&mut self, counters: &Map, accounts: &mut Accounts<'_>) -> io::Result<()> {
        let reasons = DropReason::ALL.iter().copied().map(Kind::Dropped);
        self.add(counters, self.layout.dropped, reasons.collect(), accounts)
    }

    fn begun(&mut self, counters: &Map, accounts: &mut Accounts<'_>) -> io::Result<()> {
        for port in self.ports.clone() {
            let kind = Kind::Received(port);
            self.add(
                counters,
                self.layout.received_by(port),
                vec![kind],
                accounts,
            )?;
        }
        let kind = Kind::Replicated;
        self.add(counters, self.layout.replicated, vec![kind], accounts)
    }

    fn add(
        &mut self,
        counters: &Map,
        first: u32,
        kinds: Vec<Kind>,
        accounts: &mut Accounts<'_>,
    ) -> io::Result<()> {
        let new = self.read(counters, first, kinds.len() as u32)?;
        for (kind, new) in kinds.into_iter().zip(new) {
            match kind {
                Kind::Received(port) => {
                    accounts.received(port, new.packets, new.bytes);
                    self.n_begun += new.packets;
                }
                Kind::Dropped(reason) => {
                    accounts.dropped(reason, new.packets);
                    self.n_ended += new.packets;
                }
                // This counter's bytes are the number of copies beyond the first.
                Kind::Replicated => {
                    accounts.replicated(new.bytes);
                    self.n_begun += new.bytes;
                }
            }
        }
        Ok(())
    }

    fn tables(
        &mut self,
        counters: &Map,
        translator: &Translator,
        now: Nanos,
        accounts: &mut Accounts<'_>,
    ) -> io::Result<()> {
        for place in 0..self.tables.len() {
            let TableCounts {
                table,
                first,
                meters,
                ..
            } = self.tables[place];
            let mut lookups = TableCounters {
                hits: std::mem::take(&mut self.tables[place].hits),
                misses: 0,
            };
            let new = self.read(counters, first, translator.n_used(table))?;
            for (body, new) in (0..).zip(new).filter(|(_, new)| new.packets > 0) {
                match body {
                    0 => lookups.misses += new.packets,
                    _ => lookups.hits += new.packets,
                }
                if let Some(entry) = translator.owner(table, body) {
                    accounts.entry(table, entry, new, now);
                }
            }
            accounts.table(table, lookups);
            let Some(meters) = meters else {
                continue;
            };
            let n_bodies = translator.n_used(table);
            for (body, color, new) in self.colors(counters, meters, n_bodies)? {
                if let Some(entry) = translator.owner(table, body) {
                    accounts.direct_meter(table, entry, color, new);
                }
            }
        }
        Ok(())
    }

    fn meters(&mut self, counters: &Map, accounts: &mut Accounts<'_>) -> io::Result<()> {
        for place in 0..self.meters.len() {
            let MeterCounts {
                meter,
                first,
                n_cells,
            } = self.meters[place];
            for (cell, color, new) in self.colors(counters, first, n_cells)? {
                accounts.meter(meter, cell as usize, color, new);
            }
        }
        Ok(())
    }

    /// Returns how much the counters of the colours of a meter's cells have increased since the last reading. Each
    /// element of the result consists of the cell, the colour and the increase.
    fn colors(
        &mut self,
        counters: &Map,
        first: u32,
        n_cells: u32,
    ) -> io::Result<Vec<(u32, u8, CounterValue)>> {
        let new = self.read(counters, first, MeterLayout::N_COLORS * n_cells)?;
        let numbered = (0..).zip(new).filter(|(_, new)| new.packets > 0);
        let of_cell = |(number, new): (u32, _)| {
            let color = (number % MeterLayout::N_COLORS) as u8;
            (number / MeterLayout::N_COLORS, color, new)
        };
        Ok(numbered.map(of_cell).collect())
    }

    fn cells(&mut self, counters: &Map, accounts: &mut Accounts<'_>) -> io::Result<()> {
        for place in 0..self.cells.len() {
            let CellCounts { counter, first, n } = self.cells[place];
            let new = self.read(counters, first, n)?;
            for (cell, new) in new.into_iter().enumerate() {
                if new.packets > 0 {
                    accounts.counter(counter, cell, new);
                }
            }
        }
        Ok(())
    }

    /// Adds the digests that were lost because the ring had no room. All other digests are counted when the switch
    /// takes them from the ring.
    fn digests(&mut self, counters: &Map, accounts: &mut Accounts<'_>) -> io::Result<()> {
        if self.makes_digests {
            let new = self.read(counters, self.layout.digests_lost, 1)?;
            new.iter()
                .for_each(|lost| accounts.digests_lost(lost.packets));
        }
        Ok(())
    }

    /// Counts lost packets. `n_begun` packets had begun before a grace period that has ended. Each of these packets was
    /// inside for at most one NAPI poll, and a grace period ends only after the polls that run when it begins. So if
    /// fewer packets have ended by now, the missing packets were lost on the way to a device. Packets that came later
    /// may hide a loss until no more packets come.
    fn lose(&mut self, n_begun: u64, accounts: &mut Accounts<'_>) {
        let n_lost = n_begun.saturating_sub(self.n_ended);
        accounts.dropped(DropReason::DeviceRefused, n_lost);
        self.n_ended += n_lost;
    }

    /// Returns how many packets are inside the switch according to the current counters. Reads the counters of ended
    /// packets before those of received packets: if the result is 0, no packet was inside between the two readings.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn n_inside_now(&self, counters: &Map, transmit: &Transmit) -> io::Result<u64> {
        let n_packets = |new: Vec<CounterValue>| new.iter().map(|it| it.packets).sum::<u64>();
        let mut n_ended = self.n_ended;
        for Device {
            interface, seen, ..
        } in &self.devices
        {
            let count = transmit.count(*interface)?;
            n_ended += gain(seen.sent, count.sent).packets;
            n_ended += gain(seen.refused, count.refused).packets;
        }
        let n_reasons = DropReason::ALL.len() as u32;
        n_ended += n_packets(self.fresh(counters, self.layout.dropped, n_reasons)?);
        let mut n_begun = self.n_begun;
        for port in &self.ports {
            let first = self.layout.received_by(*port);
            n_begun += n_packets(self.fresh(counters, first, 1)?);
        }
        let replicated = self.fresh(counters, self.layout.replicated, 1)?;
        n_begun += replicated.iter().map(|it| it.bytes).sum::<u64>();
        Ok(n_begun.saturating_sub(n_ended))
    }

    /// Returns the increase of these counters since the last reading, and stores the new reading.
    fn read(&mut self, counters: &Map, first: u32, n: u32) -> io::Result<Vec<CounterValue>> {
        let new = self.fresh(counters, first, n)?;
        for (seen, new) in self.seen.iter_mut().skip(first as usize).zip(&new) {
            seen.packets += new.packets;
            seen.bytes += new.bytes;
        }
        Ok(new)
    }

    /// Returns the increase of these counters since the last reading.
    fn fresh(&self, counters: &Map, first: u32, n: u32) -> io::Result<Vec<CounterValue>> {
        let values = counters.look_up_range(first, n)?;
        let n_bytes = counters.value_bytes();
        let n_processors = n_possible_processors()?.max(1);
        let values = values.chunks_exact(n_bytes.max(1));
        let seen = self.seen.iter().skip(first as usize);
        Ok(values
            .zip(seen)
            .map(|(value, seen)| gain(*seen, sum(value, n_bytes / n_processors)))
            .collect())
    }
}

fn of_meter(layouts: &[Option<MeterLayout>], position: usize) -> Option<&MeterLayout> {
    layouts.get(position)?.as_ref()
}

/// Sums a counter's values over all processors.
fn sum(value: &[u8], n_bytes: usize) -> CounterValue {
    let mut sum = CounterValue::default();
    for processor in value.chunks_exact(n_bytes.max(1)) {
        let word = |at: usize| {
            processor
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_ne_bytes)
        };
        sum.packets += word(0).unwrap_or(0);
        sum.bytes += word(8).unwrap_or(0);
    }
    sum
}

/// Returns the increase since the last reading and stores the new reading.
fn since(seen: &mut CounterValue, now: CounterValue) -> CounterValue {
    gain(std::mem::replace(seen, now), now)
}

fn gain(before: CounterValue, now: CounterValue) -> CounterValue {
    CounterValue {
        packets: now.packets.saturating_sub(before.packets),
        bytes: now.bytes.saturating_sub(before.bytes),
    }
}
