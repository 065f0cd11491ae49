"""The inspector: the page at `/ui/`. Its sources are in `src`, what is served of them in `static`."""
