"""SQL: text to statements (:mod:`.parse`), statements to plans (:mod:`.bind`)."""
