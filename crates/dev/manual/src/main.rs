//! `reprise-manual FOLDER`: writes manual pages (`man/`) and completions (`bash/`, `zsh/`, `fish/`) of the programs
//! that a user installs. It makes these files from the programs' own command-line definitions, which the programs'
//! libraries export.

mod commands;
mod completions;
mod pages;

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(folder), None) = (words.next(), words.next()) else {
        eprintln!("reprise-manual: expected one argument, the folder to write to");
        return ExitCode::from(2);
    };
    let folder = Path::new(&folder);
    match write(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "reprise-manual: {} cannot be written: {error}",
                folder.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let files = [pages::all(), completions::all()].concat();
    for (path, content) in files {
        let path = folder.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, content)?;
    }
    Ok(())
}
