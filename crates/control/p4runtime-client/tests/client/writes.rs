//! Arbitration, and errors of writes, against a P4Runtime server on loopback.

use p4runtime_client::entities::{self, any_multicast_group};
use p4runtime_client::{Client, ClientError, SwitchAddress};
use testkit::sfu::fake::FakeSwitch;
use testkit::sfu::programs;
use testkit::sfu::service::{DEVICE_ID, Server};
use testkit::text::assert_starts;

fn server() -> Server {
    Server::start(FakeSwitch::new(Some(programs::replication(64))))
}

async fn client(server: &Server) -> Client {
    Client::connect(&SwitchAddress::plain(server.address.to_string()), DEVICE_ID)
        .await
        .expect("allowed here")
}

#[tokio::test]
async fn every_new_primary_bids_the_highest_election_id_plus_one() {
    let server = server();
    for expected in 1..4 {
        let mut client = client(&server).await;
        assert_eq!(client.election_id(), None);
        client.become_primary().await.unwrap();
        assert_eq!(client.election_id(), Some(expected));
        client.become_primary().await.unwrap();
        assert_eq!(client.election_id(), Some(expected), "already primary");
    }
    server.take_over(u128::from(u64::MAX));
    let mut client = client(&server).await;
    client.become_primary().await.unwrap();
    assert_eq!(client.election_id(), Some(1 << 64), "ids have 128 bits");
}

#[tokio::test]
async fn who_lost_the_primary_role_is_notified_and_nothing_is_written() {
    let server = server();
    let mut client = client(&server).await;
    client.become_primary().await.unwrap();
    let group = || vec![entities::insert(entities::multicast_group(1, [(1, 1)]))];
    server.take_over(99);
    let error = client.write(group()).await.unwrap_err();
    assert!(matches!(error, ClientError::NotPrimary { .. }), "{error}");
    let expected = "another controller took over as primary";
    assert_starts(&error.to_string(), expected);
    assert!(server.switch().groups.is_empty());
}

#[tokio::test]
async fn a_client_that_never_bid_cannot_write_but_read() {
    let server = server();
    let mut client = client(&server).await;
    let p4info = client.p4info().await.unwrap();
    assert_eq!(p4info, programs::replication(64));
    let groups = client.read(vec![any_multicast_group()]).await.unwrap();
    assert!(groups.is_empty(), "{groups:?}");
    let group = vec![entities::insert(entities::multicast_group(1, [(1, 1)]))];
    assert!(matches!(
        client.write(group).await,
        Err(ClientError::NotPrimary { .. })
    ));
}

#[tokio::test]
async fn a_failed_batch_names_how_many_and_the_first() {
    let server = server();
    let mut client = client(&server).await;
    client.become_primary().await.unwrap();
    let good = entities::insert(entities::multicast_group(1, [(1, 1)]));
    let bad = entities::delete(entities::multicast_group(2, []));
    let error = client
        .write(vec![good, bad.clone(), bad])
        .await
        .unwrap_err()
        .to_string();
    let expected = "2 of 3 updates failed, the first (a multicast group or clone session): is not there (Some requested entity was not found)";
    let expected = expected.replace("Some requested entity was not found", "NotFound");
    assert_eq!(error, expected);
}
