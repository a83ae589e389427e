//! The whole service: store, conferences, the switch, and the HTTP interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use conference_api::{Media, MediaAddress, Name};
use conference_store::{Embedded, Etcd, Store, StoreError};
use hello::Nonces;
use p4runtime_client::SwitchAddress;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::activity::Activity;
use crate::certificate;
use crate::config::StoreConfig;
use crate::core::{BeginError, Core};
use crate::driver::{self, Observers, Program, Switch};
use crate::event_log;
use crate::housekeeping::Housekeeping;
use crate::http::{App, Connections, Front, Leading, Peer};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::presence::Presence;
use crate::rows::OwnAddress;
use crate::tokens;
use crate::webhooks;
use crate::why_watch;

/// The settings of a service.
#[derive(Debug)]
pub struct Settings {
    /// Where the service serves HTTP.
    pub listen: SocketAddr,
    pub store: StoreConfig,
    /// The settings that a reload changes.
    pub live: Live,
    pub switch_name: Name,
    /// Where the switch serves P4Runtime.
    pub switch: SwitchAddress,
    /// The switch's P4Runtime device id.
    pub device_id: u64,
    /// The program that the switch runs.
    pub program: Program,
    /// The switch's addresses for media.
    pub own_addresses: Vec<OwnAddress>,
    /// After how long a participant that gives no sign of life is removed; `None`: never.
    pub gone: Option<Duration>,
    /// Whether metrics name conferences and participants.
    pub metrics_names: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not this host's.
    #[error("cannot serve HTTP on {address}: {error}")]
    Listen {
        address: SocketAddr,
        error: std::io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The records in the store cannot be read.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// The HTTP server failed.
    #[error("HTTP: {0}")]
    Http(std::io::Error),
}

/// Serves until `stop` is done. Calls `is_ready` with the address when it begins to serve requests, which is when the
/// service leads for the first time.
///
/// # Errors
/// The service cannot begin.
pub async fn serve(
    settings: Settings,
    is_ready: impl FnOnce(SocketAddr, &Core),
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let address = settings.listen;
    let listening = TcpListener::bind(address).await;
    let listener = listening.map_err(|error| ServeError::Listen { address, error })?;
    let address = listener.local_addr().map_err(ServeError::Http)?;
    let (leading, front) = watch::channel(None);
    let (stopping, stopped) = watch::channel(false);
    let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
        // If the sender is gone, the service stops, too.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let metrics = Arc::new(Metrics::new());
    let routes = Front::routes(front, settings.live.clone(), Arc::clone(&metrics))
        .into_make_service_with_connect_info::<Peer>();
    let http = axum::serve(Connections::new(listener, settings.live.clone()), routes)
        .with_graceful_shutdown(until_stopped(stopped.clone()))
        .into_future();
    let http = tokio::spawn(http);
    tokio::spawn(async move {
        stop.await;
        stopping.send_replace(true);
    });
    let renewal = tokio::spawn(certificate::renew(settings.live.clone()));
    let mut is_ready = Some(|core: &Core| is_ready(address, core));
    let ended = loop {
        let store = tokio::select! {
            store = open(&settings.store) => store,
            () = until_stopped(stopped.clone()) => break Ok(()),
        };
        let store = match store {
            Ok(store) => store,
            Err(error) => break Err(error.into()),
        };
        let until = until_stopped(stopped.clone());
        let own = (&leading, &metrics);
        let led = lead(&settings, store.clone(), own, &mut is_ready, until).await;
        leading.send_replace(None);
        store.resign().await;
        match led {
            Ok(Role::Stopped) => break Ok(()),
            Ok(Role::Lost) => tracing::warn!("another service leads: this one stands by"),
            Err(BeginError::Store(StoreError::NoLeader | StoreError::Failed(_)))
                if matches!(settings.store, StoreConfig::Etcd(_)) => {}
            Err(error) => break Err(error.into()),
        }
    };
    renewal.abort();
    if ended.is_err() {
        http.abort();
        return ended;
    }
    match http.await {
        Ok(served) => served.map_err(ServeError::Http),
        Err(error) => Err(ServeError::Http(std::io::Error::other(error))),
    }
}

async fn open(store: &StoreConfig) -> Result<Store, StoreError> {
    match store {
        StoreConfig::File(path) => Embedded::open(path).map(Store::from),
        StoreConfig::Etcd(config) => Etcd::lead(config).await.map(Store::from),
    }
}

/// Why a service has stopped leading.
enum Role {
    Stopped,
    /// Another service may lead now.
    Lost,
}

/// Leads until `stop` is done, or until another service may lead. When this returns, the service has no connection to
/// the switch any more.
async fn lead(
    settings: &Settings,
    store: Store,
    (leading, metrics): (&watch::Sender<Option<Leading>>, &Arc<Metrics>),
    is_ready: &mut Option<impl FnOnce(&Core)>,
    stop: impl Future<Output = ()>,
) -> Result<Role, BeginError> {
    let core = Core::begin_counted(store, Arc::clone(metrics)).await?;
    let own = settings.own_addresses.iter();
    let media = Media {
        switch: settings.switch_name.clone(),
        addresses: own
            .map(|own| MediaAddress {
                address: own.address,
                port: own.media_port,
            })
            .collect(),
    };
    let (activity, latest) = watch::channel(Arc::new(Activity::default()));
    let presence = Presence::default();
    let observers = Observers {
        activity,
        metrics: Arc::clone(metrics),
    };
    let housekeeping = Housekeeping {
        core: core.clone(),
        presence: presence.clone(),
        gone: settings.gone,
        metrics: Arc::clone(metrics),
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(housekeeping.run());
    tasks.spawn(event_log::run(core.clone()));
    tasks.spawn(webhooks::run(
        core.clone(),
        settings.live.clone(),
        Arc::clone(metrics),
    ));
    tasks.spawn(why_watch::run(
        core.clone(),
        latest.clone(),
        presence.clone(),
    ));
    tasks.spawn(drive(settings, core.clone(), observers));
    let app = App {
        core: core.clone(),
        live: settings.live.clone(),
        media: Arc::new(media),
        activity: latest,
        presence,
        metrics: Arc::clone(metrics),
        metrics_names: settings.metrics_names,
    };
    leading.send_replace(Some(Leading::new(app)));
    if let Some(is_ready) = is_ready.take() {
        is_ready(&core);
    }
    let role = tokio::select! {
        () = stop => Role::Stopped,
        () = core.ended() => Role::Lost,
    };
    tasks.shutdown().await;
    Ok(role)
}

/// Serves the switch for ever. Makes a new connection to the switch when a reload has changed how long a socket may be
/// silent before it is signed out. Meanwhile the switch keeps its entries, and forwards.
fn drive(
    settings: &Settings,
    core: Core,
    observers: Observers,
) -> impl Future<Output = ()> + use<> {
    let mut live = settings.live.clone();
    let switch = Switch {
        address: settings.switch.clone(),
        device_id: settings.device_id,
        program: settings.program.clone(),
        own_addresses: settings.own_addresses.clone(),
        silence: live.get().silence,
    };
    let began = tokio::time::Instant::now();
    async move {
        loop {
            let silence = live.get().silence;
            let switch = Switch {
                silence,
                ..switch.clone()
            };
            let nonces = Nonces::new(tokens::new_secret());
            tokio::select! {
                () = driver::serve(core.clone(), switch, nonces, began, observers.clone()) => return,
                () = async {
                    while live.get().silence == silence {
                        live.changed().await;
                    }
                } => {}
            }
            core.switch_connection_begins();
            observers.is_away();
        }
    }
}
