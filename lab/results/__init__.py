"""The results of a study: its folder, the typed rows of its files, what is computed from them."""
