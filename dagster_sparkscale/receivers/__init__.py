"""The places and the number of receivers of a DStreams application (SPARK-12133)."""
