from leftoff.dialects.bmad.document import DIALECT as DIALECT
