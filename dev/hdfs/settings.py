"""The settings of a small HDFS on the loopback interface. Pure."""

from dataclasses import dataclass

from dev.hadoop.settings import HERE


@dataclass(frozen=True)
class Ports:
    """Of the NameNode. The DataNode takes free ones, and tells the NameNode."""

    files: int
    web: int


def common(folder: str, ports: Ports) -> dict[str, str]:
    """core-site.xml."""
    return {"fs.defaultFS": f"hdfs://{HERE}:{ports.files}", "hadoop.tmp.dir": f"{folder}/tmp"}


def hdfs(folder: str, ports: Ports) -> dict[str, str]:
    """hdfs-site.xml, of both daemons."""
    return {
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
        "dfs.namenode.rpc-address": f"{HERE}:{ports.files}",
        "dfs.namenode.http-address": f"{HERE}:{ports.web}",
        "dfs.namenode.name.dir": f"{folder}/namenode/names",
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.hostname": HERE,
        **{f"dfs.datanode{each}.address": f"{HERE}:0" for each in ("", ".http", ".ipc")},
        "dfs.datanode.data.dir": f"{folder}/datanode/blocks",
        "dfs.datanode.data.dir.perm": "755",
        "dfs.heartbeat.interval": "1",
        "dfs.blocksize": str(1 << 20),
    }
