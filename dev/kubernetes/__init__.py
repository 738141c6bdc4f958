"""A Kubernetes cluster on one machine, for tests and benchmarks.

Its control plane is the real one: etcd, API server and controllers, built from their sources. Its
nodes are not: one program plays scheduler and kubelet, and runs each pod's container as a process
of this machine in Linux namespaces of its own, with an address, mounts and a process list of its
own. What it knows of images is in dev/kubernetes/images.py.
"""
