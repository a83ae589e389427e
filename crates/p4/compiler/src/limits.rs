//! Every limit of the compiler, with its unit and its reason.

pub use bmv2_json::limits::{ARRAY_CELLS_MAX, EXPRESSION_DEPTH_MAX, FIELD_BITS_MAX, FIELDS_MAX};

/// Bytes of the program and its includes; a file counts every time it is included. Generated programs with 100,000
/// entries have some millions of bytes.
pub const SOURCE_BYTES: u64 = 64 << 20;
/// Depth of nested includes; a greater depth means files that include each other without include guards.
pub const INCLUDE_DEPTH: usize = 64;
/// Tokens after preprocessing. Only nested macros that each repeat an argument exceed this limit.
pub const TOKENS: usize = 4_000_000;
/// Depth of macros expanded inside macros.
pub const MACRO_DEPTH: usize = 64;
/// Depth of nested parentheses, blocks and types. The compiler's walks are recursive: a level takes up to 11 KiB of
/// the stack in a build without optimisation, and a main thread has 8 MiB.
pub const NESTING: usize = 128;
/// Height of an expression's tree. A switch evaluates the tree recursively and must stay within its stack.
pub const EXPRESSION_HEIGHT: u16 = 256;
/// Operators in a row that the parser groups from the left, as written. The parser regroups longer chains of one
/// operator, so that their tree stays low.
pub const CHAIN_IN_ORDER: usize = 64;
/// Operators in a row: enough for the chains in generated programs, and few enough that the compiler walks their tree
/// quickly.
pub const CHAIN: usize = 65_536;
/// `else if`s in a row. Each is one level of the compiler's recursive walks, see [`STACK_BYTES`].
pub const ELSE_IFS: usize = 16_384;
/// Bytes of the stack on which a program is compiled; the system provides only the pages that are used. A level of
/// `else if` takes up to 30 KiB in a build without optimisation.
pub const STACK_BYTES: usize = 512 << 20;
/// Bits of a value. simple_switch has no such limit; ours catches a mistyped width.
pub const WIDTH_BITS: u32 = 65_536;
/// Bits of a constant during constant folding.
pub const CONSTANT_BITS: u64 = 1 << 20;
/// Depth of inlined functions, controls and parsers. Only recursion goes deeper.
pub const INLINE_DEPTH: usize = 32;
/// Iterations that the compiler simulates to find out how often a loop runs.
pub const KNOWN_ROUNDS: usize = 4_096;
/// The compiler unrolls a loop with at most this many iterations; a loop with more becomes a backward jump.
pub const UNROLLED_ROUNDS: usize = 32;
/// Elements of a header stack. One real program, an attack detector, has a stack of this size.
pub const STACK_SIZE: u32 = 8_192;
/// Transitions to which one `select` with ranges may expand.
pub const SELECT_CASES: usize = 4_096;
/// Primitives, nodes and parser operations of one program. Only nested controls or functions, each called several
/// times, exceed this limit.
pub const LOWERED_STATEMENTS: usize = 500_000;
/// Comparisons between a table's entries for the warning that an entry never matches. This many comparisons take some
/// seconds. In a table that needs more comparisons, only the first entries get this warning.
pub const COMPARED_ENTRIES: usize = 8_000_000;
/// Errors that are shown, and also warnings that are shown; further messages are only counted. A broken `#include` can
/// cause thousands.
pub const ERRORS: usize = 100;

/// Bytes of a condition's source text in the JSON. Traces show this text next to the condition's line.
pub const CONDITION_TEXT_BYTES: usize = 70;
