// A program from before 2016.
header_type ethernet_t {
    fields {
        dstAddr : 48;
        srcAddr : 48;
        etherType : 16;
    }
}

header ethernet_t ethernet;

parser start {
    extract(ethernet);
    return ingress;
}

table forward {
    reads { ethernet.dstAddr : exact; }
    actions { set_port; }
}

control ingress {
    apply(forward);
}
