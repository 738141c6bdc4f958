"""What is used of Spark that Spark does not promise to keep, and what its absence costs.

Every use of a private class or member has its place in this list, and passes `PrivateSpark.use`
(`private.py`) or, where it says so, a guard of its own. What another release of Spark lacks costs
that feature, a line in the log and an entry of the status; it fails nothing else.

Not in it is the way into the JVM, without which there is no agent at all: `_active_spark_context`,
`_ensure_initialized`, `_jsc` and `_jvm` of pyspark's SparkContext, and `_jsparkSession`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that only private parts of Spark make possible."""

    id: str
    """What programs know it by; it never changes."""
    name: str
    """What the log and the status call it, for people."""
    without: str
    """What happens where it is missing."""
    uses: tuple[str, ...]
    """The private classes and members."""


_JSON = "com.fasterxml.jackson.module.scala.DefaultScalaModule"  # which Spark brings for itself

TARGET = Feature(
    "target",
    "setting the number of executors",  # guarded where it is used, in executors/target.py
    "it stays as it is, and the log says that there is trouble with the cluster manager",
    ("org.apache.spark.api.python.PythonUtils.toScalaMap",),
)
REGISTERED = Feature(
    "registered",
    "which executors there are",
    "their number is not known, and none is removed",
    (
        "org.apache.spark.SparkContext.schedulerBackend",
        "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend.getExecutorIds",
    ),
)
ACTIVE = Feature(
    "active",
    "which executors are being decommissioned",
    "one that its worker or its pod's end has told to leave counts as one that stays",
    ("org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend.isExecutorActive",),
)
DETAILS = Feature(
    "details",
    "what executors do",
    "their hosts, cores and tasks are not known, and those to leave are chosen without",
    (
        "org.apache.spark.SparkContext.statusStore",
        "org.apache.spark.status.AppStatusStore.executorList",
        _JSON,
    ),
)
TASKS = Feature(
    "tasks",
    "how long tasks take",
    "it is not known why more executors did not help",
    (
        "org.apache.spark.SparkContext.statusStore",
        "org.apache.spark.status.AppStatusStore.executorList",
        "org.apache.spark.status.AppStatusStore.executorSummary",
        "org.apache.spark.status.AppStatusStore.lastStageAttempt",
        "org.apache.spark.status.AppStatusStore.store",
        "org.apache.spark.status.AppStatusStore.taskList",
        "org.apache.spark.status.JobDataWrapper",
        "org.apache.spark.status.KVUtils.viewToSeq",
        _JSON,
    ),
)
DECOMMISSION = Feature(
    "decommission",
    "decommissioning executors",
    "those that are to leave are killed",
    (
        "org.apache.spark.scheduler.ExecutorDecommissionInfo",
        "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend.decommissionExecutor",
    ),
)
KILL = Feature(
    "kill",
    "killing executors",
    "the cluster manager is asked past Spark, which does not count them as leaving",
    ("org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend.killExecutors",),
)
KILL_AGAIN = Feature(
    "kill_again",
    "killing executors again, and before they have registered",
    "an executor whose kill was lost stays; surplus ones leave only once they have registered",
    ("org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend.doKillExecutors",),
)
DSTREAMS = Feature(
    "dstreams",
    "DStreams",  # deprecated, so that they may go one day
    "no program can use them, and none has receivers",
    ("org.apache.spark.streaming.StreamingContext.getActive",),
)
RECEIVERS = Feature(
    "receivers",
    "where receivers run",
    "no executor is removed while a StreamingContext is active",
    (
        "org.apache.spark.streaming.StreamingContext.scheduler",
        "org.apache.spark.streaming.scheduler.JobScheduler.receiverTracker",
        "org.apache.spark.streaming.scheduler.ReceiverTracker.allocatedExecutors",
        _JSON,
    ),
)
MOVES = Feature(
    "moves",
    "moving receivers",
    "none can be moved, an executor with receivers stays, and how long one was away is not told",
    (
        "org.apache.spark.streaming.scheduler.ReceiverTracker.endpoint",
        "org.apache.spark.streaming.scheduler.ReceiverTracker.getExecutors",
        "org.apache.spark.streaming.scheduler.ReceiverTracker.updateReceiverScheduledExecutors",
        "org.apache.spark.streaming.scheduler.GetAllReceiverInfo",
        "org.apache.spark.streaming.scheduler.ReceiverTrackingInfo.scheduledLocations",
        "org.apache.spark.streaming.scheduler.ReceiverTrackingInfo.toReceiverInfo",
        "org.apache.spark.streaming.receiver.StopReceiver",
        "org.apache.spark.scheduler.ExecutorCacheTaskLocation",
        _JSON,
    ),
)
PROCESSED = Feature(
    "processed",
    "what of that which receivers took was processed",
    "an executor may go before that was which its receivers took",
    (
        "org.apache.spark.streaming.scheduler.JobScheduler.jobGenerator",
        "org.apache.spark.streaming.scheduler.JobGenerator.lastProcessedBatch",
    ),
)
RECEIVER_LIMITS = Feature(
    "receiver_limits",
    "live limits of receivers",
    "they take as much as spark.streaming.backpressure.initialRate and "
    "spark.streaming.receiver.maxRate say",
    (
        "org.apache.spark.streaming.StreamingContext.scheduler",
        "org.apache.spark.streaming.scheduler.JobScheduler.receiverTracker",
        "org.apache.spark.streaming.scheduler.ReceiverTracker.allocatedExecutors",
        "org.apache.spark.streaming.scheduler.ReceiverTracker.sendRateUpdate",
        _JSON,
    ),
)
BATCHES = Feature(
    "batches",
    "batches of DStreams",
    "they are not told",
    (
        "org.apache.spark.streaming.StreamingContext.progressListener",
        "org.apache.spark.streaming.ui.StreamingJobProgressListener",
        "org.apache.spark.streaming.ui.BatchUIData",
        _JSON,
    ),
)
EVENTS = Feature(
    "events",
    "events of queries",
    "queries and their batches are not told",
    (
        "pyspark.sql.streaming.readwriter.DataStreamWriter",
        "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper",
    ),
)
INTERVAL = Feature(
    "interval",
    "the interval of a query's trigger",
    "the declared batch interval stands for it",
    (
        "org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper.streamingQuery",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.trigger",
    ),
)
TRIGGER = Feature(
    "trigger",
    "when a query's batch in progress began",
    "it is estimated from the batch before",
    (
        "org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper.streamingQuery",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.getLatestExecutionContext",
        "org.apache.spark.sql.execution.streaming.runtime.ProgressContext.currentTriggerStartTimestamp",
        "org.apache.spark.sql.execution.streaming.ProgressReporter.currentTriggerStartTimestamp",
    ),
)
SLOTS = Feature(
    "slots",
    "how many task slots have registered",
    "a query does not wait for the slots that realtime declares: Spark refuses it if it lacks them",
    (
        "org.apache.spark.SparkContext.maxNumConcurrentTasks",
        "org.apache.spark.SparkContext.resourceProfileManager",
    ),
)
READ_LIMITS = Feature(
    "read_limits",
    "what the options of its sources let a query read",
    "a query that stands at maxOffsetsPerTrigger does not count as throttled",
    (
        "org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper.streamingQuery",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.uniqueSources",
    ),
)
FILES = Feature(
    "files",
    "which files wait for a query",
    "how far a query is behind that reads files is not told",
    (
        "org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper.streamingQuery",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.uniqueSources",
        "org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.unreadFiles",
    ),
)
SOURCES_READ = Feature(
    "sources_read",
    "what a query reads",
    "lineage has no inputs but those that are declared",
    (
        "pyspark.sql.streaming.readwriter.DataStreamWriter._df",
        "org.apache.spark.sql.Dataset.queryExecution",
        "org.apache.spark.sql.catalyst.streaming.StreamingRelationV2",
        "org.apache.spark.sql.execution.streaming.runtime.StreamingRelation",
    ),
)
ENDING = Feature(
    "ending",
    "ending queries between two batches",  # guarded where it is used, in ending/stopper.py
    "they are interrupted in the batch that they are in, and the report says so",
    (
        "org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper.streamingQuery",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.awaitProgressLock",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.queryExecutionThread",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.state",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.offsetLog",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.commitLog",
        "org.apache.spark.sql.execution.streaming.checkpointing.HDFSMetadataLog.listBatchesOnDisk",
    ),
)
AGAIN = Feature(
    "again",
    "starting queries again in their driver",
    "the partitions of state are changed by a restart of the driver",
    (
        "pyspark.sql.streaming.query.StreamingQuery._jsq",
        "pyspark.sql.streaming.listener.JStreamingQueryListener",
        "org.apache.spark.SparkContext.getLocalProperties",
        "org.apache.spark.SparkContext.setLocalProperties",
        "org.apache.spark.sql.RuntimeConfig.getAllAsJava",
        *ENDING.uses,
    ),
)
BESIDE = Feature(
    "beside",
    "running batches of a query again beside it",  # guarded where it is used, in state/in_place.py
    "the partitions of state are changed in place, and the run says why",
    (
        "org.apache.spark.sql.classic.SparkSession.cloneSession",
        "org.apache.spark.sql.classic.Dataset.ofRows",
        "org.apache.spark.sql.classic.Dataset.logicalPlan",
        "org.apache.spark.sql.execution.streaming.runtime.StreamExecution.outputMode",
        "org.apache.spark.sql.execution.streaming.runtime.StreamingRelation",
        "org.apache.spark.sql.execution.streaming.runtime.StreamingRelationV2",
    ),
)
UNCOUNTED = Feature(
    "uncounted",
    "changing state without counting its rows",  # guarded where it is used, in state/uncounted.py
    "the partitions of state are changed in up to twice the time",
    ("org.apache.spark.sql.classic.SparkSession.cloneSession",),
)
DRAIN = Feature(
    "drain",
    "stopping receivers before their graph",  # guarded where it is used, in drain.py
    "it is left to Spark's own graceful stop",
    (
        "org.apache.spark.streaming.scheduler.ReceiverTracker.trackerState",
        "org.apache.spark.streaming.scheduler.ReceiverTracker.endpoint",
        "org.apache.spark.streaming.scheduler.ReceiverTracker.receiverJobExitLatch",
        "org.apache.spark.streaming.scheduler.ReceiverTracker.hasUnallocatedBlocks",
        "org.apache.spark.streaming.scheduler.StopAllReceivers",
    ),
)
KINESIS_DSTREAM = Feature(
    "kinesis_dstream",
    "reading Kinesis with DStreams",  # sources/kinesis/dstream, in the program
    "such a stream fails",
    (
        "org.apache.spark.streaming.scheduler.JobScheduler.inputInfoTracker",
        "org.apache.spark.streaming.StreamingContext.waiter",
        "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager",
    ),
)
