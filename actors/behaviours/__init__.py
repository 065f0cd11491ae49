"""What each kind of agent does when it is invoked, one async function a kind."""
