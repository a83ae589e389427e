//! Ports: AF_PACKET, pcap file, in memory.
