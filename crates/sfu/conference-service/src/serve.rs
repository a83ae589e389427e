//! The whole service: store, conferences, the switch, and the HTTP interface.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use conference_api::{Media, MediaAddress, Name};
use conference_store::{Embedded, StoreError};
use hello::Nonces;
use p4runtime_client::SwitchAddress;
use tokio::net::TcpListener;

use crate::core::{BeginError, Core};
use crate::driver::{self, Program, Switch};
use crate::housekeeping;
use crate::http::{self, App, Connections, Peer};
use crate::rows::OwnAddress;
use crate::tokens::{self, Keys};

/// What a service is made of.
#[derive(Debug)]
pub struct Settings {
    /// Where it serves HTTP.
    pub listen: SocketAddr,
    /// The store's file.
    pub store: PathBuf,
    /// The keys of tokens.
    pub keys: Keys,
    /// The switch's name.
    pub switch_name: Name,
    /// Where the switch serves P4Runtime.
    pub switch: SwitchAddress,
    /// The switch's P4Runtime device id.
    pub device_id: u64,
    /// What it runs.
    pub program: Program,
    /// Its addresses for media.
    pub own_addresses: Vec<OwnAddress>,
    /// After how long a silent socket is signed out.
    pub silence: Duration,
}

/// Why a service ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not this host's.
    #[error("cannot serve HTTP on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
    /// The store is not one of this service.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the store has cannot be read.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// Serving ended.
    #[error("HTTP: {0}")]
    Http(std::io::Error),
}

/// Serves until `stop` is done. Calls `is_ready` with the address once requests are served.
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
    let store = Embedded::open(&settings.store)?;
    let election_id = u128::from(store.term());
    let core = Core::begin(store).await?;
    let media = Media {
        switch: settings.switch_name,
        addresses: settings
            .own_addresses
            .iter()
            .map(|own| MediaAddress {
                address: own.address,
                port: own.media_port,
            })
            .collect(),
    };
    let switch = Switch {
        address: settings.switch,
        device_id: settings.device_id,
        election_id,
        program: settings.program,
        own_addresses: settings.own_addresses,
        silence: settings.silence,
    };
    let nonces = Nonces::new(tokens::new_secret());
    let driver = tokio::spawn(driver::serve(core.clone(), switch, nonces));
    let cleaner = tokio::spawn(housekeeping::run(core.clone()));
    let app = App {
        core: core.clone(),
        keys: Arc::new(settings.keys),
        media: Arc::new(media),
    };
    let (router, _) = http::routes_and_description(app);
    is_ready(address, &core);
    let served = axum::serve(
        Connections::new(listener),
        router.into_make_service_with_connect_info::<Peer>(),
    )
    .with_graceful_shutdown(stop)
    .await;
    driver.abort();
    cleaner.abort();
    served.map_err(ServeError::Http)
}
