//! A connection that breaks during a call: the switch's process has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use p4runtime_client::{Client, ClientError, SwitchAddress};
use testkit::p4runtime::{self, DEVICE_ID};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Relays one connection to a switch. Once `is_over` is true, the relay closes the connection when the next bytes
/// arrive from the client.
async fn relay(listener: TcpListener, switch: String, is_over: Arc<AtomicBool>) {
    let (mut client, _) = listener.accept().await.expect("a client");
    drop(listener);
    let mut switch = TcpStream::connect(switch).await.expect("a switch");
    let (mut sent, mut answered) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            read = client.read(&mut sent) => {
                let n = read.expect("the client's bytes");
                if n == 0 || is_over.load(Ordering::Relaxed) {
                    return;
                }
                switch.write_all(&sent[..n]).await.expect("it is there");
            }
            read = switch.read(&mut answered) => {
                let n = read.expect("the switch's bytes");
                client.write_all(&answered[..n]).await.expect("it is there");
            }
        }
    }
}

#[tokio::test]
async fn a_call_whose_connection_breaks_says_that_no_switch_answers() {
    let (_, server) = p4runtime::server(1);
    let switch = p4runtime::serve(server).await;
    for connects_once in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let is_over = Arc::new(AtomicBool::new(false));
        let relaying = tokio::spawn(relay(listener, switch.clone(), Arc::clone(&is_over)));
        let to = SwitchAddress::plain(&address);
        let client = if connects_once {
            Client::connect_once(&to, DEVICE_ID).await
        } else {
            Client::connect(&to, DEVICE_ID).await
        };
        let mut client = client.expect("the relay is there");
        client.instance().await.expect("an answer");
        is_over.store(true, Ordering::Relaxed);
        let error = client.instance().await.expect_err("the connection broke");
        assert!(
            matches!(&error, ClientError::Unreachable { address: named, .. } if *named == address),
            "{error}"
        );
        relaying.await.expect("the relay ended");
    }
}
