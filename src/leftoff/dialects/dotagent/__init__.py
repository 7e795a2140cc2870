from leftoff.dialects.dotagent.document import DIALECT as DIALECT
