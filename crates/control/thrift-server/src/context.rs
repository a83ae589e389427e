//! The state that all connections share: the device, and BMv2's state that the device does not have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use control::{Batch, Device, Exclusive, Operation, OperationResult, Pipeline};
use dataplane::Switch;
use tokio::sync::Semaphore;

use crate::call::Refusal;
use crate::limits::LONG_CALLS_MAX;
use crate::notifications::Notifications;
use crate::services::multicast::Multicast;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// BMv2's id of the switch, which `bm_mgmt_get_info` returns.
    pub device_id: u64,
    /// The TCP port that `bm_mgmt_get_info` returns.
    pub port: u16,
    /// The address of notifications, if they are published.
    pub notifications: Option<String>,
}

pub(crate) struct Context {
    pub(crate) config: ServerConfig,
    pub(crate) device: Arc<Device>,
    pub(crate) notifications: Notifications,
    pub(crate) multicast: tokio::sync::Mutex<Multicast>,
    /// For each pipeline, profile and kind of id (false for members, true for groups): a guess of the lowest free id.
    free_ids: Mutex<HashMap<(u64, usize, bool), u32>>,
    /// Bounds the long calls and answers in progress: each takes a permit.
    pub(crate) long_calls: Arc<Semaphore>,
}

impl Context {
    pub(crate) fn new(config: ServerConfig, device: Arc<Device>) -> Self {
        Self {
            notifications: Notifications::new(config.device_id),
            config,
            device,
            multicast: tokio::sync::Mutex::default(),
            free_ids: Mutex::default(),
            long_calls: Arc::new(Semaphore::new(LONG_CALLS_MAX)),
        }
    }

    /// The saved pipeline if there is one, otherwise the committed one.
    pub(crate) fn pipeline(&self) -> Result<Arc<Pipeline>, Refusal> {
        Ok(self.device.pipeline()?)
    }

    /// Returns a guess of the lowest free id.
    pub(crate) fn free_id(&self, of: (u64, usize, bool)) -> u32 {
        let mut free = self.free_ids.lock().unwrap_or_else(PoisonError::into_inner);
        free.retain(|(generation, ..), _| *generation == of.0);
        *free.entry(of).or_default()
    }

    /// Records that no id below `id` is free.
    pub(crate) fn set_free_id(&self, of: (u64, usize, bool), id: u32) {
        let mut free = self.free_ids.lock().unwrap_or_else(PoisonError::into_inner);
        free.insert(of, id);
    }

    /// Records that an id is free again.
    pub(crate) fn add_free_id(&self, of: (u64, usize, bool), id: u32) {
        let mut free = self.free_ids.lock().unwrap_or_else(PoisonError::into_inner);
        free.entry(of)
            .and_modify(|lowest| *lowest = id.min(*lowest));
    }

    /// Runs a call under exclusive access to the device. The call completes even if its connection ends.
    pub(crate) async fn exclusively<R, F>(
        &self,
        call: impl FnOnce(Exclusive) -> F,
    ) -> Result<R, Refusal>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, Refusal>> + Send + 'static,
    {
        self.device.exclusively(call).await?
    }

    pub(crate) async fn write(
        &self,
        pipeline: Arc<Pipeline>,
        operation: Operation,
    ) -> Result<OperationResult, Refusal> {
        let results = self
            .device
            .write(pipeline, Batch::new(vec![operation]))
            .await?;
        one(results)
    }

    /// Writes one operation and reads its effect before anybody else writes.
    pub(crate) async fn write_and_read<R: Send + 'static>(
        &self,
        pipeline: Arc<Pipeline>,
        operation: Operation,
        read: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> Result<(OperationResult, R), Refusal> {
        let call = |exclusive: Exclusive| async move {
            let device = Arc::clone(exclusive.device());
            let written = exclusive.write(&pipeline, Batch::new(vec![operation]));
            // Work runs in the order of submission, and nobody else can submit writes meanwhile.
            let read = device.read(&pipeline, 1, read);
            let (results, answers) = tokio::join!(written.results(), read);
            Ok((one(results?)?, first(answers?)?))
        };
        self.exclusively(call).await
    }

    /// Reads a value that is the same in all workers.
    pub(crate) async fn read_first<R: Send + 'static>(
        &self,
        pipeline: &Pipeline,
        read: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> Result<R, Refusal> {
        read_first(&self.device, pipeline, read).await
    }
}

/// As [`Context::read_first`], under exclusive access.
pub(crate) async fn read_first<R: Send + 'static>(
    device: &Device,
    pipeline: &Pipeline,
    read: impl Fn(&Switch) -> R + Send + Sync + 'static,
) -> Result<R, Refusal> {
    first(device.read(pipeline, 1, read).await?)
}

/// Writes several operations in one batch. The result is the first refusal, if any.
pub(crate) async fn write_all(
    exclusive: Exclusive,
    pipeline: &Arc<Pipeline>,
    operations: Vec<Operation>,
) -> Result<OperationResult, Refusal> {
    if operations.is_empty() {
        return Ok(Ok(()));
    }
    let results = exclusive
        .write(pipeline, Batch::new(operations))
        .results()
        .await?;
    Ok(results.into_iter().collect())
}

fn first<R>(answers: Vec<R>) -> Result<R, Refusal> {
    let first = answers.into_iter().next();
    first.ok_or_else(|| control::Error::Stopped.into())
}

fn one(results: Vec<OperationResult>) -> Result<OperationResult, Refusal> {
    first(results)
}
