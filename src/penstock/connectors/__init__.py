"""Sources and sinks: files as streams, results as files."""
