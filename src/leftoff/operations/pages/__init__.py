"""What only `leftoff serve` asks: runs at a glance, one run by the page, what an action would do, and doing it."""
