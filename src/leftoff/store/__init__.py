"""Rows and bytes: what is kept, where, and in which order it becomes durable. Knows no workflow.

``leftoff.store.base`` states what every store owes; ``leftoff.store.sqlite.store`` is the embedded one.
"""
