//! A program prepared for the kernel: compiled, verified, with its maps. None of this depends on what controllers have
//! written, so it can be done in the background.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use bpf::Program;

use super::digests::Digests;
use super::grace::{Graces, Wait};
use super::groups::FanOuts;
use super::loaded::{Left, Reason, kernel};
use super::maps::Maps;
use super::messages::{Message, TableRef};
use super::serving::{KernelPort, Serving, check};
use super::table::Table;
use super::tracepoints::Tracepoints;
use super::translator::Translator;
use super::writer::Writer;
use crate::compile::compile;
use crate::image::{Image, MapRef, MapRole, Room, TableLayout};

/// Minimum room for interface numbers: each new veth pair takes two.
const INTERFACES_MIN: u32 = 1 << 14;

/// Room for sockets in addition to twice the number of present sockets.
const SOCKETS_BESIDE: u32 = 64;

pub(super) struct Prepared {
    pub(super) image: Arc<Image>,
    pub(super) maps: Arc<Maps>,
    pub(super) counters: MapRef,
    pub(super) tracepoints: Tracepoints,
    pub(super) digests: Digests,
    pub(super) serving: Arc<Serving>,
    /// The ports that the kernel can serve well.
    pub(super) ports: Vec<KernelPort>,
    pub(super) translator: Translator,
    pub(super) graces: Arc<Graces>,
    pub(super) writer: Writer,
    pub(super) messages: Sender<Message>,
    pub(super) of_writer: Receiver<Message>,
    pub(super) n_sockets: u32,
}

impl Prepared {
    /// Compiles a program and has the kernel verify it, for these ports and any later ones.
    ///
    /// # Errors
    /// Why the program is refused.
    pub(super) fn new(
        program: &dataplane::Program,
        ports: &[KernelPort],
        left: &Left,
        wait: Wait,
    ) -> Result<Prepared, Reason> {
        // A packet loads the version of the tables, then the actions that are valid for this version. On x86-64 the
        // processor keeps these loads in order; on arm64, for example, it does not.
        if !cfg!(target_arch = "x86_64") {
            let here = std::env::consts::ARCH;
            return Err(format!(
                "the kernel engine relies on x86-64's order of loads; this machine is {here}"
            ));
        }
        ports.iter().try_for_each(check)?;
        let room = room(ports, left)?;
        let image = compile(program, &room).map_err(|refused| refused.to_string())?;
        let image = Arc::new(image);
        let n_sockets: u32 = ports.iter().map(|port| port.interface.n_queues()).sum();
        let n_sockets = 2 * n_sockets + SOCKETS_BESIDE;
        let maps = Maps::create(&image, n_sockets).map_err(kernel("make maps"))?;
        let tracepoints = Tracepoints::new(ports.len(), &image, &maps);
        let tracepoints = tracepoints.map_err(kernel("count what devices take"))?;
        let maps = Arc::new(maps);
        let digests = Digests::new(program, &image, &maps).map_err(kernel("read digests"))?;
        let copies = image.egress.as_ref().map(|code| maps.link(code));
        let transmit = &tracepoints.transmit;
        let copies = transmit.load_egress("reprise_copies", copies.as_deref());
        let copies = copies.map_err(kernel("load the program of copies"))?;
        let unicast = transmit.load_egress("reprise_unicast", None);
        let unicast = unicast.map_err(kernel("load the program of what leaves"))?;
        let serving = Serving::new(&maps, &image, unicast, ports)?;
        let (freed_to, freed) = mpsc::channel();
        let (messages, of_writer) = mpsc::channel();
        let translator = Translator::new(&image, freed, messages.clone());
        let graces = Arc::new(Graces::new(wait, tracepoints.polls(&maps)));
        let first = graces.during(bpf::wait_for_programs);
        first.map_err(kernel("wait for a grace period (membarrier)"))?;
        let (tables, groups) = written_to(program, &image, &maps, copies);
        let writer = Writer::new(
            Arc::clone(&maps),
            image.heap.version,
            tables,
            groups,
            Arc::clone(&graces),
            freed_to,
        );
        let counters = image.map(MapRole::Counters);
        let counters = counters.ok_or_else(|| "the image has no counters".to_owned())?;
        Ok(Prepared {
            image,
            maps,
            counters,
            tracepoints,
            digests,
            serving: Arc::new(serving),
            ports: ports.to_vec(),
            translator,
            graces,
            writer,
            messages,
            of_writer,
            n_sockets,
        })
    }
}

/// Creates the tables that the writer writes, and the groups if the kernel makes copies.
fn written_to(
    program: &dataplane::Program,
    image: &Image,
    maps: &Maps,
    copies: Program,
) -> (HashMap<TableRef, Table>, Option<(TableLayout, FanOuts)>) {
    let mut tables = HashMap::new();
    for ((table, _), layout) in program.tables().zip(&image.tables) {
        let made = Table::new(layout.clone(), maps);
        tables.insert(TableRef::Program(table.index()), made);
    }
    let direct = (0..).map(TableRef::DirectMeter).zip(&image.direct_meters);
    let meters = (0..).map(TableRef::Meter).zip(&image.meters).chain(direct);
    for (at, layout) in meters {
        if let Some(layout) = layout {
            tables.insert(at, Table::new(layout.cells.clone(), maps));
        }
    }
    let groups = image.fan_out.clone().map(|fan_out| {
        let layout = fan_out.groups.clone();
        let table = Table::new(layout.clone(), maps);
        tables.insert(TableRef::Groups, table);
        let spec = image.maps.get(fan_out.devices.index());
        let n_fan_outs = spec.map_or(0, |spec| spec.n_entries_max);
        (layout, FanOuts::new(fan_out, n_fan_outs, copies))
    });
    (tables, groups)
}

fn room(ports: &[KernelPort], left: &Left) -> Result<Room, Reason> {
    let processors = bpf::n_possible_processors().map_err(kernel("count processors"))?;
    let last = ports.iter().map(|port| port.interface.index()).max();
    Ok(Room {
        left: left.clone(),
        processors: u32::try_from(processors).map_err(|error| error.to_string())?,
        interfaces: INTERFACES_MIN.max(2 * (last.unwrap_or(0) + 1)),
        ..Room::default()
    })
}
