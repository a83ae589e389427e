//! The P4Runtime gRPC service over the data plane.
