"""Going on after a death: what was in flight, what proves it done, what is put back."""
