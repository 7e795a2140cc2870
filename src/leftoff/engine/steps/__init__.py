"""Steps: their life, decisions on them, what they produced, and which one comes next."""
