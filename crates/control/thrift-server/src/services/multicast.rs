//! The service SimplePreLAG: multicast groups made of nodes.
//!
//! BMv2's replication engine has groups, which are lists of nodes. A node has a replication id, ports and LAGs. The
//! data plane has only groups of replicas, which P4Runtime writes too. So this module keeps the nodes, and translates a
//! change of a node to changes of its groups. The data plane's state prevails: if another client has changed a group
//! after this module, this module makes new nodes from the group's replicas, and the old nodes belong to no group.
//!
//! A LAG sends a copy to one of its ports. BMv2 chooses the port by a hash that is always 255, so the port is known in
//! advance.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use control::{ClientData, Device, Exclusive, Operation, Pipeline, Update};
use dataplane::{MulticastGroup, PortId, Replica};
use serde_json::json;

use super::expect_context;
use crate::call::{Answer, Answered, Refusal, declared};
use crate::context::{Context, read_first, write_all};
use crate::limits::{MAP_BITS_MAX, NODES_MAX};
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, MulticastCode};

/// The hash by which BMv2 chooses a LAG's port.
const LAG_HASH: usize = 0xff;

/// A node of BMv2's replication engine: it copies a packet to its ports and LAGs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    rid: u16,
    /// In ascending order, like `lags`.
    ports: Vec<u16>,
    lags: Vec<u16>,
    group: Option<u32>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Multicast {
    /// The pipeline of these nodes and groups.
    generation: u64,
    nodes: BTreeMap<i32, Node>,
    groups: BTreeMap<u32, Vec<i32>>,
    lags: BTreeMap<u16, Vec<u16>>,
}

fn refuse<T>(code: MulticastCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Exception::new(code, message).into())
}

