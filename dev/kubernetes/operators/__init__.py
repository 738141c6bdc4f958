"""A stand-in for the two Spark operators, which can't be had by the package registries that the
project's tests use. Written from the sources and resource definitions of kubeflow/spark-operator
2.5.2 and apache/spark-kubernetes-operator 1.0.0, which it can't replace."""
