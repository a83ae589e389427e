//! Abuses a second switch, which requires mutual TLS: with certificates that the switch must refuse, clients that do
//! not trust the switch's authority, plaintext, noise, and unfinished handshakes. Meanwhile good clients must be
//! served, each call on a new connection with a full handshake.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_bench::Result;
use control_bench::process::{Kind, Place};
use control_bench::secure::{Client, Secure, Shows, VERSIONS};
use fastrand::Rng;
use p4runtime_proto::p4::v1::CapabilitiesRequest;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Shared;
use crate::connections::PREFACE;
use crate::guard::ANSWER_MAX;

pub(crate) const PLACE: Place = Place(1);
/// Number of concurrent abusers.
const N_ABUSERS: usize = 60;
/// The maximum time that an abuser stays connected. This is longer than the switch waits for a handshake.
const STAY_MAX_MS: u64 = 15_000;
/// How long a refused client waits for the switch's alert.
const REFUSAL_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Party {
    secure: Secure,
    good: Vec<Client>,
    /// The clients that must be refused, for each version of TLS.
    wrong: Vec<(Shows, Client)>,
    distrusting: Vec<Client>,
}

impl Party {
    pub(crate) fn new() -> Result<Self> {
        let secure = Secure::new()?;
        let (mut good, mut wrong, mut distrusting) = (Vec::new(), Vec::new(), Vec::new());
        for version in VERSIONS {
            good.push(secure.client(Shows::Good, &[version])?);
            distrusting.push(secure.distrusting(&[version])?);
            for shows in Shows::WRONG {
                wrong.push((shows, secure.client(shows, &[version])?));
            }
        }
        Ok(Self {
            secure,
            good,
            wrong,
            distrusting,
        })
    }

    pub(crate) fn switch(&self) -> Kind {
        Kind::Reprise {
            state: None,
            options: self.secure.switch_options(),
        }
    }
}

/// Keeps `N_ABUSERS` running until the end.
pub(crate) async fn abuse(shared: Arc<Shared>, party: Arc<Party>, mut rng: Rng) {
    let mut all = JoinSet::new();
    while !shared.is_over() {
        while all.len() < N_ABUSERS {
            all.spawn(one(Arc::clone(&shared), Arc::clone(&party), rng.fork()));
        }
        let _ = timeout(PAUSE, all.join_next()).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(..20))).await;
    }
    all.shutdown().await;
}

async fn one(shared: Arc<Shared>, party: Arc<Party>, mut rng: Rng) {
    match rng.u8(..6) {
        0 | 1 => refused(&shared, &party, &mut rng).await,
        2 => distrusting(&shared, &party, &mut rng).await,
        3 => plaintext(&shared, &mut rng).await,
        _ => half_done(&shared, &party, &mut rng).await,
    }
}

/// Shows a wrong certificate or no certificate. The switch must not answer with HTTP/2.
async fn refused(shared: &Shared, party: &Party, rng: &mut Rng) {
    let Some((shows, client)) = rng.choice(&party.wrong) else {
        return;
    };
    let called = async {
        let mut stream = client.shake_hands(PLACE).await?;
        stream.write_all(PREFACE).await?;
        stream.flush().await?;
        stream.read(&mut [0; 64]).await
    };
    match timeout(REFUSAL_MAX, called).await {
        Ok(Ok(n_bytes)) if n_bytes > 0 => {
            shared.broken(format!("a client was let in that shows {shows:?}"));
        }
        Ok(_) => shared.count(format!("TLS refused: {shows:?}")),
        Err(_) => shared.broken(format!("a client that shows {shows:?} got no answer")),
    }
}

