"""What every dialect stands on: documents to records and back, what a document says in its own way, its words and times."""
