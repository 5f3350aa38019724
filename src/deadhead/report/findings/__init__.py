"""What a study shows, in a few sentences with their numbers."""
