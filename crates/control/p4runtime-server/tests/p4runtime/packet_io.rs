//! Tests of the P4Runtime specification's sections "Packet I/O" and "Stream Error Reporting".

use p4runtime_proto::p4::v1::stream_error::Details;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::{DigestListAck, PacketMetadata, PacketOut};
use p4runtime_proto::reprise::v1::GetCountersRequest;
use tonic::Code;

use crate::harness::{DEVICE_ID, Harness, frame, in_time};
use crate::table_entries::to_cpu_entry;

fn metadata(values: &[&[u8]]) -> Vec<PacketMetadata> {
    let metadata = (1..)
        .zip(values)
        .map(|(metadata_id, value)| PacketMetadata {
            metadata_id,
            value: value.to_vec(),
        });
    metadata.collect()
}

pub fn packet_out(values: &[&[u8]]) -> PacketOut {
    PacketOut {
        payload: frame(0xa, 0xb, 0x0800),
        metadata: metadata(values),
    }
}

// spec: packet-io.out
#[tokio::test]
async fn a_packet_out_leaves_where_its_metadata_says() {
    let harness = Harness::start().await;
    let primary = harness.primary().await;
    primary.send(RequestUpdate::Packet(packet_out(&[&[2], &[0]])));
    let sent = in_time(async {
        loop {
            let sent = harness.switch.transmitted();
            if !sent.is_empty() {
                return sent;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].port.0, 2);
    assert_eq!(sent[0].frame, frame(0xa, 0xb, 0x0800));
}

// spec: packet-io.in
#[tokio::test]
async fn a_packet_in_reaches_the_primary_with_its_metadata() {
    let harness = Harness::start().await;
    let (mut primary, _) = harness.controller(2).await;
    let (_backup, _) = harness.controller(1).await;
    primary.insert(to_cpu_entry(0xa)).await;
    harness.switch.receive(3, &frame(0xa, 0xb, 0x0800));
    let packet = primary.packet_in().await;
    assert_eq!(packet.payload, frame(0xa, 0xb, 0x0800));
    assert_eq!(packet.metadata, metadata(&[&[3], &[0]]));
}

// spec: stream.errors
#[tokio::test]
async fn packet_outs_that_cannot_be_sent_are_reported_on_the_stream() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let wrong = [
        packet_out(&[&[2]]),
        packet_out(&[&[2], &[0], &[0]]),
        packet_out(&[&[2, 0], &[0]]),
        packet_out(&[]),
    ];
    for packet in wrong {
        primary.send(RequestUpdate::Packet(packet.clone()));
        let error = primary.error().await;
        assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
        let Some(Details::PacketOut(details)) = error.details else {
            panic!("expected the packet, got {error:?}");
        };
        assert_eq!(details.packet_out, Some(packet));
    }

    let mut stranger = harness.stranger().await;
    stranger.send(RequestUpdate::Packet(packet_out(&[&[2], &[0]])));
    let error = stranger.error().await;
    assert_eq!(error.canonical_code, Code::PermissionDenied as i32);
    assert_eq!(harness.switch.transmitted(), []);
}

// spec: stream.other
#[tokio::test]
async fn other_stream_messages_are_refused_by_name() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let ack = DigestListAck {
        digest_id: 5,
        list_id: 1,
    };
    primary.send(RequestUpdate::DigestAck(ack));
    let error = primary.error().await;
    assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
    assert!(matches!(error.details, Some(Details::DigestListAck(_))));

    let other = prost_types::Any {
        type_url: "type.googleapis.com/x.Y".into(),
        value: Vec::new(),
    };
    primary.send(RequestUpdate::Other(other));
    let error = primary.error().await;
    assert_eq!(error.canonical_code, Code::Unimplemented as i32);
    assert!(error.message.contains("x.Y"), "{error:?}");
    assert!(matches!(error.details, Some(Details::Other(_))));
}

// spec: packet-io.in
#[tokio::test]
async fn a_packet_in_that_nobody_takes_is_counted() {
    let harness = Harness::start().await;
    {
        let mut primary = harness.primary().await;
        primary.insert(to_cpu_entry(0xa)).await;
        primary.arbitrate(None);
        primary.arbitration().await;
        harness.switch.receive(3, &frame(0xa, 0xb, 0x0800));
    }
    let mut client = harness.switch_client().await;
    let no_primary = in_time(async {
        loop {
            let request = GetCountersRequest {
                device_id: DEVICE_ID,
            };
            let counters = client.get_counters(request).await.unwrap().into_inner();
            let mut drops = counters.drops.iter();
            let drop = drops
                .find(|drop| drop.reason == "packet_in_no_primary")
                .unwrap();
            if drop.packets > 0 {
                return drop.packets;
            }
        }
    });
    assert_eq!(no_primary.await, 1);
}
