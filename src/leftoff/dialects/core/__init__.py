"""What every dialect stands on: documents to records and back, their own ways, words and times."""
