//! Finds layers of files, and circles (dependency cycles). An arrow leads from a file to a file whose items it uses.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use crate::Crate;

/// The order of a crate's files and folders.
#[derive(Debug)]
pub struct Layers(HashMap<String, usize>);

/// Why a crate's file `LAYERS` cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum LayersError {
    /// The file cannot be read, or there is no such file.
    Unreadable(String),
    /// The file `LAYERS` does not list these files or folders.
    Incomplete(Vec<String>),
}

impl Layers {
    /// Reads the file `LAYERS` of a crate in a folder.
    ///
    /// # Errors
    /// There is no `LAYERS` file, or the file does not list every file and folder directly below `src`.
    pub fn read(folder: &Path, of: &Crate) -> Result<Self, LayersError> {
        let text = std::fs::read_to_string(folder.join("LAYERS"));
        let text = text.map_err(|error| LayersError::Unreadable(error.to_string()))?;
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(""));
        let lines = lines.filter(|line| !line.trim().is_empty());
        let mut heights = HashMap::from([("lib".to_owned(), usize::MAX)]);
        for (height, line) in lines.enumerate() {
            heights.extend(
                line.split_whitespace()
                    .map(|name| (name.to_owned(), height)),
            );
        }
        let files = of.files();
        let missing = files.iter().map(|file| layer_of(file));
        let missing: BTreeSet<&str> = missing.filter(|it| !heights.contains_key(*it)).collect();
        if missing.is_empty() {
            return Ok(Self(heights));
        }
        let missing = missing.into_iter().map(str::to_owned);
        Err(LayersError::Incomplete(missing.collect()))
    }

    /// Returns the arrows from a lower layer to a higher layer.
    pub fn upward<'a>(&self, arrows: &BTreeSet<(&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
        let height = |file: &str| self.0.get(layer_of(file));
        let arrows = arrows.iter().copied();
        arrows
            .filter(|(from, to)| height(to) > height(from))
            .collect()
    }
}

/// Returns the name of the file or folder directly below `src` that is `file` or contains `file`, without `.rs`.
fn layer_of(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Returns the circles, the largest first. The files of a circle can be reached from each other.
pub fn circles<'a>(arrows: &BTreeSet<(&'a str, &'a str)>) -> Vec<BTreeSet<&'a str>> {
    let mut after: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows {
        after.entry(from).or_default().push(to);
    }
    let reach = |start: &'a str| -> BTreeSet<&'a str> {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![start]);
        while let Some(file) = waiting.pop() {
            let next = after.get(file).into_iter().flatten().copied();
            waiting.extend(next.filter(|it| seen.insert(*it)));
        }
        seen
    };
    let starts = arrows
        .iter()
        .map(|(from, _)| *from)
        .collect::<BTreeSet<_>>();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        starts.into_iter().map(|it| (it, reach(it))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (file, ends) in &reached {
        if !ends.contains(file) || found.iter().any(|circle| circle.contains(file)) {
            continue;
        }
        let is_back = |end: &&str| reached.get(end).is_some_and(|it| it.contains(file));
        found.push(ends.iter().copied().filter(is_back).collect());
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}
