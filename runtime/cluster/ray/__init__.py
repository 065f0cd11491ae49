"""What raygrove takes from inside Ray, beyond the interfaces that Ray promises: here, and nowhere else.

Each such name is a `PrivateName` that says what is lost without it. Where a version of Ray has no such name, or it takes other
arguments, a public way is taken if there is one, and the log says once what is lost. `import ray` is Ray itself here as well.
"""
