#!/bin/bash
# Tells an executor that its pod is about to go, and waits for it to be done: run before the pod is
# ended where a stream has spark.decommission.enabled. The executor is the container's first process.
kill -s PWR 1 && tail --pid=1 --sleep-interval=0.2 -f /dev/null
