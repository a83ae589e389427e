//! `sfu_recirculation.p4`: a group is a block of slots in three registers, named by one value of a
//! fourth, `(base << 32) | count`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{Entity, Update};

use super::{AddressUpdates, PlanError, ReadError, clone_entry, foreign, ip, mac_or_any, read};
use crate::address::Mac;
use crate::entities::{self, Array, Count, ProgramError, Row, Table};
use crate::limits::{CLONE_SESSION, GROUP_VIEWERS_MAX, READ_BATCH_ENTITIES};
use crate::model::{Capabilities, Conference, GroupId, Presenter, Viewer};
use crate::plan::{Plan, Stage, Target};
use crate::slots::{Block, CounterIds, Slide, Slots};

/// What the program is made of.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    presenters: Table,
    groups: Array,
    viewer_ips: Array,
    viewer_macs: Array,
    viewer_ids: Array,
    viewer_copies: Array,
}

/// Where everything is.
#[derive(Clone, Default, Debug)]
pub(super) struct Layout {
    groups: BTreeMap<GroupId, Placed>,
    /// The port of the clone session, `Some(None)` if it is not one port.
    session: Option<Option<u16>>,
}

#[derive(Clone, Default, Debug)]
struct Placed {
    block: Option<Block>,
    slots: Vec<Slot>,
}

/// One viewer in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    ip: Ipv4Addr,
    mac: Mac,
    /// Index of its counter, the same as long as it is a viewer.
    id: u32,
}

