"""The lab: SFUs measured side by side. Each layer imports itself and those above, never one below.

machine      the modules that no line below names: namespaces, processes, traffic, the demo;
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
