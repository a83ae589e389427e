//! Makes one HTTP request for a hook.

use std::sync::Arc;
use std::time::Duration;

use conference_api::Event;
use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::sync::oneshot;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::Webhook;
use crate::core::now_ms;

/// The longest that a request may take, connecting included.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a hook's requests.
pub(super) struct Poster {
    agent: ureq::Agent,
    url: Arc<str>,
    secret: Vec<u8>,
}

impl Poster {
    pub(super) fn new(hook: &Webhook) -> Poster {
        let mut tls = TlsConfig::builder();
        if let Some(authorities) = &hook.authorities {
            let certificates = authorities.iter().map(|it| Certificate::from_der(it));
            let certificates: Vec<_> = certificates.map(|it| it.to_owned()).collect();
            tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates)));
        }
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            // A signed event goes to no other address than the configured one.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("reprise/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .build();
        Poster {
            agent: config.into(),
            url: hook.url.as_str().into(),
            secret: hook.secret.clone(),
        }
    }

    /// Sends an event once.
    ///
    /// # Errors
    /// Nobody answers, or the answer has a status other than 200 to 299.
    pub(super) async fn post(&self, event: &Event) -> Result<(), String> {
        // An event has only texts, numbers and names, which JSON can express.
        let body = serde_json::to_string(event).unwrap_or_else(|_| unreachable!());
        let time = (now_ms() / 1_000).to_string();
        let request = self
            .agent
            .post(&*self.url)
            .header("content-type", "application/json")
            .header("reprise-event-number", event.number.to_string())
            .header("reprise-signature", signature(&self.secret, &time, &body))
            .header("reprise-time", time);
        let (done, answer) = oneshot::channel();
        // Each request has a thread of its own, so that a receiver that hangs takes no thread from others, and does not
        // delay the end of the process.
        let begun = std::thread::Builder::new()
            .name("webhook".to_owned())
            .spawn(move || {
                let answer = request.send(body);
                // The hook may be gone from the configuration.
                let _ = done.send(answer.map(|answer| answer.status()));
            });
        begun.map_err(|error| error.to_string())?;
        match answer.await {
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) => Err(format!(
                "expected a status from 200 to 299, found {}",
                status.as_u16()
            )),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the request was given up".to_owned()),
        }
    }
}

/// Returns the HMAC-SHA256 of `TIME.BODY`, in hexadecimal digits.
fn signature(secret: &[u8], time: &str, body: &str) -> String {
    // Any key has a good length for HMAC.
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|error| unreachable!("{error}"));
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_over_time_and_body() {
        // As `printf '1700000000.{}' | openssl dgst -sha256 -hmac secret` prints it.
        let expected = "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163";
        assert_eq!(signature(b"secret", "1700000000", "{}"), expected);
        assert_ne!(signature(b"secret", "1700000001", "{}"), expected);
        assert_ne!(signature(b"secret", "1700000000", "{ }"), expected);
    }
}
