"""Logs of a deployment on Ray: from the processes of agents through the Runner's, and the Session actor's, to programs."""
