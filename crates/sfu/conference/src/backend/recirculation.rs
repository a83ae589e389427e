//! `sfu_recirculation.p4`: a group is a block of slots in three registers. The group's cell in a
//! fourth register, `(base << 32) | count`, refers to the block.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;

use p4runtime_client::entities;
use p4runtime_client::objects::{Array, Count, ObjectError};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{Entity, Update};

use super::{Changes, Counts, PlanError, clone_entry, ip};
use crate::address::{self, Mac};
use crate::limits::{CLONE_SESSION, GROUP_VIEWERS_MAX};
use crate::model::{Capabilities, Conference, GroupId, Viewer};
use crate::plan::{Plan, Stage, Target};
use crate::slots::{Block, CounterIds, Slide, Slots};

#[derive(Clone, Debug)]
pub(super) struct Objects {
    groups: Array,
    viewer_ips: Array,
    viewer_macs: Array,
    viewer_ids: Array,
    viewer_copies: Array,
}

/// The bit of a `viewer_ids` cell that says that the viewer's MAC was looked up. The P4 program ignores this bit.
const LOOKED_UP: u32 = 1 << 31;

/// Where the switch stores each group.
#[derive(Clone, Default, Debug)]
pub(super) struct Layout {
    groups: BTreeMap<GroupId, Placed>,
    /// The port of the clone session; `Some(None)` if the session has no port or several.
    session: Option<Option<u16>>,
}

#[derive(Clone, Default, Debug)]
struct Placed {
    block: Option<Block>,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    ip: Ipv4Addr,
    mac: Mac,
    looked_up: bool,
    /// The index of the viewer's counter, which is constant as long as the viewer is in the group.
    id: u32,
}

impl Objects {
    pub(super) fn find(p4info: &P4Info) -> Result<Objects, ObjectError> {
        Ok(Objects {
            groups: Array::register(p4info, "groups")?,
            viewer_ips: Array::register(p4info, "viewer_ips")?,
            viewer_macs: Array::register(p4info, "viewer_macs")?,
            viewer_ids: Array::register(p4info, "viewer_ids")?,
            viewer_copies: Array::counter(p4info, "viewer_copies")?,
        })
    }

    fn pool_slots(&self) -> u32 {
        self.viewer_ips
            .size
            .min(self.viewer_macs.size)
            .min(self.viewer_ids.size)
    }

    /// The limits of the program. Half of the pool is reserved for new blocks while the old ones are in use. A group
    /// takes at most a quarter of the pool, so that a block and the allocator's reserve ([`crate::slots`]) fit into the
    /// reserved half.
    pub(super) fn capabilities(&self, groups_max: usize) -> Capabilities {
        let pool = self.pool_slots() as usize;
        let last_group = u16::try_from(self.groups.size.saturating_sub(1)).unwrap_or(u16::MAX);
        Capabilities {
            udp_ports: false,
            several_ports: false,
            group_ids: 0..=last_group,
            groups_max: groups_max.min(usize::from(last_group) + 1),
            group_viewers_max: GROUP_VIEWERS_MAX.min(pool / 4),
            viewers_max: (pool / 2).min(self.viewer_copies.size as usize),
        }
    }

    pub(super) async fn read<T: Target>(
        &self,
        target: &mut T,
        entities: &[Entity],
        groups: &BTreeSet<GroupId>,
        foreign: &mut Vec<String>,
    ) -> Result<Layout, T::Error> {
        let session = entities
            .iter()
            .filter_map(clone_entry)
            .find(|s| s.session_id == CLONE_SESSION);
        let session = session.map(|session| match session.replicas.as_slice() {
            [replica] => entities::replica_port(replica),
            _ => None,
        });
        let blocks = self.read_blocks(target, groups, foreign).await?;
        let groups = self.read_viewers(target, blocks, foreign).await?;
        Ok(Layout { groups, session })
    }

    async fn read_blocks<T: Target>(
        &self,
        target: &mut T,
        groups: &BTreeSet<GroupId>,
        foreign: &mut Vec<String>,
    ) -> Result<BTreeMap<GroupId, Option<Block>>, T::Error> {
        let cells = groups.iter().map(|group| u32::from(group.0));
        let values = read_cells(target, &self.groups, cells).await?;
        let mut pool = Slots::new(self.pool_slots(), 0);
        let mut blocks = BTreeMap::new();
        for group in groups {
            let value = values.get(&u32::from(group.0)).copied().unwrap_or(0);
            let [base, len] = [value >> 32, value & 0xffff_ffff].map(|half| half as u32);
            let mut block = (len != 0).then_some(Block { base, len });
            if let Some(Err(error)) = block.map(|block| pool.occupy(block, *group)) {
                foreign.push(format!("group {group}: {error}"));
                block = None;
            }
            blocks.insert(*group, block);
        }
        Ok(blocks)
    }

