"""What a person sees: text, tables, screens, the verdict."""
