"""A study: an experiment's file measured into a folder, and kept."""