    async fn read_viewers<T: Target>(
        &self,
        target: &mut T,
        blocks: BTreeMap<GroupId, Option<Block>>,
        foreign: &mut Vec<String>,
    ) -> Result<BTreeMap<GroupId, Placed>, T::Error> {
        let slots = || {
            blocks
                .values()
                .flatten()
                .flat_map(|block| block.base..block.base + block.len)
        };
        let ips = read_cells(target, &self.viewer_ips, slots()).await?;
        let macs = read_cells(target, &self.viewer_macs, slots()).await?;
        let ids = read_cells(target, &self.viewer_ids, slots()).await?;
        let slot = |index: u32| {
            let cell = |cells: &HashMap<u32, u64>| cells.get(&index).copied();
            let ip = ip(cell(&ips)?).filter(|ip| address::unfit_for_host(*ip).is_none())?;
            let id = u32::try_from(cell(&ids)?).ok()?;
            Some(Slot {
                ip,
                mac: Mac::from_u64(cell(&macs)?),
                looked_up: id & LOOKED_UP != 0,
                id: id & !LOOKED_UP,
            })
        };
        let mut groups = BTreeMap::new();
        for (group, block) in blocks {
            let range = block.map_or(0..0, |block| block.base..block.base + block.len);
            let mut placed = Placed {
                block,
                slots: Vec::new(),
            };
            for index in range {
                match slot(index) {
                    Some(slot) => placed.slots.push(slot),
                    None => foreign.push(format!("group {group}: no viewer in slot {index}")),
                }
            }
            groups.insert(group, placed);
        }
        Ok(groups)
    }

    pub(super) async fn counts<T: Target>(
        &self,
        target: &mut T,
        layout: &Layout,
    ) -> Result<Counts, T::Error> {
        let slots = layout.groups.values().flat_map(|placed| &placed.slots);
        let wanted = slots.map(|slot| self.viewer_copies.count(slot.id));
        let entities = target.read(wanted.collect()).await?;
        let counts = entities
            .iter()
            .filter_map(|e| self.viewer_copies.count_value(e));
        let counts: HashMap<u32, Count> = counts.collect();
        let of_group = |placed: &Placed| {
            let count = |s: &Slot| counts.get(&s.id).copied().unwrap_or_default();
            let slots = placed.slots.iter();
            slots.map(|s| (s.viewer().key(), count(s))).collect()
        };
        Ok(layout
            .groups
            .iter()
            .map(|(id, placed)| (*id, of_group(placed)))
            .collect())
    }

    pub(super) fn plan(
        &self,
        layout: &Layout,
        desired: &Conference,
        mut changes: Changes,
    ) -> Result<Plan, PlanError> {
        match session_update(layout, desired) {
            // The session's port changes in the request that deletes the previous address.
            Some((false, update)) => changes.address.after.push(update),
            Some((true, update)) => changes.address.before.push(update),
            None => {}
        }
        let in_use = std::mem::take(&mut changes.presenters.in_use);
        let mut planner = Planner::new(self, layout, desired, &in_use);
        changes.begin(&mut planner.plan);
        let gone = layout
            .groups
            .iter()
            .filter(|(id, placed)| placed.block.is_some() && !desired.groups().contains_key(id));
        let empty = |ids: Vec<GroupId>| {
            let cells = ids.into_iter().map(|id| self.groups.write(id.0.into(), 0));
            cells.collect::<Vec<_>>()
        };
        let (late, early) = gone.map(|(id, _)| *id).partition(|id| in_use.contains(id));
        planner.plan.write(Stage::Cleanup, empty(early));
        planner.make_counters_free(desired)?;
        planner.place_changed(desired)?;
        planner.write_pending();
        changes.end(&mut planner.plan);
        planner.plan.write(Stage::Cleanup, empty(late));
        Ok(planner.plan)
    }
}

impl Layout {
    /// Returns the viewers of each group, in the order of the copies.
    pub(super) fn viewers(&self) -> BTreeMap<GroupId, Vec<Viewer>> {
        let of_group = |placed: &Placed| placed.slots.iter().map(Slot::viewer).collect();
        let groups = self.groups.iter();
        groups.map(|(id, placed)| (*id, of_group(placed))).collect()
    }

    /// Describes what an interrupted change left and the next change completes.
    pub(super) fn left_over(&self, conference: &Conference) -> Option<String> {
        let (is_new, _) = session_update(self, conference)?;
        (!is_new).then(|| "a clone session that sends copies to another port".to_owned())
    }
}

