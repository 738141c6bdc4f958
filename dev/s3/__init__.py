"""An object store that speaks S3, on this machine, and Spark's way to it (Hadoop's S3A)."""
