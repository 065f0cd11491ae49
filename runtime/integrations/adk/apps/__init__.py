"""What an App of google-adk has beside its agents: plugins, and how long conversations are summarised."""
