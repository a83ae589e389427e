"""A study: an experiment's file measured into a folder, and the folder's report.

Pure modules: `measures` (runs to rows), `statistics`, `published`, `results`, `tables`, `figures`,
`report`, `compare`, `progress`. Modules that touch the system: `folder`, `runner`, `machine`,
`derive`, `keep`.
"""
