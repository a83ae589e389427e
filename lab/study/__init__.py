"""Runs studies: measures what an experiment file asks for; keeps results in the repository."""
