"""Plays programs of google-adk with a scripted model, by ADK's own Runner and by a Runtime, and compares their events."""
