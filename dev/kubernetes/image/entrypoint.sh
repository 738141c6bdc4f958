#!/bin/bash
# What the entrypoint of Spark's own image does: an executor is started from what Spark has put into
# the environment; any other command runs as it is.
set -e
[ "$1" = executor ] || exec "$@"

options=()
while IFS= read -r line; do
    options+=("${line#*=}")
done < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n)
classes="$SPARK_CLASSPATH:${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*"
exec "$JAVA_HOME/bin/java" "${options[@]}" \
    "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classes" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
