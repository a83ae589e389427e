"""Tests of the rows (the SFUs that the lab compares), with real packets in namespaces."""