impl Multicast {
    /// Forgets all nodes and groups if the pipeline is another one than before, since the new pipeline has none of the
    /// groups.
    fn be_of(&mut self, generation: u64) {
        if self.generation != generation {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
    }

    fn lowest_free(&self) -> i32 {
        let taken = self.nodes.keys();
        taken.fold(0, |lowest, taken| lowest + i32::from(*taken == lowest))
    }

    fn add(&mut self, node: Node) -> i32 {
        let handle = self.lowest_free();
        self.nodes.insert(handle, node);
        handle
    }

    fn node(&mut self, handle: i32) -> Result<&mut Node, Refusal> {
        match self.nodes.get_mut(&handle) {
            Some(node) => Ok(node),
            None => refuse(
                MulticastCode::InvalidNodeHandle,
                format!("no node {handle}"),
            ),
        }
    }

    /// Removes a group. Its nodes remain, without a group.
    fn forget_group(&mut self, id: u32) {
        for handle in self.groups.remove(&id).unwrap_or_default() {
            if let Some(node) = self.nodes.get_mut(&handle) {
                node.group = None;
            }
        }
    }

    /// Makes the nodes agree with a group's state in the data plane.
    fn know(&mut self, group: &MulticastGroup) {
        if self.groups.contains_key(&group.id) && self.replicas(group.id) == group.replicas {
            return;
        }
        self.forget_group(group.id);
        let nodes = nodes_of(group).into_iter().map(|node| self.add(node));
        let nodes = nodes.collect();
        self.groups.insert(group.id, nodes);
    }

    /// Returns a group's replicas in BMv2's order: node by node, and for each node first its ports, then its LAGs.
    fn replicas(&self, group: u32) -> Vec<Replica> {
        let nodes = self.groups.get(&group).into_iter().flatten();
        let nodes = nodes.filter_map(|handle| self.nodes.get(handle));
        let replicas = nodes.flat_map(|node| {
            let of_lags = node.lags.iter().filter_map(|lag| self.port_of(*lag));
            let ports = node.ports.iter().copied().chain(of_lags);
            ports.map(|port| Replica {
                port: PortId(port),
                instance: node.rid,
            })
        });
        replicas.collect()
    }

    /// The port to which a LAG sends its copy; `None` for a LAG without members.
    fn port_of(&self, lag: u16) -> Option<u16> {
        let ports = self.lags.get(&lag)?;
        let chosen = LAG_HASH.checked_rem(ports.len())?;
        ports.get(chosen).copied()
    }

    fn groups_with(&self, lag: u16) -> Vec<u32> {
        let nodes = self.nodes.values().filter(|node| node.lags.contains(&lag));
        let mut groups: Vec<u32> = nodes.filter_map(|node| node.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    fn to_json(&self) -> String {
        let groups = self
            .groups
            .iter()
            .map(|(id, nodes)| json!({"id": id, "l1_handles": nodes}));
        let nodes = self.nodes.iter();
        let l1 = nodes
            .clone()
            .map(|(handle, node)| json!({"handle": handle, "rid": node.rid, "l2_handle": handle}));
        let l2 = nodes.map(
            |(handle, node)| json!({"handle": handle, "ports": node.ports, "lags": node.lags}),
        );
        let lags = self
            .lags
            .iter()
            .map(|(id, ports)| json!({"id": id, "ports": ports}));
        json!({
            "mgrps": groups.collect::<Vec<_>>(),
            "l1_handles": l1.collect::<Vec<_>>(),
            "l2_handles": l2.collect::<Vec<_>>(),
            "lags": lags.collect::<Vec<_>>(),
        })
        .to_string()
    }
}

/// Makes the fewest nodes that give a group's replicas: one node for each run of replicas with the same instance and
/// ascending ports.
fn nodes_of(group: &MulticastGroup) -> Vec<Node> {
    let follows =
        |one: &Replica, next: &Replica| one.instance == next.instance && one.port.0 < next.port.0;
    let runs = group.replicas.chunk_by(follows);
    let nodes = runs.map(|run| Node {
        rid: run[0].instance,
        ports: run.iter().map(|replica| replica.port.0).collect(),
        lags: Vec::new(),
        group: Some(group.id),
    });
    nodes.collect()
}

/// A call under exclusive access to the device.
struct Call {
    exclusive: Exclusive,
    pipeline: Arc<Pipeline>,
    /// The nodes and groups, which the call changes.
    multicast: Multicast,
}

/// Runs a call under exclusive access to the device. The changes of nodes are kept only if the call succeeds.
async fn exclusively<R, F>(
    ctx: &Arc<Context>,
    call: impl FnOnce(Call) -> F + Send + 'static,
) -> Result<R, Refusal>
where
    R: Send + 'static,
    F: Future<Output = Result<(Multicast, R), Refusal>> + Send + 'static,
{
    let there = Arc::clone(ctx);
    let run = |exclusive: Exclusive| async move {
        let mut kept = there.multicast.lock().await;
        let pipeline = exclusive.device().pipeline()?;
        kept.be_of(pipeline.generation());
        let multicast = kept.clone();
        let (multicast, result) = call(Call {
            exclusive,
            pipeline,
            multicast,
        })
        .await?;
        *kept = multicast;
        Ok(result)
    };
    ctx.exclusively(run).await
}

impl Call {
    /// Makes the nodes agree with a group's state in the data plane, and returns whether the group exists there.
    async fn know(&mut self, id: u32) -> Result<bool, Refusal> {
        let group = group(self.exclusive.device(), &self.pipeline, id).await?;
        match &group {
            Some(group) => self.multicast.know(group),
            None => self.multicast.forget_group(id),
        }
        Ok(group.is_some())
    }

    /// Returns the group that the node is in now; `None` if it is in no group.
    async fn group_of(&mut self, handle: i32) -> Result<Option<u32>, Refusal> {
        let Some(id) = self.multicast.node(handle)?.group else {
            return Ok(None);
        };
        self.know(id).await?;
        // Another client may have changed the group and so dropped the node from it.
        Ok(self.multicast.node(handle)?.group)
    }

    async fn expect_group(&mut self, id: i32) -> Result<u32, Refusal> {
        let id = id.cast_unsigned();
        if self.know(id).await? {
            Ok(id)
        } else {
            refuse(
                MulticastCode::InvalidGroupHandle,
                format!("no multicast group {id}"),
            )
        }
    }

    /// Writes groups to the data plane as their nodes define them.
    async fn write(self, groups: &[u32]) -> Result<(Multicast, ()), Refusal> {
        let Self {
            exclusive,
            pipeline,
            multicast,
        } = self;
        let mut operations = Vec::new();
        for id in groups {
            let replicas = multicast.replicas(*id);
            expect_each_once(*id, &replicas)?;
            let there = group(exclusive.device(), &pipeline, *id).await?;
            let group = MulticastGroup {
                id: *id,
                backups: backups(there.as_ref(), &replicas),
                replicas,
            };
            let client_data = pipeline.client_data().group(*id);
            operations.push(Operation::MulticastGroup(
                Update::Modify(group),
                client_data,
            ));
        }
        let written = write_all(exclusive, &pipeline, operations).await?;
        written.map_err(declared(|_| MulticastCode::Error))?;
        Ok((multicast, ()))
    }
}

/// The backups of the new replicas. BMv2 has no backups, so unchanged replicas keep the backups that P4Runtime has
/// written.
fn backups(there: Option<&MulticastGroup>, replicas: &[Replica]) -> Vec<Vec<Replica>> {
    let there = there.filter(|group| !group.backups.is_empty());
    let of = |group: &MulticastGroup, replica: &Replica| {
        let place = group.replicas.iter().position(|it| it == replica)?;
        group.backups.get(place).cloned()
    };
    let of_all = |group| {
        replicas
            .iter()
            .map(move |it| of(group, it).unwrap_or_default())
    };
    there.map_or_else(Vec::new, |group| of_all(group).collect())
}

/// Refuses equal replicas, since the data plane accepts only one copy for each port and instance.
fn expect_each_once(group: u32, replicas: &[Replica]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    match replicas.iter().find(|replica| !seen.insert(**replica)) {
        None => Ok(()),
        Some(Replica { port, instance }) => refuse(
            MulticastCode::Error,
            format!("multicast group {group}: port {port} would have two copies of rid {instance}"),
        ),
    }
}

async fn group(
    device: &Device,
    pipeline: &Pipeline,
    id: u32,
) -> Result<Option<MulticastGroup>, Refusal> {
    let read = move |switch: &dataplane::Switch| switch.multicast_groups_from(id, 1);
    let found = read_first(device, pipeline, read).await?;
    Ok(found.into_iter().find(|group| group.id == id))
}

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_mc_mgrp_create" => create_group(ctx, args).await,
        "bm_mc_mgrp_destroy" => destroy_group(ctx, args).await,
        "bm_mc_node_create" => create_node(ctx, args).await,
        "bm_mc_node_update" => update_node(ctx, args).await,
        "bm_mc_node_associate" => associate(ctx, args).await,
        "bm_mc_node_dissociate" => dissociate(ctx, args).await,
        "bm_mc_node_destroy" => destroy_node(ctx, args).await,
        "bm_mc_set_lag_membership" => set_lag(ctx, args).await,
        "bm_mc_get_entries" => entries(ctx, args).await,
        _ => return None,
    })
}

