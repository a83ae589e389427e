//! Which optimisations the native engine uses. Each can be turned off, so that its worth can be
//! measured and its agreement with the interpreter tested alone.

/// The optimisations; all are on by default. With all off the engine is what the benchmarks call
/// naive: native code, nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeOptions {
    /// Headers are changed in the packet's buffer in place while their layout stays.
    pub inline_editing: bool,
    /// A checksum that was verified is updated from the fields that changed.
    pub incremental_checksum: bool,
    /// Headers and fields that nobody reads are not extracted.
    pub parser_specialisation: bool,
    /// No checks for what is never set; loads that are known and writes of one action merged.
    pub action_specialisation: bool,
    /// An exact-match cache of flows in front of the tables, and a wildcard one behind it.
    pub flow_cache: bool,
    /// Passes of a packet that recirculates, and the replicas of a group, run back to back.
    pub fanout_fusion: bool,
}

impl NativeOptions {
    /// Every optimisation.
    pub const ALL: Self = Self {
        inline_editing: true,
        incremental_checksum: true,
        parser_specialisation: true,
        action_specialisation: true,
        flow_cache: true,
        fanout_fusion: true,
    };

    /// None of the optimisations.
    pub const NAIVE: Self = Self {
        inline_editing: false,
        incremental_checksum: false,
        parser_specialisation: false,
        action_specialisation: false,
        flow_cache: false,
        fanout_fusion: false,
    };

    /// The names of the optimisations, as options and result files write them.
    pub const NAMES: [&'static str; 6] = [
        "inline-editing",
        "incremental-checksum",
        "parser-specialisation",
        "action-specialisation",
        "flow-cache",
        "fanout-fusion",
    ];

    /// The switch of a name of [`NativeOptions::NAMES`].
    pub fn by_name_mut(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "inline-editing" => &mut self.inline_editing,
            "incremental-checksum" => &mut self.incremental_checksum,
            "parser-specialisation" => &mut self.parser_specialisation,
            "action-specialisation" => &mut self.action_specialisation,
            "flow-cache" => &mut self.flow_cache,
            "fanout-fusion" => &mut self.fanout_fusion,
            _ => return None,
        })
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
