"""What scripts do with a Runtime: many turns at once, and questions with typed answers."""
