//! The commands that set the switch's program, show it, and save it to files. Also finds out whether the switch has
//! another program than the one from which the shell knows tables and actions.

use std::path::Path;
use std::sync::Arc;

use p4runtime_client::ClientError;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, forwarding_pipeline_config};
use p4runtime_proto::{P4RuntimeVersion, text_format};
use serde_json::json;
use tonic::Code;

use super::info;
use super::schema::{Lack, Schema};
use super::shell::{Done, Place, Shell, Stop, unless_interrupted};
use crate::commands::program;
use crate::failure::Failure;
use crate::{files, output};

/// End of the message with which Reprise's server refuses an id that its program lacks.
const UNKNOWN_ID: &str = "of the P4Info";

/// The message for a saved program without P4Info. Thrift's `load_new_config_file` saves such programs.
const SAVED_WITHOUT_P4INFO: &str = "another controller has saved a program without P4Info, so reads and writes are refused until a program with P4Info is set: set one with `pipeline set PROGRAM.p4`";

pub struct Loaded<'c> {
    pub program: &'c Path,
    pub p4info: Option<&'c Path>,
    pub cookie: Option<u64>,
}

impl Shell {
    pub(super) async fn load_schema(&mut self) -> Result<(), Failure> {
        let schema = match &self.choices.p4info {
            Some(path) => Schema::new(&program::read_p4info(path)?),
            None => match self.client.p4info().await {
                Ok(p4info) => Schema::new(&p4info),
                Err(ClientError::NoPipeline) => Schema::without(Lack::Pipeline),
                Err(ClientError::NoP4Info) => Schema::without(Lack::P4Info),
                Err(error) => return Err(error.into()),
            },
        };
        self.schema = Arc::new(schema);
        self.is_stale = false;
        self.is_saved = false;
        Ok(())
    }

    /// Reads the names from the switch again, because another controller may have set another program. If this fails,
    /// the next command tries it again before it does anything else.
    pub(super) async fn reload_schema(&mut self) -> Result<(), Failure> {
        let known = Arc::clone(&self.schema);
        self.is_stale = true;
        self.load_schema().await?;
        if self.schema.p4info == known.p4info {
            self.schema = known;
            return Ok(());
        }
        self.is_replaced = true;
        Ok(())
    }

    pub(super) async fn reload(&mut self, place: &Place) -> Done {
        self.reload_schema().await?;
        // A user who reloads knows of the new program. `is_replaced` stays set only if a batch is open, because that
        // batch is still for the previous program.
        self.is_replaced &= self.open_batch().is_some();
        let summary = info::summary(&self.schema);
        self.print(place, json!({ "pipeline": summary }), || summary.clone());
        Ok(())
    }

    pub(super) async fn set_pipeline(
        &mut self,
        action: PipelineAction,
        loaded: Loaded<'_>,
        place: &Place,
    ) -> Done {
        let found = program::load(loaded.program, loaded.p4info)?;
        let cookie = loaded.cookie;
        let config = ForwardingPipelineConfig {
            p4info: Some(found.p4info.clone()),
            p4_device_config: found.json,
            cookie: cookie.map(|cookie| forwarding_pipeline_config::Cookie { cookie }),
        };
        self.configure(action, Some(config)).await?;
        let name = loaded.program.file_name();
        let name = name.map(|name| name.to_string_lossy().into_owned());
        let mut schema = Schema::new(&found.p4info).named(name.clone());
        let is_in_force = !matches!(
            action,
            PipelineAction::Verify | PipelineAction::VerifyAndSave
        );
        if is_in_force && self.choices.p4info.is_none() {
            // The shell keeps the P4Info as the switch returns it, so that a later read can be compared with it.
            self.load_schema().await?;
            if self.schema.lack.is_none() {
                schema = Schema::new(&self.schema.p4info).named(name);
            }
        }
        let summary = info::summary(&schema);
        let done = match action {
            PipelineAction::Verify => "the switch can run it; nothing has changed".to_owned(),
            PipelineAction::VerifyAndSave => {
                format!(
                    "saved: {summary}; reads and writes are for it now, `pipeline commit` puts it into force"
                )
            }
            _ => format!("in force: {summary}"),
        };
        if action != PipelineAction::Verify {
            self.schema = Arc::new(schema);
            self.is_saved = action == PipelineAction::VerifyAndSave;
            self.is_replaced = false;
            self.is_stale = false;
        }
        let document = json!({ "action": action.as_str_name(), "pipeline": summary });
        self.print(place, document, || done);
        Ok(())
    }

    pub(super) async fn commit_pipeline(&mut self, place: &Place) -> Done {
        let action = PipelineAction::Commit;
        self.configure(action, None).await?;
        let saved = Arc::clone(&self.schema);
        self.load_schema().await?;
        if self.schema.p4info == saved.p4info {
            self.schema = saved;
        }
        self.is_replaced = false;
        let summary = info::summary(&self.schema);
        let document = json!({ "action": action.as_str_name(), "pipeline": summary });
        self.print(place, document, || format!("in force: {summary}"));
        Ok(())
    }

