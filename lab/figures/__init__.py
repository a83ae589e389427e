"""Makes figures and tables from the typed rows of results alone. No I/O."""
