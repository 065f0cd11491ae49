"""Mutants: defects as changes of text, which tests and simulations have to notice.

A file of mutants is TOML, a table for each:

    [losses_are_not_counted]
    what = "A run that was lost is not counted"
    file = "actors/rules/suspects.py"
    old = "losses + 1"
    new = "losses"

The old text is once in its file, or the mutant is refused: what changes a line finds the mutants that it has to change along.
Several changes are `changes = [{ file = …, old = …, new = … }, …]`. A JSON file is read as well: a list of such tables, each with
its `name`.

`python -m tests.mutants run FILE -- COMMAND` runs tests with each of them in a copy of the checkout; `putting_in` puts one into
this process, which is quicker.
"""
