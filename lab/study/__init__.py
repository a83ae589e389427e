"""Runs studies: measures an experiment's file into a folder, and keeps results in the repository.
"""
