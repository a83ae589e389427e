//! The variants: the interpreter, and the native engine with different choices of optimisations. The engine itself
//! lists its optimisations.

use dataplane::{engine::EngineFactory, interpret::InterpreterFactory};
use dataplane_jit::{NativeFactory, NativeOptions};

/// The optimisations that PISCES (SIGCOMM 2016) added to Open vSwitch. Open vSwitch's flow caches, which PISCES kept,
/// are not among them.
const PISCES: [&str; 4] = [
    "action-specialisation",
    "parser-specialisation",
    "inline-editing",
    "incremental-checksum",
];

/// One engine with one choice of optimisations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    options: Option<NativeOptions>,
    /// The variant's names in the table: `reference` for the interpreter; `naive`, `alone NAME`, `step N NAME`,
    /// `without NAME`, `pisces` or `all` for the native engine. A variant has several names if they mean the same
    /// choice.
    pub roles: Vec<String>,
}

/// Returns the choice that consists of these optimisations.
fn options_of(names: &[&str]) -> NativeOptions {
    let mut options = NativeOptions::NAIVE;
    for name in names {
        if let Some(on) = options.by_name_mut(name) {
            *on = true;
        }
    }
    options
}

impl Variant {
    /// Returns all variants: the interpreter and the native engine. The native engine runs without optimisations
    /// (naive), with each optimisation alone, with the optimisations added one after the other, with all except one,
    /// with those of PISCES, and with all.
    pub fn all() -> Vec<Self> {
        let names = NativeOptions::NAMES;
        let mut choices = vec![(NativeOptions::NAIVE, "naive".to_owned())];
        for (place, name) in names.iter().enumerate() {
            choices.push((options_of(&[name]), format!("alone {name}")));
            let so_far = options_of(&names[..=place]);
            choices.push((so_far, format!("step {} {name}", place + 1)));
            let others: Vec<&str> = names
                .iter()
                .copied()
                .filter(|other| other != name)
                .collect();
            choices.push((options_of(&others), format!("without {name}")));
        }
        choices.push((options_of(&PISCES), "pisces".to_owned()));
        choices.push((NativeOptions::ALL, "all".to_owned()));
        let mut variants = vec![Self {
            options: None,
            roles: vec!["reference".to_owned()],
        }];
        for (options, role) in choices {
            let same = |variant: &&mut Variant| variant.options == Some(options);
            match variants.iter_mut().find(same) {
                Some(variant) => variant.roles.push(role),
                None => variants.push(Self {
                    options: Some(options),
                    roles: vec![role],
                }),
            }
        }
        variants
    }

    /// Returns the variants for the command `growth`: the interpreter, and the native engine without any optimisation
    /// and with all.
    pub fn extremes() -> Vec<Self> {
        let extreme = |variant: &Self| {
            let names = ["reference", "naive", "all"];
            variant.roles.iter().any(|role| names.contains(&&**role))
        };
        Self::all().into_iter().filter(extreme).collect()
    }

    pub fn is(&self, role: &str) -> bool {
        self.roles.iter().any(|own| own == role)
    }

    /// Returns the engine's name in `--engine`.
    pub fn engine(&self) -> &'static str {
        match self.options {
            None => "interpreter",
            Some(_) => "native",
        }
    }

    /// Returns the optimisations that are on: `none`, `all`, or names that are joined by plus signs.
    pub fn optimisations(&self) -> String {
        let Some(mut options) = self.options else {
            return "none".to_owned();
        };
        if options == NativeOptions::ALL {
            return "all".to_owned();
        }
        let mut on = |name: &&str| options.by_name_mut(name).is_some_and(|on| *on);
        let on: Vec<&str> = NativeOptions::NAMES
            .into_iter()
            .filter(|it| on(it))
            .collect();
        if on.is_empty() {
            return "none".to_owned();
        }
        on.join("+")
    }

    pub fn factory(&self) -> Box<dyn EngineFactory> {
        match self.options {
            None => Box::new(InterpreterFactory),
            Some(options) => Box::new(NativeFactory { options }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_there_once_and_every_step_has_its_role() {
        let variants = Variant::all();
        assert!(variants[0].is("reference"));
        for (place, one) in variants.iter().enumerate() {
            let others = &variants[place + 1..];
            assert!(others.iter().all(|other| other.options != one.options));
        }
        let roles: Vec<&String> = variants.iter().flat_map(|it| &it.roles).collect();
        assert_eq!(roles.len(), 4 + 3 * NativeOptions::NAMES.len());
        let with = |role: &str| variants.iter().find(|it| it.is(role)).unwrap();
        assert_eq!(with("naive").optimisations(), "none");
        assert_eq!(
            with("pisces").optimisations().split('+').count(),
            PISCES.len()
        );
        assert_eq!(with("all").optimisations(), "all");
        let last = NativeOptions::NAMES.len();
        assert!(with(&format!("step {last} {}", NativeOptions::NAMES[last - 1])).is("all"));
        assert_eq!(Variant::extremes().len(), 3);
    }
}
