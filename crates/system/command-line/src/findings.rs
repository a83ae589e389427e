//! The findings of a command that examines a machine or a service, and advice on what to do about them.

use std::fmt;

use serde_json::{Value, json};

use crate::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Good, or of no consequence.
    Ok,
    /// Works, but could be faster or needs care.
    Advice,
    Unusable,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Ok => "ok",
            Level::Advice => "advice",
            Level::Unusable => "unusable",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub what: &'static str,
    pub level: Level,
    pub found: String,
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(what: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            what,
            level: Level::Ok,
            found: found.into(),
            advice: None,
        }
    }

    pub fn advice(
        what: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding {
            what,
            level: Level::Advice,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }

    pub fn unusable(
        what: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding {
            level: Level::Unusable,
            ..Finding::advice(what, found, advice)
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "level": self.level.to_string(),
            "found": self.found,
            "advice": self.advice,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.found)?;
        match &self.advice {
            Some(advice) => write!(f, ": {advice}"),
            None => Ok(()),
        }
    }
}

pub fn to_json(findings: &[Finding]) -> Value {
    findings.iter().map(Finding::to_json).collect()
}

/// Returns the first finding of the level `Unusable`; `None` if there is no such finding.
pub fn unusable(findings: &[Finding]) -> Option<&Finding> {
    let mut findings = findings.iter();
    findings.find(|finding| finding.level == Level::Unusable)
}

/// Prints findings as a table, with the advice on a line of its own.
pub fn print(title: &str, findings: &[Finding]) {
    let whats = findings.iter().map(|finding| finding.what.chars().count());
    let what = whats.max().unwrap_or(0);
    output::text(title);
    for finding in findings {
        let Finding { level, found, .. } = finding;
        output::text(format!("  {level:<8}  {:<what$}  {found}", finding.what));
        if let Some(advice) = &finding.advice {
            output::text(format!("  {:8}  {:what$}  -> {advice}", "", ""));
        }
    }
}
