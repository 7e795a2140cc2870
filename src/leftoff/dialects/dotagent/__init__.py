"""dotagent: two state files, five phases, and how it resumes."""
