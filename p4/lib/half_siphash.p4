// Computes HalfSipHash-2-4 of four 32-bit words, as the AOM sequencer of NeoBFT does. The round is SipHash's round on
// 32-bit words (J.-P. Aumasson's HalfSipHash). But the initial state differs, there is no length word, and the tag is
// computed from all four words of the state. A lane is one computation with one key.
#ifndef HALF_SIPHASH_P4
#define HALF_SIPHASH_P4

typedef bit<32> tag_t;

// A receiver's key: SipHash's k0 and k1.
struct sip_key_t {
    bit<32> k0;
    bit<32> k1;
}

struct sip_state_t {
    bit<32> v0;
    bit<32> v1;
    bit<32> v2;
    bit<32> v3;
}

bit<32> rotated_left_5(in bit<32> word) { return word[26:0] ++ word[31:27]; }
bit<32> rotated_left_7(in bit<32> word) { return word[24:0] ++ word[31:25]; }
bit<32> rotated_left_8(in bit<32> word) { return word[23:0] ++ word[31:24]; }
bit<32> rotated_left_13(in bit<32> word) { return word[18:0] ++ word[31:19]; }
bit<32> rotated_left_16(in bit<32> word) { return word[15:0] ++ word[31:16]; }

void sip_init(out sip_state_t state, in bit<32> k0, in bit<32> k1) {
    state.v0 = k0 ^ 0x70736575;
    state.v1 = k1 ^ 0x6e646f6d;
    state.v2 = k0 ^ 0x6e657261;
    state.v3 = k1 ^ 0x79746573;
}

void sip_round(inout sip_state_t state) {
    state.v0 = state.v0 + state.v1;
    state.v2 = state.v2 + state.v3;
    state.v1 = rotated_left_5(state.v1) ^ state.v0;
    state.v3 = rotated_left_8(state.v3) ^ state.v2;
    state.v0 = rotated_left_16(state.v0) + state.v3;
    state.v2 = state.v2 + state.v1;
    state.v3 = rotated_left_7(state.v3) ^ state.v0;
    state.v1 = rotated_left_13(state.v1) ^ state.v2;
    state.v2 = rotated_left_16(state.v2);
}

// The steps before and after the two rounds for a word.
void sip_absorb(inout sip_state_t state, in bit<32> word) { state.v3 = state.v3 ^ word; }
void sip_absorbed(inout sip_state_t state, in bit<32> word) { state.v0 = state.v0 ^ word; }

// The step before the last four rounds.
void sip_finish(inout sip_state_t state) { state.v2 = state.v2 ^ 0xff; }

tag_t sip_tag(in sip_state_t state) { return state.v0 ^ state.v1 ^ state.v2 ^ state.v3; }

#endif
