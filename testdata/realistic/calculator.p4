// A calculator behind an Ethernet type: the packet comes back with the result, or with an error code.
// Division is long division, bit by bit, as targets do not divide.
#include "include/headers.p4"

const bit<16> ETHERTYPE_CALCULATOR = 0x88b6;
const bit<32> MAGIC = 0x43414c43;

enum bit<8> Operator {
    ADD = 0x2b,
    SUBTRACT = 0x2d,
    MULTIPLY = 0x2a,
    DIVIDE = 0x2f,
    AND = 0x26,
    OR = 0x7c,
    XOR = 0x5e,
    SHIFT_LEFT = 0x3c,
    SHIFT_RIGHT = 0x3e,
    MAXIMUM = 0x4d,
    MEMORY_STORE = 0x53,
    MEMORY_READ = 0x52
}

enum bit<8> Status {
    OK = 0,
    UNKNOWN_OPERATOR = 1,
    DIVISION_BY_ZERO = 2,
    OVERFLOW = 3
}

header calculator_t {
    bit<32>  magic;
    bit<8>   version;
    Operator operator;
    bit<8>   is_signed;
    Status   status;
    bit<32>  left;
    bit<32>  right;
    bit<32>  result;
}

struct headers_t {
    ethernet_t   ethernet;
    calculator_t calculator;
}

struct metadata_t { }

error { NotForUs }

parser CalculatorParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_CALCULATOR: check;
            default: accept;
        }
    }

    state check {
        bit<40> beginning = packet.lookahead<bit<40>>();
        verify(beginning == MAGIC ++ 8w1, error.NotForUs);
        packet.extract(hdr.calculator);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

// One step of long division: the remainder takes the next bit in, the quotient gets one out.
void divide_step(inout bit<33> remainder, inout bit<32> quotient, in bit<32> divisor) {
    remainder = remainder[31:0] ++ quotient[31:31];
    quotient = quotient << 1;
    if (remainder >= (bit<33>) divisor) {
        remainder = remainder - (bit<33>) divisor;
        quotient = quotient | 1;
    }
}

void divide_byte(inout bit<33> remainder, inout bit<32> quotient, in bit<32> divisor) {
    divide_step(remainder, quotient, divisor);
    divide_step(remainder, quotient, divisor);
    divide_step(remainder, quotient, divisor);
    divide_step(remainder, quotient, divisor);
    divide_step(remainder, quotient, divisor);
    divide_step(remainder, quotient, divisor);
    divide_step(remainder, quotient, divisor);
    divide_step(remainder, quotient, divisor);
}

control Division(in bit<32> left, in bit<32> right, out bit<32> result) {
    apply {
        bit<33> remainder = 0;
        result = left;
        divide_byte(remainder, result, right);
        divide_byte(remainder, result, right);
        divide_byte(remainder, result, right);
        divide_byte(remainder, result, right);
    }
}

control CalculatorIngress(inout headers_t hdr, inout metadata_t meta,
                          inout standard_metadata_t standard_metadata) {
    register<bit<32>>(16) memory;
    counter(256, CounterType.packets) by_operator;
    Division() division;

    action fail(Status status) {
        hdr.calculator.status = status;
        hdr.calculator.result = 0;
    }

    action add() {
        hdr.calculator.result = hdr.calculator.left + hdr.calculator.right;
        if (hdr.calculator.is_signed == 1) {
            int<32> sum = (int<32>) hdr.calculator.left |+| (int<32>) hdr.calculator.right;
            if ((bit<32>) sum != hdr.calculator.result) { fail(Status.OVERFLOW); }
        } else if (hdr.calculator.result < hdr.calculator.left) {
            fail(Status.OVERFLOW);
        }
    }

    action subtract() { hdr.calculator.result = hdr.calculator.left - hdr.calculator.right; }

    action multiply() {
        bit<64> product = (bit<64>) hdr.calculator.left * (bit<64>) hdr.calculator.right;
        hdr.calculator.result = product[31:0];
        if (product[63:32] != 0) { fail(Status.OVERFLOW); }
    }

    action bitwise_and() { hdr.calculator.result = hdr.calculator.left & hdr.calculator.right; }

    action bitwise_or() { hdr.calculator.result = hdr.calculator.left | hdr.calculator.right; }

    action bitwise_xor() { hdr.calculator.result = hdr.calculator.left ^ hdr.calculator.right; }

    action shift_left() { hdr.calculator.result = hdr.calculator.left << hdr.calculator.right[7:0]; }

    action shift_right() {
        if (hdr.calculator.is_signed == 1) {
            int<32> left = (int<32>) hdr.calculator.left;
            hdr.calculator.result = (bit<32>) (left >> hdr.calculator.right[7:0]);
        } else {
            hdr.calculator.result = hdr.calculator.left >> hdr.calculator.right[7:0];
        }
    }

    action maximum() {
        bool is_less = hdr.calculator.left < hdr.calculator.right;
        if (hdr.calculator.is_signed == 1) {
            is_less = (int<32>) hdr.calculator.left < (int<32>) hdr.calculator.right;
        }
        hdr.calculator.result = is_less ? hdr.calculator.right : hdr.calculator.left;
    }

    action store() {
        memory.write((bit<32>) hdr.calculator.right[3:0], hdr.calculator.left);
        hdr.calculator.result = hdr.calculator.left;
    }

    action recall() { memory.read(hdr.calculator.result, (bit<32>) hdr.calculator.right[3:0]); }

    action start_division() { }

    action unknown() { fail(Status.UNKNOWN_OPERATOR); }

    table operators {
        key = { hdr.calculator.operator: exact; }
        actions = {
            add; subtract; multiply; start_division; bitwise_and; bitwise_or; bitwise_xor;
            shift_left; shift_right; maximum; store; recall; unknown;
        }
        const default_action = unknown();
        const entries = {
            Operator.ADD: add();
            Operator.SUBTRACT: subtract();
            Operator.MULTIPLY: multiply();
            Operator.DIVIDE: start_division();
            Operator.AND: bitwise_and();
            Operator.OR: bitwise_or();
            Operator.XOR: bitwise_xor();
            Operator.SHIFT_LEFT: shift_left();
            Operator.SHIFT_RIGHT: shift_right();
            Operator.MAXIMUM: maximum();
            Operator.MEMORY_STORE: store();
            Operator.MEMORY_READ: recall();
        }
    }

    apply {
        if (!hdr.calculator.isValid() || standard_metadata.parser_error != error.NoError) {
            mark_to_drop(standard_metadata);
            exit;
        }
        by_operator.count((bit<32>) (bit<8>) hdr.calculator.operator);
        hdr.calculator.status = Status.OK;
        switch (operators.apply().action_run) {
            start_division: {
                if (hdr.calculator.right == 0) {
                    fail(Status.DIVISION_BY_ZERO);
                } else {
                    division.apply(hdr.calculator.left, hdr.calculator.right, hdr.calculator.result);
                }
            }
            default: { }
        }
        mac_addr_t asker = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = asker;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control CalculatorDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(CalculatorParser(), NoChecksum(), CalculatorIngress(), NoEgress(), NoChecksum(),
         CalculatorDeparser()) main;
