//! `--state`: restores a state file before anybody is served, and keeps it current from then on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use control::{
    Batch, Checked, Error, Exclusive, JsonOrigin, Kept, OperationResult, Store, StoreError,
};
use dataplane::Program;
use p4runtime_server::{ORIGIN_KIND, RestoreError, Server, Stored};
use state_store::{Contents, OpenError, OpenTo, StateFile, StoredPipeline};

use crate::error::SwitchError;
use crate::ports::since_1970_ns;
use crate::start_timeout::StartTimeout;

/// Interval of the checks that the state file is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a switch that has taken over waits until the other process has closed the state file. Before that, the
/// other process writes what is not on the disk yet.
const CLOSED_BY_OTHER_MAX: Duration = Duration::from_secs(5);

/// Pause between two tries to open a state file that another process closes.
const OPEN_RETRY: Duration = Duration::from_millis(2);

pub(crate) struct StateAtStart {
    kept: Arc<KeptFile>,
    contents: Contents,
}

impl StateAtStart {
    pub(crate) fn open(path: &Path, timeout: &mut StartTimeout) -> Result<Self, SwitchError> {
        let path = path.to_owned();
        let is_held = |error: &OpenError| matches!(error, OpenError::InUse);
        match timeout.retry_while(is_held, || StateFile::open(&path)) {
            Ok((file, contents)) => Ok(Self {
                kept: KeptFile::new(path, Place::Open(file)),
                contents,
            }),
            Err(error) => {
                let message = error.to_string();
                Err(SwitchError::State { path, message })
            }
        }
    }

    /// Takes the contents of a state file that the switch of another process has open until this process has taken
    /// over.
    pub(crate) fn of_other_process(path: &Path, contents: Contents) -> Self {
        Self {
            kept: KeptFile::new(path.to_owned(), Place::OfOtherProcess),
            contents,
        }
    }

    pub(crate) fn kept(&self) -> Arc<KeptFile> {
        Arc::clone(&self.kept)
    }

    /// Restores the file's contents and stores everything written from now on. Returns the file's path if it had a
    /// pipeline.
    pub(crate) async fn restore(self, server: &Server) -> Result<Option<PathBuf>, SwitchError> {
        let Self { kept, contents } = self;
        let path = kept.path.clone();
        if let Some(was_open_to) = &contents.was_open_to {
            warn_of_open_to(&path, was_open_to);
        }
        if contents.is_rolled_back {
            // The last call in the file is incomplete: the switch was killed during the call, or the disk lost some
            // bytes.
            tracing::info!(
                event = "state_rolled_back",
                path = %path.display(),
                "the last call is incomplete in {}: the state before that call is restored",
                path.display()
            );
        }
        let is_there = contents.forwards.is_some();
        let n_operations = contents
            .forwards
            .as_ref()
            .map_or(0, |it| it.operations.len());
        match restore(server, contents).await {
            Ok(()) => {}
            // The event loop was stopped and reports that itself.
            Err(RestoreError::Refused(Error::Stopped)) => return Ok(Some(path)),
            Err(error) => {
                let message = format!("its contents cannot be restored: {error}");
                return Err(SwitchError::State { path, message });
            }
        }
        tokio::spawn(watch(Arc::downgrade(&kept)));
        server.device().keep_in(kept);
        if !is_there {
            return Ok(None);
        }
        tracing::info!(
            event = "state_restored",
            path = %path.display(),
            operations = n_operations,
            "the pipeline and {n_operations} writes of {} are set again",
            path.display()
        );
        Ok(Some(path))
    }
}

/// Warns of a state file that others could read: it has everything that controllers have written, keys too.
fn warn_of_open_to(path: &Path, was: &OpenTo) {
    let (shown, mode) = (path.display(), was.mode);
    match &was.still {
        None => tracing::warn!(
            event = "state_file_closed",
            path = %shown,
            mode = format!("{mode:03o}"),
            "state file {shown} had mode {mode:03o} and now has 600: others could read what controllers have written, keys too; change those that matter"
        ),
        Some(why) => tracing::warn!(
            event = "state_file_open",
            path = %shown,
            mode = format!("{mode:03o}"),
            "state file {shown} has mode {mode:03o}, which cannot be changed to 600 ({why}): others can read what controllers write, keys too"
        ),
    }
}

/// A state file that logs when writing fails, and when it works again, once each.
pub(crate) struct KeptFile {
    place: Mutex<Place>,
    path: PathBuf,
    is_behind: AtomicBool,
}

/// Who has the file open.
enum Place {
    Open(StateFile),
    /// Another process, until this process has taken over its switch.
    OfOtherProcess,
    /// Another process, which has taken this process's switch over.
    Left,
}