/// Creates a group. Like BMv2, leaves an existing group unchanged.
async fn create_group(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let handle = args.i32(2)?;
    let id = handle.cast_unsigned();
    exclusively(ctx, move |mut call| async move {
        if call.know(id).await? {
            return Ok((call.multicast, ()));
        }
        let group = MulticastGroup {
            id,
            replicas: Vec::new(),
            backups: Vec::new(),
        };
        let insert = Operation::MulticastGroup(Update::Insert(group), ClientData::default());
        let written = write_all(call.exclusive, &call.pipeline, vec![insert]).await?;
        written.map_err(declared(|_| MulticastCode::InvalidGroup))?;
        call.multicast.groups.insert(id, Vec::new());
        Ok((call.multicast, ()))
    })
    .await?;
    Ok(Answer::I32(handle))
}

/// Deletes a group. Like BMv2, accepts a missing group.
async fn destroy_group(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let id = args.i32(2)?.cast_unsigned();
    exclusively(ctx, move |mut call| async move {
        if call.know(id).await? {
            let delete = Operation::MulticastGroup(Update::Delete(id), ClientData::default());
            let written = write_all(call.exclusive, &call.pipeline, vec![delete]).await?;
            written.map_err(declared(|_| MulticastCode::Error))?;
        }
        call.multicast.forget_group(id);
        Ok((call.multicast, ()))
    })
    .await?;
    Ok(Answer::Void)
}

/// Returns the positions of the digits 1 in a map, counted from the last character of the map.
fn ones(map: &[u8]) -> Result<Vec<u16>, Refusal> {
    if map.len() > MAP_BITS_MAX || map.iter().any(|bit| !matches!(bit, b'0' | b'1')) {
        let message = format!("expected a map of at most {MAP_BITS_MAX} characters, each 0 or 1");
        return refuse(MulticastCode::Error, message);
    }
    let bits = (0..).zip(map.iter().rev());
    Ok(bits
        .filter_map(|(place, bit)| (*bit == b'1').then_some(place))
        .collect())
}

async fn create_node(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let rid = args.i32(2)?;
    let Ok(rid) = u16::try_from(rid) else {
        return refuse(
            MulticastCode::Error,
            format!("expected a rid of 0 to 65535, found {rid}"),
        );
    };
    let node = Node {
        rid,
        ports: ones(args.bytes(3)?)?,
        lags: ones(args.bytes(4)?)?,
        group: None,
    };
    let handle = exclusively(ctx, |mut call| async move {
        if call.multicast.nodes.len() >= NODES_MAX {
            let message = format!("there are {NODES_MAX} nodes already");
            return refuse(MulticastCode::TableFull, message);
        }
        let handle = call.multicast.add(node);
        Ok((call.multicast, handle))
    })
    .await?;
    Ok(Answer::I32(handle))
}

