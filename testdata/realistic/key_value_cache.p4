// A cache in the network between clients and a key-value server, as NetCache has it: reads of hot keys
// are answered here, writes invalidate, the server's answers to writes fill in the value again.
#include "include/headers.p4"

#define CACHE_SLOTS 1024
const bit<16> CACHE_PORT = 5555;
const bit<16> HOT_THRESHOLD = 3;

enum bit<8> Operation {
    GET = 1,
    PUT = 2,
    DELETE = 3,
    GET_REPLY = 0x81,
    PUT_REPLY = 0x82,
    DELETE_REPLY = 0x83
}

header request_t {
    Operation operation;
    bit<8>    flags;
    bit<16>   sequence;
    bit<64>   key;
    bit<128>  value;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    request_t  request;
}

struct metadata_t {
    bit<32> slot;
    bool    is_cached;
}

struct hot_key_t {
    bit<64> key;
    bit<16> n_misses;
}

parser CacheParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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
        transition select(hdr.udp.src_port, hdr.udp.dst_port) {
            (CACHE_PORT, _): parse_request;
            (_, CACHE_PORT): parse_request;
            default: accept;
        }
    }

    state parse_request {
        packet.extract(hdr.request);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

control CacheIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    register<bit<128>>(CACHE_SLOTS) values;
    register<bit<1>>(CACHE_SLOTS) is_valid;
    register<bit<16>>(CACHE_SLOTS) misses;
    counter(CACHE_SLOTS, CounterType.packets) hits;

    action drop() { mark_to_drop(standard_metadata); }

    action cached_at(bit<32> slot) {
        meta.slot = slot;
        meta.is_cached = true;
    }

    // Which keys are cached where: the control plane's choice among the hot ones.
    table cached_keys {
        key = { hdr.request.key: exact; }
        actions = { cached_at; NoAction; }
        default_action = NoAction();
        size = CACHE_SLOTS;
    }

    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    // The request becomes the reply, on its way back.
    action reply(bit<128> value) {
        ipv4_addr_t client = hdr.ipv4.src_addr;
        bit<16> client_port = hdr.udp.src_port;
        mac_addr_t client_mac = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = client_mac;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = client;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = client_port;
        hdr.udp.checksum = 0;
        hdr.request.operation = Operation.GET_REPLY;
        hdr.request.flags = hdr.request.flags | 0x80;
        hdr.request.value = value;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        if (hdr.request.isValid()) {
            cached_keys.apply();
            bit<1> valid = 0;
            switch (hdr.request.operation) {
                Operation.GET: {
                    if (meta.is_cached) { is_valid.read(valid, meta.slot); }
                    if (valid == 1) {
                        bit<128> value;
                        values.read(value, meta.slot);
                        hits.count(meta.slot);
                        reply(value);
                        exit;
                    }
                    if (!meta.is_cached) {
                        bit<32> cell;
                        bit<16> n_misses;
                        hash(cell, HashAlgorithm.crc32, 32w0, { hdr.request.key }, (bit<32>) CACHE_SLOTS);
                        misses.read(n_misses, cell);
                        n_misses = n_misses |+| 1;
                        misses.write(cell, n_misses);
                        if (n_misses == HOT_THRESHOLD) { digest(1, (hot_key_t) { hdr.request.key, n_misses }); }
                    }
                }
                Operation.PUT:
                Operation.DELETE: {
                    // The server decides; until it has answered nobody reads the old value.
                    if (meta.is_cached) { is_valid.write(meta.slot, 0); }
                }
                Operation.PUT_REPLY:
                Operation.GET_REPLY: {
                    if (meta.is_cached) {
                        values.write(meta.slot, hdr.request.value);
                        is_valid.write(meta.slot, 1);
                    }
                }
                default: { }
            }
        }
        routes.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control CacheDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(CacheParser(), VerifyIpv4(), CacheIngress(), NoEgress(), UpdateIpv4(), CacheDeparser()) main;
