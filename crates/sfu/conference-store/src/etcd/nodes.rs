//! Calls etcd's nodes: one node at a time, and the next node when a call fails.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::Code;

use crate::StoreError;

/// The longest that a call takes.
pub(super) const CALL: Duration = Duration::from_secs(2);
/// How long to wait for the connection to a node before the next node is tried.
const CONNECT: Duration = Duration::from_secs(1);

/// Files for TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdTls {
    /// The certificates that sign the nodes' certificates.
    pub ca: PathBuf,
    /// The service's certificate and its key, if the nodes ask for a certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl EtcdTls {
    fn options(&self) -> Result<TlsOptions, StoreError> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|error| StoreError::Settings(format!("{}: {error}", path.display())))
        };
        let mut options = TlsOptions::new().ca_certificate(Certificate::from_pem(read(&self.ca)?));
        if let Some((certificate, key)) = &self.identity {
            options = options.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(options)
    }
}

/// The nodes. At any time one of them is called.
pub(super) struct Nodes {
    endpoints: Vec<String>,
    options: ConnectOptions,
    current: Mutex<Current>,
}

/// Which node is called.
struct Current {
    /// How many times the service has changed to another node.
    n_taken: usize,
    client: Option<Client>,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) struct CallError {
    pub(super) node: String,
    /// The error; `None` if there was no answer in time.
    pub(super) error: Option<Error>,
    pub(super) deadline: Duration,
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(error) = &self.error else {
            return write!(f, "etcd at {}: no answer in {:?}", self.node, self.deadline);
        };
        write!(f, "etcd at {}: {error}", self.node)?;
        // A node that refuses the service's certificate closes the connection, sometimes before its error message has
        // arrived.
        let text = error.to_string();
        let is_closed = ["connection", "broken pipe", "transport"].map(|it| text.contains(it));
        if self.node.starts_with("https:") && is_closed.contains(&true) {
            f.write_str(": does it ask for a certificate that its authority has signed ([etcd] certificate and key)?")?;
        }
        Ok(())
    }
}

impl CallError {
    /// Returns the gRPC status code, if the node sent one.
    pub(super) fn code(&self) -> Option<Code> {
        match &self.error {
            Some(Error::GRpcStatus(status)) => Some(status.code()),
            _ => None,
        }
    }

    /// Whether the call may succeed at another node.
    fn is_of_node(&self) -> bool {
        match &self.error {
            None | Some(Error::TransportError(_) | Error::IoError(_) | Error::WatchError(_)) => {
                true
            }
            Some(Error::GRpcStatus(status)) => matches!(
                status.code(),
                Code::Unavailable
                    | Code::DeadlineExceeded
                    | Code::Unknown
                    | Code::Internal
                    | Code::Cancelled
            ),
            Some(_) => false,
        }
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> StoreError {
        StoreError::Failed(error.to_string())
    }
}

impl Nodes {
    pub(super) fn new(endpoints: &[String], tls: Option<&EtcdTls>) -> Result<Nodes, StoreError> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT)
            // With this setting, a node that has lost contact with the other nodes returns an error at once.
            .with_require_leader(true);
        if let Some(tls) = tls {
            options = options.with_tls(tls.options()?);
        }
        if endpoints.is_empty() {
            let expected = "etcd.endpoints: expected at least one, http://HOST:2379 for example";
            return Err(StoreError::Settings(expected.to_owned()));
        }
        Ok(Nodes {
            endpoints: endpoints.to_vec(),
            options,
            current: Mutex::new(Current {
                n_taken: 0,
                client: None,
            }),
        })
    }

    /// Makes one call. If it fails, nobody knows whether it was done.
    pub(super) async fn call<T, A: Future<Output = Result<T, Error>>>(
        &self,
        deadline: Duration,
        call: impl FnOnce(Client) -> A,
    ) -> Result<T, CallError> {
        let mut n_taken = 0;
        let done = timeout(deadline, async {
            let client;
            (n_taken, client) = self.client().await?;
            call(client).await
        });
        let error = match done.await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        let error = CallError {
            node: self.endpoints[n_taken % self.endpoints.len()].clone(),
            error,
            deadline,
        };
        if error.is_of_node() {
            self.take_another(n_taken).await;
        }
        Err(error)
    }

    /// Makes a call that may be made twice: asks each node once, until one answers.
    pub(super) async fn read<T, A: Future<Output = Result<T, Error>>>(
        &self,
        call: impl Fn(Client) -> A,
    ) -> Result<T, CallError> {
        let mut n_left = self.endpoints.len();
        loop {
            n_left -= 1;
            match self.call(CALL, &call).await {
                Err(error) if error.is_of_node() && n_left > 0 => {}
                done => return done,
            }
        }
    }

    async fn client(&self) -> Result<(usize, Client), Error> {
        let mut current = self.current.lock().await;
        let n_taken = current.n_taken;
        if let Some(client) = &current.client {
            return Ok((n_taken, client.clone()));
        }
        let endpoint = &self.endpoints[n_taken % self.endpoints.len()];
        let client = Client::connect([endpoint], Some(self.options.clone())).await?;
        current.client = Some(client.clone());
        Ok((n_taken, client))
    }

    /// Changes to the next node, unless another call has already left the node that failed. The connection to the
    /// former node is not used again, since it may be dead.
    async fn take_another(&self, n_taken: usize) {
        let mut current = self.current.lock().await;
        if current.n_taken == n_taken {
            current.n_taken += 1;
            current.client = None;
        }
    }
}
