//! The primary role: how the shell takes and leaves it, and whether the program is still the one that the shell knows.

use p4runtime_client::{Bid, ClientError};
use serde_json::json;

use super::shell::{Done, Place, Shell, Stop, unless_interrupted};
use crate::session::take_primary;

impl Shell {
    /// At the start of a session: becomes primary if no other controller is.
    pub async fn try_primary(&mut self) -> Result<(), String> {
        if self.choices.read_only {
            return Ok(());
        }
        self.expect_primary().await.map_err(|stop| match stop {
            Stop::Failed(message, _) => message,
            Stop::Interrupted | Stop::Exit => "interrupted".to_owned(),
        })
    }

    /// Becomes primary. Fails if the switch no longer has the program for which the command was parsed: another
    /// controller may have set another program while this shell was not primary.
    pub(super) async fn expect_primary(&mut self) -> Done {
        if self.client.election_id().is_none() {
            self.take_role().await?;
            self.reload_schema().await?;
        }
        if !std::mem::take(&mut self.is_replaced) {
            return Ok(());
        }
        let batch = match self.batch.take() {
            Some(_) => ", and the open batch was for the old program: it is forgotten",
            None => "",
        };
        Err(Stop::failed(format!(
            "the switch has another program since this shell read it{batch}; run the command again if it still means what it should"
        )))
    }

    pub(super) async fn take_role(&mut self) -> Done {
        if self.client.election_id().is_some() {
            return Ok(());
        }
        if self.choices.read_only {
            return Err(Stop::failed(
                "this shell was started with --read-only: leave the option out to write",
            ));
        }
        if let Some(id) = self.choices.election_id {
            return self.become_primary_as(id).await;
        }
        let mut global = self.global.clone();
        if self.choices.is_interactive {
            global.never_wait();
        }
        let taken = take_primary(&mut self.client, &global);
        match unless_interrupted(&mut self.interrupts, taken).await {
            None => Err(Stop::Interrupted),
            Some(Ok(())) => Ok(()),
            Some(Err(_)) if self.choices.is_interactive => {
                match self.client.primary_elsewhere().await? {
                    Some(id) => Err(Stop::failed(format!(
                        "another controller (election id {id}) is primary: this shell reads only; `primary take` takes the role from it"
                    ))),
                    None => Err(Stop::failed(
                        "another controller was primary a moment ago: run the command again",
                    )),
                }
            }
            Some(Err(failure)) => Err(failure.into()),
        }
    }

    async fn become_primary_as(&mut self, id: u128) -> Done {
        let own = self.client.election_id();
        let (highest, somebody_is_primary) = match self.client.become_primary_as(id).await? {
            Bid::Primary => return Ok(()),
            Bid::TooLow {
                highest,
                somebody_is_primary,
            } => (highest, somebody_is_primary),
        };
        let who = match somebody_is_primary {
            _ if own == Some(highest) => format!("this shell had {highest}"),
            true => format!("another controller is primary with election id {highest}"),
            false => format!(
                "nobody is primary, but a controller had election id {highest}, and the switch wants a higher one"
            ),
        };
        Err(Stop::failed(format!(
            "election id {id} is too low: {who}; `primary take` without a number is higher"
        )))
    }

    /// Gives up the role; the next write takes it again.
    pub(super) fn release_primary(&mut self, place: &Place) {
        let was_primary = self.client.election_id().is_some();
        self.client.step_down();
        self.print(place, json!({ "primary": false }), || {
            if was_primary {
                "not primary any more; the next write, or `primary take`, takes the role again"
                    .to_owned()
            } else {
                "this shell was not primary".to_owned()
            }
        });
    }

    /// Gives up the role if the error says that another controller is primary.
    pub(super) fn step_down_after(&mut self, error: &ClientError) {
        if matches!(error, ClientError::NotPrimary { .. }) {
            self.client.step_down();
            self.is_stale = true;
        }
    }

    pub(super) async fn show_primary(&mut self, place: &Place) -> Done {
        if let Some(id) = self.client.election_id() {
            self.print(
                place,
                json!({ "primary": true, "election_id": id.to_string() }),
                || format!("this shell is primary, election id {id}"),
            );
            return Ok(());
        }
        let other = self.client.primary_elsewhere().await?;
        let document = json!({
            "primary": false,
            "primary_election_id": other.map(|id| id.to_string()),
        });
        self.print(place, document, || match other {
            Some(id) => {
                format!("another controller is primary, election id {id}: this shell reads only")
            }
            None => {
                "nobody is primary; this shell becomes it with its next write, or by `primary take`"
                    .to_owned()
            }
        });
        Ok(())
    }

    pub(super) async fn take_primary(&mut self, id: Option<u128>, place: &Place) -> Done {
        if self.choices.read_only {
            return self.expect_primary().await;
        }
        match id {
            Some(id) => self.become_primary_as(id).await?,
            None => self.client.become_primary().await?,
        }
        self.reload_schema().await?;
        self.show_primary(place).await
    }
}
