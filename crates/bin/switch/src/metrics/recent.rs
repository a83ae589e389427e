//! The longest times of packets in the switch and the deepest queues, both of the last minute. Counters since the start
//! do not show that something is slow now.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::Device;
use dataplane::RecentMaxima;

/// The length of one part of the time window.
const PART: Duration = Duration::from_secs(10);

/// Number of parts. The window covers the last 60 to 70 seconds.
const N_PARTS: usize = 7;

/// The maxima of each part; the current part is the last one.
#[derive(Clone)]
pub(crate) struct Recent(Arc<Mutex<VecDeque<RecentMaxima>>>);

impl Recent {
    pub(crate) fn new() -> Recent {
        let parts = VecDeque::from([RecentMaxima::default()]);
        Recent(Arc::new(Mutex::new(parts)))
    }

    /// Begins a new part every ten seconds, until the switch stops.
    pub(crate) async fn keep(self, device: Arc<Device>) {
        while self.take(&device).await.is_some() {
            tokio::time::sleep(PART).await;
            // Maxima since the last call of `take` belong to the part that ends.
            if self.take(&device).await.is_none() {
                return;
            }
            self.begin_part();
        }
    }

    fn parts(&self) -> MutexGuard<'_, VecDeque<RecentMaxima>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_part(&self) {
        let mut parts = self.parts();
        parts.push_back(RecentMaxima::default());
        while parts.len() > N_PARTS {
            parts.pop_front();
        }
    }

    fn add(&self, taken: &RecentMaxima) {
        if let Some(part) = self.parts().back_mut() {
            part.add(taken);
        }
    }

    /// Adds to the current part the maxima that the event loops have seen since the last call. Returns `None` if the
    /// switch has stopped.
    pub(crate) async fn take(&self, device: &Device) -> Option<()> {
        let recent = self.clone();
        // The loop adds the maxima, so that none are lost if the caller has gone.
        let taken = device.submit(move |_, context| {
            recent.add(&context.switch.take_recent_maxima());
        });
        taken.all().await.ok().map(drop)
    }

    /// Returns the maxima of the whole window.
    pub(crate) fn maxima(&self) -> RecentMaxima {
        let mut all = RecentMaxima::default();
        self.parts().iter().for_each(|part| all.add(part));
        all
    }
}

#[cfg(test)]
mod tests {
    use dataplane::PortId;

    use super::*;

    fn of_port(max_ns: u64) -> RecentMaxima {
        RecentMaxima {
            ports: vec![(PortId(1), max_ns)],
            ..RecentMaxima::default()
        }
    }

    #[test]
    fn a_maximum_is_shown_for_the_window_and_then_forgotten() {
        let recent = Recent::new();
        recent.add(&of_port(500));
        for _ in 1..N_PARTS {
            recent.begin_part();
            recent.add(&of_port(70));
            assert_eq!(recent.maxima(), of_port(500));
        }
        recent.begin_part();
        assert_eq!(recent.maxima(), of_port(70));
    }
}
