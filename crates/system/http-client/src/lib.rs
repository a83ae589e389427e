//! Makes HTTP/1.1 requests over hyper. Later requests reuse connections. There are bounds on the number of connections,
//! on the time of a request and on the length of an answer. The client follows no redirects, but returns them as
//! answers.

mod lookup;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower_service::Service as _;

use self::lookup::Lookup;

/// The most requests at the same time; each needs a connection.
const CONNECTIONS_MAX: usize = 64;
/// A connection that has been idle for this long is not used again: the conference service closes idle connections
/// after 10 s.
const IDLE_MAX: Duration = Duration::from_secs(5);

type Connector = HttpsConnector<HttpConnector<Lookup>>;
type Hyper = hyper_util::client::legacy::Client<Connector, Full<Bytes>>;

/// A connection, over TLS if the address is one of `https`.
pub type Stream = TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>;

/// A client. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    connector: Connector,
    hyper: Hyper,
    /// Each request takes a permit.
    connections: Arc<Semaphore>,
}

/// Bounds on the time of a request and on the length of its answer.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most time from the moment at which the request has a connection's permit until the whole answer is there.
    pub time: Duration,
    /// The most bytes of the answer's body. `None`: the client does not read the body, and returns an empty body.
    pub body_len: Option<usize>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Error {
    /// The answer did not come within this time.
    Late(Duration),
    /// There was no connection, the connection broke, or the answer is too long or is not HTTP.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Late(limit) => write!(f, "no answer within {} s", limit.as_secs()),
            Error::Failed(error) => {
                // hyper's error names only the step that failed; the innermost cause says what happened.
                let mut cause: &dyn std::error::Error = &**error;
                while let Some(inner) = cause.source() {
                    cause = inner;
                }
                write!(f, "{cause}")
            }
        }
    }
}

impl std::error::Error for Error {}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Failed(error.into())
}

impl Client {
    /// Makes a client of `http` and `https` addresses, with TLS as configured.
    #[must_use]
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Client {
        let mut tcp = HttpConnector::new_with_resolver(Lookup);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnector::from((tcp, tls));
        let hyper = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(CONNECTIONS_MAX)
            .build(connector.clone());
        Client {
            connector,
            hyper,
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }
    }

    /// Makes a request and reads the answer. A request that has begun runs to its end, even if nobody waits for the
    /// answer any more.
    ///
    /// # Errors
    /// There is no answer, or none within the limits.
    pub async fn call(
        &self,
        request: Request<Bytes>,
        limits: Limits,
    ) -> Result<Response<Bytes>, Error> {
        let permit = Arc::clone(&self.connections).acquire_owned().await;
        let permit = permit.map_err(failed)?;
        let hyper = self.hyper.clone();
        let calling = tokio::spawn(async move {
            let answering = timeout(limits.time, answer_to(&hyper, request, limits.body_len));
            let answered = answering.await;
            drop(permit);
            answered.unwrap_or(Err(Error::Late(limits.time)))
        });
        calling.await.map_err(failed)?
    }

    /// Makes a connection for a protocol other than HTTP requests, such as a WebSocket. The connection does not count
    /// towards the client's bound on connections.
    ///
    /// # Errors
    /// The connection or the TLS handshake fails, for example because the server's certificate is not trusted.
    pub async fn connect(&self, address: Uri) -> Result<Stream, Error> {
        let mut connector = self.connector.clone();
        poll_fn(|context| connector.poll_ready(context))
            .await
            .map_err(failed)?;
        let stream = connector.call(address).await;
        Ok(TokioIo::new(stream.map_err(failed)?))
    }
}

async fn answer_to(
    hyper: &Hyper,
    request: Request<Bytes>,
    body_len: Option<usize>,
) -> Result<Response<Bytes>, Error> {
    let answer = hyper.request(request.map(Full::new)).await;
    let (head, body) = answer.map_err(failed)?.into_parts();
    let body = match body_len {
        Some(max) => {
            let body = Limited::new(body, max).collect().await;
            body.map_err(failed)?.to_bytes()
        }
        None => Bytes::new(),
    };
    Ok(Response::from_parts(head, body))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Starts a server that answers one request, if there is an answer, and then sends nothing until the client closes
    /// the connection. Returns the server's address.
    fn server(answer: Option<&'static str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut bytes = [0; 4096];
            let mut n_read = stream.read(&mut bytes).expect("a request");
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).expect("sent");
            }
            while n_read > 0 {
                n_read = stream.read(&mut bytes).unwrap_or(0);
            }
        });
        format!("http://{address}/")
    }

    async fn answer_of(url: &str, limits: Limits) -> Result<Response<Bytes>, Error> {
        let client = Client::new(tls::http_client(None));
        let request = Request::get(url).body(Bytes::new());
        client.call(request.expect("a request"), limits).await
    }

    fn limits(body_len: Option<usize>) -> Limits {
        Limits {
            time: Duration::from_secs(60),
            body_len,
        }
    }

    #[tokio::test]
    async fn an_answer_may_have_this_length_and_no_more() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfour";
        let whole = answer_of(&server(Some(answer)), limits(Some(4))).await;
        assert_eq!(*whole.expect("an answer").body(), "four");
        let cut = answer_of(&server(Some(answer)), limits(Some(3))).await;
        let error = cut.expect_err("the answer is too long");
        assert_eq!(error.to_string(), "length limit exceeded");
        let head = answer_of(&server(Some(answer)), limits(None)).await;
        assert!(head.expect("an answer").body().is_empty());
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer() {
        let answer =
            "HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let answer = answer_of(&server(Some(answer)), limits(Some(0))).await;
        assert_eq!(answer.expect("an answer").status(), 307);
    }

    #[tokio::test]
    async fn what_happened_is_said_in_one_line() {
        let short = Limits {
            time: Duration::from_secs(1),
            body_len: None,
        };
        let silent = answer_of(&server(None), short).await;
        let error = silent.expect_err("nobody answers");
        assert_eq!(error.to_string(), "no answer within 1 s");
        let nobody = answer_of("http://127.0.0.1:1/", limits(None)).await;
        let error = nobody.expect_err("nobody listens");
        assert!(error.to_string().contains("refused"), "{error}");
        let nameless = answer_of("http://no-such-host.invalid/", limits(None)).await;
        let error = nameless.expect_err("there is no such name");
        assert!(error.to_string().contains("lookup"), "{error}");
    }
}
