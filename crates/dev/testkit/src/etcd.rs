//! A cluster of etcd on ports of 127.0.0.1 that no other program uses.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that a cluster may take to start, even on a busy machine.
const BEGIN: Duration = Duration::from_secs(120);

/// A cluster of etcd. Dropping the value kills the cluster.
#[derive(Debug)]
pub struct EtcdCluster {
    nodes: Vec<Node>,
    folder: PathBuf,
}

#[derive(Debug)]
struct Node {
    arguments: Vec<String>,
    client: String,
    child: Child,
}

impl EtcdCluster {
    /// Starts a cluster with its data in a folder, and waits until the cluster takes writes. If etcd is not installed,
    /// the function prints that `test` was not run, and returns `None`. With `CI=true`, a missing etcd is a failure.
    pub fn start(test: &str, folder: &Path, n_nodes: usize) -> Option<EtcdCluster> {
        let probe = [["etcd", "--version"], ["etcdctl", "version"]].map(|[program, argument]| {
            Command::new(program)
                .arg(argument)
                .env("ETCDCTL_API", "3")
                .output()
        });
        if let Some(missing) = probe.iter().find(|it| it.is_err()) {
            let message = format!(
                "NOT TESTED: {test}: no etcd here ({missing:?}): scripts/install-packages etcd"
            );
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{message}");
            let _ = std::io::stderr().write_all(format!("{message}\n").as_bytes());
            return None;
        }
        let urls = free_urls(2 * n_nodes);
        let urls: Vec<&[String]> = urls.chunks(2).collect();
        let peers = urls.iter().enumerate();
        let peers: Vec<String> = peers
            .map(|(number, urls)| format!("n{number}={}", urls[1]))
            .collect();
        let nodes = urls.iter().enumerate().map(|(number, urls)| {
            let (client, peer) = (&urls[0], &urls[1]);
            let data = folder.join(format!("n{number}"));
            let arguments = [
                ("name", format!("n{number}")),
                ("data-dir", data.display().to_string()),
                ("listen-client-urls", client.clone()),
                ("advertise-client-urls", client.clone()),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer.clone()),
                ("initial-cluster", peers.join(",")),
                ("logger", "zap".to_owned()),
                ("log-outputs", format!("{}.log", data.display())),
            ];
            let arguments = arguments.map(|(option, value)| format!("--{option}={value}"));
            Node {
                child: spawn(&arguments),
                arguments: arguments.to_vec(),
                client: client.clone(),
            }
        });
        let mut cluster = EtcdCluster {
            nodes: nodes.collect(),
            folder: folder.to_owned(),
        };
        cluster.wait();
        Some(cluster)
    }

    /// The nodes' URLs for clients.
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.client.clone()).collect()
    }

    /// Kills a node (SIGKILL).
    pub fn kill(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.child.kill().expect("it runs");
        node.child.wait().expect("it ends");
    }

    /// Starts a killed node again, with its data, and waits until all nodes take writes.
    pub fn restart(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.child = spawn(&node.arguments);
        self.wait();
    }

    /// Stops a node (SIGSTOP). Returns when none of its threads runs any more. On a busy machine, the threads may stop
    /// some time after the signal was sent.
    pub fn stop(&self, number: usize) {
        self.signal(number, "STOP");
        let tasks = format!("/proc/{}/task", self.nodes[number].child.id());
        let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            // The state follows the name, which is in brackets and may have brackets in it.
            Some(stat.rsplit_once(") ")?.1.starts_with('T'))
        };
        let are_all_stopped = || {
            let all = std::fs::read_dir(&tasks).expect("the node runs");
            all.map(is_stopped).all(|it| it == Some(true))
        };
        while !are_all_stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets a stopped node run again.
    pub fn resume(&self, number: usize) {
        self.signal(number, "CONT");
    }

    fn signal(&self, number: usize, signal: &str) {
        let id = self.nodes[number].child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    fn wait(&mut self) {
        let began = Instant::now();
        loop {
            let answers = self
                .nodes
                .iter()
                .all(|node| etcdctl(&node.client, &["put", "/testkit", "ready"]));
            if answers {
                return;
            }
            let ended = self.nodes.iter_mut();
            let ended: Vec<_> = ended
                .filter_map(|node| node.child.try_wait().expect("it is a child"))
                .collect();
            assert!(
                ended.is_empty() && began.elapsed() < BEGIN,
                "etcd takes no writes, and these ended: {ended:?}: {}",
                logs(&self.folder)
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // The node may have been killed already.
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
    }
}

fn spawn(arguments: &[String]) -> Child {
    Command::new("etcd")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd starts")
}

fn etcdctl(endpoint: &str, arguments: &[&str]) -> bool {
    let output = Command::new("etcdctl")
        .arg(format!("--endpoints={endpoint}"))
        .arg("--command-timeout=2s")
        .args(arguments)
        .env("ETCDCTL_API", "3")
        .output();
    output.is_ok_and(|output| output.status.success())
}

fn logs(folder: &Path) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    texts.collect()
}

/// Returns URLs whose ports were free a moment ago. The ports are below the range from which the system takes ports for
/// outgoing connections. The first nodes open connections before all nodes listen. If the ports were in that range,
/// such a connection could take the port of a node that does not listen yet.
fn free_urls(n_urls: usize) -> Vec<String> {
    let salt = RandomState::new().hash_one(std::process::id());
    let ports = (10_000..32_000).cycle();
    let from = usize::try_from(salt % 22_000).unwrap_or_default();
    let free = ports
        .skip(from)
        .filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let sockets: Vec<TcpListener> = free.take(n_urls).collect();
    let url = |socket: &TcpListener| {
        let address = socket.local_addr().expect("it is bound");
        format!("http://{address}")
    };
    sockets.iter().map(url).collect()
}
