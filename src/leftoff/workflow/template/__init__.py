"""Templates: values put into texts and scripts, quoted for the place where they land."""
