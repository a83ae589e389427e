"""A study: an experiment's file measured into a folder, and what is made of the folder.

Pure modules: `measures` (runs to rows), `statistics`, `published`, `results`, `tables`, `figures`,
`report`, `compare`, `progress`. Modules that touch the system: `folder`, `runner`, `machine`,
`derive`, `keep`.
"""
