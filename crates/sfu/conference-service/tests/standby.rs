//! Two services with one store in etcd.
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conference_api::{ConferenceSpec, Name};
use conference_model::Request;
use conference_service::config::StoreConfig;
use conference_service::core::{Core, CoreError};
use conference_service::driver::Program;
use conference_service::live::{Live, Reloadable};
use conference_service::serve::{ServeError, Settings, serve};
use conference_service::tokens::Keys;
use conference_store::{Etcd, EtcdConfig};
use p4runtime_client::SwitchAddress;
use testkit::etcd::EtcdCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Guards against hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

struct Running {
    address: SocketAddr,
    leads: oneshot::Receiver<Core>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

/// Starts a service whose switch never answers.
async fn start(etcd: &EtcdConfig) -> Running {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let settings = Settings {
        listen: address,
        store: StoreConfig::Etcd(etcd.clone()),
        live: Live::fixed(Reloadable::of_keys(
            Keys::default(),
            Duration::from_secs(30),
        )),
        switch_name: name("s1"),
        switch: SwitchAddress::plain("127.0.0.1:9"),
        device_id: 1,
        program: Program {
            p4info: p4runtime_proto::p4::config::v1::P4Info::default(),
            json: Vec::new(),
            cookie: 1,
        },
        own_addresses: Vec::new(),
        gone: None,
        metrics_names: false,
    };
    let (said, leads) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let is_ready = move |_, core: &Core| said.send(core.clone()).unwrap();
    let served = serve(settings, is_ready, async {
        let _ = stopped.await;
    });
    Running {
        address,
        leads,
        stop,
        served: tokio::spawn(served),
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn conference(text: &str) -> Request {
    Request::PutConference {
        conference: name(text),
        spec: ConferenceSpec::default(),
    }
}

/// Returns the answer to a request for a path, with status and headers; empty while the service does not listen.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(address).await {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.read_to_string(&mut answer).await.unwrap();
    }
    answer
}

/// Waits until a path's answer has a text.
async fn wait_for(address: SocketAddr, path: &str, what: &str) -> String {
    let began = Instant::now();
    loop {
        let answer = get(address, path).await;
        if answer.contains(what) {
            return answer;
        }
        assert!(began.elapsed() < TIMEOUT, "{path}: {answer}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_stands_by_until_the_other_one_ends_and_has_what_that_one_acknowledged() {
    let test = "a_service_stands_by_until_the_other_one_ends_and_has_what_that_one_acknowledged";
    let folder = tempfile::tempdir().unwrap();
    let Some(cluster) = EtcdCluster::start(test, folder.path(), 1) else {
        return;
    };
    let etcd = EtcdConfig {
        endpoints: cluster.endpoints(),
        prefix: "/reprise/".to_owned(),
        tls: None,
    };
    let first = start(&etcd).await;
    let core = timeout(TIMEOUT, first.leads).await.unwrap().unwrap();
    core.ask(conference("c")).await.unwrap();
    let second = start(&etcd).await;
    let standby = wait_for(second.address, "/readyz", "stands by").await;
    assert!(standby.starts_with("HTTP/1.1 503"), "{standby}");
    let health = get(second.address, "/healthz").await;
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let refused = get(second.address, "/v1/conferences").await;
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("urn:reprise:unavailable"),
        "{refused}"
    );
    let asked = get(first.address, "/v1/conferences").await;
    assert!(asked.starts_with("HTTP/1.1 401"), "{asked}");
    let away = get(first.address, "/readyz").await;
    assert!(away.contains("the switch is away"), "{away}");

    first.stop.send(()).unwrap();
    first.served.await.unwrap().unwrap();
    let core = timeout(TIMEOUT, second.leads).await.unwrap().unwrap();
    core.ask(conference("c")).await.unwrap();
    assert_eq!(core.model().await.conferences().count(), 1);
    let away = get(second.address, "/readyz").await;
    assert!(away.contains("the switch is away"), "{away}");
    second.stop.send(()).unwrap();
    second.served.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_loses_etcd_stands_by_and_leads_again() {
    let test = "a_service_that_loses_etcd_stands_by_and_leads_again";
    let folder = tempfile::tempdir().unwrap();
    let Some(mut cluster) = EtcdCluster::start(test, folder.path(), 1) else {
        return;
    };
    let etcd = EtcdConfig {
        endpoints: cluster.endpoints(),
        prefix: "/reprise/".to_owned(),
        tls: None,
    };
    let service = start(&etcd).await;
    let old = timeout(TIMEOUT, service.leads).await.unwrap().unwrap();
    old.ask(conference("c")).await.unwrap();
    cluster.kill(0);
    let failed = old.ask(conference("d")).await.unwrap_err();
    assert!(matches!(failed, CoreError::Store(_)), "{failed}");
    wait_for(service.address, "/readyz", "stands by").await;
    old.ended().await;
    let ended = old.ask(conference("d")).await.unwrap_err();
    assert!(matches!(ended, CoreError::Ended), "{ended}");
    cluster.restart(0);
    wait_for(service.address, "/readyz", "the switch is away").await;
    service.stop.send(()).unwrap();
    service.served.await.unwrap().unwrap();
    // The service has resigned, so nobody has to wait until its lease ends.
    let next = timeout(Duration::from_secs(3), Etcd::lead(&etcd)).await;
    let there = next.unwrap().unwrap().read_all().await.unwrap();
    assert_eq!(there.len(), 1);
    assert_eq!(there[0].0, "conference/c");
}