impl Slot {
    /// Returns the value of the slot's `viewer_ids` cell.
    fn cell(&self) -> u32 {
        self.id | if self.looked_up { LOOKED_UP } else { 0 }
    }

    fn viewer(&self) -> Viewer {
        Viewer {
            ip: self.ip,
            mac: self.mac,
            looked_up: self.looked_up,
            udp_port: None,
            port: None,
        }
    }
}

/// Returns the update of the clone session, and before it whether the update creates the session. The update sets the
/// session's port to the port of the SFU's own address, or deletes the session if the SFU has no own address. Returns
/// `None` if the session has this port already.
fn session_update(layout: &Layout, desired: &Conference) -> Option<(bool, Update)> {
    let port = desired.address().map(|address| address.port);
    let session = |port| entities::clone_session(CLONE_SESSION, port);
    match (layout.session, port) {
        (Some(Some(is)), Some(port)) if is == port => None,
        (Some(_), Some(port)) => Some((false, entities::modify(session(port)))),
        (None, Some(port)) => Some((true, entities::insert(session(port)))),
        (Some(is), None) => Some((false, entities::delete(session(is.unwrap_or(0))))),
        (None, None) => None,
    }
}

async fn read_cells<T: Target>(
    target: &mut T,
    register: &Array,
    cells: impl Iterator<Item = u32>,
) -> Result<HashMap<u32, u64>, T::Error> {
    let wanted = cells.map(|index| register.cell(index));
    let entities = target.read(wanted.collect()).await?;
    let values = entities.iter().filter_map(|it| register.cell_value(it));
    Ok(values.collect())
}

/// Collects writes until the plan needs a drain, a wait after which no packet sees the old state.
struct Planner<'a> {
    objects: &'a Objects,
    plan: Plan,
    pool: Slots,
    counters: CounterIds,
    placed: BTreeMap<GroupId, Placed>,
    prepare: Vec<Update>,
    flips: Vec<Update>,
    retired: Vec<Block>,
    retired_ids: Vec<u32>,
}

impl<'a> Planner<'a> {
    /// Starts from the state after the first drain: deleted groups, their slots and their counters
    /// are free, except those that a packet may still reach.
    fn new(
        objects: &'a Objects,
        layout: &Layout,
        desired: &Conference,
        in_use: &HashSet<GroupId>,
    ) -> Self {
        let reserve = u32::try_from(desired.capabilities().group_viewers_max).unwrap_or(u32::MAX);
        let mut pool = Slots::new(objects.pool_slots(), reserve);
        let mut counters = CounterIds::new(objects.viewer_copies.size);
        let mut placed = BTreeMap::new();
        for (id, group) in &layout.groups {
            if desired.groups().contains_key(id) || in_use.contains(id) {
                if let Some(block) = group.block {
                    let taken = pool.occupy(block, *id);
                    debug_assert!(taken.is_ok(), "blocks were checked when they were read");
                }
                group.slots.iter().for_each(|slot| counters.occupy(slot.id));
                placed.insert(*id, group.clone());
            }
        }
        Planner {
            objects,
            plan: Plan::default(),
            pool,
            counters,
            placed,
            prepare: Vec::new(),
            flips: Vec::new(),
            retired: Vec::new(),
            retired_ids: Vec::new(),
        }
    }

    /// If the counters do not suffice for old and new viewers together, plans to remove first those
    /// viewers that leave, and to add the others later.
    fn make_counters_free(&mut self, desired: &Conference) -> Result<(), PlanError> {
        let known = |id: &GroupId| -> HashSet<Ipv4Addr> {
            self.placed
                .get(id)
                .map(|p| p.slots.iter().map(|s| s.ip).collect())
                .unwrap_or_default()
        };
        let n_new: usize = desired
            .groups()
            .iter()
            .map(|(id, group)| {
                let known = known(id);
                group
                    .viewers
                    .iter()
                    .filter(|v| !known.contains(&v.ip))
                    .count()
            })
            .sum();
        if n_new <= self.counters.n_free() as usize {
            return Ok(());
        }
        for (id, group) in desired.groups() {
            let stay: HashSet<Ipv4Addr> = group.viewers.iter().map(|v| v.ip).collect();
            let Some(placed) = self.placed.get(id) else {
                continue;
            };
            let kept: Vec<Slot> = placed
                .slots
                .iter()
                .filter(|s| stay.contains(&s.ip))
                .copied()
                .collect();
            if kept.len() < placed.slots.len() {
                self.place(*id, kept)?;
            }
        }
        self.flush();
        Ok(())
    }

