"""The Thrift services of BMv2 that exist in every target."""
