//! Opens a thousand connections that are silent, slow, or send half a frame or noise. The connections are then reset,
//! half-closed or closed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::{PLACE, Shared};

/// The start of an HTTP/2 connection, with an empty SETTINGS frame (RFC 9113, 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The header of a HEADERS frame, without the frame's payload.
const HALF: &[u8] = b"\0\x01\0\x01\x04\0\0\0\x01";
/// The header of a strict Thrift call, with only a part of the call's name.
const CALL: &[u8] = b"\x80\x01\0\x01\0\0\0\x40stand";
const STAY_MAX_MS: u64 = 3_000;

/// Keeps `n_connections` open until the end.
pub(crate) async fn open(shared: Arc<Shared>, n_connections: usize, mut rng: Rng) {
    let mut all = JoinSet::new();
    while !shared.is_over() {
        while all.len() < n_connections {
            let rng = rng.fork();
            all.spawn(one(Arc::clone(&shared), rng));
        }
        let _ = tokio::time::timeout(Duration::from_millis(50), all.join_next()).await;
    }
    all.shutdown().await;
}

async fn one(shared: Arc<Shared>, mut rng: Rng) {
    let is_thrift = rng.u8(..4) == 0;
    let to: SocketAddr = if is_thrift {
        PLACE.thrift()
    } else {
        PLACE.grpc()
    };
    let Ok(mut stream) = TcpStream::connect(to).await else {
        shared.count("connections refused");
        return;
    };
    let stay = Duration::from_millis(rng.u64(..STAY_MAX_MS));
    let half = if is_thrift {
        CALL.to_vec()
    } else {
        [PREFACE, HALF].concat()
    };
    let (what, said) = match rng.u8(..4) {
        0 => ("silent", Vec::new()),
        1 => ("slow", half),
        2 => ("half of a frame", half),
        _ => (
            "noise",
            (0..rng.usize(1..500)).map(|_| rng.u8(..)).collect(),
        ),
    };
    // Errors do not matter: the switch may have closed the connection.
    match what {
        "slow" => {
            let slowly = async {
                for byte in said {
                    stream.write_all(&[byte]).await?;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                std::io::Result::Ok(())
            };
            let _ = tokio::time::timeout(stay, slowly).await;
        }
        _ => {
            let _ = stream.write_all(&said).await;
            tokio::time::sleep(stay).await;
        }
    }
    let how = match rng.u8(..3) {
        0 => {
            let _ = stream.set_zero_linger();
            "reset"
        }
        1 => {
            let _ = stream.shutdown().await;
            tokio::time::sleep(stay / 4).await;
            "half closed"
        }
        _ => "closed",
    };
    shared.count(format!("connections {what}, {how}"));
}
