//! A device in memory with a program, its server, and a client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use control::{Batch, ClientData, Device, Operation, Registers, SwitchHandle};
use dataplane::{MulticastGroup, PortId, Program, Replica, SwitchConfig};
use gnmi_proto::gnmi::g_nmi_client::GNmiClient;
use gnmi_proto::gnmi::subscribe_request::Request;
use gnmi_proto::gnmi::subscribe_response::Response;
use gnmi_proto::gnmi::subscription_list::Mode;
use gnmi_proto::gnmi::typed_value::Value;
use gnmi_proto::gnmi::{
    Encoding, GetRequest, Notification, Path, PathElem, Poll, SetRequest, SubscribeRequest,
    SubscribeResponse, Subscription, SubscriptionList, SubscriptionMode, TypedValue, Update,
};
use gnmi_server::Gnmi;
use testkit::memory_loop::MemoryLoop;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

const SOURCE: &str = include_str!("../fixture/hub.p4");
const N_PORTS: u16 = 4;

/// Longer than any step takes: a test that waits so long has failed.
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Harness {
    pub switch: Arc<MemoryLoop>,
    pub device: Arc<Device>,
    pub gnmi: Gnmi,
    address: SocketAddr,
}

/// Waits with a timeout.
pub async fn in_time<F: Future>(future: F) -> F::Output {
    let waited = tokio::time::timeout(TIMEOUT, future).await;
    waited.expect("the server should have answered by now")
}

fn program() -> Program {
    let options = p4_compiler::Options::default();
    let output = p4_compiler::compile("hub.p4", SOURCE, &|_: &str| None, &options);
    let json = output
        .bmv2_json
        .unwrap_or_else(|| panic!("{:?}", output.diagnostics));
    Program::from_json_str(&json.to_json().unwrap()).unwrap()
}

impl Harness {
    /// Starts a server whose switch has a program, and a multicast group of the ports 0 and 1.
    pub async fn start() -> Self {
        Self::with_workers(1).await
    }

    pub async fn with_workers(n_workers: usize) -> Self {
        let harness = Self::without_pipeline(n_workers).await;
        harness.set_pipeline().await;
        harness
    }

    pub async fn without_pipeline(n_workers: usize) -> Self {
        Self::with(N_PORTS, n_workers).await
    }

    async fn with(n_ports: u16, n_workers: usize) -> Self {
        let switch = MemoryLoop::start_workers(SwitchConfig::default(), n_ports, n_workers);
        let switch = Arc::new(switch);
        let handle = Arc::clone(&switch) as Arc<dyn SwitchHandle>;
        let device = Arc::new(Device::new(handle, Registers::PerWorker));
        let gnmi = Gnmi::new(Arc::clone(&device));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = tonic::transport::Server::builder().add_service(gnmi.service());
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        Self {
            switch,
            device,
            gnmi,
            address,
        }
    }

    /// Starts a server whose switch has no pipeline.
    pub async fn with_ports(n_ports: u16) -> Self {
        Self::with(n_ports, 1).await
    }

    pub async fn set_pipeline(&self) {
        let checked = self.device.check(program(), ()).unwrap();
        let pipeline = self.device.set_pipeline(checked).await.unwrap();
        let replica = |port| Replica {
            port: PortId(port),
            instance: 0,
        };
        let group = MulticastGroup {
            id: 1,
            replicas: vec![replica(0), replica(1)],
            ..MulticastGroup::default()
        };
        let insert =
            Operation::MulticastGroup(control::Update::Insert(group), ClientData::default());
        let written = self.device.write(pipeline, Batch::new(vec![insert])).await;
        written.unwrap()[0].clone().unwrap();
    }

    pub async fn client(&self) -> GNmiClient<Channel> {
        let url = format!("http://{}", self.address);
        GNmiClient::connect(url).await.unwrap()
    }

    /// The leaves that a `Get` of a path finds, with their paths.
    pub async fn get(&self, text: &str) -> Result<Vec<(String, Value)>, Status> {
        let request = GetRequest {
            path: vec![path(text)],
            encoding: Encoding::Proto.into(),
            ..GetRequest::default()
        };
        let response = in_time(self.client().await.get(request)).await?;
        let notifications = response.into_inner().notification;
        assert_eq!(notifications.len(), 1, "one for each path");
        Ok(updates(&notifications[0]))
    }

    /// The only leaf that a `Get` finds.
    pub async fn leaf(&self, text: &str) -> Value {
        let found = self.get(text).await.unwrap();
        let [(_, value)] = &found[..] else {
            panic!("expected one leaf of {text}, found {found:?}");
        };
        value.clone()
    }

    pub async fn enable(&self, name: &str, is_enabled: bool) {
        let request = SetRequest {
            update: vec![enabled(name, is_enabled)],
            ..SetRequest::default()
        };
        in_time(self.client().await.set(request)).await.unwrap();
    }

