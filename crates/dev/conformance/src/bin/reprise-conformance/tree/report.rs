//! Reports one line per program, and totals by reason.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Ran, Subject, Verdict};

/// Maximum number of characters that are shown of a refusal's message.
const MESSAGE_CHARS: usize = 70;

#[derive(Default)]
pub struct Report {
    by_word: BTreeMap<&'static str, usize>,
    architectures: BTreeMap<String, usize>,
    refusals: BTreeMap<String, (usize, String)>,
    ran: Ran,
    n_faults: usize,
    programs: Vec<Value>,
}

impl Report {
    /// Counts a file, and returns the file's line of the report. Returns `None` if the file is not a program.
    pub fn add(&mut self, subject: &Subject, verdict: &Verdict, took: Duration) -> Option<String> {
        *self.by_word.entry(verdict.word()).or_default() += 1;
        self.n_faults += usize::from(verdict.is_fault());
        if *verdict == Verdict::Part {
            return None;
        }
        let mut document = json!({
            "program": subject.name,
            "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        if let (Value::Object(document), Ok(Value::Object(more))) =
            (&mut document, serde_json::to_value(verdict))
        {
            document.extend(more);
        }
        self.programs.push(document);
        let line = self.count(verdict);
        let line = match (verdict, line) {
            (Verdict::Differs { .. }, line) => format!("{line}\nto reproduce: {}", again(subject)),
            (_, line) => line,
        };
        Some(format!("{:8} {}: {line}", verdict.word(), subject.name))
    }

    /// Counts a verdict by its reason, and returns the verdict's text for the file's line of the report.
    fn count(&mut self, verdict: &Verdict) -> String {
        match verdict {
            Verdict::Part => String::new(),
            Verdict::P4_14 => "no P4_16".to_owned(),
            Verdict::OtherArchitecture { architecture } => {
                *self.architectures.entry(architecture.clone()).or_default() += 1;
                format!("for {architecture}")
            }
            Verdict::Refused { code, message } => {
                let seen = self.refusals.entry(code.clone());
                seen.or_insert_with(|| (0, message.clone())).0 += 1;
                message.clone()
            }
            Verdict::Passed(ran) => {
                self.ran.tables += ran.tables;
                self.ran.filled += ran.filled;
                self.ran.entries += ran.entries;
                self.ran.packets += ran.packets;
                self.ran.transmitted += ran.transmitted;
                passed(ran)
            }
            Verdict::MissingInclude { message }
            | Verdict::OwnExtern { message }
            | Verdict::PairRefused { message }
            | Verdict::EntryRefused { message }
            | Verdict::Differs { message }
            | Verdict::Crashed { message }
            | Verdict::Late { message } => message.clone(),
        }
    }

    fn n(&self, word: &str) -> usize {
        self.by_word.get(word).copied().unwrap_or(0)
    }

    fn n_v1model(&self) -> usize {
        let not = ["part", "P4_14", "other"];
        let counts = self.by_word.iter().filter(|(word, _)| !not.contains(word));
        counts.map(|(_, n)| n).sum()
    }

    pub fn n_faults(&self) -> usize {
        self.n_faults
    }

    pub fn totals(&self) -> Vec<String> {
        let n = |word| self.n(word);
        let n_files: usize = self.by_word.values().sum();
        let ran = &self.ran;
        let mut lines = vec![format!(
            "{n_files} files: {} parts of programs, {} programs in P4_14, {} for other architectures, {} for v1model",
            n("part"),
            n("P4_14"),
            n("other"),
            self.n_v1model()
        )];
        for (architecture, n) in &self.architectures {
            lines.push(format!("  for {architecture}: {n}"));
        }
        lines.push(format!(
            "v1model: {} run; {} lack an included file, {} call an extern of their own, {} are refused",
            n("pass"), n("missing"), n("extern"), n("refused")
        ));
        for (code, (n, first)) in &self.refusals {
            let first: String = first.chars().take(MESSAGE_CHARS).collect();
            lines.push(format!("  {code}: {n}, as {first}"));
        }
        lines.push(format!(
            "programs that run: {} entries over P4Runtime in {} of {} tables with a key, {} packets in, {} packets out",
            ran.entries, ran.filled, ran.tables, ran.packets, ran.transmitted
        ));
        lines.push(format!(
            "faults: {} pairs refused, {} entries refused, {} differences between engines, {} crashes, {} too late",
            n("PAIR"), n("ENTRY"), n("DIFFERS"), n("CRASHED"), n("LATE")
        ));
        lines
    }

    pub fn json(&self) -> Value {
        let refusals = self.refusals.iter();
        let refusals: Map<_, _> = refusals
            .map(|(code, (n, _))| (code.clone(), json!(n)))
            .collect();
        json!({
            "programs": self.programs,
            "totals": {
                "results": self.by_word,
                "v1model": self.n_v1model(),
                "architectures": self.architectures,
                "refused": refusals,
                "tables": self.ran.tables,
                "filled": self.ran.filled,
                "entries": self.ran.entries,
                "packets": self.ran.packets,
                "transmitted": self.ran.transmitted,
            },
        })
    }
}

fn passed(ran: &Ran) -> String {
    let mut line = format!(
        "{} of {} tables filled, {} entries, {} packets in, {} packets out",
        ran.filled, ran.tables, ran.entries, ran.packets, ran.transmitted
    );
    if let Some(reason) = &ran.interpreted {
        line.push_str(&format!("; not compiled to machine code: {reason}"));
    }
    if !ran.searched.is_empty() {
        line.push_str(&format!("; includes found in {}", ran.searched.join(", ")));
    }
    line
}

fn again(subject: &Subject) -> String {
    let plan = &subject.plan;
    let mut command = format!(
        "reprise-conformance --tree {} --filter '{}' --packets {} --seed {} -O {}",
        plan.root.display(),
        subject.name,
        plan.packets,
        plan.seed,
        u8::from(plan.optimise),
    );
    for dir in &plan.include_dirs {
        command.push_str(&format!(" --include-path {}", dir.display()));
    }
    for (name, value) in &plan.defines {
        command.push_str(&format!(" --define {name}={value}"));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::*;

    fn subject() -> Subject {
        Subject {
            name: "p4/a.p4".to_owned(),
            plan: Plan {
                root: "programs".into(),
                include_dirs: vec!["inc".into()],
                defines: vec![("N".to_owned(), "3".to_owned())],
                optimise: true,
                packets: 2_000,
                seed: 7,
            },
        }
    }

    #[test]
    fn a_difference_is_a_fault_and_comes_with_the_command_that_shows_it_again() {
        let mut report = Report::default();
        let message = "all: packet 3".to_owned();
        let line = report.add(&subject(), &Verdict::Differs { message }, Duration::ZERO);
        let command = "reprise-conformance --tree programs --filter 'p4/a.p4' --packets 2000 --seed 7 -O 1 --include-path inc --define N=3";
        let expected = format!("DIFFERS  p4/a.p4: all: packet 3\nto reproduce: {command}");
        assert_eq!(line, Some(expected));
        assert_eq!(report.n_faults(), 1);
    }

    #[test]
    fn refusals_are_counted_by_code_and_are_no_faults_by_themselves() {
        let mut report = Report::default();
        for message in ["a.p4:1: E0201: one", "a.p4:9: E0201: two"] {
            let verdict = Verdict::Refused {
                code: "E0201".to_owned(),
                message: message.to_owned(),
            };
            report.add(&subject(), &verdict, Duration::ZERO);
        }
        assert_eq!(report.add(&subject(), &Verdict::Part, Duration::ZERO), None);
        assert_eq!(report.json()["totals"]["refused"]["E0201"], 2);
        assert!(
            report
                .totals()
                .contains(&"  E0201: 2, as a.p4:1: E0201: one".to_owned())
        );
        assert_eq!((report.n_faults(), report.n_v1model()), (0, 2));
    }
}
