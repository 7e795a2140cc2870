from leftoff.dialects.generic.document import DIALECT as DIALECT