    fn place_changed(&mut self, desired: &Conference) -> Result<(), PlanError> {
        for (id, group) in desired.groups() {
            let placed = self.placed.get(id);
            let same = |(slot, viewer): (&Slot, &Viewer)| slot.viewer() == *viewer;
            let unchanged = placed.is_some_and(|placed| {
                placed.slots.len() == group.viewers.len()
                    && placed.slots.iter().zip(&group.viewers).all(same)
            });
            if !unchanged {
                let slots = self.slots_for(*id, &group.viewers)?;
                self.place(*id, slots)?;
            }
        }
        Ok(())
    }

    /// Returns the group's viewers with their counters. A viewer that stays keeps its counter. A new viewer gets a free
    /// counter, which is set to 0 before any packet uses it.
    fn slots_for(&mut self, id: GroupId, viewers: &[Viewer]) -> Result<Vec<Slot>, PlanError> {
        let known: HashMap<Ipv4Addr, u32> = self
            .placed
            .get(&id)
            .map(|placed| placed.slots.iter().map(|slot| (slot.ip, slot.id)).collect())
            .unwrap_or_default();
        let mut slots = Vec::with_capacity(viewers.len());
        for viewer in viewers {
            let id = match known.get(&viewer.ip) {
                Some(id) => *id,
                None => self.new_counter()?,
            };
            slots.push(Slot {
                ip: viewer.ip,
                mac: viewer.mac,
                looked_up: viewer.looked_up,
                id,
            });
        }
        Ok(slots)
    }

    fn new_counter(&mut self) -> Result<u32, PlanError> {
        let id = match self.counters.allocate() {
            Some(id) => id,
            None => {
                self.flush();
                self.counters.allocate().ok_or(PlanError::NoCounter)?
            }
        };
        self.prepare.push(self.objects.viewer_copies.reset(id));
        Ok(id)
    }

    fn place(&mut self, id: GroupId, slots: Vec<Slot>) -> Result<(), PlanError> {
        let block = match u32::try_from(slots.len()) {
            Ok(0) => None,
            len => Some(self.room(len.unwrap_or(u32::MAX), id)?),
        };
        self.put(id, block, slots);
        Ok(())
    }

    /// Allocates a block. If there is no room, first writes what is pending and drains, which frees old blocks. If
    /// there is still no room, also moves other groups closer together.
    fn room(&mut self, len: u32, id: GroupId) -> Result<Block, PlanError> {
        if let Some(block) = self.pool.allocate(len, id) {
            return Ok(block);
        }
        self.flush();
        if let Some(block) = self.pool.allocate(len, id) {
            return Ok(block);
        }
        for way in [Slide::Down, Slide::Up] {
            while let Some(step) = self.pool.slide(way) {
                let slots = self
                    .placed
                    .get(&step.group)
                    .map(|p| p.slots.clone())
                    .unwrap_or_default();
                self.put(step.group, Some(step.to), slots);
                self.flush();
                if let Some(block) = self.pool.allocate(len, id) {
                    return Ok(block);
                }
            }
        }
        Err(PlanError::Fragmented { len })
    }

    fn put(&mut self, id: GroupId, block: Option<Block>, slots: Vec<Slot>) {
        let base = block.map_or(0, |block| block.base);
        for (index, slot) in (base..).zip(&slots) {
            self.prepare.push(
                self.objects
                    .viewer_ips
                    .write(index, u32::from(slot.ip).into()),
            );
            self.prepare
                .push(self.objects.viewer_macs.write(index, slot.mac.to_u64()));
            self.prepare
                .push(self.objects.viewer_ids.write(index, slot.cell().into()));
        }
        let len = block.map_or(0, |block| block.len);
        let value = u64::from(base) << 32 | u64::from(len);
        self.flips
            .push(self.objects.groups.write(id.0.into(), value));
        let stay: HashSet<u32> = slots.iter().map(|slot| slot.id).collect();
        if let Some(old) = self.placed.insert(id, Placed { block, slots }) {
            self.retired.extend(old.block);
            self.retired_ids.extend(
                old.slots
                    .iter()
                    .map(|s| s.id)
                    .filter(|id| !stay.contains(id)),
            );
        }
    }

    fn write_pending(&mut self) {
        self.plan
            .write(Stage::Prepare, std::mem::take(&mut self.prepare));
        self.plan
            .write(Stage::Flip, std::mem::take(&mut self.flips));
    }

    /// Activates the pending version, drains, and frees the previous version.
    fn flush(&mut self) {
        self.write_pending();
        self.retired
            .drain(..)
            .for_each(|block| self.pool.unlink(block));
        self.retired_ids
            .drain(..)
            .for_each(|id| self.counters.unlink(id));
        self.plan.drain();
        self.pool.drained();
        self.counters.drained();
    }
}
