//! Notifications as a nanomsg subscriber reads them, and their acknowledgement.

use std::time::Duration;

use bmv2_thrift::wire::read::Value;
use dataplane::PortId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::client::{Arg, Client, Refused, args, to_port};
use crate::harness::{Harness, frame};

const TIMEOUT: Duration = Duration::from_secs(120);
const SECOND_NS: u64 = 1_000_000_000;

/// A subscriber that speaks the protocol of nanomsg's SUB sockets.
struct Subscriber<S> {
    stream: S,
    is_ipc: bool,
}

impl Subscriber<TcpStream> {
    async fn tcp(address: &str) -> Self {
        let address = address.strip_prefix("tcp://").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        Self::greeted(stream, false).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Subscriber<S> {
    async fn greeted(mut stream: S, is_ipc: bool) -> Self {
        stream.write_all(b"\0SP\0\0\x21\0\0").await.unwrap();
        let mut publisher = [0; 8];
        stream.read_exact(&mut publisher).await.unwrap();
        assert_eq!(&publisher, b"\0SP\0\0\x20\0\0");
        Self { stream, is_ipc }
    }

    async fn message(&mut self) -> Vec<u8> {
        let read = async {
            if self.is_ipc {
                assert_eq!(self.stream.read_u8().await.unwrap(), 1);
            }
            let length = self.stream.read_u64().await.unwrap();
            let mut message = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut message).await.unwrap();
            message
        };
        tokio::time::timeout(TIMEOUT, read).await.unwrap()
    }

    /// Skips messages until one has this topic, and returns that message.
    async fn of(&mut self, topic: &[u8; 4]) -> Vec<u8> {
        loop {
            let message = self.message().await;
            if message.starts_with(topic) {
                return message;
            }
        }
    }
}

/// Makes a frame from the host whose address ends with `source`.
fn from(source: u8) -> Vec<u8> {
    let mut frame = frame(1);
    frame[11] = source;
    frame
}

/// Returns, for each sample in a message, the last byte of the sample's address.
fn sources(message: &[u8]) -> Vec<u8> {
    message[32..].chunks(8).map(|sample| sample[5]).collect()
}

fn list(harness: &Harness) -> i32 {
    let json: serde_json::Value = serde_json::from_str(&harness.json).unwrap();
    let id = json["learn_lists"][0]["id"].as_i64().unwrap();
    id.try_into().unwrap()
}

async fn learning(client: &mut Client, call: &str, args: Vec<Arg>) -> Result<(), Refused> {
    let args = [args![0], args].concat();
    let answered = client.try_call(&format!("bm_learning_{call}"), args).await;
    answered.map(|nothing| assert_eq!(nothing, None))
}

#[tokio::test]
async fn digests_come_in_buffers_and_again_when_those_are_acknowledged() {
    let (harness, address) = Harness::publishing("tcp://127.0.0.1:0").await;
    let mut client = harness.client().await;
    let (list, mut subscriber) = (list(&harness), Subscriber::tcp(&address).await);
    learning(&mut client, "set_buffer_size", args![list, 2])
        .await
        .unwrap();
    for source in [7, 8, 7, 8] {
        harness.switch.receive(3, &from(source));
    }
    let message = subscriber.of(b"LEA|").await;
    let header = [
        &b"LEA|"[..],
        &3_u64.to_le_bytes(),
        &0_u32.to_le_bytes(),
        &list.to_le_bytes(),
        &0_u64.to_le_bytes(),
        &2_u32.to_le_bytes(),
    ];
    assert_eq!(message[..32], header.concat());
    assert_eq!(
        message[32..],
        [0, 0, 0, 0, 0, 7, 0, 3, 0, 0, 0, 0, 0, 8, 0, 3]
    );

    // Acknowledges one sample, then the rest of the buffer.
    let one = Arg::List(bmv2_thrift::wire::Type::I32, args![0]);
    let ack = args![list, Arg::I64(0), one];
    learning(&mut client, "ack", ack).await.unwrap();
    for source in [7, 8, 9] {
        harness.switch.receive(3, &from(source));
    }
    assert_eq!(sources(&subscriber.of(b"LEA|").await), [7, 9]);
    let ack = args![list, Arg::I64(0)];
    learning(&mut client, "ack_buffer", ack).await.unwrap();
    // A partial buffer waits for the timeout that a client sets.
    let soon = args![list, 1];
    learning(&mut client, "set_timeout", soon).await.unwrap();
    harness.switch.receive(3, &from(8));
    assert_eq!(sources(&subscriber.of(b"LEA|").await), [8]);

    let unknown = vec![(list + 1).into(), 1.into()];
    let refused = learning(&mut client, "set_timeout", unknown).await;
    assert_eq!(refused, Err(Refused::Code(1)));
    let negative = vec![list.into(), (-1).into()];
    let refused = learning(&mut client, "set_buffer_size", negative).await;
    assert_eq!(refused, Err(Refused::Code(3)));
}

#[tokio::test]
async fn a_digest_that_nobody_received_is_sent_to_whoever_comes() {
    let (harness, address) = Harness::publishing("tcp://127.0.0.1:0").await;
    let mut client = harness.client().await;
    let list = list(&harness);
    learning(&mut client, "set_buffer_size", args![list, 1])
        .await
        .unwrap();
    harness.switch.receive(3, &from(7));
    // Once these calls are answered, the digest has been processed.
    for _ in 0..3 {
        let timeout = args![list, 1_000];
        learning(&mut client, "set_timeout", timeout).await.unwrap();
    }
    let mut subscriber = Subscriber::tcp(&address).await;
    harness.switch.receive(3, &from(7));
    assert_eq!(sources(&subscriber.of(b"LEA|").await), [7]);
}

#[tokio::test]
async fn ports_idle_entries_and_programs_are_reported_by_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("reprise-sp-{}", std::process::id()));
    let (harness, address) = Harness::publishing(&format!("ipc://{}", path.display())).await;
    assert_eq!(address, format!("ipc://{}", path.display()));
    let stream = UnixStream::connect(&path).await.unwrap();
    let mut subscriber = Subscriber::greeted(stream, true).await;
    let mut client = harness.client().await;
    let info = client.fields("bm_mgmt_get_info", vec![]).await;
    assert_eq!(
        info.get(3),
        Some(&Value::Bytes(address.as_bytes().to_vec()))
    );

    for is_up in [true, false] {
        harness.switch.set_port_up(PortId(2), is_up);
        let message = subscriber.of(b"PRT|").await;
        assert_eq!(message[4..16], [3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(message[32..], [2, 0, 0, 0, u8::from(is_up), 0, 0, 0]);
    }

    let forward = "EntitiesIngress.forward";
    let handle = client.number("bm_mt_add_entry", to_port(9, 1)).await;
    let handle: i32 = handle.try_into().unwrap();
    let ttl = args![0, forward, handle, 1_000];
    client.call("bm_mt_set_entry_ttl", ttl).await;
    harness.switch.advance(2 * SECOND_NS);
    let message = subscriber.of(b"AGE|").await;
    let number = args![0, 0, forward];
    let table = client.number("bm_get_id_from_name", number).await;
    let table: i32 = table.try_into().unwrap();
    assert_eq!(message[24..28], table.to_le_bytes());
    assert_eq!(message[28..32], 1_u32.to_le_bytes());
    assert_eq!(message[32..], handle.to_le_bytes());

    let program = args![harness.json.as_str()];
    client.call("bm_load_new_config", program).await;
    client.call("bm_swap_configs", vec![]).await;
    for status in 0..3 {
        let message = subscriber.of(b"SWP|").await;
        assert_eq!(message[16..20], i32::to_le_bytes(status));
    }
}

#[tokio::test]
async fn whoever_says_something_else_or_nothing_gets_no_message_and_holds_up_nobody() {
    let (harness, address) = Harness::publishing("tcp://127.0.0.1:0").await;
    let mut client = harness.client().await;
    let list = list(&harness);
    learning(&mut client, "set_buffer_size", args![list, 1])
        .await
        .unwrap();
    let to = address.strip_prefix("tcp://").unwrap();
    let mut other = TcpStream::connect(to).await.unwrap();
    other.write_all(b"\0SP\0\0\x10\0\0").await.unwrap();
    let _silent = TcpStream::connect(to).await.unwrap();
    // This subscriber reads nothing.
    let _slow = Subscriber::tcp(&address).await;
    let mut subscriber = Subscriber::tcp(&address).await;
    for source in 0..=255 {
        harness.switch.receive(3, &from(source));
        assert_eq!(sources(&subscriber.of(b"LEA|").await), [source]);
    }
    // Expects the publisher's handshake, then the end of the connection.
    let mut received = Vec::new();
    let end = tokio::time::timeout(TIMEOUT, other.read_to_end(&mut received));
    // The connection may end with or without a reset.
    let _ = end.await.unwrap();
    assert_eq!(received, b"\0SP\0\0\x20\0\0");
}
