/* The P4_16 core library: the declarations every target has (P4_16 1.2.5, appendix "P4 core library"). */

#ifndef _CORE_P4_
#define _CORE_P4_

/// What a parser can report in `parser_error`.
error {
    NoError,
    PacketTooShort,
    NoMatch,
    StackOutOfBounds,
    HeaderTooShort,
    ParserTimeout,
    ParserInvalidArgument
}

/// The packet as a parser reads it.
extern packet_in {
    /// Reads a header of fixed size and makes it valid.
    void extract<T>(out T hdr);
    /// Reads a header with one varbit field. The second argument is this field's size in bits, a
    /// multiple of 8.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    /// Reads without advancing the position in the packet.
    T lookahead<T>();
    /// Advances the position in the packet by this many bits.
    void advance(in bit<32> sizeInBits);
    /// The packet's length in bytes.
    bit<32> length();
}

/// The packet as a deparser writes it.
extern packet_out {
    /// Appends a header if it is valid.
    void emit<T>(in T hdr);
}

/// Stops the parser with an error unless the check holds.
extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() { }

match_kind {
    exact,
    ternary,
    lpm
}

extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
