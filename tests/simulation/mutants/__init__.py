"""Defects that have to be noticed: the logic as it was, or as it would be without one of its rules.

Each is a change of text, see `tests.mutants`, in the file of the world whose seeds look for it. `mutants.md` says what notices
which, and is made by `python -m tests.simulation.mutants`.
"""
