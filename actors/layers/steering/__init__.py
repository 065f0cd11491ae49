"""Messages of the user to a turn that runs: they wait in the store until an agent reads them, or begin a turn themselves."""
