"""The Spark application of an installed package, alone in its folder: Spark puts it on the search path.

- `phase_application`: a phase, or the trial of `icefloe validate`
"""
