"""The names of settings and variables by which a driver is told what is declared, and by which the
sources of its program know what they are to do. Standard library only.
"""

WRITE_AHEAD_LOG = "spark.streaming.receiver.writeAheadLog.enable"
"""Spark setting: whether what receivers take is kept in the checkpoint until it is processed."""
RATES_FILE = "SPARKSCALE_RATES_FILE"
"""Environment variable by which sources know the file with their live limits."""
RATES_PROPERTY = "spark.sparkscale.rates.file"
"""System property of the driver's JVM that names the same file: a JVM that was there before the
driver's Python, as in cluster mode, does not have its environment."""
KEY_GROUPS = "spark.sparkscale.state.keyGroups"
"""Spark setting: the number of key groups that is declared for the stream's stateful queries."""
PLAIN_HASH = "spark.sparkscale.state.plainHash"
"""Spark setting: `true` where partitions need not divide the key groups."""
PLAN = "spark.sparkscale.state.plan"
"""Spark setting of one start: the change of state partitions to make before the queries start, the
JSON of a `driver.state.plans.StatePlan`."""
BACKPRESSURE = "spark.sparkscale.backpressure"
"""Spark setting: that the driver is to limit what its sources take, and how, the JSON of a
`driver.backpressure.plan.EstimatorPlan`."""
DECLARED_FIRST_RATE = "spark.sparkscale.receivers.initialRate"
"""Spark setting: what a receiver without a limit may take, where
spark.streaming.backpressure.initialRate has what only those with a limit begin with. Empty: as much
as it likes."""
RATES = "spark.sparkscale.rates"
"""Spark setting: the live limits that sources begin with, the JSON of the `rates` that `PUT
/v1/rates` takes."""
SOURCE_OPTIONS = "spark.sparkscale.options."
"""Begins the names of the Spark settings with the options of sources that a query reads once, when
it starts: `spark.sparkscale.options.<source>.<option>`."""
SOURCES = "spark.sparkscale.sources"
"""Spark setting: the names of all sources that the declaration has options for, a JSON list."""
RECEIVER = "receiver-"
"""Begins the names of the sources that are receivers: `receiver-0` is that of stream id 0."""
REMOVAL = "spark.sparkscale.receivers.removal"
"""Spark setting: whether an executor with receivers may be removed: `never` (the default) or
`fitting`, where the cores that stay run all receivers and a task of a batch beside them."""
RECEIVERS = "spark.sparkscale.receivers"
"""Spark setting: how many receivers the program is to start."""
RECEIVERS_GENERATION = "spark.sparkscale.receivers.generation"
"""Spark setting: how often that number has been changed. A graph that comes from a checkpoint has
the receivers that it had, so each generation has a checkpoint of its own."""
REALTIME_SLOTS = "spark.sparkscale.realtime.slots"
"""Spark setting: the task slots that the stream's real-time queries need at once."""
REALTIME_WAIT = "spark.sparkscale.realtime.wait"
"""Spark setting: seconds that a query waits for them before it starts."""
LINEAGE = "spark.sparkscale.lineage"
"""Spark setting: where the driver's lineage goes, the JSON of what
`driver.lineage.plan.LineagePlan.as_texts` gives."""
LINEAGE_RECORD = "spark.sparkscale.lineage.record"
"""Spark setting: the id of the stream's record, from which the ids of lineage runs follow."""
REPORTS = "spark.sparkscale.source."
"""Begins the names of the system properties by which a DStream's sources tell of themselves."""
