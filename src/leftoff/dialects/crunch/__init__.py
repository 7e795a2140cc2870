from leftoff.dialects.crunch.document import DIALECT as DIALECT
