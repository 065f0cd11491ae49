"""What turns have used, what that costs, and how much they may use."""
