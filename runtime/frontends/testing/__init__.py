"""What tests of agents need, and what the pytest plugin does. What tests import of it is in `runtime.testing`."""