    /// Sends a frame into the switch at `port`, and returns the ports at which the frame leaves.
    pub fn ports_of(&self, port: u16) -> Vec<u16> {
        self.switch.transmitted();
        self.switch.receive(port, &[0x5a; 60]);
        let sent = self.switch.transmitted();
        sent.iter().map(|transmit| transmit.port.0).collect()
    }

    /// Subscribes to one path.
    pub async fn follow(&self, mode: Mode, text: &str, how: SubscriptionMode) -> Subscriber {
        self.subscribe(list(mode, vec![to(text, how)])).await
    }

    pub async fn subscribe(&self, list: SubscriptionList) -> Subscriber {
        let (requests, receiver) = mpsc::unbounded_channel();
        let subscriber = |answers| Subscriber { requests, answers };
        let mut client = self.client().await;
        let answers = client
            .subscribe(UnboundedReceiverStream::new(receiver))
            .await;
        let subscriber = subscriber(answers.unwrap().into_inner());
        subscriber.send(Request::Subscribe(list));
        subscriber
    }
}

/// The stream of a `Subscribe` call.
pub struct Subscriber {
    pub requests: mpsc::UnboundedSender<SubscribeRequest>,
    pub answers: Streaming<SubscribeResponse>,
}

impl Subscriber {
    pub fn send(&self, request: Request) {
        let request = SubscribeRequest {
            request: Some(request),
            ..SubscribeRequest::default()
        };
        self.requests.send(request).unwrap();
    }

    pub fn poll(&self) {
        self.send(Request::Poll(Poll {}));
    }

    pub async fn next(&mut self) -> Result<Option<Response>, Status> {
        let answer = in_time(self.answers.message()).await?;
        Ok(answer.map(|answer| answer.response.unwrap()))
    }

    pub async fn notification(&mut self) -> Notification {
        match self.next().await {
            Ok(Some(Response::Update(notification))) => notification,
            other => panic!("expected a notification, found {other:?}"),
        }
    }

    /// Waits for `sync_response`, and returns all updates that arrived before it.
    pub async fn until_sync(&mut self) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Ok(Some(Response::Update(notification))) => all.extend(updates(&notification)),
                Ok(Some(Response::SyncResponse(true))) => return all,
                other => panic!("expected a notification or sync_response, found {other:?}"),
            }
        }
    }

    /// Waits for the next notification, and returns its updates.
    pub async fn updates(&mut self) -> Vec<(String, Value)> {
        updates(&self.notification().await)
    }

    pub async fn refused(&mut self) -> Status {
        loop {
            match self.next().await {
                Err(status) => return status,
                Ok(Some(_)) => {}
                Ok(None) => panic!("expected an error, found the end"),
            }
        }
    }
}

/// Each update's path as text, and its value.
pub fn updates(notification: &Notification) -> Vec<(String, Value)> {
    let updates = notification.update.iter().map(|update| {
        let value = update.val.as_ref().unwrap().value.clone().unwrap();
        (text(update.path.as_ref().unwrap()), value)
    });
    updates.collect()
}

pub fn text(path: &Path) -> String {
    let elems = path.elem.iter().map(|elem| {
        let keys = elem
            .key
            .iter()
            .map(|(key, value)| format!("[{key}={value}]"));
        format!("/{}{}", elem.name, keys.collect::<String>())
    });
    elems.collect()
}

/// Parses a path. Keys must not contain a slash.
pub fn path(text: &str) -> Path {
    let elems = text.split('/').filter(|part| !part.is_empty());
    let elems = elems.map(|part| {
        let (name, key) = part.split_once('[').unwrap_or((part, ""));
        let key = key.trim_end_matches(']').split_once('=');
        PathElem {
            name: name.to_owned(),
            key: key
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
        }
    });
    Path {
        elem: elems.collect(),
        ..Path::default()
    }
}

/// The path of a leaf of an interface.
pub fn of(name: &str, leaf: &str) -> String {
    format!("/interfaces/interface[name={name}]/{leaf}")
}

pub fn update(text: &str, value: Value) -> Update {
    Update {
        path: Some(path(text)),
        val: Some(TypedValue { value: Some(value) }),
        ..Update::default()
    }
}

pub fn enabled(name: &str, is_enabled: bool) -> Update {
    update(&of(name, "config/enabled"), Value::BoolVal(is_enabled))
}

pub fn list(mode: Mode, subscriptions: Vec<Subscription>) -> SubscriptionList {
    SubscriptionList {
        mode: mode.into(),
        subscription: subscriptions,
        ..SubscriptionList::default()
    }
}

pub fn to(text: &str, mode: SubscriptionMode) -> Subscription {
    Subscription {
        path: Some(path(text)),
        mode: mode.into(),
        ..Subscription::default()
    }
}

pub fn string(text: &str) -> Value {
    Value::StringVal(text.to_owned())
}
