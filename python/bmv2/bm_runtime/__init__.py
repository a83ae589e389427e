"""BMv2's services that every target has."""
