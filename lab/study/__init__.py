"""Runs studies: measures an experiment's file into a folder; keeps it in the repository."""
