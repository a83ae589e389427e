"""The lab: a star of network namespaces around the switch, its traffic, captures and analysis.

Pure modules: `addresses`, `frames`, `pcap`, `delays`, `membership`, `report`.
Modules that touch the system: `process`, `netns`, `traffic`, `capture`, `switch`, `controller`,
`video`, `conference`, `demo`.
Packages: `study` (the thesis' experiment), `baselines` (other SFUs, to measure beside ours).
"""