/// Connects a client that does not trust the switch's certificate.
async fn distrusting(shared: &Shared, party: &Party, rng: &mut Rng) {
    let Some(client) = rng.choice(&party.distrusting) else {
        return;
    };
    match timeout(REFUSAL_MAX, client.shake_hands(PLACE)).await {
        Ok(Ok(_)) => {
            let what = "a client accepted a certificate of an authority that it does not trust";
            shared.broken(what.to_owned());
        }
        Ok(Err(_)) => shared.count("TLS given up: the switch's certificate is not trusted"),
        // The switch may briefly have no room.
        Err(_) => shared.count("TLS given up: no answer"),
    }
}

/// Sends HTTP/2 without TLS. The switch may only send an alert and close.
async fn plaintext(shared: &Shared, rng: &mut Rng) {
    let Ok(mut stream) = TcpStream::connect(PLACE.grpc()).await else {
        shared.count("TLS connections refused");
        return;
    };
    let said = if rng.bool() {
        PREFACE.to_vec()
    } else {
        (0..rng.usize(1..500)).map(|_| rng.u8(..)).collect()
    };
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(&said).await?;
        stream.read_to_end(&mut answer).await
    };
    // Noise may look like the header of a long record. The switch then waits for the rest of the record.
    let _ = timeout(Duration::from_millis(rng.u64(..STAY_MAX_MS)), exchange).await;
    // The header of an HTTP/2 SETTINGS frame: three bytes of length, then the type.
    if answer.get(3) == Some(&4) && answer.first() == Some(&0) {
        shared.broken("plaintext was answered".to_owned())
    } else {
        shared.count("TLS plaintext")
    }
}

/// Sends a truncated, mutated or complete ClientHello, and reads a part of the answer. The connection then stays open
/// for some time, or is closed.
async fn half_done(shared: &Shared, party: &Party, rng: &mut Rng) {
    let hello = rng.choice(&party.good).and_then(|it| it.hello(PLACE).ok());
    let (Some(mut hello), Ok(mut stream)) = (hello, TcpStream::connect(PLACE.grpc()).await) else {
        shared.count("TLS connections refused");
        return;
    };
    let what = match rng.u8(..4) {
        0 => {
            hello.truncate(rng.usize(..hello.len()));
            "half of a hello"
        }
        1 => {
            let at = rng.usize(..hello.len());
            hello[at] ^= rng.u8(1..);
            "a hello with a mistake"
        }
        _ => "a hello and no more",
    };
    let stay = Duration::from_millis(rng.u64(..STAY_MAX_MS) >> rng.u8(..8));
    let begun = async {
        stream.write_all(&hello).await?;
        stream.read(&mut vec![0; rng.usize(1..4096)]).await
    };
    // Errors do not matter: the switch may have closed the connection.
    let _ = timeout(stay, begun).await;
    if rng.bool() {
        tokio::time::sleep(stay).await;
    }
    if rng.bool() {
        let _ = stream.set_zero_linger();
    }
    shared.count(format!("TLS {what}"));
}

/// Runs good clients, and checks that the switch serves each in time.
pub(crate) async fn watch(shared: Arc<Shared>, party: Arc<Party>) -> String {
    let (mut n_answers, mut longest) = (0_u64, Duration::ZERO);
    let mut versions = party.good.iter().cycle();
    while let Some(client) = versions.next().filter(|_| !shared.is_over()) {
        let began = Instant::now();
        let answered = async {
            while let Err(error) = call(client).await {
                // The switch closed the connection to make room.
                shared.count(format!("TLS good client, {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        };
        match timeout(ANSWER_MAX, answered).await {
            Ok(()) => n_answers += 1,
            Err(_) => shared.broken("a good client had no answer over TLS".to_owned()),
        }
        longest = longest.max(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    format!(
        "good clients over TLS: {n_answers} handshakes with a call, the longest took {} ms",
        longest.as_millis()
    )
}

async fn call(client: &Client) -> Result<()> {
    let mut client = P4RuntimeClient::new(client.connect(PLACE).await?);
    client.capabilities(CapabilitiesRequest::default()).await?;
    Ok(())
}
