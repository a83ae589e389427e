"""The lab: SFUs measured side by side.

Each line below is a layer of modules. A module imports only from its own line and from the lines
above it.

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
