"""Protocols: checkpoint formats that others wrote down. Their files are imported, written, and kept in sync.

One module per protocol maps its documents to records (`leftoff.protocols.protocol` says how). `import_documents` and
`document_edit` take files into the store, `sync` keeps them in sync.
"""