async fn update_node(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let handle = args.i32(2)?;
    let (ports, lags) = (ones(args.bytes(3)?)?, ones(args.bytes(4)?)?);
    exclusively(ctx, move |mut call| async move {
        let group = call.group_of(handle).await?;
        let node = call.multicast.node(handle)?;
        (node.ports, node.lags) = (ports, lags);
        call.write(group.as_slice()).await
    })
    .await?;
    Ok(Answer::Void)
}

async fn associate(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let (group, handle) = (args.i32(2)?, args.i32(3)?);
    exclusively(ctx, move |mut call| async move {
        call.multicast.node(handle)?;
        let id = call.expect_group(group).await?;
        if let Some(found) = call.group_of(handle).await? {
            let message = format!("the node {handle} is in the multicast group {found}");
            return refuse(MulticastCode::Error, message);
        }
        call.multicast.node(handle)?.group = Some(id);
        call.multicast.groups.entry(id).or_default().push(handle);
        call.write(&[id]).await
    })
    .await?;
    Ok(Answer::Void)
}

async fn dissociate(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let (group, handle) = (args.i32(2)?, args.i32(3)?);
    exclusively(ctx, move |mut call| async move {
        call.multicast.node(handle)?;
        let id = call.expect_group(group).await?;
        if call.group_of(handle).await? != Some(id) {
            let message = format!("the node {handle} is not in the multicast group {id}");
            return refuse(MulticastCode::Error, message);
        }
        call.multicast.leave(handle, id);
        call.write(&[id]).await
    })
    .await?;
    Ok(Answer::Void)
}

impl Multicast {
    fn leave(&mut self, handle: i32, group: u32) {
        let nodes = self.groups.entry(group).or_default();
        nodes.retain(|node| *node != handle);
        if let Some(node) = self.nodes.get_mut(&handle) {
            node.group = None;
        }
    }
}

/// Removes the node from its group, and then deletes the node.
async fn destroy_node(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let handle = args.i32(2)?;
    exclusively(ctx, move |mut call| async move {
        let group = call.group_of(handle).await?;
        if let Some(id) = group {
            call.multicast.leave(handle, id);
        }
        call.multicast.nodes.remove(&handle);
        call.write(group.as_slice()).await
    })
    .await?;
    Ok(Answer::Void)
}

async fn set_lag(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let (lag, ports) = (args.i16(2)?, ones(args.bytes(3)?)?);
    let is_one = |lag: &u16| usize::from(*lag) < MAP_BITS_MAX;
    let Some(lag) = u16::try_from(lag).ok().filter(is_one) else {
        let message = format!("expected a LAG of 0 to {}, found {lag}", MAP_BITS_MAX - 1);
        return refuse(MulticastCode::Error, message);
    };
    exclusively(ctx, move |mut call| async move {
        for group in call.multicast.groups_with(lag) {
            call.know(group).await?;
        }
        call.multicast.lags.insert(lag, ports);
        let groups = call.multicast.groups_with(lag);
        call.write(&groups).await
    })
    .await?;
    Ok(Answer::Void)
}

/// Lists all groups, also those of other clients.
async fn entries(ctx: &Arc<Context>, args: Args<'_>) -> Answered {
    expect_context(args)?;
    let _long = ctx.long_calls.acquire().await;
    let json = exclusively(ctx, |mut call| async move {
        let mut first = 0;
        let mut there = HashSet::new();
        loop {
            let read = move |switch: &dataplane::Switch| {
                switch.multicast_groups_from(first, control::limits::ENTRIES_PER_VISIT)
            };
            let groups = read_first(call.exclusive.device(), &call.pipeline, read).await?;
            let Some(last) = groups.last() else { break };
            first = last.id + 1;
            there.extend(groups.iter().map(|group| group.id));
            groups.iter().for_each(|group| call.multicast.know(group));
        }
        let known: Vec<u32> = call.multicast.groups.keys().copied().collect();
        let gone = known.into_iter().filter(|id| !there.contains(id));
        gone.for_each(|id| call.multicast.forget_group(id));
        let json = call.multicast.to_json();
        Ok((call.multicast, json))
    })
    .await?;
    Ok(Answer::Bytes(json.into_bytes()))
}
