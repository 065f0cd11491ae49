"""Tests of what works with Ray's own extras, or with large clients. `make test-extras` makes their environment.

Where Ray finds pyarrow, each of its worker processes imports it when it starts: 36 MB and a tenth of a second that the other
tests, with their hundreds of processes, would pay.
"""
