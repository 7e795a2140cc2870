from leftoff.dialects.sitebuilder.document import DIALECT as DIALECT