impl Objects {
    pub(super) fn find(p4info: &P4Info) -> Result<Objects, ProgramError> {
        Ok(Objects {
            presenters: Table::find(p4info, "presenters", &["src_addr"], ("set_group", 2))?,
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

    /// Half of the pool is for new blocks while the old ones are in use. A group takes at most a
    /// quarter, so that a block and the allocator's reserve fit into that half.
    pub(super) fn capabilities(&self) -> Capabilities {
        let pool = self.pool_slots() as usize;
        let last_group = u16::try_from(self.groups.size.saturating_sub(1)).unwrap_or(u16::MAX);
        Capabilities {
            udp_ports: false,
            group_ids: 0..=last_group,
            groups_max: self.presenters.size.min(usize::from(last_group) + 1),
            group_viewers_max: GROUP_VIEWERS_MAX.min(pool / 4),
            viewers_max: (pool / 2).min(self.viewer_copies.size as usize),
        }
    }

    pub(super) async fn read<T: Target>(
        &self,
        target: &mut T,
        conference: &mut Conference,
        received: &mut BTreeMap<GroupId, Count>,
        layout: &mut Layout,
    ) -> Result<(), ReadError<T::Error>> {
        let wanted = vec![self.presenters.wildcard(), entities::any_clone_session()];
        let entities = read(target, wanted).await?;
        let session = entities
            .iter()
            .filter_map(clone_entry)
            .find(|s| s.session_id == CLONE_SESSION);
        layout.session = session.map(|session| match session.replicas.as_slice() {
            [replica] => entities::replica_port(replica),
            _ => None,
        });
        for row in entities
            .iter()
            .filter_map(|entity| self.presenters.row(entity))
        {
            let (group, presenter) = presenter_of(&row).map_err(ReadError::Foreign)?;
            conference.add_group(group, presenter).map_err(foreign)?;
            received.insert(group, row.counter);
        }
        let ids: Vec<GroupId> = conference.groups().keys().copied().collect();
        let blocks = self.read_blocks(target, &ids).await?;
        self.read_viewers(target, conference, &blocks, layout).await
    }

    async fn read_blocks<T: Target>(
        &self,
        target: &mut T,
        groups: &[GroupId],
    ) -> Result<BTreeMap<GroupId, Option<Block>>, ReadError<T::Error>> {
        let cells = groups.iter().map(|group| u32::from(group.0));
        let values = read_cells(target, &self.groups, cells).await?;
        let mut pool = Slots::new(self.pool_slots(), 0);
        let mut blocks = BTreeMap::new();
        for group in groups {
            let value = values.get(&u32::from(group.0)).copied().unwrap_or(0);
            let [base, len] = [value >> 32, value & 0xffff_ffff].map(|half| half as u32);
            let block = (len != 0).then_some(Block { base, len });
            if let Some(block) = block {
                pool.occupy(block, *group)
                    .map_err(|e| ReadError::Foreign(format!("group {group}: {e}")))?;
            }
            blocks.insert(*group, block);
        }
        Ok(blocks)
    }

    async fn read_viewers<T: Target>(
        &self,
        target: &mut T,
        conference: &mut Conference,
        blocks: &BTreeMap<GroupId, Option<Block>>,
        layout: &mut Layout,
    ) -> Result<(), ReadError<T::Error>> {
        let slots = || {
            blocks
                .values()
                .flatten()
                .flat_map(|block| block.base..block.base + block.len)
        };
        let ips = read_cells(target, &self.viewer_ips, slots()).await?;
        let macs = read_cells(target, &self.viewer_macs, slots()).await?;
        let ids = read_cells(target, &self.viewer_ids, slots()).await?;
        for (group, block) in blocks {
            let range = block.map_or(0..0, |block| block.base..block.base + block.len);
            let mut placed = Placed {
                block: *block,
                slots: Vec::new(),
            };
            for slot in range {
                let cell = |cells: &HashMap<u32, u64>| cells.get(&slot).copied().unwrap_or(0);
                let viewer = Slot {
                    ip: ip(cell(&ips)).unwrap_or(Ipv4Addr::UNSPECIFIED),
                    mac: Mac::from_u64(cell(&macs)),
                    id: u32::try_from(cell(&ids)).unwrap_or(u32::MAX),
                };
                let model = Viewer {
                    ip: viewer.ip,
                    mac: viewer.mac,
                    udp_port: None,
                };
                conference.add_viewer(*group, model).map_err(foreign)?;
                placed.slots.push(viewer);
            }
            layout.groups.insert(*group, placed);
        }
        Ok(())
    }

    pub(super) async fn counts<T: Target>(
        &self,
        target: &mut T,
        layout: &Layout,
    ) -> Result<BTreeMap<GroupId, Vec<Count>>, ReadError<T::Error>> {
        let ids: Vec<u32> = layout
            .groups
            .values()
            .flat_map(|p| p.slots.iter().map(|s| s.id))
            .collect();
        let mut counts = HashMap::new();
        for batch in ids.chunks(READ_BATCH_ENTITIES) {
            let wanted = batch
                .iter()
                .map(|id| self.viewer_copies.count(*id))
                .collect();
            let entities = read(target, wanted).await?;
            counts.extend(
                entities
                    .iter()
                    .filter_map(|e| self.viewer_copies.count_value(e)),
            );
        }
        let of_group = |placed: &Placed| {
            placed
                .slots
                .iter()
                .map(|s| counts.get(&s.id).copied().unwrap_or_default())
                .collect()
        };
        Ok(layout
            .groups
            .iter()
            .map(|(id, placed)| (*id, of_group(placed)))
            .collect())
    }

    pub(super) fn plan(
        &self,
        current: &Conference,
        layout: &Layout,
        desired: &Conference,
        mut address: AddressUpdates,
    ) -> Result<Plan, PlanError> {
        let mut planner = Planner::new(self, current, layout, desired);
        address.before.extend(session_update(layout, desired));
        planner.plan.write(Stage::Address, address.before);
        planner
            .plan
            .write(Stage::Unlink, planner.unlinks(current, desired));
        planner.plan.drain();
        let gone = layout
            .groups
            .keys()
            .filter(|id| !desired.groups().contains_key(id));
        let gone = gone.map(|id| self.groups.write(id.0.into(), 0)).collect();
        planner.plan.write(Stage::Cleanup, gone);
        planner.make_counters_free(desired)?;
        planner.place_changed(desired)?;
        planner.write_pending();
        let links = planner.links(current, desired);
        planner.plan.write(Stage::Link, links);
        planner.plan.write(Stage::Address, address.after);
        planner.plan.drain();
        Ok(planner.plan)
    }
}

/// Points the clone session at the SFU's port.
fn session_update(layout: &Layout, desired: &Conference) -> Option<Update> {
    let port = desired.address().map(|address| address.port);
    match (layout.session, port) {
        (Some(Some(is)), Some(port)) if is == port => None,
        (Some(_), Some(port)) => Some(entities::modify(entities::clone_session(
            CLONE_SESSION,
            port,
        ))),
        (None, Some(port)) => Some(entities::insert(entities::clone_session(
            CLONE_SESSION,
            port,
        ))),
        (Some(is), None) => Some(entities::delete(entities::clone_session(
            CLONE_SESSION,
            is.unwrap_or(0),
        ))),
        (None, None) => None,
    }
}

fn presenter_of(row: &Row) -> Result<(GroupId, Presenter), String> {
    let bad = || format!("presenter {row:?}");
    let group = u16::try_from(row.args[0]).map_err(|_| bad())?;
    let ip = ip(row.key[0]).ok_or_else(bad)?;
    Ok((
        GroupId(group),
        Presenter {
            ip,
            mac: mac_or_any(row.args[1]),
            udp_port: None,
        },
    ))
}

async fn read_cells<T: Target>(
    target: &mut T,
    register: &Array,
    cells: impl Iterator<Item = u32>,
) -> Result<HashMap<u32, u64>, ReadError<T::Error>> {
    let cells: Vec<u32> = cells.collect();
    let mut values = HashMap::with_capacity(cells.len());
    for batch in cells.chunks(READ_BATCH_ENTITIES) {
        let wanted: Vec<Entity> = batch.iter().map(|index| register.cell(*index)).collect();
        let entities = read(target, wanted).await?;
        values.extend(
            entities
                .iter()
                .filter_map(|entity| register.cell_value(entity)),
        );
    }
    Ok(values)
}

/// Collects writes until a drain is needed.
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
    /// The state after the first drain: groups that go are gone, their slots and counters free.
    fn new(
        objects: &'a Objects,
        current: &Conference,
        layout: &Layout,
        desired: &Conference,
    ) -> Self {
        let reserve = u32::try_from(current.capabilities().group_viewers_max).unwrap_or(u32::MAX);
        let mut pool = Slots::new(objects.pool_slots(), reserve);
        let mut counters = CounterIds::new(objects.viewer_copies.size);
        let mut placed = BTreeMap::new();
        for (id, group) in &layout.groups {
            if desired.groups().contains_key(id) {
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

    fn unlinks(&self, current: &Conference, desired: &Conference) -> Vec<Update> {
        let stays = |id: &GroupId, ip: Ipv4Addr| {
            desired
                .groups()
                .get(id)
                .is_some_and(|group| group.presenter.ip == ip)
        };
        let leaving = current
            .groups()
            .iter()
            .filter(|(id, group)| !stays(id, group.presenter.ip));
        let key =
            |ip: Ipv4Addr| entities::of_table(self.objects.presenters.key(&[u32::from(ip).into()]));
        leaving
            .map(|(_, group)| entities::delete(key(group.presenter.ip)))
            .collect()
    }

    fn links(&self, current: &Conference, desired: &Conference) -> Vec<Update> {
        let entry = |id: &GroupId, presenter: &Presenter| {
            let key = [u32::from(presenter.ip).into()];
            let args = [id.0.into(), presenter.mac.map_or(0, Mac::to_u64)];
            entities::of_table(self.objects.presenters.entry(&key, &args))
        };
        let links = desired.groups().iter().filter_map(|(id, group)| {
            match current.groups().get(id).map(|before| before.presenter) {
                Some(before) if before == group.presenter => None,
                Some(before) if before.ip == group.presenter.ip => {
                    Some(entities::modify(entry(id, &group.presenter)))
                }
                _ => Some(entities::insert(entry(id, &group.presenter))),
            }
        });
        links.collect()
    }

    /// Where counters are too few for old and new viewers at a time, lets the leaving ones go first.
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
            let same =
                |(slot, viewer): (&Slot, &Viewer)| slot.ip == viewer.ip && slot.mac == viewer.mac;
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

    /// The group's viewers with their counters: a viewer that stays keeps its own, a new one gets
    /// a free one that is set to 0 before any packet counts in it.
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

    /// A free block, if need be after a drain, if need be after moving other groups together.
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
                .push(self.objects.viewer_ids.write(index, slot.id.into()));
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

    /// Brings what is pending into force and makes what it replaces free.
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
