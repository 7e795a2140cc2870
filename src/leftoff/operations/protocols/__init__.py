"""What only one of the written protocols asks for."""
