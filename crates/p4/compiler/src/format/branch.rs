//! Branches of `#if` stay unchanged, byte for byte, if their text is not P4.
//!
//! The preprocessor does not read a branch that is not taken, so it may contain anything. A branch that no macro can
//! select (`#if 0`) always stays unchanged. Any other branch is formatted if the file is still valid P4 when this
//! branch is taken instead.

use std::collections::{HashMap, HashSet};

use super::{Compiler, Lines, Meaning};
use crate::diagnostic::Sink;
use crate::preprocess::Branch;

/// Returns the branches that stay unchanged, none of them inside another.
pub fn raw(compiler: &Compiler, text: &str, meaning: &Meaning) -> Vec<Branch> {
    let mut skipped: Vec<&Branch> = meaning.branches.iter().collect();
    skipped.retain(|branch| !branch.taken);
    skipped.sort_by_key(|branch| branch.begin);
    let mut raw: Vec<Branch> = Vec::new();
    for branch in skipped {
        let is_inside = raw.last().is_some_and(|last| branch.begin < last.end);
        if !is_inside && !is_p4(compiler, text, meaning, branch) {
            raw.push(branch.clone());
        }
    }
    raw
}

fn is_p4(compiler: &Compiler, text: &str, meaning: &Meaning, branch: &Branch) -> bool {
    let lines = &text[branch.begin as usize..branch.end as usize];
    let is_directive = |line: &str| line.is_empty() || line.starts_with('#');
    if lines.lines().map(str::trim).all(is_directive) {
        return true;
    }
    let Some(lines) = Lines::of(0, lines, &[], &mut Sink::default()) else {
        return false;
    };
    !branch.never
        && (lines.tokens.is_empty()
            || compiler.read(text, &chosen(meaning, branch)).0.n_errors <= meaning.n_errors)
}

/// Selects this branch and the branches around it, and no other branch of the same conditionals.
fn chosen(meaning: &Meaning, branch: &Branch) -> HashMap<u32, bool> {
    let is_path = |begin: u32| begin == branch.begin || branch.within.contains(&begin);
    let path = meaning.branches.iter().filter(|one| is_path(one.begin));
    let conditionals: HashSet<u32> = path.map(|one| one.opens).collect();
    let mut concerned = meaning.branches.to_vec();
    concerned.retain(|one| conditionals.contains(&one.opens));
    concerned
        .iter()
        .map(|one| (one.begin, is_path(one.begin)))
        .collect()
}
