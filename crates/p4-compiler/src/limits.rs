//! Every limit of the compiler, with its unit and its reason.

pub use bmv2_json::limits::{ARRAY_CELLS_MAX, EXPRESSION_DEPTH_MAX, FIELD_BITS_MAX, FIELDS_MAX};

/// Bytes of the program's text and of all that it includes, each time that it does: generated programs with 100,000
/// entries have some millions.
pub const SOURCE_BYTES: u64 = 64 << 20;
/// Files that include one another, deep; more is a cycle without a guard.
pub const INCLUDE_DEPTH: usize = 64;
/// Tokens after preprocessing; more is a macro that explodes.
pub const TOKENS: usize = 4_000_000;
/// Macros inside macros, deep.
pub const MACRO_DEPTH: usize = 64;
/// Parentheses, blocks and types inside one another. The compiler's walks are recursive: a level takes
/// up to 11 KiB of the stack in a build without optimisation; a main thread has 8 MiB.
pub const NESTING: usize = 128;
/// Height of one expression's tree, so that the switches, which evaluate recursively, stay within their stacks.
pub const EXPRESSION_HEIGHT: u16 = 256;
/// Operators in a row that the parser leaves as they are written, from the left; longer chains of one operator are
/// grouped anew, so that their height is small.
pub const CHAIN_IN_ORDER: usize = 64;
/// Operators in a row: as many as a generated program has, and few enough that their tree is quickly walked.
pub const CHAIN: usize = 65_536;
/// `else if`s in a row. Each is one level of the compiler's recursive walks, see [`STACK_BYTES`].
pub const ELSE_IFS: usize = 16_384;
/// Bytes of the stack on which a program is compiled, of which the system gives what is used: a level of `else if`
/// takes up to 30 KiB in a build without optimisation.
pub const STACK_BYTES: usize = 512 << 20;
/// Bits of a value. simple_switch has no bound; this one catches a mistyped width.
pub const WIDTH_BITS: u32 = 65_536;
/// Bits of a constant while it is folded.
pub const CONSTANT_BITS: u64 = 1 << 20;
/// Functions, controls and parsers inlined into one another, deep; more is recursion.
pub const INLINE_DEPTH: usize = 32;
/// Rounds of a loop that are counted to know whether they are few.
pub const KNOWN_ROUNDS: usize = 4_096;
/// Rounds of a loop that become code each; more jump back.
pub const UNROLLED_ROUNDS: usize = 32;
/// Elements of a header stack; a detector of attacks in the field has as many.
pub const STACK_SIZE: u32 = 8_192;
/// Transitions into which one `select` with ranges may unfold.
pub const SELECT_CASES: usize = 4_096;
/// Primitives, nodes and parser operations of one program; more is inlining that explodes.
pub const LOWERED_STATEMENTS: usize = 500_000;
/// Comparisons of a table's entries with one another for the warning that one never matches: some seconds; a larger
/// table has this warning for its first entries only.
pub const COMPARED_ENTRIES: usize = 8_000_000;
/// Errors (and as many warnings) after which the rest is only counted; a broken `#include` can
/// cause thousands.
pub const ERRORS: usize = 100;

/// Bytes of a condition's text in the JSON, which traces show beside its place.
pub const CONDITION_TEXT_BYTES: usize = 70;
