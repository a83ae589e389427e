//! Tests of the P4Runtime specification's section "Capabilities RPC".

use p4runtime_proto::p4::v1::CapabilitiesRequest;
use tonic::Code;

use crate::harness::{DEVICE_ID, Harness, in_time};

// spec: capabilities
#[tokio::test]
async fn the_version_is_reported_to_anybody() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for device_id in [0, DEVICE_ID] {
        let request = CapabilitiesRequest { device_id };
        let reply = in_time(client.capabilities(request)).await.unwrap();
        assert_eq!(reply.into_inner().p4runtime_api_version, "1.5.0");
    }
    let request = CapabilitiesRequest { device_id: 99 };
    let refused = in_time(client.capabilities(request)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}
