//! Connects, loads the program, and runs commands until the input ends.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::process;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use bmv2_thrift::Call;
use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

use crate::commands::{self, COMMANDS, Typed};
use crate::connection::{Connection, Operation};
use crate::error::{Ended, Error};
use crate::lines::{Line, Lines, Source};
use crate::options::Options;
use crate::output::{self, Output};
use crate::program::Program;
use crate::session::{Session, say};

pub fn run(options: &Options) -> Result<(), Ended> {
    let out = Output::new();
    let line = Arc::new(AtomicUsize::new(0));
    end_at_interrupt(options.program, &out, &line)?;
    let ended = connect(options, &out).and_then(|mut session| {
        let source = Source::of_standard_input();
        session.serve(options.program, source, &line)
    });
    let flushed = out.flush();
    ended.and(flushed)
}

/// On SIGINT, writes the buffered output before the program ends, so that its reader sees what was done.
fn end_at_interrupt(
    program: &'static str,
    out: &Output,
    line: &Arc<AtomicUsize>,
) -> Result<(), Ended> {
    let is_ending = Arc::new(AtomicBool::new(false));
    // A second SIGINT ends the program at once, even if the output is blocked.
    flag::register_conditional_default(SIGINT, Arc::clone(&is_ending)).map_err(Ended::Input)?;
    let mut signals = Signals::new([SIGINT]).map_err(Ended::Input)?;
    let (out, line) = (out.clone(), Arc::clone(line));
    thread::spawn(move || {
        let Some(signal) = signals.forever().next() else {
            return;
        };
        is_ending.store(true, Ordering::Relaxed);
        // Holding this lock keeps other threads from writing.
        let mut stdout = out.lock_soon();
        if let Some(stdout) = &mut stdout {
            // Ignored: if the reader is gone, nobody is left to read an error.
            let _ = stdout.flush();
        }
        match line.load(Ordering::Relaxed) {
            0 => {}
            line => output::error_line(format_args!("{program}: interrupted in line {line}")),
        }
        // The default handler ends the process, so that shells see that a signal ended it.
        let _ = low_level::emulate_default_handler(signal);
        process::abort();
    });
    Ok(())
}

fn connect(options: &Options, out: &Output) -> Result<Session, Ended> {
    let connection = Connection::open(&options.host, options.port).or_else(|reason| {
        let port = options.port;
        out.line(format_args!(
            "Could not connect to thrift client on port {port}"
        ))?;
        out.line(format_args!(
            "Make sure the switch is running and that you have the right port"
        ))?;
        out.flush()?;
        Err(Ended::Said(reason))
    })?;
    let mut session = Session {
        connection,
        pre: options.pre,
        out: out.clone(),
        program: Rc::new(RefCell::new(Rc::default())),
        place: options.program.to_owned(),
    };
    let json = match &options.json {
        Some(path) => given_program(&mut session, path)?,
        None => program_of_switch(&mut session)?,
    };
    let program = if json.is_empty() && options.json.is_none() {
        without_program(options, out)?
    } else {
        Program::from_json(&json)
            .map_err(|error| Ended::Said(format!("the program is no BMv2 JSON: {error}")))?
    };
    session.set_program(program);
    Ok(session)
}

/// Says that the switch has no program, and returns an empty one. A switch that was started with `--no-p4` has no
/// program until a command loads one.
fn without_program(options: &Options, out: &Output) -> Result<Program, Ended> {
    let name = options.program;
    out.error_line(format_args!(
        "{name}: the switch has no program yet: load_new_config_file FILE.json and swap_configs give it one"
    ))?;
    Ok(Program::default())
}

fn program_of_switch(session: &mut Session) -> Result<Vec<u8>, Ended> {
    say!(session, "Obtaining JSON from switch...")?;
    let answer = session.standard(Call::new("bm_get_config"), Operation::Table);
    let json = answer.and_then(|answer| Ok(answer.result(|args, id| args.bytes(id))?.to_vec()));
    match json {
        Ok(json) => {
            say!(session, "Done")?;
            Ok(json)
        }
        Err(error) => {
            say!(session, "Error when requesting JSON config from switch")?;
            session.out.flush()?;
            Err(said(error))
        }
    }
}

/// Turns an error into a reason to end the program. The reason goes to standard error with the whole message, since
/// standard output has only a part of the message.
fn said(error: Error) -> Ended {
    match error {
        Error::Ended(ended) => ended,
        Error::Input(_, message) => Ended::Said(message),
        Error::Refused { ref reason, .. } => Ended::Said(format!("{error}: {reason}")),
    }
}

