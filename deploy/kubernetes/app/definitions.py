"""A code location on Kubernetes to begin with: copy it, and declare your own streams in it.

It goes with the manifests of deploy/kubernetes: the accounts, the volume and the priorities that it
names are made by them. docs/deploying.md goes through all of it.
"""

import os
from pathlib import Path

from dagster_sparkscale import KubernetesCluster, RatioPolicy, StructuredStream, build_defs

# The label of nodes that the cloud may take back, and what it says there. Others than GKE's:
#   eks.amazonaws.com/capacityType SPOT, karpenter.sh/capacity-type spot,
#   kubernetes.azure.com/scalesetpriority spot
SPOT, IS_SPOT = "cloud.google.com/gke-spot", "true"

# As namespaces ask for that admit restricted pods only.
USER = {"runAsNonRoot": True, "runAsUser": 185, "fsGroup": 185}
# Else all files of a large checkpoint may be given to that group anew whenever a pod begins.
ONCE = {"fsGroupChangePolicy": "OnRootMismatch"}
POD = {**USER, **ONCE, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

# With checkpoints in an object store: "s3a://bucket/checkpoints", and no volume.
CHECKPOINTS = "/checkpoints"
VOLUME = {"name": "checkpoints", "persistentVolumeClaim": {"claimName": "sparkscale-checkpoints"}}
MOUNT = {"name": "checkpoints", "mountPath": CHECKPOINTS}

of_both = {
    "securityContext": POD,
    "volumes": [VOLUME],
    "containers": [{"name": "driver", "securityContext": CONTAINER, "volumeMounts": [MOUNT]}],
}
not_spot = {"key": SPOT, "operator": "NotIn", "values": [IS_SPOT]}
rather_spot = {"key": SPOT, "operator": "In", "values": [IS_SPOT]}

cluster = KubernetesCluster(
    image=os.environ.get("STREAMS_IMAGE", "example/streams-driver:1"),
    namespace=os.environ.get("STREAMS_NAMESPACE", "streams"),
    executor_service_account="sparkscale-executor",
    # Of both, so that what nodes have left is counted (capacity.yaml) on these too.
    tolerations=[{"key": SPOT, "operator": "Exists"}],
    # A driver that goes is a restart of the stream: never on a node that may be taken back.
    driver_template={
        "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        "spec": {
            **of_both,
            "priorityClassName": "sparkscale-driver",
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [not_spot]}]
                    }
                }
            },
        },
    },
    # An executor may go: there if there is room, elsewhere if not.
    executor_template={
        "spec": {
            **of_both,
            "priorityClassName": "sparkscale-executor",
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 100, "preference": {"matchExpressions": [rather_spot]}}
                    ]
                }
            },
        }
    },
    spark_conf={
        # To move its blocks, an executor may need more than 30 s. A node may give less.
        "spark.kubernetes.executor.terminationGracePeriodSeconds": "120s",
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        # The port that network.yaml lets through.
        "spark.blockManager.port": "7079",
    },
)

ticks = StructuredStream(
    name="ticks",
    program=str(Path(__file__).with_name("ticks.py")),
    batch_interval="10s",
    checkpoint_location=f"{CHECKPOINTS}/ticks",
    driver_memory="1g",
    executor_memory="1g",
    autoscale=RatioPolicy(min_executors=1, max_executors=4),
    spark_conf={"spark.sql.shuffle.partitions": "8"},
)

defs = build_defs([ticks], cluster)
