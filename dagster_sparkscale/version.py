"""The version of this library, as Dagster and the command `sparkscale` show it."""

__version__ = "0.1.0"
