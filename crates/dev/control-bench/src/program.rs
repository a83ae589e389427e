//! Compiles P4 programs to P4Info and device config.

use std::path::Path;

use p4runtime_proto::p4::config::v1::P4Info;

use crate::Result;

#[derive(Debug, Clone)]
pub struct Program {
    pub p4info: P4Info,
    /// The program as BMv2 JSON.
    pub device_config: Vec<u8>,
}

impl Program {
    /// Compiles a source file of this repository.
    ///
    /// # Errors
    /// The file is missing or does not compile.
    pub fn compile(path: &str) -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../..")
            .join(path);
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let provider = |path: &str| std::fs::read_to_string(path).ok();
        let options = p4_compiler::Options::default();
        let output = p4_compiler::compile(&name, &text, &provider, &options);
        let (Some(json), Some(p4info)) = (output.bmv2_json, output.p4info) else {
            let said = output
                .diagnostics
                .iter()
                .map(p4_compiler::Diagnostic::render);
            return Err(said.collect::<String>().into());
        };
        let device_config = json.to_json()?.into_bytes();
        Ok(Self {
            p4info,
            device_config,
        })
    }
}
