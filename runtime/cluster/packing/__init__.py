"""How definitions travel from a driver to the processes of a deployment."""

from runtime.cluster.packing.cached_properties import let_travel

let_travel()
