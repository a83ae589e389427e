//! Some clients request data and do not read it, or begin a request and never end it. The server holds a bounded number
//! of bytes for such clients, and serves other clients.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::Frame;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::{CapabilitiesRequest, Entity, PacketOut, ReadRequest, ReadResponse};
use p4runtime_server::{BytesMax, ServerLimits, limits};
use tokio::sync::watch;
use tonic::Code::{self, DeadlineExceeded, ResourceExhausted};
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::harness::{DEVICE_ID, Harness, in_time, status_of, until};
use crate::registers::{cell, every_register_cell, read_cell};

const MIB: usize = 1 << 20;

/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(600);

fn bounds(of_connection: usize, of_all: usize, stall: Duration) -> ServerLimits {
    let max = BytesMax {
        of_all,
        of_connection,
    };
    ServerLimits {
        requests: max,
        request_stall: stall,
        answers: max,
        answer_stall: stall,
        handshake: stall,
        ..ServerLimits::default()
    }
}

/// A connection with small flow-control windows: the client buffers little unread data.
async fn channel(harness: &Harness) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", harness.address)).unwrap();
    let endpoint = endpoint
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(1 << 20);
    endpoint.connect().await.unwrap()
}

/// Requests the 131,072 cells of the register `slots`, 2.4 MiB, and reads nothing yet.
async fn ask(channel: &Channel) -> Result<Streaming<ReadResponse>, Status> {
    let entity = Some(every_register_cell());
    let request = ReadRequest {
        device_id: DEVICE_ID,
        entities: vec![Entity { entity }],
        ..Default::default()
    };
    let mut client = P4RuntimeClient::new(channel.clone());
    let answers = in_time(client.read(request)).await?;
    Ok(answers.into_inner())
}

/// Reads an answer. Returns the number of its entities, and how it ends.
async fn take(mut answers: Streaming<ReadResponse>) -> (usize, Result<(), Status>) {
    let mut n_entities = 0;
    loop {
        match in_time(answers.message()).await {
            Ok(Some(response)) => n_entities += response.entities.len(),
            Ok(None) => return (n_entities, Ok(())),
            Err(status) => return (n_entities, Err(status)),
        }
    }
}

#[tokio::test]
async fn those_who_ask_and_do_not_read_hold_so_much_and_nobody_else_up() {
    const OF_ALL: usize = 4 * MIB;
    let harness = Harness::with_limits(bounds(3 * MIB, OF_ALL, LONG)).await;
    let mut primary = harness.primary().await;
    let (one, other) = (channel(&harness).await, channel(&harness).await);
    // Each request runs in its own task: if the other requests leave no room for a request, the server answers it only
    // when the clients read the other answers.
    let (go, _) = watch::channel(false);
    let readers = [&one, &one, &one, &other].map(|channel| {
        let (channel, mut may_read) = (channel.clone(), go.subscribe());
        tokio::spawn(async move {
            let answers = ask(&channel).await.unwrap();
            may_read.wait_for(|go| *go).await.unwrap();
            take(answers).await
        })
    });
    // The first parts of the answers wait for the clients to read them; the other parts are not made yet.
    until(|| harness.server.bytes_held().1 > OF_ALL - MIB / 4).await;
    assert!(harness.switch.n_pieces() < readers.len() * 128);
    for value in 1..=20 {
        primary.modify(cell(3, &[value])).await;
        let (_, n_bytes) = harness.server.bytes_held();
        assert!(n_bytes <= OF_ALL, "{n_bytes}");
    }
    // When a client reads at last, it gets its whole answer, however little of the answer fits at once.
    go.send(true).unwrap();
    for reader in readers {
        let (n_cells, end) = reader.await.unwrap();
        assert_eq!(n_cells, 131_072, "{end:?}");
        end.unwrap();
    }
    until(|| harness.server.bytes_held().1 == 0).await;
    assert_eq!(read_cell(&mut primary, 3).await, [20]);
}

