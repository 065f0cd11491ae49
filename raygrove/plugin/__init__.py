"""The pytest plugin: fixtures, markers and options for tests of agents. Definitions and Ray are loaded when a test needs them.

Pytest imports it in every project that has raygrove installed.
"""