    async fn configure(
        &mut self,
        action: PipelineAction,
        config: Option<ForwardingPipelineConfig>,
    ) -> Done {
        self.take_role().await?;
        let set = self.client.configure(action, config);
        let set = unless_interrupted(&mut self.interrupts, set).await;
        let Some(set) = set else {
            self.is_stale = true;
            output::error_line(
                "reprise: interrupted: `pipeline show` says which program the switch has",
            );
            return Err(Stop::Interrupted);
        };
        set.map_err(|error| {
            self.step_down_after(&error);
            error.into()
        })
    }

    pub(super) async fn show_pipeline(&mut self, place: &Place) -> Done {
        let config = match self.client.pipeline(ResponseType::P4infoAndCookie).await {
            Err(ClientError::NoP4Info) => {
                let all_there_is = ResponseType::DeviceConfigAndCookie;
                self.client.pipeline(all_there_is).await?
            }
            config => config?,
        };
        let cookie = config.cookie.map(|it| it.cookie);
        let schema = match config.p4info {
            // With `--p4info` names come from that file. After a save (VERIFY_AND_SAVE) the saved program's
            // names stay until that program forwards.
            _ if self.choices.p4info.is_some() && !self.is_saved => Arc::clone(&self.schema),
            Some(p4info) => match Schema::new(&p4info) {
                read if read.p4info == self.schema.p4info => Arc::clone(&self.schema),
                read => Arc::new(read),
            },
            None => Arc::new(Schema::without(Lack::P4Info)),
        };
        if !self.is_saved {
            self.schema = Arc::clone(&schema);
        }
        let summary = info::summary(&schema);
        let document = json!({
            "pipeline": summary,
            "cookie": cookie,
            "info": info::json(&schema, None),
        });
        self.print(place, document, || {
            let cookie = cookie.map_or("none".to_owned(), |it| it.to_string());
            let objects = info::about(&schema, None).unwrap_or_default();
            let text = format!("{summary}, cookie {cookie}\n{objects}");
            text.trim_end().to_owned()
        });
        Ok(())
    }

    pub(super) async fn save_p4info(&mut self, path: &Path, place: &Place) -> Done {
        let mut p4info = self.client.p4info().await?;
        let version = P4RuntimeVersion::of_environment().map_err(Stop::failed)?;
        version.restrict(&mut p4info);
        files::write(path, text_format::print_p4info(&p4info).as_bytes())?;
        self.print_written(path, place);
        Ok(())
    }

    pub(super) async fn save_config(&mut self, path: &Path, place: &Place) -> Done {
        let config = self
            .client
            .pipeline(ResponseType::DeviceConfigAndCookie)
            .await?;
        files::write(path, &config.p4_device_config)?;
        self.print_written(path, place);
        Ok(())
    }

    fn print_written(&self, path: &Path, place: &Place) {
        let file = path.display().to_string();
        self.print(place, json!({ "file": file }), || format!("{file} written"));
    }

    /// Makes the failure to report for a refused read or write. If the switch's program is not the one whose names the
    /// shell has, the failure names this as a possible cause.
    pub(super) async fn refused(&mut self, error: ClientError) -> Stop {
        let why = match &error {
            ClientError::Refused { code, message, .. } => self.other_program(*code, message).await,
            // Reads and writes may refer to a program that is saved but does not forward yet.
            ClientError::NoPipeline => match self.client.p4info().await {
                Err(error @ ClientError::NoP4Info) => return Stop::from(error),
                Ok(_) => return Stop::failed(SAVED_WITHOUT_P4INFO),
                Err(_) => None,
            },
            _ => None,
        };
        Stop::from(error).and(why.as_deref().unwrap_or_default())
    }

    /// Returns why the switch may not know a name in a refused request: the switch has another program than the one
    /// that the shell knows, or may soon have another one. Returns `None` if neither explains the refusal. Reads the
    /// switch's program to find out.
    pub(super) async fn other_program(&mut self, code: Code, message: &str) -> Option<String> {
        let may_be = matches!(
            code,
            Code::InvalidArgument | Code::NotFound | Code::OutOfRange | Code::Unknown
        );
        if !may_be {
            return None;
        }
        let in_force = self.client.p4info().await;
        let is_other = match &in_force {
            Ok(p4info) => Schema::new(p4info).p4info != self.schema.p4info,
            Err(ClientError::NoPipeline | ClientError::NoP4Info) => true,
            Err(_) => return None,
        };
        match &self.choices.p4info {
            _ if self.is_saved => None,
            Some(file) if is_other => Some(format!(
                "; the names are of {}, which is not the P4Info of the switch's program: leave --p4info out, or name its own",
                file.display()
            )),
            None if is_other => Some(
                "; the switch has another program since this shell read it: `pipeline reload` reads its names"
                    .to_owned(),
            ),
            _ if message.contains(UNKNOWN_ID) => Some(
                "; another controller may have saved a program, and reads and writes are for that program until it is in force: `pipeline reload` reads its names then"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
