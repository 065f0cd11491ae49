"""`raygrove sessions`: conversations, in the database whether or not the app runs, or through an app that runs."""
