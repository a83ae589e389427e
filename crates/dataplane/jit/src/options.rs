//! The optimisations of the native engine. Each can be turned off, so that benchmarks can measure its worth and tests
//! can check that the engine agrees with the interpreter when only one is on.

/// All optimisations are on by default. With all optimisations off, the engine is what the benchmarks call naive:
/// native code and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeOptions {
    /// Leaves out checks whose outcome is known from the program, reuses field values that are in processor registers,
    /// and merges the writes of an action.
    pub action_specialisation: bool,
    /// Caches which entries a control's tables found, for later packets with equal inputs.
    pub microflow_cache: bool,
    /// Extends the cache to packets that differ only in bits that no entry looks at.
    pub megaflow_cache: bool,
    /// Makes one vector operation of four assignments that do the same to different 32-bit fields. Needs action
    /// specialisation.
    pub lane_vectorisation: bool,
    /// Copies the bytes of fields that nobody uses instead of extracting them. Writes metadata and blanks fields only
    /// if something reads them.
    pub parser_specialisation: bool,
    /// Leaves seldom used fields among their header's bytes, and edits them there.
    pub inline_editing: bool,
    /// Updates a verified checksum only from the fields that may have changed since the verification.
    pub incremental_checksum: bool,
    /// Queues the copies of one packet as one item, and takes them through egress and deparser in one call. A packet
    /// that finds empty queues goes from ingress to egress without queueing. Keeps the headers of a recirculated packet
    /// instead of deparsing and parsing them again, if the outcome is the same.
    pub fanout_fusion: bool,
    /// Parses waiting frames a few frames ahead and prefetches their records in the ingress control's flow cache. That
    /// cache may then have more records. Needs a flow cache, parser specialisation and fan-out fusion.
    pub flow_prefetch: bool,
}

/// The name of an optimisation, and its field.
type Switch = (&'static str, fn(&mut NativeOptions) -> &mut bool);

const SWITCHES: [Switch; 9] = [
    ("action-specialisation", |it| &mut it.action_specialisation),
    ("microflow-cache", |it| &mut it.microflow_cache),
    ("megaflow-cache", |it| &mut it.megaflow_cache),
    ("lane-vectorisation", |it| &mut it.lane_vectorisation),
    ("parser-specialisation", |it| &mut it.parser_specialisation),
    ("inline-editing", |it| &mut it.inline_editing),
    ("incremental-checksum", |it| &mut it.incremental_checksum),
    ("fanout-fusion", |it| &mut it.fanout_fusion),
    ("flow-prefetch", |it| &mut it.flow_prefetch),
];

impl NativeOptions {
    pub const ALL: Self = Self::each(true);

    pub const NAIVE: Self = Self::each(false);

    /// The names of the optimisations, as options and result files write them.
    pub const NAMES: [&'static str; SWITCHES.len()] = {
        let mut names = [""; SWITCHES.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = SWITCHES[at].0;
            at += 1;
        }
        names
    };

    const fn each(is_on: bool) -> Self {
        Self {
            action_specialisation: is_on,
            microflow_cache: is_on,
            megaflow_cache: is_on,
            lane_vectorisation: is_on,
            parser_specialisation: is_on,
            inline_editing: is_on,
            incremental_checksum: is_on,
            fanout_fusion: is_on,
            flow_prefetch: is_on,
        }
    }

    /// The switch of the optimisation with this name; `None` if [`NativeOptions::NAMES`] lacks the name.
    pub fn by_name_mut(&mut self, name: &str) -> Option<&mut bool> {
        let switch = SWITCHES.iter().find(|(its, _)| *its == name);
        switch.map(|(_, of)| of(self))
    }
}

impl Default for NativeOptions {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_turns_one_optimisation_on() {
        let mut all = NativeOptions::NAIVE;
        for name in NativeOptions::NAMES {
            let mut one = NativeOptions::NAIVE;
            let switch = one.by_name_mut(name);
            assert_eq!(switch.as_deref(), Some(&false), "{name}");
            if let Some(switch) = switch {
                *switch = true;
            }
            assert_ne!(one, NativeOptions::NAIVE);
            if let Some(switch) = all.by_name_mut(name) {
                *switch = true;
            }
        }
        assert_eq!(all, NativeOptions::default());
        assert_eq!(all.by_name_mut("warp"), None);
    }
}
