"""Kill penstock run on Spark wherever it can hurt, and compare what comes out in the end."""
