"""What a rating matrix is, and where it comes from."""
