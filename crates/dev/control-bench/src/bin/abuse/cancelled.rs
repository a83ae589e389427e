//! Makes calls repeatedly and cancels them after 0, 25, 50, ... microseconds, so that calls are cancelled at every
//! stage.

use std::sync::Arc;
use std::time::Duration;

use control_bench::controller::DEVICE_ID;
use control_bench::raw;
use fastrand::Rng;
use p4runtime_proto::p4::v1::{
    CapabilitiesRequest, GetForwardingPipelineConfigRequest, ReadRequest,
};
use p4runtime_proto::reprise::v1::DrainRequest;
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;

use crate::{PLACE, Shared};

const STEP: Duration = Duration::from_micros(25);
const N_STEPS: u32 = 200;

/// Cancels Reads and small calls until the end of the run. The controllers of `racers` cancel Writes and the setting of
/// pipelines.
pub(crate) async fn sweep(shared: Arc<Shared>, mut rng: Rng) {
    let wanted = shared.grammars[0].wanted();
    while !shared.is_over() {
        let Ok(channel) = raw::connect(PLACE).await else {
            continue;
        };
        let mut client = raw::client(&channel);
        let mut switch = SwitchClient::new(channel.clone());
        for limit in (0..N_STEPS).map(|n| STEP * n) {
            if shared.is_over() {
                return;
            }
            let read = ReadRequest {
                device_id: DEVICE_ID,
                entities: wanted.clone(),
                ..Default::default()
            };
            let get = GetForwardingPipelineConfigRequest {
                device_id: DEVICE_ID,
                ..Default::default()
            };
            let is_in_time = match rng.u8(..4) {
                0 => {
                    let all = async {
                        let mut answers = client.read(read).await?.into_inner();
                        while answers.message().await?.is_some() {}
                        Ok::<_, tonic::Status>(())
                    };
                    tokio::time::timeout(limit, all).await.is_ok()
                }
                1 => {
                    let call = client.get_forwarding_pipeline_config(get);
                    tokio::time::timeout(limit, call).await.is_ok()
                }
                2 => {
                    let call = switch.drain(DrainRequest {
                        device_id: DEVICE_ID,
                    });
                    tokio::time::timeout(limit, call).await.is_ok()
                }
                _ => {
                    let call = client.capabilities(CapabilitiesRequest::default());
                    tokio::time::timeout(limit, call).await.is_ok()
                }
            };
            shared.count(if is_in_time {
                "swept, answered"
            } else {
                "swept, given up"
            });
        }
    }
}
