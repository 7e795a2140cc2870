"""What only one protocol needs: the events of BMAD."""
