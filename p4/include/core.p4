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
    /// Reads a header with one varbit field; that one has so many bits, which must be a multiple
    /// of 8.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    /// Reads without moving on.
    T lookahead<T>();
    /// Moves on by so many bits.
    void advance(in bit<32> sizeInBits);
    /// The packet's length in bytes.
    bit<32> length();
}

/// The packet as a deparser writes it.
extern packet_out {
    /// Appends a header, where it is valid.
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
