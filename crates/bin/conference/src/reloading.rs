//! Reads a service's configuration file with the files that it names, at the start and again on SIGHUP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use conference_service::config::{Config, WebhookConfig};
use conference_service::live::Reloadable;
use conference_service::tokens::{Keys, SECRET_LEN_MIN};
use conference_service::webhooks::Webhook;
use tokio::signal::unix::Signal;
use tokio::sync::watch;

use crate::failure::Failure;
use crate::files;

/// Reads the configuration file and the files that it names.
pub fn read(file: &Path) -> Result<(Config, Reloadable), Failure> {
    let text = files::text(file, "a configuration (TOML)")?;
    let config = Config::read(&text).map_err(|error| Failure::in_file(file, &error))?;
    let reloadable = reloadable(&config)?;
    Ok((config, reloadable))
}

fn reloadable(config: &Config) -> Result<Reloadable, Failure> {
    let tls = config.tls.as_ref().map(|files| {
        tls::Server::open_http(tls::ServerFiles {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            client_authorities: None,
        })
    });
    let webhooks = config.webhooks.iter().map(webhook);
    Ok(Reloadable {
        keys: keys(config)?,
        tls: tls.transpose()?.map(Arc::new),
        limits: config.limits,
        webhooks: webhooks.collect::<Result<_, _>>()?,
        silence: config.silence(),
    })
}

fn keys(config: &Config) -> Result<Keys, Failure> {
    let mut keys = Keys::default();
    for file in &config.secrets {
        let secret = files::bytes(file, "a secret")?;
        let added = keys.add_secret(secret.trim_ascii());
        added.map_err(|error| Failure::in_file(file, &error))?;
    }
    for file in &config.public_keys {
        let key = files::bytes(file, "a public key (PEM)")?;
        let added = keys.add_public_key(&key);
        added.map_err(|error| Failure::in_file(file, &error))?;
    }
    Ok(keys)
}

fn webhook(config: &WebhookConfig) -> Result<Webhook, Failure> {
    let file = &config.secret;
    let secret = files::bytes(file, "a secret")?.trim_ascii().to_vec();
    if secret.len() < SECRET_LEN_MIN {
        let n_bytes = secret.len();
        return Err(Failure::in_file(
            file,
            &format!(
                "expected a secret of at least {SECRET_LEN_MIN} bytes, found {n_bytes}: make one with `openssl rand -hex 32`"
            ),
        ));
    }
    let events = config.events.iter().cloned();
    Ok(Webhook {
        url: config.url.clone(),
        secret,
        events: (!config.events.is_empty()).then(|| events.collect()),
        authorities: config
            .ca
            .as_deref()
            .map(tls::Authorities::read)
            .transpose()?,
    })
}

/// Reads the file again at each signal, for ever. If the file has an error, the error is logged, and the whole
/// configuration stays as it was.
pub async fn reload_on(
    mut signal: Signal,
    file: PathBuf,
    mut config: Config,
    live: watch::Sender<Arc<Reloadable>>,
) {
    while signal.recv().await.is_some() {
        let path = file.clone();
        // Read in a thread that may block, since a file may be on a disk that does not answer.
        let again = tokio::task::spawn_blocking(move || read(&path)).await;
        let (new, reloadable) = match again {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => {
                tracing::error!(%error, "the configuration is as before: the file cannot be used");
                continue;
            }
            Err(error) => {
                tracing::error!(%error, "the configuration is as before: the file was not read");
                continue;
            }
        };
        let keys = config.needs_restart(&new);
        if !keys.is_empty() {
            let (file, keys) = (file.display(), keys.join(", "));
            tracing::error!(%file, keys, "the configuration is as before: what has changed needs a restart");
            continue;
        }
        config = new;
        live.send_replace(Arc::new(reloadable));
        tracing::info!(file = %file.display(), "the configuration was read again");
    }
}
