"""What callbacks around a model are given: objects of ADK's shape that may be changed in place."""
