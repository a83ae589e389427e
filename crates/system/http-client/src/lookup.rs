//! Looks up the addresses of names. Each lookup has a thread of its own, so the end of the process does not wait for a
//! name server that is silent.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::oneshot;
use tower_service::Service;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup;

type Addresses = std::vec::IntoIter<SocketAddr>;

impl Service<Name> for Lookup {
    type Response = Addresses;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Addresses>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(async move {
            let (found, finding) = oneshot::channel();
            let begun = std::thread::Builder::new()
                .name("name lookup".to_owned())
                .spawn(move || {
                    // hyper sets the port.
                    let addresses = (name.as_str(), 0).to_socket_addrs();
                    // If the request is over, nobody receives the addresses.
                    let _ = found.send(addresses);
                });
            begun?;
            let addresses = finding.await.map_err(io::Error::other)??;
            Ok(addresses)
        })
    }
}
