//! What the parser, the deparser and the checksums need of whoever writes controls: expressions
//! and primitives at the place where the code is being written.

use cranelift_codegen::ir::Value;
use cranelift_frontend::FunctionBuilder;
use dataplane::engine::ir::{BoolExpr, Expr, FieldId, HeaderId, Ir, ParserOp, Primitive};

use crate::layout::Layout;

/// A function that is being written; `'f` is the builder's.
pub(crate) trait Emit<'f> {
    /// The builder, at the place where the code goes on.
    fn b(&mut self) -> &mut FunctionBuilder<'f>;

    /// The program.
    fn ir(&self) -> &'f Ir;

    /// Where the packet's state is.
    fn layout(&self) -> &'f Layout;

    /// The pointer to the pass's context.
    fn context(&self) -> Value;

    /// The pointer to the packet's block.
    fn block(&self) -> Value;

    /// Calls a function of the runtime with words; its result is a word, if it has one.
    fn call(&mut self, function: usize, arguments: &[Value], has_result: bool) -> Option<Value>;

    /// Runs a primitive.
    fn primitive(&mut self, primitive: &Primitive);

    /// Whether a condition holds: a byte, 0 or 1.
    fn condition(&mut self, condition: &BoolExpr) -> Value;

    /// The low bits of a number, up to 64 of them; zeros above.
    fn low(&mut self, number: &Expr, bits: u32) -> Value;

    /// The low bits of a number in words, the lowest first; zeros above.
    fn words(&mut self, number: &Expr, bits: u32) -> Vec<Value>;

    /// A number as a signed word; none where it may not fit one.
    fn exact(&mut self, number: &Expr) -> Option<Value>;

    /// Makes a header valid, and the other members of its union invalid.
    fn set_valid(&mut self, header: HeaderId);

    /// Whether anybody reads a field, so that it has to be extracted.
    fn is_read(&self, field: FieldId) -> bool;

    /// Leaves an operation of the parser at a position to the interpreter: the new position, or the
    /// complement of the parser's error.
    fn interpret(&mut self, operation: &ParserOp, at: Value) -> Option<Value>;

    /// Notes a construct that is left to the interpreter.
    fn note(&mut self, place: String, reason: String);
}
