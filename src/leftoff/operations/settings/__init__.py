"""What is set and trusted, here and in the files of agents."""
