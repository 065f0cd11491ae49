"""The interfaces between actors and the engine, stores and models that make them live."""
