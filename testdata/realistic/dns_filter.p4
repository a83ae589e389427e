// Filters DNS queries by name without a resolver: the labels of the question are parsed as varbits,
// the last two and the whole name are hashed, and a table of hashes decides.
#include "include/headers.p4"

#define MAX_LABELS 5
const bit<16> DNS_PORT = 53;
const bit<16> TYPE_ANY = 255;

header dns_t {
    bit<16> id;
    bit<1>  qr;
    bit<4>  opcode;
    bit<1>  aa;
    bit<1>  tc;
    bit<1>  rd;
    bit<1>  ra;
    bit<3>  z;
    bit<4>  rcode;
    bit<16> qdcount;
    bit<16> ancount;
    bit<16> nscount;
    bit<16> arcount;
}

// A label of up to 63 bytes; the top two bits of its length are 0, else it is a pointer.
header label_t {
    bit<8>      length;
    varbit<504> text;
}

header question_t {
    bit<8>  root;
    bit<16> qtype;
    bit<16> qclass;
}

struct headers_t {
    ethernet_t          ethernet;
    ipv4_t              ipv4;
    udp_t               udp;
    dns_t               dns;
    label_t[MAX_LABELS] labels;
    question_t          question;
}

struct metadata_t {
    bit<32> name_hash;
    bit<32> domain_hash;
    bit<3>  n_labels;
    bit<1>  is_refused;
}

error { CompressedQuestion }

parser FilterParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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
        transition select(hdr.udp.dst_port) {
            DNS_PORT: parse_dns;
            default: accept;
        }
    }

    state parse_dns {
        packet.extract(hdr.dns);
        meta.n_labels = 0;
        transition select(hdr.dns.qr, hdr.dns.qdcount) {
            (0, 1): next_label;
            default: accept;
        }
    }

    state next_label {
        transition select(packet.lookahead<bit<8>>()) {
            0: parse_question;
            0x00 &&& 0xc0: parse_label;
            default: compressed;
        }
    }

    state parse_label {
        packet.extract(hdr.labels.next, (bit<32>) packet.lookahead<bit<8>>() << 3);
        meta.n_labels = meta.n_labels + 1;
        transition next_label;
    }

    state compressed {
        verify(false, error.CompressedQuestion);
        transition accept;
    }

    state parse_question {
        packet.extract(hdr.question);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// crc32 over the labels with their lengths, of the whole name and of its last two.
control NameHashes(in headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.n_labels == 1) {
            hash(meta.name_hash, HashAlgorithm.crc32, 32w0, { hdr.labels[0].length, hdr.labels[0].text },
                 33w0x100000000);
            meta.domain_hash = meta.name_hash;
        } else if (meta.n_labels == 2) {
            hash(meta.name_hash, HashAlgorithm.crc32, 32w0,
                 { hdr.labels[0].length, hdr.labels[0].text, hdr.labels[1].length, hdr.labels[1].text },
                 33w0x100000000);
            meta.domain_hash = meta.name_hash;
        } else if (meta.n_labels == 3) {
            hash(meta.name_hash, HashAlgorithm.crc32, 32w0,
                 { hdr.labels[0].length, hdr.labels[0].text, hdr.labels[1].length, hdr.labels[1].text,
                   hdr.labels[2].length, hdr.labels[2].text }, 33w0x100000000);
            hash(meta.domain_hash, HashAlgorithm.crc32, 32w0,
                 { hdr.labels[1].length, hdr.labels[1].text, hdr.labels[2].length, hdr.labels[2].text },
                 33w0x100000000);
        } else if (meta.n_labels == 4) {
            hash(meta.name_hash, HashAlgorithm.crc32, 32w0,
                 { hdr.labels[0].length, hdr.labels[0].text, hdr.labels[1].length, hdr.labels[1].text,
                   hdr.labels[2].length, hdr.labels[2].text, hdr.labels[3].length, hdr.labels[3].text },
                 33w0x100000000);
            hash(meta.domain_hash, HashAlgorithm.crc32, 32w0,
                 { hdr.labels[2].length, hdr.labels[2].text, hdr.labels[3].length, hdr.labels[3].text },
                 33w0x100000000);
        }
    }
}

control FilterIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    NameHashes() name_hashes;
    counter(4, CounterType.packets) verdicts;

    action drop() { mark_to_drop(standard_metadata); }

    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    action allow() { }

    action refuse() { meta.is_refused = 1; }

    // Whole names go before domains. A miss asks the domain.
    table names {
        key = { meta.name_hash: exact; }
        actions = { allow; refuse; }
        const default_action = allow();
        size = 4096;
    }

    table domains {
        key = { meta.domain_hash: exact; }
        actions = { allow; refuse; drop; }
        const default_action = allow();
        size = 4096;
    }

    // The query becomes the answer "no such name".
    action answer_nxdomain() {
        ipv4_addr_t client = hdr.ipv4.src_addr;
        bit<16> client_port = hdr.udp.src_port;
        mac_addr_t client_mac = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = client_mac;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = client;
        hdr.ipv4.ttl = 64;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = client_port;
        hdr.udp.checksum = 0;
        hdr.dns.qr = 1;
        hdr.dns.aa = 1;
        hdr.dns.rcode = 3;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        if (hdr.dns.isValid() && hdr.dns.qr == 0) {
            // What cannot be read is not let through: too many labels, a pointer, several questions.
            if (!hdr.question.isValid() || meta.n_labels == 5) {
                verdicts.count(0);
                drop();
                exit;
            }
            if (hdr.question.qtype == TYPE_ANY) {
                verdicts.count(1);
                drop();
                exit;
            }
            name_hashes.apply(hdr, meta);
            if (names.apply().miss) {
                switch (domains.apply().action_run) {
                    drop: {
                        verdicts.count(1);
                        exit;
                    }
                    default: { }
                }
            }
            if (meta.is_refused == 1) {
                verdicts.count(2);
                answer_nxdomain();
                exit;
            }
            verdicts.count(3);
        }
        routes.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control FilterDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(FilterParser(), VerifyIpv4(), FilterIngress(), NoEgress(), UpdateIpv4(), FilterDeparser()) main;
