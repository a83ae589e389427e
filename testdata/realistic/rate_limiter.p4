// Limits rates: customers by meters with two rates (RFC 2698), and a number of requests a window of
// time for each source, counted in registers.
#include "include/headers.p4"

#define SOURCES 256
// 2^20 microseconds, about a second.
#define WINDOW_SHIFT 20
const bit<2> GREEN = 0;
const bit<2> YELLOW = 1;
const bit<2> RED = 2;
const bit<6> AF11 = 10;
const bit<6> AF12 = 12;

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
}

struct metadata_t {
    bit<16> customer;
    bit<2>  colour;
    bit<2>  port_colour;
    bit<8>  budget;
}

parser LimiterParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// A budget of packets in each window of time. Says whether it is spent.
control RequestBudget(in bit<32> slot, in bit<48> now, in bit<8> budget, out bool is_spent) {
    register<bit<32>>(SOURCES) windows;
    register<bit<8>>(SOURCES) requests;

    apply {
        bit<32> window = now[31 + WINDOW_SHIFT - 20 : 0] >> WINDOW_SHIFT;
        bit<32> last_window;
        bit<8> n_requests;
        windows.read(last_window, slot);
        requests.read(n_requests, slot);
        if (window != last_window) {
            n_requests = 0;
            windows.write(slot, window);
        }
        is_spent = n_requests >= budget;
        if (!is_spent) { requests.write(slot, n_requests + 1); }
    }
}

control LimiterIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    RequestBudget() request_budget;
    meter(1024, MeterType.bytes) customer_rates;
    direct_meter<bit<2>>(MeterType.packets) port_rates;
    counter(4, CounterType.packets_and_bytes) by_colour;
    counter(SOURCES, CounterType.packets) refused;

    action drop() { mark_to_drop(standard_metadata); }

    action measure() { port_rates.read(meta.port_colour); }

    // A meter for each port; a miss is not metered.
    table port_policers {
        key = { standard_metadata.ingress_port: exact; }
        actions = { measure; NoAction; }
        default_action = NoAction();
        meters = port_rates;
        size = 64;
    }

    action set_customer(bit<16> customer) {
        meta.customer = customer;
        customer_rates.execute_meter((bit<32>) customer, meta.colour);
    }

    table customers {
        key = { hdr.ipv4.src_addr: lpm; }
        actions = { set_customer; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action set_budget(bit<8> budget) { meta.budget = budget; }

    // Services that answer only so many requests of a source in a second.
    table budgets {
        key = { hdr.udp.dst_port: exact; }
        actions = { set_budget; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action remark(bit<6> dscp) { hdr.ipv4.dscp = dscp; }

    table colour_actions {
        key = { meta.colour: exact; }
        actions = { remark; drop; NoAction; }
        const default_action = NoAction();
        const entries = {
            GREEN: remark(AF11);
            YELLOW: remark(AF12);
            RED: drop();
        }
    }

    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    apply {
        if (!hdr.ipv4.isValid()) {
            drop();
            exit;
        }
        meta.port_colour = GREEN;
        meta.colour = GREEN;
        port_policers.apply();
        if (meta.port_colour == RED) {
            drop();
            exit;
        }
        if (hdr.udp.isValid() && budgets.apply().hit) {
            bit<32> slot;
            bool is_spent;
            hash(slot, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src_addr }, (bit<32>) SOURCES);
            request_budget.apply(slot, standard_metadata.ingress_global_timestamp, meta.budget, is_spent);
            if (is_spent) {
                refused.count(slot);
                drop();
                exit;
            }
        }
        if (customers.apply().hit) {
            by_colour.count((bit<32>) meta.colour);
            switch (colour_actions.apply().action_run) {
                drop: { exit; }
                default: { }
            }
        }
        routes.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control LimiterDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(LimiterParser(), VerifyIpv4(), LimiterIngress(), NoEgress(), UpdateIpv4(), LimiterDeparser()) main;
