"""The thesis' experiment (chapters 3 and 4), reproduced and set beside its published figures.

Pure modules: `definitions`, `statistics`, `analysis`, `csvs`, `reference`, `tables`, `figures`,
`explain`, `report`, `compare`, `progress`. Modules that touch the system: `folder`, `bench`,
`sfus`, `sink`, `machine`, `run`, `cli`.
"""
