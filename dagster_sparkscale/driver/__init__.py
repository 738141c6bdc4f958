"""What runs inside a stream's Spark driver: starts Spark, runs the user's unchanged program, and
answers for it over HTTP. Standard library and pyspark only: the package is shipped to the cluster
by itself.

    python -m dagster_sparkscale.driver --help
"""
