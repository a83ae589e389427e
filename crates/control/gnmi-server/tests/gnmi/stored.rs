//! A store must accept a `Set` before the server answers it; if the store fails, the client gets the store's error.

use std::sync::{Arc, Mutex};

use control::{Kept, Store, StoreError};
use dataplane::PortId;
use gnmi_proto::gnmi::SetRequest;
use gnmi_proto::gnmi::typed_value::Value;
use testkit::text::assert_has;
use tonic::Code;

use crate::harness::*;

#[derive(Default)]
struct Ports {
    ports: Mutex<Vec<Vec<(PortId, bool)>>>,
    is_full: Mutex<bool>,
}

impl Store for Ports {
    fn catch_up(&self) -> Result<(), StoreError> {
        if *self.is_full.lock().unwrap() {
            Err(StoreError("the disk is full".into()))
        } else {
            Ok(())
        }
    }

    fn keep(&self, kept: Kept) -> Result<(), StoreError> {
        self.catch_up()?;
        if let Kept::Ports(ports) = kept {
            self.ports.lock().unwrap().push(ports.to_vec());
        }
        Ok(())
    }
}

#[tokio::test]
async fn what_is_written_is_kept_once_and_only_if_it_is_new() {
    let harness = Harness::without_pipeline(2).await;
    let store = Arc::new(Ports::default());
    harness.device.keep_in(Arc::clone(&store) as Arc<dyn Store>);
    harness.enable("veth1", true).await;
    harness.enable("veth1", false).await;
    harness.enable("veth1", false).await;
    harness.enable("veth1", true).await;
    let ports = store.ports.lock().unwrap().clone();
    assert_eq!(ports, [[(PortId(1), false)], [(PortId(1), true)]]);
}

#[tokio::test]
async fn a_store_that_fails_refuses_the_next_call_before_it_does_anything() {
    let harness = Harness::start().await;
    let store = Arc::new(Ports::default());
    harness.device.keep_in(Arc::clone(&store) as Arc<dyn Store>);
    *store.is_full.lock().unwrap() = true;
    let request = SetRequest {
        update: vec![enabled("veth1", false)],
        ..SetRequest::default()
    };
    let refused = harness.client().await.set(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    assert_has(refused.message(), "the disk is full");
    let found = harness.leaf(&of("veth1", "config/enabled")).await;
    assert_eq!(found, Value::BoolVal(true));
    *store.is_full.lock().unwrap() = false;
    harness.enable("veth1", false).await;
    let found = harness.leaf(&of("veth1", "config/enabled")).await;
    assert_eq!(found, Value::BoolVal(false));
}
