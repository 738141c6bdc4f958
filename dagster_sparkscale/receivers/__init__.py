"""Where the receivers of a DStreams application run, and how many there are (SPARK-12133)."""
