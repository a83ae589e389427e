//! Keeps the certificate of HTTPS current: an operator may replace the certificate's files at any time.

use std::sync::Arc;
use std::time::Duration;

use tls::Renewal;

use crate::live::Live;

/// How often the files are read. A new certificate and key are used when two readings in a row have found the same
/// files.
const LOOK: Duration = Duration::from_secs(10);

/// Reads the certificate's files periodically, for ever. New connections then use a renewed certificate.
pub async fn renew(live: Live) {
    let mut was_expired = false;
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(tls) = live.get().tls.clone() else {
            was_expired = false;
            continue;
        };
        let looked_at = Arc::clone(&tls);
        // Files may be on a disk that does not answer.
        let renewed = tokio::task::spawn_blocking(move || looked_at.renew()).await;
        let file = tls.certificate().display();
        match renewed {
            Ok(Renewal::Done(until)) => {
                tracing::info!(%file, until, "new connections use the renewed certificate");
            }
            Ok(Renewal::Broken(error)) => {
                tracing::warn!(%error, "the renewed files cannot be used, so new connections use the former certificate");
            }
            Ok(Renewal::None) | Err(_) => {}
        }
        let is_expired = tls.is_expired();
        if is_expired && !was_expired {
            tracing::warn!(%file, "the certificate has expired, and clients will not take it any more: renew it");
        }
        was_expired = is_expired;
    }
}
