//! `reprise-structure`: prints the sizes of the parts of the repository, as tables.

use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use structure::{Counts, Crate, circles, counts_of};

/// Prints the sizes of the parts of a repository: crates and code in each folder of `crates`, pages, and other lines.
///
/// To compare with an earlier commit, run `git worktree add FOLDER COMMIT` and give the folder as root.
#[derive(Parser)]
#[command(name = "reprise-structure", version)]
struct Args {
    /// The repository's root
    #[arg(default_value = ".")]
    root: PathBuf,
}

/// Folders with Python code.
const PYTHON: [&str; 5] = ["examples", "lab", "python", "scripts", "tests"];

/// The crates in one of the folders of `crates`.
#[derive(Default)]
struct Room {
    n_crates: usize,
    counts: Counts,
    largest_circle: usize,
}

impl Room {
    fn add(&mut self, folder: &Path) -> Result<(), Box<dyn Error>> {
        self.n_crates += 1;
        self.counts += counts_of(folder)?;
        if folder.join("src/lib.rs").exists() {
            let of = Crate::read(folder)?;
            let largest = circles(&of.arrows())
                .first()
                .map_or(0, |circle| circle.len());
            self.largest_circle = self.largest_circle.max(largest);
        }
        Ok(())
    }

    fn row(&self, name: &str) -> String {
        let (n_crates, of, circle) = (self.n_crates, &self.counts, self.largest_circle);
        format!(
            "| {name} | {n_crates} | {} | {} | {} | {} | {} | {circle} |",
            of.lines, of.code, of.tests, of.paths, of.long_parameter_lists
        )
    }
}

fn main() -> ExitCode {
    match run(&Args::parse().root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reprise-structure: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut rooms: BTreeMap<String, Room> = BTreeMap::new();
    for folder in folders_in(&root.join("crates"))? {
        let name = name_of(&folder);
        if folder.join("Cargo.toml").exists() {
            rooms.entry("crates".to_owned()).or_default().add(&folder)?;
            continue;
        }
        for member in folders_in(&folder)? {
            rooms.entry(name.clone()).or_default().add(&member)?;
        }
    }
    println!(
        "| room | crates | lines | code | tests | #[path] | over 6 parameters | largest circle |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|"
    );
    let mut all = Room::default();
    for (name, room) in &rooms {
        println!("{}", room.row(name));
        all.n_crates += room.n_crates;
        all.counts += room.counts;
        all.largest_circle = all.largest_circle.max(room.largest_circle);
    }
    println!("{}\n", all.row("all"));
    println!("| what | number |\n|---|---:|");
    for page in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        println!("| lines of {page} | {} |", lines_of(&root.join(page))?);
    }
    println!("| words of docs/*.md | {} |", words_in(&root.join("docs"))?);
    let mut python = 0;
    for folder in PYTHON {
        python += lines_below(&root.join(folder), "py")?;
    }
    println!("| lines of Python | {python} |");
    println!("| lines of Rust | {} |", all.counts.lines);
    Ok(())
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = entries(folder)?;
    found.retain(|path| path.is_dir());
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let entries = std::fs::read_dir(folder).map_err(|error| {
        format!(
            "{}: {error}; expected the repository's root",
            folder.display()
        )
    })?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    paths.collect()
}

fn lines_of(file: &Path) -> Result<usize, Box<dyn Error>> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.lines().count())
}

fn lines_below(folder: &Path, extension: &str) -> Result<usize, Box<dyn Error>> {
    let mut lines = 0;
    for path in entries(folder)? {
        if path.is_dir() && name_of(&path) != "target" {
            lines += lines_below(&path, extension)?;
        } else if path.extension().is_some_and(|it| it == extension) {
            lines += lines_of(&path)?;
        }
    }
    Ok(lines)
}

fn words_in(folder: &Path) -> Result<usize, Box<dyn Error>> {
    let mut words = 0;
    for path in entries(folder)? {
        if path.extension().is_some_and(|it| it == "md") {
            words += std::fs::read_to_string(path)?.split_whitespace().count();
        }
    }
    Ok(words)
}
