"""The lab: SFUs measured side by side.

Each layer below imports modules of its own line and of the lines above it, never of a line below
it.

machine      all modules that are named nowhere else here: namespaces, processes, traffic, demo;
             `peers` and `baselines` (programs that are started), `media` (real traffic)
rows         `rows`: the SFUs that are compared, a class each
experiments  `experiment` and `offered`: a file and its load; `added`: rows of one's own
results      `results`: a study's folder, the typed rows of its files, what follows from them
measuring    `bench`, `pisces`, `neobft`: benchmarks; `operation`: random operation
figures      `figures`: charts and tables of rows
pages        `pages`: checks and what people read
studies      `study`: an experiment measured into a folder, and kept
commands     `cli`: `./reprise-lab`
"""
