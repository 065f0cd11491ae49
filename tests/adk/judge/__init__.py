"""ADK's own tests as a judge of the adapter: `python -m tests.adk.judge FOLDER`, where FOLDER has ADK's tests.

They run as they are. A plugin of pytest turns the calls of a Runner that stand in a test's file into turns of a Runtime; what ADK
itself calls stays ADK's.
"""
