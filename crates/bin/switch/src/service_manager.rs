//! Tells a service manager what the switch does, if the service manager asks for that (sd_notify(3)), as systemd does
//! with `Type=notify`.

use sd_notify::NotifyState;

/// Tells the service manager that the switch forwards.
pub(crate) fn ready() {
    notify(NotifyState::Ready);
}

/// Tells the service manager that another process is the service's main process now.
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
