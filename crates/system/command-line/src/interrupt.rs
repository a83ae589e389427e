//! Work that a user or a supervisor may stop.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// Returns the result of the work, or `None` if SIGINT or SIGTERM comes first. In this case the future `work` is
/// dropped at the point where it waits.
pub async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Option<T> {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return Some(work.await);
    };
    tokio::select! {
        done = work => Some(done),
        _ = tokio::signal::ctrl_c() => None,
        _ = terminate.recv() => None,
    }
}
