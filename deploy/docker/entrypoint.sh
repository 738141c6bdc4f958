#!/bin/bash
# Gives a user without a name one, and goes on with the entrypoint of Spark's image.
#
# Hadoop ends a JVM whose user has no name, such as one that OpenShift makes up. Spark's entrypoint
# knows that for what it starts as executors; a driver of a stream it starts as it is.
set -euo pipefail

if ! getent passwd "$(id -u)" >/dev/null; then
    NSS_WRAPPER_PASSWD="$(mktemp)"
    NSS_WRAPPER_GROUP="$(mktemp)"
    echo "spark:x:$(id -u):$(id -g)::/opt/spark/work-dir:/bin/false" >"$NSS_WRAPPER_PASSWD"
    echo "spark:x:$(id -g):" >"$NSS_WRAPPER_GROUP"
    export NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP LD_PRELOAD=libnss_wrapper.so
fi
exec /opt/entrypoint.sh "$@"
