from leftoff.dialects.claude.document import DIALECT as DIALECT
