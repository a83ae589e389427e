"""The results of a study: its folder, the typed rows of its files, and what is derived from them.
"""