#[tokio::test]
async fn what_nobody_takes_is_thrown_away_and_said_to_be() {
    let stall = Duration::from_secs(2);
    let harness = Harness::with_limits(bounds(8 * MIB, 8 * MIB, stall)).await;
    let channel = channel(&harness).await;
    let answers = ask(&channel).await.unwrap();
    until(|| harness.server.bytes_held().1 > 2 * MIB).await;
    until(|| harness.server.bytes_held().1 == limits::ANSWER_RESERVE_BYTES).await;
    let (n_cells, end) = take(answers).await;
    assert!(n_cells < 131_072, "{n_cells}");
    let status = end.unwrap_err();
    assert_eq!(status.code(), ResourceExhausted, "{status:?}");
    assert!(status.message().contains("was discarded"), "{status:?}");
    until(|| harness.server.bytes_held().1 == 0).await;
}

#[tokio::test]
async fn where_those_who_do_not_read_have_all_the_room_others_are_refused_and_then_served() {
    let stall = Duration::from_secs(2);
    let harness = Harness::with_limits(bounds(2 * MIB, 2 * MIB, stall)).await;
    let (one, other) = (channel(&harness).await, channel(&harness).await);
    let unread = ask(&one).await.unwrap();
    until(|| harness.server.bytes_held().1 > 2 * MIB - MIB / 4).await;
    let status = ask(&other).await.unwrap_err();
    assert_eq!(status.code(), ResourceExhausted, "{status:?}");
    // In the end the connection is closed, and the bytes that it held are free.
    until(|| harness.server.bytes_held().1 == 0).await;
    let (n_cells, end) = take(ask(&other).await.unwrap()).await;
    end.unwrap();
    assert_eq!(n_cells, 131_072);
    drop(unread);
}

/// The body of a request that sends the start of a message, and then nothing.
struct HalfSent(Option<Bytes>);

impl HalfSent {
    fn of(n_bytes: usize) -> Self {
        let mut message = vec![0];
        message.extend(u32::try_from(n_bytes).unwrap().to_be_bytes());
        message.extend(vec![0; n_bytes / 2]);
        Self(Some(message.into()))
    }
}

impl http_body::Body for HalfSent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => Poll::Pending,
        }
    }
}

