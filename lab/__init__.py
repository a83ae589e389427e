"""The lab: SFUs measured side by side.

Each layer below imports modules of its own line and of the lines above it, never of a line below
it.

machine      all modules that are named nowhere else here: namespaces, processes, traffic, demo;
             `peers` and `baselines` (programs that are started), `media` (real traffic)
rows         `rows`: the SFUs that are compared, a class each
experiments  `experiment` and `offered`: an experiment's file and its load; `added`: a user's SFUs
results      `results`: a study's folder, its files' lines as dataclasses, what follows from them
measuring    `bench`, `pisces`, `neobft`: benchmarks; `operation`: random operation
figures      `figures`: charts and tables of results
pages        `pages`: a study's checks, and the pages that people read
studies      `study`: measures an experiment into a folder, and keeps the folder
commands     `cli`: `./reprise-lab`
"""
