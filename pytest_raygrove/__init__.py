"""The pytest plugin: fixtures, markers and options for tests of agents. It loads no actors, and no Ray, until a test needs them.

This is a package of its own, since pytest imports it in every project that has raygrove installed, and `runtime` takes 0.3 s.
What the fixtures do is in `runtime.testing`.
"""
