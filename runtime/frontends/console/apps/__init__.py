"""Commands that run an app from its code: `raygrove run`, `raygrove chat` and `raygrove eval`."""
