//! Tests how MAC addresses are found by ARP, through a P4Runtime server on loopback.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use conference::address::Mac;
use conference::model::OwnAddress;
use conference::neighbour::{self, Place, Question};
use p4runtime_client::{Client, SwitchAddress};
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
