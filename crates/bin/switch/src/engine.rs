//! Which engine runs the programs, and with which of its optimisations.

use dataplane::{engine::EngineFactory, interpret::InterpreterFactory};
use dataplane_jit::{NativeFactory, NativeOptions};

/// The engines that `--engine` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineOption {
    /// The reference interpreter.
    Interpreter,
    /// Machine code, compiled when a program is set. With --trace the interpreter executes the program.
    Native,
    /// The program in the kernel's receive path, on ports through XDP; the native engine does what the kernel leaves.
    Kernel,
}

impl EngineOption {
    pub(crate) fn name(self) -> &'static str {
        match self {
            EngineOption::Interpreter => "interpreter",
            EngineOption::Native => "native",
            EngineOption::Kernel => "kernel",
        }
    }

    pub(crate) fn factory(self, options: NativeOptions) -> Box<dyn EngineFactory> {
        match self {
            EngineOption::Interpreter => Box::new(InterpreterFactory),
            EngineOption::Native | EngineOption::Kernel => Box::new(NativeFactory { options }),
        }
    }
}

/// Parses `--optimise`: all, none, or names separated by commas.
///
/// # Errors
/// A name is unknown.
pub(crate) fn optimisations(text: &str) -> Result<NativeOptions, String> {
    match text {
        "all" => return Ok(NativeOptions::ALL),
        "none" => return Ok(NativeOptions::NAIVE),
        _ => {}
    }
    let mut options = NativeOptions::NAIVE;
    for name in text.split(',') {
        match options.by_name_mut(name) {
            Some(switch) => *switch = true,
            None => {
                let names = NativeOptions::NAMES.join(", ");
                return Err(format!(
                    "expected all or none alone, or some of {names} with commas between, found `{name}`"
                ));
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimisations_are_named_one_by_one() {
        assert_eq!(optimisations("all"), Ok(NativeOptions::ALL));
        assert_eq!(optimisations("none"), Ok(NativeOptions::NAIVE));
        let one = optimisations("action-specialisation");
        assert!(one.is_ok_and(|options| options.action_specialisation));
        let wrong = optimisations("action-specialisation,warp");
        assert!(wrong.is_err_and(|it| it.contains("`warp`")));
    }
}
