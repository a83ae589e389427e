//! The socket between operators' commands and the service. It is in the service's folder, which only its owner can use.
//! A connection carries one request and one answer, each a line of JSON.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::operator::{Answer, Request};
use crate::service::Operator;

const NAME: &str = "operator.sock";
/// The longest request. A usual one has about 300 bytes.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// The longest answer. An answer that shows 1,024 groups of 64 members has about 20 million bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// How long a command may take to send its request, and to read its answer.
const IO_TIMEOUT: Duration = Duration::from_secs(10);
/// The most commands that are served at once. Further commands wait.
const CONNECTIONS_MAX: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("{}: no configuration service runs on this folder: start it with `reprise aom serve`, or name its folder with --state", folder.display())]
    NotThere { folder: PathBuf },
    #[error("{}: this folder is not yours, and the service takes requests from its owner only", folder.display())]
    NotYours { folder: PathBuf },
    #[error(
        "the configuration service did not answer ({0}), so the command may have been carried out: check with `reprise aom group show`"
    )]
    Broken(String),
}

/// The service's side of the socket.
pub struct OperatorSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl OperatorSocket {
    /// Creates the socket, and replaces an existing one: the service has locked the folder, so an existing socket
    /// belongs to a dead process.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn bind(folder: &Path) -> io::Result<OperatorSocket> {
        let path = folder.join(NAME);
        stream_socket::expect_short(&path).map_err(io::Error::other)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(OperatorSocket { listener, path })
    }

    /// Serves until the future is dropped.
    pub async fn serve(self, operator: Operator) {
        let places = std::sync::Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = std::sync::Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let operator = operator.clone();
                    tokio::spawn(async move {
                        if let Err(error) = serve_one(stream, &operator).await {
                            tracing::info!(%error, "the connection of an operator failed");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections of operators");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Drop for OperatorSocket {
    fn drop(&mut self) {
        // Removing the socket fails if it is gone together with its folder.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve_one(stream: UnixStream, operator: &Operator) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let mut bounded = (&mut stream).take(REQUEST_BYTES_MAX);
    let read = timeout(IO_TIMEOUT, bounded.read_line(&mut line)).await;
    read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => operator.ask(request).await,
        Err(error) => Answer::Failed {
            error: format!("expected a request of this version of reprise: {error}"),
        },
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    let written = timeout(IO_TIMEOUT, stream.get_mut().write_all(&line)).await;
    written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Sends a request to the service that runs on this folder, and returns the answer. There is no timeout, since an epoch
/// change waits for members.
///
/// # Errors
/// If no service runs, the folder is another user's, or the service ends before it answers.
pub async fn ask(folder: &Path, request: &Request) -> Result<Answer, AskError> {
    let folder = folder.to_owned();
    let stream = match UnixStream::connect(folder.join(NAME)).await {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(AskError::NotYours { folder });
        }
        Err(_) => return Err(AskError::NotThere { folder }),
        Ok(stream) => stream,
    };
    exchange(stream, request).await
}

async fn exchange(stream: UnixStream, request: &Request) -> Result<Answer, AskError> {
    let broken = |error: io::Error| AskError::Broken(error.to_string());
    let mut line = serde_json::to_vec(request).map_err(|error| broken(error.into()))?;
    line.push(b'\n');
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(&line).await.map_err(broken)?;
    let mut answer = String::new();
    let mut bounded = stream.take(ANSWER_BYTES_MAX);
    bounded.read_line(&mut answer).await.map_err(broken)?;
    match serde_json::from_str(&answer) {
        Ok(answer) => Ok(answer),
        Err(_) if answer.is_empty() => Err(AskError::Broken("it ended".to_owned())),
        Err(_) => Err(AskError::Broken(
            "its answer is of another version".to_owned(),
        )),
    }
}