impl KeptFile {
    fn new(path: PathBuf, place: Place) -> Arc<KeptFile> {
        Arc::new(KeptFile {
            place: Mutex::new(place),
            path,
            is_behind: AtomicBool::new(false),
        })
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the contents, with every change so far.
    pub(crate) fn contents(&self) -> Result<Contents, StoreError> {
        self.with_open(StateFile::contents)
    }

    /// Closes the file for good: another process has taken the switch over.
    pub(crate) fn leave(&self) {
        let file = std::mem::replace(&mut *self.place(), Place::Left);
        drop(file);
    }

    /// Opens the file of a switch that this process has taken over. Control calls that change something wait meanwhile.
    pub(crate) fn open_left(&self) {
        let mut place = self.place();
        let end = Instant::now() + CLOSED_BY_OTHER_MAX;
        let opened = loop {
            match StateFile::open(&self.path) {
                Err(OpenError::InUse) if Instant::now() < end => std::thread::sleep(OPEN_RETRY),
                opened => break opened,
            }
        };
        match opened {
            Ok((file, _)) => *place = Place::Open(file),
            Err(error) => {
                drop(place);
                // `logged` logs the error. From now on calls that change something are refused.
                let _ = self.logged(Err(StoreError(format!(
                    "state file {}: {error}",
                    self.path.display()
                ))));
            }
        }
    }

    fn with_open<T>(
        &self,
        call: impl FnOnce(&StateFile) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &*self.place() {
            Place::Open(file) => call(file),
            Place::OfOtherProcess => Err(StoreError(format!(
                "state file {} could not be opened after the takeover: start the switch anew when it can be",
                self.path.display()
            ))),
            Place::Left => Err(StoreError(
                "another process has taken the switch over: connect again".to_owned(),
            )),
        }
    }

    fn logged(&self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        let was_behind = self.is_behind.swap(result.is_err(), Ordering::Relaxed);
        let path = self.path.display();
        match &result {
            Err(error) if !was_behind => tracing::error!(
                event = "state_not_written",
                %path,
                %error,
                "{error}: calls that change something are refused until it can be written"
            ),
            Ok(()) if was_behind => tracing::warn!(
                event = "state_written",
                %path,
                "state file {path} is written again, and has everything"
            ),
            _ => {}
        }
        result
    }
}

/// Checks the file regularly, so that a removed file or a full disk is logged before the next call fails. As soon as
/// the file can be written again, stores the operations that could not be stored.
async fn watch(kept: Weak<KeptFile>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(kept) = kept.upgrade() else { return };
        // `catch_up` logs its result.
        let _ = tokio::task::spawn_blocking(move || kept.catch_up()).await;
    }
}

impl Store for KeptFile {
    fn catch_up(&self) -> Result<(), StoreError> {
        let caught_up = self.with_open(StateFile::catch_up);
        match &*self.place() {
            Place::Open(_) => self.logged(caught_up),
            Place::OfOtherProcess | Place::Left => caught_up,
        }
    }

    fn keep(&self, kept: Kept) -> Result<(), StoreError> {
        self.logged(self.with_open(|file| file.keep(kept)))
    }

    fn is_current(&self) -> bool {
        match &*self.place() {
            Place::Open(file) => file.is_current(),
            Place::OfOtherProcess | Place::Left => false,
        }
    }
}

async fn restore(server: &Server, contents: Contents) -> Result<(), RestoreError> {
    let Contents {
        forwards,
        saved,
        ports_disabled,
        is_rolled_back: _,
        was_open_to: _,
    } = contents;
    // Ports are disabled before the pipeline is set, and long before the first frame.
    let ports = ports_disabled.into_iter().map(|port| (port, false));
    let disabled = server
        .device()
        .set_ports_enabled(ports.collect(), since_1970_ns);
    disabled.await?;
    match forwards {
        Some(pipeline) if pipeline.kind == ORIGIN_KIND => server.restore(stored(pipeline)).await?,
        Some(pipeline) => restore_json(server, pipeline).await?,
        None => {}
    }
    match saved {
        Some(pipeline) if pipeline.kind == ORIGIN_KIND => {
            server.restore_saved(stored(pipeline)).await
        }
        Some(pipeline) => save_json(server, pipeline).await,
        None => Ok(()),
    }
}

fn stored(pipeline: StoredPipeline) -> Stored {
    Stored {
        config: pipeline.config,
        learned: pipeline.learned,
        operations: pipeline.operations,
    }
}

async fn restore_json(server: &Server, pipeline: StoredPipeline) -> Result<(), RestoreError> {
    let device = server.device();
    let checked = checked(server, &pipeline)?;
    let operations = pipeline.operations;
    let call = |exclusive: Exclusive| async move {
        let ready = exclusive.ready_again(checked, operations).await?;
        exclusive.commit(ready).done().await
    };
    device.exclusively(call).await.and_then(|set| set)?;
    Ok(())
}

async fn save_json(server: &Server, pipeline: StoredPipeline) -> Result<(), RestoreError> {
    let device = server.device();
    let checked = checked(server, &pipeline)?;
    let call = |exclusive: Exclusive| async move { exclusive.save(checked).done().await };
    let saved = device.exclusively(call).await.and_then(|saved| saved)?;
    let batch = Batch::new(pipeline.operations);
    let written: OperationResult = device.write(saved, batch).await?.into_iter().collect();
    Ok(written.map_err(Error::from)?)
}

fn checked(server: &Server, pipeline: &StoredPipeline) -> Result<Checked, Error> {
    let refused = |message: String| {
        let kind = dataplane::ControlErrorKind::InvalidArgument;
        Error::from(dataplane::ControlError::new(kind, message))
    };
    if pipeline.kind != JsonOrigin::KIND {
        let (json, found) = (JsonOrigin::KIND, &pipeline.kind);
        let message =
            format!("expected a pipeline of {ORIGIN_KIND} or {json}, found one of {found}");
        return Err(refused(message));
    }
    let json = String::from_utf8_lossy(&pipeline.config).into_owned();
    let externs = server.device().payload_signatures();
    let program = Program::from_json_str_with(&json, &externs);
    let program = program.map_err(|error| refused(error.to_string()))?;
    let checked = server.device().check(program, ())?;
    Ok(checked.with_json(json.into_bytes()))
}
