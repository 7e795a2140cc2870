"""Running: the scheduler, the driver and its turns, the units of work, what is recorded of them."""