/// Makes a call whose request never ends. Returns how the call ends.
fn begin(channel: &Channel, method: &str, n_bytes: usize) -> tokio::task::JoinHandle<Code> {
    let mut channel = channel.clone();
    let request = http::Request::post(format!("http://switch/p4.v1.P4Runtime/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(HalfSent::of(n_bytes)))
        .unwrap();
    tokio::spawn(async move {
        std::future::poll_fn(|cx| channel.poll_ready(cx))
            .await
            .unwrap();
        let response = channel.call(request).await.unwrap();
        Status::from_header_map(response.headers()).unwrap().code()
    })
}

// spec: limits.messages
#[tokio::test]
async fn requests_that_do_not_end_hold_so_much_and_end() {
    const REQUEST: usize = MIB + MIB / 3;
    let stall = Duration::from_secs(3);
    let harness = Harness::with_limits(bounds(2 * MIB, 3 * MIB, stall)).await;
    let (one, other, third) = (
        channel(&harness).await,
        channel(&harness).await,
        channel(&harness).await,
    );
    let first = begin(&one, "Write", REQUEST);
    until(|| harness.server.bytes_held().0 == REQUEST).await;
    // The limit of one connection refuses another request on the first connection. Then the limit of all connections
    // refuses a request on the third connection.
    let refused = in_time(begin(&one, "Write", REQUEST)).await.unwrap();
    assert_eq!(refused, ResourceExhausted);
    let second = begin(&other, "SetForwardingPipelineConfig", REQUEST);
    until(|| harness.server.bytes_held().0 == 2 * REQUEST).await;
    let refused = in_time(begin(&third, "Write", REQUEST)).await.unwrap();
    assert_eq!(refused, ResourceExhausted);
    // Small requests are still served.
    let mut primary = harness.primary().await;
    primary.modify(cell(3, &[7])).await;
    for call in [first, second] {
        assert_eq!(in_time(call).await.unwrap(), DeadlineExceeded);
    }
    until(|| harness.server.bytes_held().0 == 0).await;
}

#[tokio::test]
async fn a_stream_says_something_soon_and_nothing_too_large() {
    let harness = Harness::with_limits(bounds(8 * MIB, 8 * MIB, Duration::from_millis(500))).await;
    let mut primary = harness.primary().await;
    let mut silent = harness.stranger().await;
    assert_eq!(silent.ended().await.code(), DeadlineExceeded);
    // A stream that has sent a message may be silent.
    primary.modify(cell(3, &[7])).await;
    primary.send(RequestUpdate::Packet(PacketOut {
        payload: vec![0; MIB],
        metadata: Vec::new(),
    }));
    assert_eq!(primary.ended().await.code(), ResourceExhausted);
    assert_eq!(harness.server.bytes_held().0, 0);
}

// spec: limits.rate
#[tokio::test]
async fn messages_that_come_too_fast_wait_and_another_connection_does_not() {
    const RATE: u32 = 50;
    let limits = ServerLimits {
        rate: std::num::NonZeroU32::new(RATE),
        ..ServerLimits::default()
    };
    let harness = Harness::with_limits(limits).await;
    let (one, other) = (channel(&harness).await, channel(&harness).await);
    let ask = |channel: &Channel| {
        let mut client = P4RuntimeClient::new(channel.clone());
        async move { client.capabilities(CapabilitiesRequest::default()).await }
    };
    // The server processes a second's worth of calls at once, and the remaining calls one after the other, even if they
    // arrive simultaneously.
    let began = Instant::now();
    let calls: Vec<_> = (0..3 * RATE).map(|_| tokio::spawn(ask(&one))).collect();
    in_time(ask(&other)).await.unwrap();
    let of_other = began.elapsed();
    for call in calls {
        in_time(call).await.unwrap().unwrap();
    }
    let of_one = began.elapsed();
    assert!(of_one >= Duration::from_millis(1_900), "{of_one:?}");
    assert!(of_other < of_one / 2, "{of_other:?} of {of_one:?}");
    // The limit also applies to messages of a stream. This is another connection, with its own burst.
    let began = Instant::now();
    let mut controller = harness.stranger().await;
    for election_id in 0..3 * RATE {
        controller.arbitrate(Some(u64::from(election_id)));
    }
    for _ in 0..3 * RATE {
        controller.arbitration().await;
    }
    assert!(
        began.elapsed() >= Duration::from_millis(1_900),
        "{:?}",
        began.elapsed()
    );
    harness.stop().await;
}

// spec: limits.rate
#[tokio::test]
async fn a_controller_that_is_gone_is_primary_no_more_though_messages_of_it_wait() {
    let limits = ServerLimits {
        rate: std::num::NonZeroU32::new(10),
        ..ServerLimits::default()
    };
    let harness = Harness::with_limits(limits).await;
    let (mut primary, mut backup) = (harness.stranger().await, harness.stranger().await);
    primary.arbitrate(Some(9));
    assert_eq!(status_of(&primary.arbitration().await), Code::Ok as i32);
    backup.arbitrate(Some(1));
    assert_ne!(status_of(&backup.arbitration().await), Code::Ok as i32);
    // The primary sends as many messages as may be processed in a minute, and disconnects after the server has answered
    // some of them.
    for _ in 0..600 {
        primary.arbitrate(Some(9));
    }
    for _ in 0..5 {
        primary.arbitration().await;
    }
    let began = Instant::now();
    drop(primary);
    let no_primary = Code::NotFound as i32;
    while status_of(&in_time(backup.arbitration()).await) != no_primary {}
    // The other messages would have taken a minute.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(40), "{took:?}");
    harness.stop().await;
}
