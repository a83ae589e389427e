//! A compiled program as text: Cranelift's IR before code generation. The text is stored in golden files, so it shows
//! names instead of addresses.

use std::collections::HashMap;

use cranelift_codegen::ir::Function;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};

#[derive(Default)]
pub(crate) struct Listing {
    /// The names that the text shows instead of addresses.
    pub names: HashMap<u64, &'static str>,
    /// The name and the text of each function, in the order in which the functions were made.
    pub functions: Vec<(String, String)>,
}

impl Listing {
    pub(super) fn add(&mut self, name: &str, function: &Function, module: &JITModule) {
        let text = function.display().to_string();
        // The comment at the end of a line shows the line's constants, which include addresses, so this code cuts the
        // comment off.
        let lines = text
            .lines()
            .map(|line| line.split("  ; ").next().unwrap_or_default());
        let text = lines.collect::<Vec<_>>().join("\n") + "\n";
        let text = replaced(&text, "u0:", |id| {
            let id = FuncId::from_u32(id.parse().ok()?);
            let declared = module.declarations().get_function_decl(id);
            Some(format!("%{}", declared.linkage_name(id)))
        });
        let text = replaced(&text, "iconst.i64 0x", |digits| {
            let address = u64::from_str_radix(&digits.replace('_', ""), 16).ok()?;
            Some(format!("iconst.i64 &{}", self.names.get(&address)?))
        });
        self.functions.push((name.to_owned(), text));
    }
}

/// Replaces words of the text that begin with `begins`. `by` gets the rest of the word and returns the whole new word,
/// or `None` to keep the word.
fn replaced(text: &str, begins: &str, by: impl Fn(&str) -> Option<String>) -> String {
    let mut parts = text.split(begins);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_behind = |it: char| !it.is_ascii_hexdigit() && it != '_';
        let end = part.find(is_behind).unwrap_or(part.len());
        let (word, rest) = part.split_at(end);
        let word = by(word).unwrap_or_else(|| format!("{begins}{word}"));
        out.extend([&word, rest]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_have_another_are_replaced() {
        let by = |word: &str| (word == "1_f").then(|| "&it".to_owned());
        assert_eq!(replaced("a 0x1_f, 0x2\n0x1_f", "0x", by), "a &it, 0x2\n&it");
    }
}