/// Reads the given program, and compares its MD5 hash with that of the switch's program.
fn given_program(session: &mut Session, path: &Path) -> Result<Vec<u8>, Ended> {
    let json = whole_file::read(path, crate::program::FILE_BYTES_MAX);
    let json = json.map_err(|error| Ended::Said(format!("{}: {error}", path.display())))?;
    let answer = session.standard(Call::new("bm_get_config_md5"), Operation::Table);
    let hash = answer.and_then(|answer| Ok(answer.result(|args, id| args.bytes(id))?.to_vec()));
    let theirs = match hash {
        Ok(hash) => hash,
        Err(error) => {
            say!(session, "Error when requesting config md5 sum from switch")?;
            session.out.flush()?;
            return Err(said(error));
        }
    };
    let ours = Md5::digest(&json);
    if theirs[..] != ours[..] {
        say!(session, "**********")?;
        say!(
            session,
            "WARNING: the JSON files loaded into the switch and the one you just provided to this CLI don't have the \
             same md5 sum. Are you sure they describe the same program?"
        )?;
        for (whose, md5) in [("switch md5", &theirs[..]), ("CLI input md5", &ours[..])] {
            say!(session, "{whose:<15}: {}", HEXLOWER.encode(md5))?;
        }
        say!(session, "**********")?;
    }
    Ok(json)
}

impl Session {
    fn serve(
        &mut self,
        program: &'static str,
        source: Source,
        line: &AtomicUsize,
    ) -> Result<(), Ended> {
        say!(self, "Control utility for runtime P4 table manipulation")?;
        let mut lines = Lines::new(source, self)?;
        let mut last = String::new();
        loop {
            let read = lines.next(&self.out)?;
            if let Line::Numbered(number, _) = &read {
                self.place = format!("{program}: line {number}");
                line.store(*number, Ordering::Relaxed);
            }
            let (Line::Typed(text) | Line::Numbered(_, text)) = read else {
                return say!(self, "");
            };
            match text.trim() {
                "EOF" => return say!(self, ""),
                "" => self.again(&last)?,
                text => {
                    self.carry_out(text)?;
                    text.clone_into(&mut last);
                }
            }
        }
    }

    /// Runs the last command again for an empty line, as BMv2's command line does.
    fn again(&mut self, last: &str) -> Result<(), Ended> {
        if last.is_empty() {
            return Ok(());
        }
        if !is_comment(last) {
            self.note(&format!(
                "the line is empty, so the last command runs again, as in BMv2's: {last}"
            ))?;
        }
        self.carry_out(last)
    }

    fn carry_out(&mut self, line: &str) -> Result<(), Ended> {
        let (name, rest) = split(line);
        let command = COMMANDS.iter().find(|command| command.name == name);
        let done = match command {
            Some(command) => (command.run)(self, &Typed::new(rest)),
            None if name == "help" => commands::help(self, rest),
            None => {
                say!(self, "*** Unknown syntax: {line}")?;
                if !is_comment(line) {
                    self.note(&format!("no command is called {name:?}: `help` lists them"))?;
                }
                return Ok(());
            }
        };
        match done {
            Ok(()) => Ok(()),
            Err(Error::Ended(ended)) => Err(ended),
            Err(error) => {
                say!(self, "{error}")?;
                self.explain(line, &error)
            }
        }
    }

    /// Writes to standard error what the output lacks: the line number, if the input is not a terminal, and the
    /// switch's reason.
    fn explain(&self, line: &str, error: &Error) -> Result<(), Ended> {
        let reason = match error {
            Error::Refused { reason, .. } if !reason.is_empty() => format!(": {reason}"),
            _ => String::new(),
        };
        if self.place.contains(':') {
            self.note(&format!("{line}: {error}{reason}"))
        } else if !reason.is_empty() {
            self.out.error_line(format_args!("  {}", &reason[2..]))
        } else {
            Ok(())
        }
    }
}

/// Whether a line is meant as a comment. BMv2's command line has no comments, so the line is an unknown command, but
/// not a misspelt one.
fn is_comment(line: &str) -> bool {
    line.starts_with('#') || line.starts_with("//")
}

/// Splits a line into the command's name (letters, digits, underscores) and the rest. `?` means `help`, `!` means
/// `shell`.
fn split(line: &str) -> (&str, &str) {
    if let Some(topic) = line.strip_prefix('?') {
        return ("help", topic.trim());
    }
    if let Some(command) = line.strip_prefix('!') {
        return ("shell", command.trim());
    }
    let is_of_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let end = line.find(|it| !is_of_name(it)).unwrap_or(line.len());
    (&line[..end], line[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_line_is_a_name_and_the_rest() {
        assert_eq!(split("table_dump  t "), ("table_dump", "t"));
        assert_eq!(split("?table_add"), ("help", "table_add"));
        assert_eq!(split("! ls -l"), ("shell", "ls -l"));
        assert_eq!(split("# table_add"), ("", "# table_add"));
        assert_eq!(split("greet"), ("greet", ""));
        assert_eq!(split("table_add-x"), ("table_add", "-x"));
    }
}
