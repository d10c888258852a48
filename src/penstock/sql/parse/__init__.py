"""The parser: text to statements, and errors for what other engines' SQL has."""
