//! The steps of an epoch change and of a group's removal. Each step is saved before it is carried out, and may be
//! carried out twice, so a restarted service repeats the step in which it was killed, and continues.
//!
//! The switch's register `sequences` is set to 1 only in [`Phase::Write`], before [`Phase::Start`] is saved. If the
//! connection to the switch ends after the register was set and before [`Phase::Start`] is saved, the next connection
//! begins another epoch, since a copy of the service may have continued with this epoch. So no sequence number is
//! assigned twice in an epoch.

use aom_config::message::Ended;
use tokio::time::{Duration, Instant, timeout};

use crate::sequencer::{Connection, ConnectionError};
use crate::service::{Core, ServiceError};
use crate::state::{Group, Phase};

/// The interval at which the service checks whether the members it waits for are still connected.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Core {
    /// Carries out the group's phase and the phases after it, until the group rests (has no epoch), is active or is
    /// removed.
    pub(crate) async fn go_on(&mut self, name: &str) -> Result<(), ServiceError> {
        while let Some(group) = self.state.groups.get(name) {
            match group.phase {
                Phase::Resting(_) | Phase::Active => break,
                Phase::Stop => self.stop(name).await?,
                Phase::Hand => self.hand(name).await?,
                Phase::Write => self.write(name).await?,
                Phase::Start => self.start(name).await?,
                Phase::Halt(_) => self.halt(name).await?,
                Phase::Remove => self.remove(name).await?,
            }
        }
        Ok(())
    }

    async fn stop(&mut self, name: &str) -> Result<(), ServiceError> {
        let at = Instant::now();
        let (connection, group) = self.both(name)?;
        let last = connection.stop(group).await?;
        group.ended = group.current.as_ref().and_then(|current| {
            let epoch = current.number;
            let read = last.map(|sequence| Ended { epoch, sequence });
            // An interrupted epoch change may already have written the next epoch's registers. Then we use the saved
            // last number of the ended epoch.
            read.or(group.ended.filter(|ended| ended.epoch == epoch))
        });
        group.phase = Phase::Hand;
        self.stopped_at.insert(name.to_owned(), at);
        self.reach("stop-done")?;
        self.save()?;
        self.reach("hand-saved")
    }

    async fn hand(&mut self, name: &str) -> Result<(), ServiceError> {
        self.notify(name);
        let until = Instant::now() + self.options.ack_deadline;
        loop {
            let Some(group) = self.state.groups.get(name) else {
                return Ok(());
            };
            let mut missing = self.sessions.missing(name, group);
            missing.retain(|member| !self.is_late(name, member));
            let left = until.saturating_duration_since(Instant::now());
            if missing.is_empty() {
                break;
            }
            if left.is_zero() {
                tracing::warn!(
                    group = name,
                    ?missing,
                    "the epoch begins although these members have not acknowledged it"
                );
                let late = missing.into_iter().map(str::to_owned);
                let late = late.map(|member| (name.to_owned(), member));
                self.late.extend(late.collect::<Vec<_>>());
                break;
            }
            let received = timeout(left.min(LOOK_EVERY), self.from_members.recv()).await;
            if let Ok(Some(message)) = received {
                self.receive(message);
            }
        }
        self.reach("hand-done")?;
        let (_, group) = self.both(name)?;
        group.phase = Phase::Write;
        self.save()?;
        self.reach("write-saved")
    }

    async fn write(&mut self, name: &str) -> Result<(), ServiceError> {
        let Some(connection) = &mut self.switch.connection else {
            return Err(ConnectionError::Lost.into());
        };
        connection.write_entries(&self.state).await?;
        self.reach("write-entries")?;
        let (connection, group) = self.both(name)?;
        if let Some(epoch) = &group.next {
            connection.begin_epoch(group, epoch).await?;
        }
        group.current = group.next.take();
        group.phase = Phase::Start;
        self.reach("write-done")?;
        self.save()?;
        self.reach("start-saved")
    }

    async fn start(&mut self, name: &str) -> Result<(), ServiceError> {
        let (connection, group) = self.both(name)?;
        connection.set_active(group, true).await?;
        group.phase = Phase::Active;
        self.reach("start-done")?;
        self.save()?;
        let gap = self.stopped_at.remove(name).map(|at| at.elapsed());
        match gap {
            Some(gap) => self.gaps.insert(name.to_owned(), gap),
            None => self.gaps.remove(name),
        };
        Ok(())
    }

    async fn halt(&mut self, name: &str) -> Result<(), ServiceError> {
        let (connection, group) = self.both(name)?;
        connection.stop(group).await?;
        group.current = None;
        group.next = None;
        if let Phase::Halt(because) = &group.phase {
            group.phase = Phase::Resting(because.clone());
        }
        self.reach("halt-stopped")?;
        self.save()?;
        self.reach("halt-saved")?;
        self.notify(name);
        let Some(connection) = &mut self.switch.connection else {
            return Err(ConnectionError::Lost.into());
        };
        Ok(connection.write_entries(&self.state).await?)
    }

    async fn remove(&mut self, name: &str) -> Result<(), ServiceError> {
        let (connection, group) = self.both(name)?;
        connection.stop(group).await?;
        self.reach("remove-stopped")?;
        self.state.retire(name);
        self.late.retain(|(of, _)| of != name);
        self.save()?;
        self.reach("remove-saved")?;
        let because = format!("group \"{name}\" was removed");
        self.sessions.refuse(name, None, &because);
        let Some(connection) = &mut self.switch.connection else {
            return Err(ConnectionError::Lost.into());
        };
        Ok(connection.write_entries(&self.state).await?)
    }

    pub(crate) fn notify(&mut self, name: &str) {
        if let Some(group) = self.state.groups.get(name) {
            self.sessions.notify(name, group);
        }
    }

    fn both(&mut self, name: &str) -> Result<(&mut Connection, &mut Group), ConnectionError> {
        let connection = self.switch.connection.as_mut();
        let both = connection.zip(self.state.groups.get_mut(name));
        both.ok_or(ConnectionError::Lost)
    }
}
