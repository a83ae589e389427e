//! What a service manager is told, if there is one that asks (sd_notify(3)): systemd with `Type=notify`.

use sd_notify::NotifyState;

/// The switch forwards.
pub(crate) fn ready() {
    notify(NotifyState::Ready);
}

/// Another process is this service now.
pub(crate) fn main_process_is(process: u32) {
    notify(NotifyState::MainPid(process));
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(
            event = "service_manager_untold",
            error = error.to_string(),
            "cannot tell the service manager: {error}"
        );
    }
}
