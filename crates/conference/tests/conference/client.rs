//! The client against a P4Runtime server on loopback: arbitration, errors, ARP.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use conference::address::Mac;
use conference::backend::SfuProgram;
use conference::client::{Client, ClientError};
use conference::dial::SwitchAddress;
use conference::entities;
use conference::model::OwnAddress;
use conference::neighbour::{self, Place, Question};
use conference::plan::Target;
use testkit::sfu::fake::FakeSwitch;
use testkit::sfu::programs;
use testkit::sfu::service::{DEVICE_ID, Server};
use testkit::text::assert_starts;

const OWN: OwnAddress = OwnAddress {
    port: 1,
    ip: Ipv4Addr::new(10, 0, 1, 100),
    mac: Mac([2, 0, 0, 0, 1, 0]),
};

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
async fn who_lost_the_primary_role_is_told_and_nothing_is_written() {
    let server = server();
    let mut client = client(&server).await;
    client.become_primary().await.unwrap();
    let group = || vec![entities::insert(entities::multicast_group(1, [(1, 1)]))];
    server.take_over(99);
    let error = client.write(group()).await.unwrap_err();
    assert!(matches!(error, ClientError::NotPrimary { .. }), "{error}");
    assert_starts(
        &error.to_string(),
        "another controller took over as primary",
    );
    assert!(server.switch().groups.is_empty());
}

#[tokio::test]
async fn a_client_that_never_bid_cannot_write_but_read() {
    let server = server();
    let mut client = client(&server).await;
    let program = SfuProgram::detect(&client.p4info().await.unwrap()).unwrap();
    assert_eq!(program.name(), "replication");
    program.read(&mut client).await.unwrap();
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

#[tokio::test]
async fn macs_are_found_by_arp_even_if_a_host_misses_the_first_request() {
    let server = server();
    let five = Ipv4Addr::new(10, 0, 1, 5);
    let mac = Mac([2, 0, 0, 0, 0, 5]);
    server.switch().hosts.insert(five, mac);
    server.switch().requests_to_miss = 1;
    let mut client = client(&server).await;
    client.become_primary().await.unwrap();
    let p4info = client.p4info().await.unwrap();
    let questions = BTreeSet::from([question(five)]);
    let found = neighbour::look_up(&mut client, &p4info, &[OWN], &questions)
        .await
        .unwrap();
    assert_eq!(found[&question(five)], Place { port: 1, mac });

    let questions = BTreeSet::from([question(five), question(Ipv4Addr::new(10, 0, 1, 6))]);
    let error = neighbour::look_up(&mut client, &p4info, &[OWN], &questions)
        .await
        .unwrap_err()
        .to_string();
    let expected = "no host answers to ARP for 10.0.1.6 on port 1 (3 requests, 2000 ms each): give the MAC address with --mac, or `mac:` in the file";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_host_is_found_on_its_port_and_two_that_answer_are_refused() {
    let server = server();
    let (five, six) = (Ipv4Addr::new(10, 0, 1, 5), Ipv4Addr::new(10, 0, 1, 6));
    let mac = |n| Mac([2, 0, 0, 0, 0, n]);
    server.switch().other_hosts = vec![(2, five, mac(5)), (1, six, mac(6)), (1, six, mac(66))];
    let mut client = client(&server).await;
    client.become_primary().await.unwrap();
    let p4info = client.p4info().await.unwrap();
    let own = [OWN, OwnAddress { port: 2, ..OWN }];
    let questions = BTreeSet::from([question(five)]);
    let found = neighbour::look_up(&mut client, &p4info, &own, &questions).await;
    let place = Place {
        port: 2,
        mac: mac(5),
    };
    assert_eq!(found.unwrap()[&question(five)], place);
    let questions = BTreeSet::from([question(six)]);
    let error = neighbour::look_up(&mut client, &p4info, &own, &questions).await;
    let error = error.unwrap_err().to_string();
    let expected = "several hosts answer to ARP for 10.0.1.6 (02:00:00:00:00:06 on port 1, 02:00:00:00:00:42 on port 1)";
    assert_starts(&error, expected);
}

fn question(ip: Ipv4Addr) -> Question {
    Question { ip, port: None }
}
