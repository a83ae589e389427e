"""What was measured: a study's folder, the typed rows of its files, and what follows from them."""
